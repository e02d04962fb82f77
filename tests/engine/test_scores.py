"""How likely the autoregressive model finds a text: as transformers computes it, and never in a request's way."""

import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusion_worker.engine import Engine, load_engine
from diffusion_worker.engine import scorer as scorer_module
from diffusion_worker.engine import scores as scores_module
from diffusion_worker.engine.scorer import Scorer, ScoreRow
from diffusion_worker.models.ar import ARModel
from diffusion_worker.models.diffusion import DiffusionModel
from diffusion_worker.wire import ErrorEvent, FinishEvent, Message, ScoreEvent, ScoreRequest
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.engine.answers import PATIENCE_SECONDS, request, running, send
from tests.engine.checkpoints import VOCAB
from tests.engine.conftest import config_of
from tests.engine.runners import WatchedRunner, ar_runner, diffusion_runner

STORYTELLER = Path(__file__).parents[2] / "examples" / "checkpoints" / "storyteller-ar"
TEXTS = [
    ("Once upon a time", " there was a small fox who lived by the river."),
    ("The old woman looked at the sea and", " said nothing."),
    ("x", " y"),
    ("A long prompt about a fox. " * 60, " The end of it. " * 40),
]


class Score:
    """The only event of one score."""

    def __init__(self) -> None:
        self.events: list[ScoreEvent | ErrorEvent] = []
        self._ended = threading.Event()

    def take(self, event: ScoreEvent | ErrorEvent) -> None:
        self.events.append(event)
        self._ended.set()

    @property
    def event(self) -> Any:
        assert self._ended.wait(PATIENCE_SECONDS), "the score did not end"
        (event,) = self.events
        return event


def score_request(prompt: str = "the fox", completion: str = " and the hen", **fields: object) -> ScoreRequest:
    base = {"request_id": "s", "prompt": prompt, "completion": completion}
    return ScoreRequest.model_validate({k: v for k, v in (base | fields).items() if v is not None})


def submit(engine: Engine, *requests: ScoreRequest) -> list[Score]:
    scores = []
    for each in requests:
        score = Score()
        engine.submit_score(each, score.take)
        scores.append(score)
    return scores


def reference_nll(model: Any, prompt: list[int], completion: list[int]) -> float:
    """One pass over the whole text with transformers alone."""
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([[*prompt, *completion]])).logits[0].double()
    log_p = logits.log_softmax(-1)
    return -sum(log_p[len(prompt) - 1 + i, token].item() for i, token in enumerate(completion))


