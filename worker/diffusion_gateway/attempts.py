"""Asks the pods of one arm for one row: which of them, in which order, and what their breakers learn from it."""

from collections.abc import Callable
from functools import partial

from diffusion_operator.api.status import RouteArm
from diffusion_worker.wire import GenerateRequest

from .answers import Choice, Timer
from .breaker import Breaker, Outcome, State
from .breakers import Breakers
from .metrics import Metrics
from .openai.errors import ApiError
from .pool import WorkerPool
from .question import Question
from .reasons import Reason, WorkerError
from .routes import Model
from .tally import Tally

_PODS_PER_ARM = 2
# These say nothing about the neighbour, and cost no time. The others would happen there too, or have cost the time already.
_ASKS_NEXT_POD = frozenset({Reason.UNAVAILABLE, Reason.WRONG_REVISION, Reason.QUEUE_FULL, Reason.OVERLOADED})
_SAYS_NOTHING_ABOUT_POD = frozenset(
    {Reason.QUEUE_FULL, Reason.OVERLOADED, Reason.PREEMPTED, Reason.GATEWAY_STOPS, Reason.NO_READY_POD}
)


class Attempts:
    """Asks pods."""

    def __init__(
        self,
        *,
        pool: WorkerPool,
        breakers: Breakers,
        metrics: Metrics,
        silence_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        """`silence_seconds`: longest time between two events of a stream."""
        self._pool = pool
        self._breakers = breakers
        self._metrics = metrics
        self._silence_seconds = silence_seconds
        self._clock = clock

    async def ask(
        self,
        question: Question,
        request: GenerateRequest,
        arm: RouteArm,
        *,
        is_last: bool,
        rides_along: bool,
        nobody_is_ready: bool = False,
    ) -> Choice:
        """A row that speaks.

        `is_last`: no other arm could take over, so that the pod gets more time, and breakers are no bar. `nobody_is_ready`: no arm has a
        ready pod, so that those that are said to be not ready are asked: a try is better than a refusal. `rides_along`: another row of
        the same question is a probe, if one is due; this one need not be.

        Raises:
            WorkerError: none of the pods that were asked spoke.
            ApiError: the request is at fault.
        """
        table = question.table
        known = table.last_resort(question.model, arm) if nobody_is_ready else table.targets(question.model, arm)
        targets = self._pool.by_load(known)
        problem = WorkerError(Reason.NO_READY_POD, "no pod is ready")
        if targets and not is_last:
            problem = WorkerError(Reason.BREAKER_OPEN, f"the breakers of all {len(targets)} pods are open")
        asked = self._best(question.model, arm, targets, is_last=is_last, rides_along=rides_along)
        asked_at = self._clock()

        def count(tally: Tally) -> None:
            self._metrics.answers.count(question.model, arm, tally=tally, asked_at=asked_at)

        for target in asked:
            try:
                has_time = is_last and not nobody_is_ready  # a pod that is well for all that is said of it answers soon
                return await self._ask_pod(question, request, arm, target, count=count, has_time=has_time)
            except WorkerError as error:
                problem = error
                self._metrics.arms.count_failure(question.model, arm, error.reason)
                if error.reason not in _ASKS_NEXT_POD:
                    break
        if not asked:
            self._metrics.arms.count_failure(question.model, arm, problem.reason)
        raise problem

    def _best(self, model: Model, arm: RouteArm, targets: list[str], *, is_last: bool, rides_along: bool) -> list[str]:
        """The pods to ask, from those by load: the ones that failed just now come later, the ones that rest not at all.

        Without anybody who could take over, a try is better than a refusal: then those that rest come last.
        """
        now = self._clock()
        breakers = {target: self._breakers.of(model, arm, target) for target in targets}
        awake = [
            target
            for target, breaker in breakers.items()
            if breaker.lets_through(now) or (rides_along and breaker.state(now) == State.HALF_OPEN)
        ]
        resting = [target for target in targets if target not in awake] if is_last else []
        return [*sorted(awake, key=lambda target: breakers[target].is_doubtful(now)), *resting][:_PODS_PER_ARM]

    async def _ask_pod(
        self,
        question: Question,
        request: GenerateRequest,
        arm: RouteArm,
        target: str,
        *,
        count: Callable[[Tally], None],
        has_time: bool,
    ) -> Choice:
        breaker = self._breakers.of(question.model, arm, target)
        asked_at = self._clock()
        ticket = breaker.start(asked_at)
        outcome = Outcome.UNKNOWN
        try:
            stream = self._pool.open(target, request, revision=arm.revision, traceparent=question.traceparent)
            choice = Choice(
                stream=stream,
                timer=Timer(self._clock, self._silence_seconds, question.deadline),
                count=count,
                broke_off=partial(self._broke_off, question, arm, breaker),
            )
            try:
                wait_seconds = None if has_time else question.model.wait_seconds
                await choice.read_ahead(whole=question.whole, wait_seconds=wait_seconds)
            except BaseException as error:
                choice.close()
                if isinstance(error, WorkerError) and self._was_busy(
                    error, target, since=max(asked_at, stream.spoke_at)
                ):
                    raise WorkerError(Reason.BUSY, f"{error.message}, while others were answered") from None
                raise
        except ApiError:
            outcome = Outcome.GOOD
            raise
        except WorkerError as error:
            outcome = self._outcome(error.reason, question)
            raise
        else:
            outcome = breaker.judge(choice.first_event_at - asked_at)
            return choice
        finally:
            breaker.end(ticket, outcome, self._clock())

    def _was_busy(self, error: WorkerError, target: str, *, since: float) -> bool:
        """Whether nothing came since then because there are more requests than the pod can answer.

        It counts what it said to others in the second half of that time: a pod that froze spoke too before it did.
        """
        return error.reason == Reason.TIMEOUT and self._pool.has_spoken(target, since=(since + self._clock()) / 2)

    def _broke_off(self, question: Question, arm: RouteArm, breaker: Breaker, reason: Reason) -> None:
        """A row stopped in the middle, after it had been counted as good."""
        self._metrics.arms.count_failure(question.model, arm, reason)
        now = self._clock()
        breaker.end(breaker.start(now), self._outcome(reason, question), now)

    def _outcome(self, reason: Reason, question: Question) -> Outcome:
        # At the deadline of the request it may be that the arm before had used up the time.
        is_late = reason in {Reason.TIMEOUT, Reason.BUSY} and self._clock() >= question.deadline
        if is_late or reason in _SAYS_NOTHING_ABOUT_POD:
            return Outcome.UNKNOWN
        return Outcome.SLOW if reason == Reason.BUSY else Outcome.BAD
