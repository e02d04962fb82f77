"""Limits of what is compared, and what is said when it fails; with an AR side that does as the test says."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import structlog
from diffusion_gateway.answers import Answer
from diffusion_gateway.metrics import Metrics
from diffusion_gateway.openai.errors import ApiError
from diffusion_gateway.pairs import Pairs
from diffusion_gateway.pairs.ar_side import ArAnswer
from diffusion_gateway.question import Question
from diffusion_gateway.reasons import Reason, WorkerError
from diffusion_gateway.routes import Model, Table
from diffusion_operator.api.status import ArmKind, ArmRole, RouteArm
from diffusion_worker.wire import BlockEvent, Degeneration, FinishEvent, GenerateRequest, ScoreEvent, ScoreRequest

DIFFUSION = RouteArm(role=ArmRole.STABLE, revision="aaaa0001", kind=ArmKind.DIFFUSION, service="s", percent=100)
AR = RouteArm(role=ArmRole.FALLBACK, revision="ffff0001", kind=ArmKind.AR, service="f", percent=0)
SECRET = "the secret of the prompt"


def a_model(name: str = "story") -> Model:
    return Model(namespace="default", name=name, generation=1, arms=(DIFFUSION, AR), sample_percent=100)


def a_question(*, name: str = "story", **fields: Any) -> Question:
    request = GenerateRequest.model_validate({"request_id": "r", "prompt": SECRET, "max_tokens": 64} | fields)
    return Question(table=Table(), model=a_model(name), requests=(request,), forced=None, whole=True, deadline=1e9)


def a_finish(**fields: Any) -> FinishEvent:
    known = {"reason": "stop", "prompt_tokens": 3, "completion_tokens": 8, "steps": 9, "blocks": 1}
    return FinishEvent.model_validate(known | {"seed": 1, "queue_seconds": 0.0} | fields)


class Spoken(Answer):
    """A diffusion answer whose reader is the test."""

    def __init__(self) -> None:
        super().__init__(arm=DIFFUSION, choices=(), asked_at=0)
        self.listener: Callable[[Any], None] = lambda _: None
        self.ahead: list[Any] = []

    def listen(self, listener: Callable[[Any], None]) -> None:
        self.listener = listener

    @property
    def read_ahead(self) -> list[Any]:
        return self.ahead

    def say(self, *texts: str, finish: FinishEvent | None = None) -> None:
        for index, text in enumerate(texts):
            self.listener(BlockEvent(index=index, text=text, tokens=4, steps=3))
        self.listener(finish or a_finish())


class FakeAr:
    """Answers and scores; `problems` are raised first, one for each call for an answer."""

    def __init__(self, *problems: Exception, text: str = "the dog ran", nats: float = 1.0) -> None:
        self.problems = list(problems)
        self.text = text
        self.nats = nats
        self.answered: list[GenerateRequest] = []
        self.scored: list[ScoreRequest] = []
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def answer(self, request: GenerateRequest) -> ArAnswer:
        self.answered.append(request)
        await self.go_on.wait()
        if self.problems:
            raise self.problems.pop(0)
        return ArAnswer(self.text, a_finish(degeneration=Degeneration(repetition=0.1, repeats=False, distinct_2=0.8)))

    async def score(self, request: ScoreRequest) -> ScoreEvent:
        self.scored.append(request)
        tokens = 8 * len((request.completion or "").split())
        return ScoreEvent(nll=self.nats * tokens, tokens=tokens, text_bytes=tokens, prompt_tokens=3)


class Measured:
    """Pairs with their metrics."""

    def __init__(self, ar: FakeAr | dict[str, FakeAr]) -> None:
        self.metrics = Metrics()
        self.pairs = Pairs(
            metrics=self.metrics.pairs,
            ar_side=lambda model, _: ar[model.name] if isinstance(ar, dict) else ar,
            random=lambda: 0.5,
            pauses_seconds=(0.0, 0.0),
        )

    def answer(self, *texts: str, finish: FinishEvent | None = None, **question: Any) -> None:
        spoken = Spoken()
        self.pairs.watch(a_question(**question), spoken, is_first_choice=True)
        spoken.say(*texts, finish=finish)

    async def settle(self) -> None:
        """Let everything run that can."""
        for _ in range(50):
            await asyncio.sleep(0)

    def count(self, name: str = "pairs", *, model: str = "story", **labels: str) -> float:
        known = {"model_namespace": "default", "model": model, "revision": "aaaa0001", "ar_revision": "ffff0001"}
        value = self.metrics.registry.get_sample_value(f"diffusion_gateway_{name}_total", known | labels)
        return value or 0.0

    def dropped(self, reason: str, **labels: str) -> float:
        return self.count("pairs_dropped", reason=reason, **labels)


@pytest.fixture
def logged() -> Any:
    with structlog.testing.capture_logs() as lines:
        yield lines


async def test_a_likelier_diffusion_answer_counts_below_zero() -> None:
    class Prefers(FakeAr):
        async def score(self, request: ScoreRequest) -> ScoreEvent:
            nll = 20.0 if request.completion == "the cat" else 60.0
            return ScoreEvent(nll=nll, tokens=20, text_bytes=7, prompt_tokens=3)

    measured = Measured(Prefers(text="the dog"))
    measured.answer("the ", "cat")
    await measured.settle()
    assert [measured.count(f"pair_nll_{name}") for name in ("above", "below", "squared")] == [0, 2, 4]


async def test_repetition_and_different_pairs_are_counted_for_each_side_that_has_them() -> None:
    measured = Measured(FakeAr())
    bad = Degeneration(repetition=1, repeats=True, distinct_2=0.25)
    measured.answer("the cat", finish=a_finish(degeneration=bad))
    measured.answer("the cat", finish=a_finish(degeneration=None))
    await measured.settle()
    for name, values in {"checked": (1, 2), "repeating": (1, 0), "distinct_2": (0.25, 1.6)}.items():
        assert [measured.count(f"pair_{name}", side=side) for side in ("diffusion", "ar")] == list(values)


@pytest.mark.parametrize("reason", [Reason.OVERLOADED, Reason.PREEMPTED, Reason.QUEUE_FULL])
async def test_a_busy_ar_arm_is_asked_again_later(reason: Reason) -> None:
    ar = FakeAr(WorkerError(reason, "busy"), WorkerError(reason, "busy"))
    measured = Measured(ar)
    measured.answer("the cat")
    await measured.settle()
    assert (measured.count(), len(ar.answered)) == (1, 3)


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (WorkerError(Reason.UNAVAILABLE, "gone"), "unavailable"),
        (WorkerError(Reason.TIMEOUT, "late"), "timeout"),
        (WorkerError(Reason.WRONG_REVISION, "another"), "wrong_revision"),
        (ApiError(400, "too long", code="context_length_exceeded"), "refused"),
        (ValueError(SECRET), "failed"),
    ],
)
async def test_a_failing_ar_arm_means_a_missing_pair(problem: Exception, reason: str) -> None:
    ar = FakeAr(problem)
    measured = Measured(ar)
    measured.answer("the cat")
    await measured.settle()
    assert (measured.count(), measured.dropped(reason), len(ar.answered)) == (0, 1, 1)


async def test_an_ar_arm_that_stays_busy_means_a_missing_pair() -> None:
    measured = Measured(FakeAr(*[WorkerError(Reason.OVERLOADED, "busy")] * 3))
    measured.answer("the cat")
    await measured.settle()
    assert (measured.count(), measured.dropped("overloaded")) == (0, 1)


@pytest.mark.parametrize(("diffusion", "ar"), [("", "the dog"), (" \n", "the dog"), ("the cat", ""), ("the cat", " ")])
async def test_over_no_tokens_there_is_no_mean(diffusion: str, ar: str) -> None:
    side = FakeAr(text=ar)
    measured = Measured(side)
    measured.answer(diffusion)
    await measured.settle()
    assert (measured.count(), measured.dropped("empty_answer"), side.scored) == (0, 1, [])


@pytest.mark.parametrize(("text", "is_compared"), [("the cat", True), ("cat", False)])
async def test_a_mean_over_a_few_tokens_is_not_compared(text: str, is_compared: bool) -> None:
    measured = Measured(FakeAr())
    measured.answer(text)
    await measured.settle()
    assert (measured.count(), measured.dropped("too_short")) == (is_compared, not is_compared)


async def test_a_likelihood_that_is_no_number_is_missing_and_not_counted() -> None:
    measured = Measured(FakeAr(nats=float("nan")))
    measured.answer("the cat")
    await measured.settle()
    assert (measured.count(), measured.dropped("not_finite")) == (0, 1)


@pytest.mark.parametrize(
    ("texts", "fields"),
    [
        (("the cat",), {"prompt": "x" * 2**16}),
        (("x" * 2**15, "x" * 2**15, "x"), {}),
        (("the cat",), {"prompt": None, "prompt_token_ids": [1] * 7000}),
        (("the cat",), {"prompt": None, "messages": [{"role": "user", "content": "x" * 2**16}]}),
    ],
    ids=["prompt", "answer", "token ids", "messages"],
)
async def test_what_is_too_large_is_not_kept(texts: tuple[str, ...], fields: dict[str, Any]) -> None:
    ar = FakeAr()
    measured = Measured(ar)
    measured.answer(*texts, **fields)
    await measured.settle()
    assert (measured.dropped("too_large"), ar.answered) == (1, [])


async def test_a_model_whose_ar_arm_hangs_does_not_stop_another_model() -> None:
    hanging, working = FakeAr(), FakeAr()
    hanging.go_on.clear()
    measured = Measured({"story": hanging, "poem": working})
    for _ in range(40):
        measured.answer("the cat")
    measured.answer("the cat", name="poem")
    await measured.settle()
    assert (len(hanging.answered), measured.dropped("pairs_queue_full")) == (4, 24)
    assert measured.count(model="poem") == 1
    await measured.pairs.close()


async def test_many_models_whose_ar_arms_hang_leave_room_for_the_others() -> None:
    hanging, working = FakeAr(), FakeAr()
    hanging.go_on.clear()
    names = [f"model-{number}" for number in range(10)]
    measured = Measured({"story": working} | dict.fromkeys(names, hanging))
    for _ in range(20):
        for name in names:
            measured.answer("the cat", name=name)
    for _ in range(3):
        measured.answer("the cat")
    await measured.settle()
    assert measured.count(model="story") == 3
    await measured.pairs.close()


async def test_all_models_together_are_bounded_too() -> None:
    ar = FakeAr()
    ar.go_on.clear()
    measured = Measured(ar)
    for number in range(70):
        measured.answer("the cat", name=f"model-{number}")
    await measured.settle()
    assert len(ar.answered) == 64
    assert sum(measured.dropped("pairs_queue_full", model=f"model-{number}") for number in range(70)) == 6
    await measured.pairs.close()


async def test_after_an_end_there_is_room_again() -> None:
    ar = FakeAr()
    ar.go_on.clear()
    measured = Measured(ar)
    for _ in range(16):
        measured.answer("the cat")
    ar.go_on.set()
    await measured.settle()
    measured.answer("the cat")
    await measured.settle()
    assert (measured.count(), measured.dropped("pairs_queue_full")) == (17, 0)


async def test_at_the_end_what_waits_is_given_up_and_nothing_new_is_taken() -> None:
    ar = FakeAr()
    ar.go_on.clear()
    measured = Measured(ar)
    late = Spoken()
    measured.pairs.watch(a_question(), late, is_first_choice=True)
    for _ in range(6):
        measured.answer("the cat")
    await measured.settle()
    await measured.pairs.close()
    late.say("the cat")
    measured.answer("the cat")
    assert (measured.count(), measured.dropped("gateway_stops")) == (0, 7)


async def test_nothing_of_the_prompt_is_logged_whatever_fails(logged: list[dict[str, Any]]) -> None:
    measured = Measured(FakeAr(ValueError(SECRET), WorkerError(Reason.ENGINE_ERROR, SECRET)))
    measured.answer("the cat")
    measured.answer("the cat")
    await measured.settle()
    assert [line["event"] for line in logged] == ["a comparison failed by a mistake of ours"]
    assert SECRET not in str(logged)


@pytest.mark.parametrize("is_first_choice", [True, False])
async def test_an_answer_that_came_because_another_arm_failed_is_not_compared(is_first_choice: bool) -> None:
    measured, spoken = Measured(FakeAr()), Spoken()
    measured.pairs.watch(a_question(), spoken, is_first_choice=is_first_choice)
    spoken.say("the cat")
    await measured.settle()
    assert measured.count() == is_first_choice


@pytest.mark.parametrize("is_whole", [True, False])
async def test_an_answer_that_is_refused_is_compared_as_far_as_it_was_read(is_whole: bool) -> None:
    ar = FakeAr()
    measured, spoken = Measured(ar), Spoken()
    blocks = [BlockEvent(index=index, text=text, tokens=4, steps=3) for index, text in enumerate(("the ", "cat"))]
    spoken.ahead = [*blocks, a_finish()] if is_whole else blocks
    measured.pairs.watch_refused(a_question(), spoken, is_first_choice=True)
    await measured.settle()
    assert measured.count() == 1
    assert ar.answered[0].max_tokens == 8
    assert ar.scored[0].completion == "the cat"
