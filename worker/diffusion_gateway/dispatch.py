"""Gets an answer: asks the arms of the plan one after another until one of them speaks.

Until the first event everything that goes wrong costs the client only time. After it there is no way back: a second model would
continue a text that it did not write.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from diffusion_operator.api.status import ArmKind, ArmRole, RouteArm
from diffusion_worker.wire import GenerateRequest

from .answers import Answer, Choice, Timer, all_or_none
from .metrics import Metrics
from .openai.errors import ApiError, invalid_parameter, overloaded, unavailable
from .pool import WorkerPool
from .reasons import Reason, WorkerError
from .routes import Model, Plan, Random, Table, plan
from .tally import Tally
from .workload import Workload

_PODS_PER_ARM = 2


@dataclass(frozen=True)
class Failure:
    """An arm that did not answer."""

    arm: RouteArm
    reason: Reason
    message: str
    """Details for the log: may name pods and their addresses."""
    asked_at: float
    failed_at: float
    """On the dispatcher's clock."""

    def __str__(self) -> str:
        return f"the {self.arm.role} arm ({self.arm.kind}): {self.reason.words}"


@dataclass(frozen=True)
class Question:
    """A request with everything that decides who answers it, and until when."""

    table: Table
    model: Model
    requests: tuple[GenerateRequest, ...]
    """One per choice; they differ in their seeds alone."""
    forced: ArmRole | None
    whole: bool
    """The client gets the answer in one piece, so that every arm may fail up to its last event."""
    deadline: float
    """On the dispatcher's clock."""
    user: str | None = None
    """Who asks, for models that keep each user on one arm."""
    workload: Workload | None = None
    """What kind of work it is, as the client says."""
    traceparent: str | None = None
    """W3C trace context, for the worker's log lines."""

    @property
    def autoregressive_only(self) -> tuple[str, ...]:
        """Parameters that only an AR arm can honour."""
        return self.requests[0].autoregressive_only


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
        chosen = plan(
            model,
            max_tokens=question.requests[0].max_tokens,
            forced=question.forced,
            random=self._random,
            autoregressive_only=bool(question.autoregressive_only),
        )
        if chosen.rule is not None:
            self._metrics.requests.count_ruled(model, chosen.rule)
        for arm in chosen.arms:
            last = arm is chosen.arms[-1]
            asked_at = self._clock()
            self._metrics.arms.count_asked(model, arm)
            try:
                return await self._ask_arm(question, arm, wait_seconds=None if last else model.wait_seconds)
            except WorkerError as error:
                failures.append(Failure(arm, error.reason, error.message, asked_at=asked_at, failed_at=self._clock()))
                self._metrics.arms.count_failed(model, arm, error.reason)
                if not last:
                    self._metrics.arms.count_fallback(model, arm, error.reason)
        raise _exhausted(question, chosen, failures)

    async def _ask_arm(self, question: Question, arm: RouteArm, *, wait_seconds: float | None) -> Answer:
        asked_at = self._clock()
        choices = await all_or_none(
            [self._ask_pods(question, request, arm, wait_seconds=wait_seconds) for request in question.requests]
        )
        return Answer(arm=arm, choices=choices, asked_at=asked_at)

    async def _ask_pods(
        self, question: Question, request: GenerateRequest, arm: RouteArm, *, wait_seconds: float | None
    ) -> Choice:
        targets = self._pool.by_load(question.table.targets(question.model, arm))[:_PODS_PER_ARM]
        problem = WorkerError(Reason.NO_READY_POD, "no pod is ready")
        count = partial(self._metrics.answers.count, question.model, arm, asked_at=self._clock())
        for target in targets:
            try:
                return await self._ask_pod(question, request, arm, target, count=count, wait_seconds=wait_seconds)
            except WorkerError as error:
                problem = error
                if error.reason in (Reason.UNAVAILABLE, Reason.TIMEOUT):
                    self._pool.mark_failed(target)
                self._metrics.arms.count_failure(question.model, arm, error.reason)
                # Only a pod that is gone says nothing about its neighbour, and costs no time.
                if error.reason != Reason.UNAVAILABLE:
                    break
        if not targets:
            self._metrics.arms.count_failure(question.model, arm, problem.reason)
        raise problem

    async def _ask_pod(
        self,
        question: Question,
        request: GenerateRequest,
        arm: RouteArm,
        target: str,
        *,
        count: Callable[[Tally], None],
        wait_seconds: float | None,
    ) -> Choice:
        timer = Timer(self._clock, self._silence_seconds, question.deadline)
        stream = self._pool.open(target, request, revision=arm.revision, traceparent=question.traceparent)
        choice = Choice(stream=stream, timer=timer, count=count)
        try:
            await choice.read_ahead(whole=question.whole, wait_seconds=wait_seconds)
        except BaseException:
            choice.close()
            raise
        return choice


def _exhausted(question: Question, chosen: Plan, failures: list[Failure]) -> ApiError:
    name = question.model.name
    if not chosen.arms and question.model.arms and question.autoregressive_only:
        return _only_autoregressive(question)
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


def _only_autoregressive(question: Question) -> ApiError:
    """There is no arm that could honour what was asked for, now or as long as this arm is forced."""
    param = question.autoregressive_only[0]
    has_one = any(arm.kind == ArmKind.AR for arm in question.model.arms)
    remedy = "or do not force another arm with x-diffusion-arm" if has_one else "this model has no such arm"
    return invalid_parameter(
        param,
        f"{param} can be honoured by an autoregressive arm only, not by a diffusion arm; leave it out, {remedy}.",
        code="unsupported_parameter",
    )
