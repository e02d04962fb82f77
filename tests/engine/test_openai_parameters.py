"""OpenAI's sampling parameters on autoregressive rows: penalties, biases, log-probabilities."""

import math
from collections.abc import Sequence

import pytest
import torch
from diffusion_worker.engine.penalties import LogitShifts
from diffusion_worker.models.ar import ARModel
from diffusion_worker.models.cache import KVCache
from diffusion_worker.models.diffusion import DiffusionModel
from diffusion_worker.models.token_bytes import TokenBytes
from diffusion_worker.samplers.penalties import shift_logits
from diffusion_worker.wire import GenerateRequest, TokenLikelihood
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.answers import Answer, request, running, send
from tests.engine.checkpoints import VOCAB
from tests.engine.runners import ar_runner, diffusion_runner

PROMPT = "the fox and the"


def answer_of(model: ARModel, *requests: GenerateRequest) -> list[Answer]:
    with running(ar_runner(model, max_batch_size=8)) as engine:
        answers = send(engine, *requests)
        for answer in answers:
            assert answer.finish
    return answers


def logits_after(model: ARModel, token_ids: Sequence[int]) -> torch.Tensor:
    cache = KVCache(max_rows=1, max_length=512)
    return model.forward(cache, [cache.take_slot()], [0], [list(token_ids)])[0]


def greedy_by_hand(model: ARModel, *, tokens: int, presence: float, frequency: float) -> list[int]:
    """OpenAI's formula, written down once more: mu[j] - c[j] * frequency - (c[j] > 0) * presence."""
    prompt = model.tokenizer.encode(PROMPT)
    generated: list[int] = []
    for _ in range(tokens):
        count = torch.bincount(torch.tensor(generated, dtype=torch.int64), minlength=VOCAB)
        mu = logits_after(model, [*prompt, *generated]) - count * frequency - (count > 0) * presence
        generated.append(int(mu.argmax()))
    return generated


def likelihoods(answer: Answer) -> list[TokenLikelihood]:
    return [each for block in answer.blocks for each in block.logprobs or []]


@pytest.mark.parametrize(("presence", "frequency"), [(0.0, 1.5), (2.0, 0.0), (-1.0, 0.5), (2.0, 2.0)])
def test_penalties_follow_openais_formula(llama_model: ARModel, presence: float, frequency: float) -> None:
    expected = greedy_by_hand(llama_model, tokens=24, presence=presence, frequency=frequency)
    plain = greedy_by_hand(llama_model, tokens=24, presence=0.0, frequency=0.0)
    penalised, neighbour = answer_of(
        llama_model,
        request(PROMPT, temperature=0, max_tokens=24, presence_penalty=presence, frequency_penalty=frequency),
        request(PROMPT, temperature=0, max_tokens=24),
    )
    eos = 1
    assert eos not in [*expected, *plain], "the test needs an answer that goes on"
    assert penalised.text == llama_model.tokenizer.decode(expected)
    assert neighbour.text == llama_model.tokenizer.decode(plain)
    assert expected != plain


def test_a_bias_forces_a_token_or_forbids_it(llama_model: ARModel) -> None:
    (fox,) = llama_model.tokenizer.encode(" fox")
    forced, plain = answer_of(
        llama_model,
        request(PROMPT, max_tokens=5, logit_bias={fox: 100}),
        request(PROMPT, max_tokens=40, temperature=0, logprobs=0),
    )
    assert forced.text == " fox" * 5
    most_likely = greedy_by_hand(llama_model, tokens=1, presence=0, frequency=0)[0]
    (forbidden,) = answer_of(
        llama_model, request(PROMPT, max_tokens=40, temperature=0, logit_bias={most_likely: -100}, logprobs=0)
    )
    gone = list(TokenBytes(llama_model.tokenizer).of(most_likely))
    assert gone in [each.utf8 for each in likelihoods(plain)]
    assert gone not in [each.utf8 for each in likelihoods(forbidden)]


def test_log_probabilities_are_the_models_own_before_any_change(llama_model: ARModel) -> None:
    tokens = TokenBytes(llama_model.tokenizer)
    ids = {tokens.of(token_id): token_id for token_id in range(VOCAB)}
    nameless = {token_id: -100 for token_id in range(VOCAB) if not tokens.of(token_id)}  # the tokenizer has fewer
    (answer,) = answer_of(
        llama_model,
        request(
            PROMPT, max_tokens=12, logprobs=3, temperature=1.7, frequency_penalty=1.0, top_p=0.9, logit_bias=nameless
        ),
    )
    context = llama_model.tokenizer.encode(PROMPT)
    found = likelihoods(answer)
    assert len(found) == answer.finish.completion_tokens
    for each in found:
        expected = logits_after(llama_model, context).log_softmax(-1)
        token_id = ids[bytes(each.utf8)]
        assert each.logprob == pytest.approx(expected[token_id].item(), abs=1e-4)
        top = expected.topk(3)
        assert [bytes(alternative.utf8) for alternative in each.top] == [tokens.of(i) for i in top.indices.tolist()]
        assert [alternative.logprob for alternative in each.top] == pytest.approx(top.values.tolist(), abs=1e-4)
        context.append(token_id)