def test_the_shipped_model_scores_as_transformers_does() -> None:
    model = AutoModelForCausalLM.from_pretrained(STORYTELLER, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(STORYTELLER)
    engine = load_engine(config_of(STORYTELLER, "ar", device="cpu"))
    try:
        scores = submit(engine, *[score_request(prompt, completion) for prompt, completion in TEXTS])
        for (prompt, completion), score in zip(TEXTS, scores, strict=True):
            ids = tokenizer(prompt)["input_ids"], tokenizer(completion, add_special_tokens=False)["input_ids"]
            event = score.event
            assert (event.prompt_tokens, event.tokens) == (len(ids[0]), len(ids[1]))
            assert event.text_bytes == len(completion.encode())
            perplexity = torch.tensor(event.nll / event.tokens).exp()
            expected = torch.tensor(reference_nll(model, *ids) / len(ids[1])).exp()
            assert perplexity.item() == pytest.approx(expected.item(), rel=1e-3)
    finally:
        engine.close()


@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
@pytest.mark.parametrize("tokens_per_pass", [1, 7, 512])
def test_chunks_change_nothing(
    architecture: str,
    tokens_per_pass: int,
    llama_model: ARModel,
    gemma3_model: ARModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = {"llama": llama_model, "gemma3": gemma3_model}[architecture]
    monkeypatch.setattr(scores_module, "SCORED_TOKENS", tokens_per_pass)
    pairs = [(list(range(3, 3 + p)), list(range(20, 20 + c))) for p, c in ((1, 1), (1, 9), (40, 3), (17, 33))]
    with running(ar_runner(model)) as engine:
        scores = submit(
            engine,
            *[
                score_request(prompt=None, completion=None, prompt_token_ids=p, completion_token_ids=c)
                for p, c in pairs
            ],
        )
        for (prompt, completion), score in zip(pairs, scores, strict=True):
            assert score.event.nll == pytest.approx(reference_nll(model._model, prompt, completion), rel=1e-4)
            assert score.event.tokens == len(completion)


def test_the_end_of_the_answer_counts_only_when_asked_for(gemma3_model: ARModel) -> None:
    with running(ar_runner(gemma3_model)) as engine:
        without, with_eos = submit(engine, score_request(), score_request(include_eos=True))
        assert with_eos.event.tokens == without.event.tokens + 1
    prompt, completion = (gemma3_model.tokenizer.encode(text) for text in ("the fox", " and the hen"))
    (eos,) = gemma3_model.eos_token_ids
    expected = reference_nll(gemma3_model._model, prompt, [*completion, eos])
    assert with_eos.event.nll == pytest.approx(expected, rel=1e-4)


def test_a_pass_never_holds_more_logits_than_its_budget(llama_model: ARModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scorer_module, "SCORED_LOGITS", 8 * VOCAB)
    sizes: list[int] = []
    forward = llama_model.forward_last

    def watched(*arguments: Any, **options: Any) -> torch.Tensor:
        logits = forward(*arguments, **options)
        sizes.append(logits.numel())
        return logits

    monkeypatch.setattr(llama_model, "forward_last", watched)
    with running(ar_runner(llama_model)) as engine:
        scores = submit(engine, *[score_request(completion=" the hen" * 20)] * 3)
        assert all(score.event.nll > 0 for score in scores)
    assert max(sizes) <= 8 * VOCAB
    assert len(sizes) > 3


REFUSED: dict[str, tuple[ScoreRequest, str, str]] = {
    "an empty completion": (score_request(completion=""), "invalid_request", "completion"),
    "an empty completion in tokens": (
        score_request(completion=None, completion_token_ids=[]),
        "invalid_request",
        "completion_token_ids",
    ),
    "an empty prompt": (score_request(prompt=""), "invalid_request", "prompt"),
    "a token that is not there": (
        score_request(completion=None, completion_token_ids=[VOCAB]),
        "invalid_request",
        "completion_token_ids",
    ),
    "a text that is too long": (score_request(completion=" the" * 600), "context_length_exceeded", "completion"),
    "messages without a template": (
        score_request(prompt=None, messages=[Message(role="user", content="hi")]),
        "invalid_request",
        "messages",
    ),
}


@pytest.mark.parametrize(("bad", "code", "param"), REFUSED.values(), ids=REFUSED.keys())
def test_a_bad_text_is_refused_by_name(llama_model: ARModel, bad: ScoreRequest, code: str, param: str) -> None:
    with running(ar_runner(llama_model)) as engine:
        (score,) = submit(engine, bad)
        assert (score.event.code, score.event.param) == (code, param)


def test_a_diffusion_model_scores_nothing(diffusion_model: DiffusionModel) -> None:
    with running(diffusion_runner(diffusion_model)) as engine:
        (score,) = submit(engine, score_request())
        assert score.event.code == "invalid_request"
        assert "autoregressive" in score.event.message


def test_without_a_share_scores_wait_while_a_request_runs(llama_model: ARModel) -> None:
    order: list[str] = []
    scores: list[Score] = []

    def submit_at_the_third_step(_: object) -> None:
        order.append("step")
        if len(order) == 3:
            scores.extend(submit(engine, score_request()))

    runner = WatchedRunner(ar_runner(llama_model), before_step=submit_at_the_third_step)
    with running(runner, score_share=0) as engine:
        (answer,) = send(engine, request(max_tokens=20, logit_bias={1: -100}))
        assert isinstance(answer.end, FinishEvent)
        steps = len(order)
        assert scores[0].event.nll > 0
    assert steps == 20
    assert runner.slots_taken == 0


def scoring_then(
    model: ARModel, monkeypatch: pytest.MonkeyPatch, do: Callable[[Engine, list[Score]], None]
) -> tuple[Engine, list[Score]]:
    """Do something once, in the middle of scoring."""
    monkeypatch.setattr(scores_module, "SCORED_TOKENS", 4)
    runner = ar_runner(model, max_batch_size=2)
    passes = 0
    step = runner.scorer.step
    scores: list[Score] = []
    ready = threading.Event()

    def watched(*, tokens: int) -> Any:
        nonlocal passes
        assert ready.wait(PATIENCE_SECONDS)
        passes += 1
        if passes == 3:
            do(engine, scores)
        return step(tokens=tokens)

    monkeypatch.setattr(runner.scorer, "step", watched)
    engine = Engine(runner, batch_window_seconds=0.0)
    scores += submit(engine, *[score_request(completion=" the hen" * 12)] * 3)
    ready.set()
    return engine, scores


def test_a_request_gets_all_slots_while_scores_run(llama_model: ARModel, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = []
    engine, scores = scoring_then(
        llama_model,
        monkeypatch,
        lambda engine, scores: answers.extend(send(engine, request(seed=1), request(seed=2))),
    )
    try:
        first, *others = [score.event.nll for score in scores]
        assert others == pytest.approx([first, first], rel=1e-5)
        assert [isinstance(answer.end, FinishEvent) for answer in answers] == [True, True]
        with running(ar_runner(llama_model)) as alone:
            (expected,) = send(alone, request(seed=1))
            assert expected.finish
        assert answers[0].text == expected.text
    finally:
        engine.close()


def test_a_score_can_be_cancelled_while_it_runs(llama_model: ARModel, monkeypatch: pytest.MonkeyPatch) -> None:
    handles: list[Any] = []
    extra = Score()

    def cancel_one(engine: Engine, _: list[Score]) -> None:
        handles[0].cancel()

    engine, scores = scoring_then(llama_model, monkeypatch, cancel_one)
    try:
        handles.append(engine.submit_score(score_request(completion=" the" * 40), extra.take))
        assert extra.event.code == "cancelled"
        assert all(isinstance(score.event, ScoreEvent) for score in scores)
    finally:
        engine.close()


def test_an_engine_that_closes_tells_those_who_wait(llama_model: ARModel, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, scores = scoring_then(llama_model, monkeypatch, lambda engine, scores: engine._close(how="drain"))
    engine.close()
    assert {score.event.code for score in scores} == {"shutting_down"}
    (late,) = submit(engine, score_request())
    assert late.event.code == "shutting_down"


@pytest.mark.parametrize(
    ("error", "code"),
    [(RuntimeError("shapes"), "engine_error"), (torch.OutOfMemoryError("2.00 GiB"), "out_of_memory")],
)
def test_a_text_that_breaks_the_model_fails_alone(
    llama_model: ARModel, monkeypatch: pytest.MonkeyPatch, error: Exception, code: str
) -> None:
    forward = llama_model.forward_last

    def breaks(cache: Any, slots: Any, lengths: Any, token_ids: list[list[int]], *, keep: int) -> torch.Tensor:
        if any(7 in chunk for chunk in token_ids):
            raise error
        return forward(cache, slots, lengths, token_ids, keep=keep)

    monkeypatch.setattr(llama_model, "forward_last", breaks)
    with running(ar_runner(llama_model)) as engine:
        bad, good = submit(
            engine, score_request(prompt=None, prompt_token_ids=[3, 7, 9]), score_request(completion=" went down")
        )
        assert bad.event.code == code
        assert good.event.nll > 0


def test_a_text_that_the_model_rules_out_has_no_score(llama_model: ARModel, monkeypatch: pytest.MonkeyPatch) -> None:
    forward = llama_model.forward_last

    def rules_out(*arguments: Any, **options: Any) -> torch.Tensor:
        logits = forward(*arguments, **options)
        logits[..., 7] = -torch.inf
        return logits

    monkeypatch.setattr(llama_model, "forward_last", rules_out)
    with running(ar_runner(llama_model)) as engine:
        bad, good = submit(
            engine, score_request(completion=None, completion_token_ids=[7]), score_request(completion=" went down")
        )
        assert (bad.event.code, "inf" in bad.event.message) == ("non_finite", True)
        assert good.event.nll > 0


def test_too_many_scores_are_refused(llama_model: ARModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diffusion_worker.engine.scores.MAX_WAITING", 2)
    held = threading.Event()
    runner = WatchedRunner(ar_runner(llama_model), before_step=lambda _: held.wait(PATIENCE_SECONDS) and None)
    with running(runner) as engine:
        send(engine, request())
        *accepted, refused = submit(engine, *[score_request()] * 3)
        assert refused.event.code == "overloaded"
        held.set()
        assert all(score.event.nll > 0 for score in accepted)


class Turns:
    """Notes in which order an engine steps, scores and answers."""

    def __init__(self, model: ARModel, monkeypatch: pytest.MonkeyPatch, **runner: int) -> None:
        self.order: list[str] = []
        self.passes: list[Any] = []
        self.at_step: dict[int, Callable[[], None]] = {}
        inner = ar_runner(model, **runner)
        inner.eos_token_ids = frozenset()
        step = inner.scorer.step

        def watched(*, tokens: int) -> Any:
            self.order.append("pass")
            done, record = step(tokens=tokens)
            self.passes.append(record)
            return done, record

        monkeypatch.setattr(inner.scorer, "step", watched)
        self.runner = WatchedRunner(inner, before_step=self._before_step)

    def _before_step(self, _: object) -> None:
        self.order.append("step")
        self.at_step.get(self.order.count("step"), lambda: None)()


def test_scores_come_forward_in_an_engine_whose_rows_are_all_taken(
    llama_model: ARModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = score_request(completion=" the hen" * 40)
    with running(ar_runner(llama_model)) as engine:
        (alone,) = submit(engine, text)
        (expected,) = send(engine, request(max_tokens=40))
        assert alone.event.nll > 0
        assert expected.finish
    turns = Turns(llama_model, monkeypatch, max_batch_size=1)
    scores: list[Score] = []
    turns.at_step = {
        3: lambda: scores.extend(submit(engine, text)),
        39: lambda: turns.order.append(f"score:{len(scores[0].events)}"),
    }
    with running(turns.runner, score_share=1) as engine:
        (answer,) = send(engine, request(max_tokens=40))
        assert isinstance(answer.end, FinishEvent)
        assert scores[0].event.nll == pytest.approx(alone.event.nll, rel=1e-4)
    assert "score:1" in turns.order, "the score came while the request ran"
    assert answer.text[: len(expected.text)] == expected.text


def test_a_step_waits_for_one_small_pass_of_one_text_at_most(
    llama_model: ARModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scores_module, "SCORED_TOKENS_BESIDE", 8)
    turns = Turns(llama_model, monkeypatch, max_batch_size=2)
    scores: list[Score] = []
    turns.at_step = {3: lambda: scores.extend(submit(engine, *[score_request(completion=" the hen" * 12)] * 3))}
    with running(turns.runner, score_share=1) as engine:
        (answer,) = send(engine, request(max_tokens=60))
        assert isinstance(answer.end, FinishEvent)
        assert all(score.event.nll > 0 for score in scores)
    beside = turns.order[: len(turns.order) - turns.order[::-1].index("step")]
    assert beside.count("pass") > 10
    assert all(after == "step" for before, after in pairwise(beside) if before == "pass")
    assert {record.rows for record in turns.passes[: beside.count("pass")]} == {1}


@pytest.mark.parametrize(("share", "rows"), [(0, 0), (1, 1)])
def test_beside_requests_scores_take_the_memory_of_one_row_at_most(
    share: float, rows: int, llama_model: ARModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scores_module, "SCORED_TOKENS", 60)
    turns = Turns(llama_model, monkeypatch, max_batch_size=4)
    scorer = turns.runner.scorer
    held: list[int] = []
    answers: list[Any] = []
    step = scorer.step

    def one_is_left(*, tokens: int) -> Any:
        done, record = step(tokens=tokens)
        if done and not answers:  # the others of its batch are done, and it is not
            answers.extend(send(engine, request(max_tokens=20)))
        return done, record

    monkeypatch.setattr(scorer, "step", one_is_left)
    turns.at_step = {n: lambda: held.append(scorer.rows_held) for n in range(1, 20)}
    with running(turns.runner, score_share=share, batch_window_seconds=0.1) as engine:
        texts = [score_request()] * 3 + [score_request(completion=" the hen" * 40)]
        scores = submit(engine, *texts)
        assert all(score.event.nll > 0 for score in scores)
        assert isinstance(answers[0].end, FinishEvent)
    assert max(held) <= rows


def test_a_text_takes_no_more_memory_than_its_tokens(llama_model: ARModel) -> None:
    def held(tokens: int) -> int:
        scorer = Scorer(llama_model, max_rows=1, max_length=256)
        text = ScoreRow(
            request_id="s",
            prompt_token_ids=[5],
            completion_token_ids=[5] * (tokens - 1),
            include_eos=True,
            text_bytes=0,
            emit=lambda _: None,
        )
        scorer.begin([text])
        scorer.step(tokens=tokens)
        return scorer.cache_bytes

    assert held(150) == 3 * held(50)  # not rounded up
