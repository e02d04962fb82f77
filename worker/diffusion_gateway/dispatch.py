"""Gets an answer: asks the arms of the plan one after another until one of them speaks.

Until the first event everything that goes wrong costs the client only time. After it there is no way back: a second model would
continue a text that it did not write.
"""

import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from diffusion_operator.api.status import ArmRole, RouteArm
from diffusion_worker.wire import BlockEvent, ErrorEvent, FinishEvent, GenerateRequest

from .metrics import Metrics
from .openai.errors import ApiError, invalid_parameter, overloaded, unavailable
from .pool import WorkerPool
from .routes import Model, Plan, Random, Table, plan
from .triton import EventStream, Reason, WorkerError

_PODS_PER_ARM = 2
_CLIENTS_NAMES = {"prompt_token_ids": "prompt"}


@dataclass(frozen=True)
class Failure:
    """An arm that did not answer."""

    arm: RouteArm
    reason: Reason
    message: str
    """Details for the log: may name pods and their addresses."""

    def __str__(self) -> str:
        return f"the {self.arm.role} arm ({self.arm.kind}): {self.reason.words}"


@dataclass(frozen=True)
class Question:
    """A request with everything that decides who answers it, and until when."""

    table: Table
    model: Model
    request: GenerateRequest
    forced: ArmRole | None
    whole: bool
    """The client gets the answer in one piece, so that every arm may fail up to its last event."""
    deadline: float
    """On the dispatcher's clock."""


class Answer:
    """An arm that speaks. Read `events` once; `close` must follow, whatever happens."""

    def __init__(self, *, arm: RouteArm, stream: EventStream, timer: "_Timer") -> None:
        self.arm = arm
        self.first_text_at: float | None = None
        """On the dispatcher's clock."""
        self._stream = stream
        self._timer = timer
        self._ahead: deque[BlockEvent | FinishEvent] = deque()

    async def events(self) -> AsyncIterator[BlockEvent | FinishEvent]:
        """Blocks, then one `FinishEvent`.

        Raises:
            WorkerError: the worker stopped in the middle.
        """
        finished = False
        while not finished:
            event = self._ahead.popleft() if self._ahead else await self._next(wait_seconds=None)
            finished = isinstance(event, FinishEvent)
            yield event

    async def read_ahead(self, *, whole: bool, wait_seconds: float | None) -> None:
        """Read the first event, or all of them, before `events` is used.

        Raises:
            WorkerError: the worker failed, or sent no first event for `wait_seconds` (None: the usual silence).
            ApiError: the worker refuses the request; nobody else would take it.
        """
        event = await self._next(wait_seconds=wait_seconds)
        self._ahead.append(event)
        while whole and not isinstance(event, FinishEvent):
            event = await self._next(wait_seconds=None)
            self._ahead.append(event)

    async def _next(self, *, wait_seconds: float | None) -> BlockEvent | FinishEvent:
        event = await self._stream.next(timeout_seconds=self._timer.wait(wait_seconds))
        if isinstance(event, ErrorEvent):
            raise _refusal(event)
        if self.first_text_at is None and isinstance(event, BlockEvent) and event.text:
            self.first_text_at = self._timer.clock()
        return event

    def close(self) -> None:
        """Free the row if it is still running."""
        self._stream.close()


@dataclass(frozen=True)
class _Timer:
    clock: Callable[[], float]
    silence_seconds: float
    deadline: float

    def wait(self, seconds: float | None) -> float:
        """How long the next event may take."""
        usual = self.silence_seconds if seconds is None else seconds
        return max(0.0, min(usual, self.deadline - self.clock()))


class Dispatcher:
    """Asks arms and pods in order."""

    def __init__(
        self,
        *,
        pool: WorkerPool,
        metrics: Metrics,
        silence_seconds: float,
        random: Random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`silence_seconds`: longest time between two events of a stream."""
        self._pool = pool
        self._metrics = metrics
        self._silence_seconds = silence_seconds
        self._random = random
        self._clock = clock

    async def ask(self, question: Question, *, failures: list[Failure]) -> Answer:
        """The first arm that speaks. Arms that did not are appended to `failures`.

        Raises:
            ApiError: 400 if the request is at fault, 429 if a queue was full, 503 if nobody could answer.
        """
        model = question.model
        chosen = plan(model, max_tokens=question.request.max_tokens, forced=question.forced, random=self._random)
        if chosen.rule is not None:
            self._metrics.ruled.labels(model.namespace, model.name, chosen.rule).inc()
        for arm in chosen.arms:
            last = arm is chosen.arms[-1]
            try:
                return await self._ask_arm(question, arm, wait_seconds=None if last else model.wait_seconds)
            except WorkerError as error:
                failures.append(Failure(arm, error.reason, error.message))
                if not last:
                    self._metrics.count_fallback(model, arm, error.reason)
        raise _exhausted(question, chosen, failures)

    async def _ask_arm(self, question: Question, arm: RouteArm, *, wait_seconds: float | None) -> Answer:
        targets = self._pool.by_load(question.table.targets(question.model, arm))[:_PODS_PER_ARM]
        problem = WorkerError(Reason.NO_READY_POD, "no pod is ready")
        for target in targets:
            try:
                return await self._ask_pod(question, arm, target, wait_seconds=wait_seconds)
            except WorkerError as error:
                problem = error
                if error.reason in (Reason.UNAVAILABLE, Reason.TIMEOUT):
                    self._pool.mark_failed(target)
                self._metrics.count_failure(question.model, arm, error.reason)
                # Only a pod that is gone says nothing about its neighbour, and costs no time.
                if error.reason != Reason.UNAVAILABLE:
                    break
        if not targets:
            self._metrics.count_failure(question.model, arm, problem.reason)
        raise problem

    async def _ask_pod(self, question: Question, arm: RouteArm, target: str, *, wait_seconds: float | None) -> Answer:
        timer = _Timer(self._clock, self._silence_seconds, question.deadline)
        answer = Answer(arm=arm, stream=self._pool.open(target, question.request), timer=timer)
        try:
            await answer.read_ahead(whole=question.whole, wait_seconds=wait_seconds)
        except BaseException:
            answer.close()
            raise
        return answer


def _refusal(event: ErrorEvent) -> WorkerError | ApiError:
    match event.code:
        case "invalid_request" | "context_length_exceeded":
            code = "invalid_value" if event.code == "invalid_request" else event.code
            param = _CLIENTS_NAMES.get(event.param, event.param) if event.param else None
            return ApiError(400, event.message, code=code, param=param)
        case "shutting_down":
            return WorkerError(Reason.UNAVAILABLE, event.message)
    return WorkerError(Reason.ENGINE_ERROR, event.message)


def _exhausted(question: Question, chosen: Plan, failures: list[Failure]) -> ApiError:
    name = question.model.name
    if not chosen.arms and question.forced is not None:
        return invalid_parameter(
            "x-diffusion-arm", f"{name} has no {question.forced} arm now; leave out the header x-diffusion-arm."
        )
    if not chosen.arms:
        return unavailable(f"{name} has no route yet: its first pods are still starting. Try again later.")
    told = "; ".join(str(failure) for failure in failures)
    if any(failure.reason == Reason.QUEUE_FULL for failure in failures):
        return overloaded(f"{name} is overloaded; try again later. Asked were {told}.")
    return unavailable(f"{name} cannot answer now. Asked were {told}.")
