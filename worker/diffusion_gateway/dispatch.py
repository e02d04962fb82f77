"""Gets an answer: asks the arms of the plan one after another until one of them speaks well enough.

Until the first text everything that goes wrong costs the client only time. After it there is no way back: a second model would
continue a text that it did not write.
"""

import time
from collections.abc import Callable
from typing import Protocol

from diffusion_operator.api.status import ArmKind, RouteArm

from .answers import Answer, all_or_none
from .attempts import Attempts
from .breakers import Breakers
from .metrics import Metrics
from .overload import retry_after_seconds
from .pool import WorkerPool
from .question import Failure, Question
from .reasons import Reason, WorkerError
from .refusals import unanswered
from .routes import Plan, Random, plan
from .shortcomings import shortcoming

# What these say of a revision is measured on its own: its gates, not the one of errors.
_SENT_ALL_THE_SAME = frozenset({Reason.UNCONVERGED, Reason.REPETITION})


class Refused(Protocol):
    """Told of an answer before another arm is asked."""

    def __call__(self, question: Question, answer: Answer, *, is_first_choice: bool) -> None:
        """`is_first_choice`: no other arm was asked before."""


class Dispatcher:
    """Asks arms in order."""

    def __init__(
        self,
        *,
        pool: WorkerPool,
        breakers: Breakers,
        metrics: Metrics,
        silence_seconds: float,
        random: Random,
        refused: Refused,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`silence_seconds`: longest time between two events of a stream. `refused` is told of answers that are not good enough."""
        self._refused = refused
        self._pool = pool
        self._metrics = metrics
        self._random = random
        self._clock = clock
        self._attempts = Attempts(
            pool=pool, breakers=breakers, metrics=metrics, silence_seconds=silence_seconds, clock=clock
        )

    async def ask(self, question: Question, *, failures: list[Failure]) -> Answer:
        """The first arm that speaks well enough; the first that spoke at all when those after it fail. Others are appended to `failures`.

        Raises:
            ApiError: 400 if the request is at fault, 429 if a queue was full or a pod too busy, 503 if nobody could answer.
        """
        chosen = self._plan(question)
        nobody_is_ready = not any(question.table.has_ready(question.model, arm) for arm in chosen.arms)
        second_best: Answer | None = None
        try:
            for arm in chosen.arms:
                is_last = arm is chosen.arms[-1]
                asked_at = self._clock()
                self._metrics.arms.count_asked(question.model, arm)
                try:
                    answer = await self._ask_arm(question, arm, is_last=is_last, nobody_is_ready=nobody_is_ready)
                except WorkerError as error:
                    reason, message = error.reason, error.message
                else:
                    lacks = None if is_last else self._shortcoming(question, answer)
                    if lacks is None:
                        return answer
                    self._refused(question, answer, is_first_choice=not failures)
                    reason, message = lacks, lacks.words
                    second_best, worse = answer, second_best
                    if worse is not None:
                        worse.close()
                failures.append(Failure(arm, reason, message, asked_at=asked_at, failed_at=self._clock()))
                if reason not in _SENT_ALL_THE_SAME:
                    self._metrics.arms.count_failed(question.model, arm, reason)
                if is_last or reason == Reason.GATEWAY_STOPS or self._clock() >= question.deadline:
                    break  # whoever is asked without any time left fails, and would be blamed for it
                self._metrics.arms.count_fallback(question.model, arm, reason)
            if second_best is not None:
                answer, second_best = second_best, None
                return answer
        finally:
            if second_best is not None:
                second_best.close()
        raise unanswered(question, chosen, failures, retry_after_seconds=self._retry_after_seconds(question))

    def _plan(self, question: Question) -> Plan:
        chosen = plan(
            question.model,
            max_tokens=question.requests[0].max_tokens,
            forced=question.forced,
            random=self._random,
            autoregressive_only=bool(question.autoregressive_only),
            user=question.user,
            workload=question.workload,
            text=question.text,
        )
        if chosen.rule is not None:
            self._metrics.requests.count_ruled(question.model, chosen.rule)
        return chosen

    async def _ask_arm(self, question: Question, arm: RouteArm, *, is_last: bool, nobody_is_ready: bool) -> Answer:
        asked_at = self._clock()
        choices = await all_or_none(
            [
                self._attempts.ask(
                    question,
                    request,
                    arm,
                    is_last=is_last,
                    rides_along=index > 0,
                    nobody_is_ready=nobody_is_ready,
                )
                for index, request in enumerate(question.requests)
            ]
        )
        return Answer(arm=arm, choices=choices, asked_at=asked_at)

    def _shortcoming(self, question: Question, answer: Answer) -> Reason | None:
        if answer.arm.kind != ArmKind.DIFFUSION:
            return None
        reason = shortcoming(
            answer.rows,
            refuses_unconverged=question.model.refuses_unconverged and not question.sets_cap_of_steps,
            has_stop_strings=bool(question.requests[0].stop),
        )
        if reason is not None:
            self._metrics.arms.count_failure(question.model, answer.arm, reason)
        return reason

    def _retry_after_seconds(self, question: Question) -> int:
        targets = [target for arm in question.model.arms for target in question.table.targets(question.model, arm)]
        rows, rows_per_second = self._pool.backlog(targets)
        return retry_after_seconds(rows=rows, rows_per_second=rows_per_second)
