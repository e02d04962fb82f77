"""A request at fault gets one error that says what was wrong, with which value, and what to do."""

import pytest
from diffusion_worker.models.ar import ARModel
from diffusion_worker.models.diffusion import DiffusionModel
from diffusion_worker.wire import GenerateRequest, Message

from tests.engine.answers import request, running, send
from tests.engine.checkpoints import VOCAB
from tests.engine.runners import ar_runner, diffusion_runner

LIMIT = 64
REFUSED = {
    "no token at all": (request([]), "invalid_request", "prompt_token_ids", "at least one token"),
    "an empty text": (request(""), "invalid_request", "prompt", "at least one token"),
    "a token id too high": (request([3, VOCAB]), "invalid_request", "prompt_token_ids", str(VOCAB)),
    "a negative token id": (request([-1]), "invalid_request", "prompt_token_ids", "-1"),
    "a prompt as long as the limit": (
        request([3] * LIMIT, max_tokens=None),
        "context_length_exceeded",
        "prompt_token_ids",
        f"has {LIMIT} tokens",
    ),
    "a prompt beyond the limit": (
        request([3] * 500, max_tokens=1),
        "context_length_exceeded",
        "prompt_token_ids",
        "500",
    ),
    "an answer beyond the limit": (
        request([3] * 10, max_tokens=LIMIT - 9),
        "context_length_exceeded",
        "prompt_token_ids",
        f"max_tokens {LIMIT - 9}",
    ),
}


@pytest.mark.parametrize(("bad", "code", "param", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_a_bad_request_is_refused_and_others_are_served(
    diffusion_model: DiffusionModel, bad: GenerateRequest, code: str, param: str, says: str
) -> None:
    with running(diffusion_runner(diffusion_model, max_sequence_length=LIMIT)) as engine:
        good, refused = send(engine, request(), bad)
        assert (refused.error.code, refused.error.param) == (code, param)
        assert says in refused.error.message
        if code == "context_length_exceeded":
            assert str(LIMIT) in refused.error.message
        assert not refused.blocks
        assert good.finish


def test_prompt_and_answer_may_fill_the_limit_exactly(diffusion_model: DiffusionModel) -> None:
    runner = diffusion_runner(diffusion_model, max_sequence_length=LIMIT)
    runner.eos_token_ids = frozenset()
    with running(runner) as engine:
        asked, open_ended = send(engine, request([3] * 10, max_tokens=LIMIT - 10), request([3] * 10, max_tokens=None))
        assert asked.finish.completion_tokens == LIMIT - 10
        assert open_ended.finish.completion_tokens == LIMIT - 10


def test_chat_turns_are_rendered_with_the_template_of_the_checkpoint(diffusion_model: DiffusionModel) -> None:
    turns = [Message(role="system", content="be brief"), Message(role="user", content="a fox?")]
    rendered = "<system>be brief\n<user>a fox?\n<assistant>"
    with running(diffusion_runner(diffusion_model)) as engine:
        chat, plain = send(
            engine,
            GenerateRequest(request_id="c", messages=turns, max_tokens=20, seed=1),
            request(rendered),
        )
        assert chat.finish.prompt_tokens == plain.finish.prompt_tokens
    assert chat.text == plain.text


def test_chat_without_a_template_is_refused(llama_model: ARModel) -> None:
    turns = [Message(role="user", content="a fox?")]
    with running(ar_runner(llama_model)) as engine:
        (refused,) = send(engine, GenerateRequest(request_id="c", messages=turns, max_tokens=20))
        assert (refused.error.code, refused.error.param) == ("invalid_request", "messages")
        assert "no chat template" in refused.error.message


@pytest.mark.parametrize(
    "asked",
    [request("a fox"), GenerateRequest(request_id="c", messages=[Message(role="user", content="a fox?")])],
    ids=["prompt", "messages"],
)
def test_a_tokenizer_or_template_that_raises_fails_its_own_request_only(
    diffusion_model: DiffusionModel, asked: GenerateRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> list[int]:
        raise TypeError("can only concatenate str")

    runner = diffusion_runner(diffusion_model)
    with running(runner) as engine:
        with monkeypatch.context() as broken:
            broken.setattr(runner.tokenizer, "encode", fail)
            broken.setattr(runner.tokenizer, "encode_chat", fail)
            (failed,) = send(engine, asked)
        assert failed.error.code == "engine_error"
        assert "TypeError" in failed.error.message
        (good,) = send(engine, request())
        assert good.finish


def test_a_text_with_a_token_that_the_model_has_no_embedding_for_is_refused(
    diffusion_model: DiffusionModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = diffusion_runner(diffusion_model)
    monkeypatch.setattr(runner.tokenizer, "encode", lambda text: [3, VOCAB])
    with running(runner) as engine:
        (refused,) = send(engine, request("<image>"))
        assert (refused.error.code, refused.error.param) == ("invalid_request", "prompt")
        assert str(VOCAB) in refused.error.message
        assert engine.stats.consecutive_failed_passes == 0