def test_rows_ask_for_different_numbers_of_alternatives(llama_model: ARModel) -> None:
    none, zero, many = answer_of(
        llama_model,
        request(PROMPT, max_tokens=6, temperature=0),
        request(PROMPT, max_tokens=6, temperature=0, logprobs=0),
        request(PROMPT, max_tokens=6, temperature=0, logprobs=20),
    )
    assert [block.logprobs for block in none.blocks] == [None] * len(none.blocks)
    assert {len(each.top) for each in likelihoods(zero)} == {0}
    assert {len(each.top) for each in likelihoods(many)} == {20}
    assert none.text == zero.text == many.text


def test_tokens_after_the_end_have_no_log_probability(llama_model: ARModel) -> None:
    (whole,) = answer_of(llama_model, request(PROMPT, max_tokens=12, temperature=0, logprobs=0))
    pieces = [bytes(each.utf8).decode(errors="replace") for each in likelihoods(whole)]
    stop = "".join(pieces[4:6])
    (stopped,) = answer_of(llama_model, request(PROMPT, max_tokens=12, temperature=0, logprobs=0, stop=[stop]))
    assert len(likelihoods(stopped)) == stopped.finish.completion_tokens <= 6


def test_the_bytes_of_tokens_put_together_are_the_text(llama_model: ARModel) -> None:
    text = "the fox – naïve 🦊 went\n down"
    tokens = TokenBytes(llama_model.tokenizer)
    ids = llama_model.tokenizer.encode(text)
    assert b"".join(tokens.of(token_id) for token_id in ids) == text.encode()
    assert tokens.of(1) == b"<eos>"


def test_a_bias_of_a_token_that_is_not_there_is_refused(llama_model: ARModel) -> None:
    with running(ar_runner(llama_model)) as engine:
        (answer,) = send(engine, request(logit_bias={VOCAB: 1}))
    assert (answer.error.code, answer.error.param) == ("invalid_request", "logit_bias")
    assert str(VOCAB) in answer.error.message


@pytest.mark.parametrize(
    "fields", [{"presence_penalty": 0.1}, {"frequency_penalty": -1}, {"logit_bias": {5: 1}}, {"logprobs": 0}]
)
def test_the_diffusion_engine_refuses_them_by_name(diffusion_model: DiffusionModel, fields: dict[str, object]) -> None:
    with running(diffusion_runner(diffusion_model)) as engine:
        (answer,) = send(engine, request(**fields))
    assert (answer.error.code, answer.error.param) == ("invalid_request", next(iter(fields)))


def test_a_request_that_asks_for_nothing_has_no_shifts() -> None:
    assert LogitShifts.of(request(presence_penalty=0, frequency_penalty=0, logit_bias={})) is None
    logits = torch.zeros(2, 4)
    assert shift_logits(logits, [None, None]) is logits


def test_shifts_of_more_tokens_than_there_is_room_for_at_first() -> None:
    shifts = LogitShifts(presence_penalty=1.0, frequency_penalty=0.0, logit_bias={3: 5.0})
    for token_id in range(300):
        shifts.count(token_id)
    (shifted,) = shift_logits(torch.zeros(1, 301), [shifts.now])
    assert shifted.tolist() == [4.0 if token_id == 3 else -1.0 for token_id in range(300)] + [0.0]


@given(
    generated=st.lists(st.integers(0, 5), max_size=12),
    presence=st.sampled_from([-2.0, -0.5, 0.0, 1.25]),
    frequency=st.sampled_from([-1.0, 0.0, 0.75]),
    bias=st.dictionaries(st.integers(0, 5), st.sampled_from([-100.0, 0.5, 3.0]), max_size=3),
)
def test_shifts_are_bias_less_penalties(
    generated: list[int], presence: float, frequency: float, bias: dict[int, float]
) -> None:
    shifts = LogitShifts(presence_penalty=presence, frequency_penalty=frequency, logit_bias=bias)
    for token_id in generated:
        shifts.count(token_id)
    shifted = shift_logits(torch.zeros(3, 6), [None, shifts.now, None])
    expected = [
        bias.get(token, 0.0) - frequency * generated.count(token) - presence * (token in generated)
        for token in range(6)
    ]
    assert shifted[1].tolist() == pytest.approx(expected)
    assert not shifted[[0, 2]].any()
    assert all(math.isfinite(each) for each in expected)
