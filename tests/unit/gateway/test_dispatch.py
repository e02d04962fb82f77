"""The dispatcher over a pool whose pods do as they are told: no sockets, no time that passes."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import pytest
from diffusion_gateway.breaker import BreakerSettings
from diffusion_gateway.breakers import Breakers
from diffusion_gateway.dispatch import Dispatcher
from diffusion_gateway.metrics import Metrics
from diffusion_gateway.openai.errors import ApiError
from diffusion_gateway.question import Failure, Question
from diffusion_gateway.reasons import Reason, WorkerError
from diffusion_gateway.routes import Model, ServiceKey, Table
from diffusion_gateway.workload import Workload
from diffusion_operator.api.status import ArmRole, RouteArm
from diffusion_worker.config import SamplerSettings
from diffusion_worker.wire import BlockEvent, FinishEvent, GenerateRequest

Events = Sequence[BlockEvent | FinishEvent | WorkerError | Callable[[], WorkerError]]
FINISH = FinishEvent(reason="stop", prompt_tokens=1, completion_tokens=1, steps=1, blocks=1, seed=1, queue_seconds=0.0)
GOOD: Events = (BlockEvent(index=0, text="x", tokens=1, steps=1), FINISH)
UNCONVERGED: Events = (BlockEvent(index=0, text="x", tokens=1, steps=1, converged=False), FINISH)


class StubStream:
    """Says what it was given."""

    ended_at = 0.0
    held_up = True  # its times say nothing
    spoke_at = float("-inf")

    def __init__(self, events: Events) -> None:
        self._events = list(events)
        self.is_closed = False

    async def next(self, *, timeout_seconds: float) -> BlockEvent | FinishEvent:
        assert timeout_seconds > 0
        event = self._events.pop(0)
        if callable(event):
            event = event()
        if isinstance(event, WorkerError):
            raise event
        return event

    def close(self) -> None:
        self.is_closed = True


class StubPool:
    """By the service's name what its pods say."""

    def __init__(self, says: Callable[[str], Events]) -> None:
        self._says = says
        self.asked: list[str] = []
        self.streams: list[StubStream] = []
        self.spoke_to_others_at = float("-inf")

    def has_spoken(self, _: str, *, since: float) -> bool:
        return self.spoke_to_others_at > since

    def by_load(self, targets: Sequence[str]) -> list[str]:
        return list(targets)

    def open(self, target: str, *_: object, **__: object) -> StubStream:
        self.asked.append(target)
        self.streams.append(StubStream(self._says(target)))
        return self.streams[-1]

    def backlog(self, _: Iterable[str]) -> tuple[int, float]:
        return 30, 4.0


def arm(role: str, percent: int = 0, *, kind: str = "diffusion") -> RouteArm:
    return RouteArm(role=role, revision=f"{role[:4]}0001", kind=kind, service=role, percent=percent)


AR = arm("fallback", kind="ar")


class Bench:
    """A dispatcher, its model and what was counted."""

    def __init__(
        self,
        *arms: RouteArm,
        says: Callable[[str], Events] = lambda _: GOOD,
        pods: int = 1,
        seed: int = 1,
        **model: object,
    ) -> None:
        self.now = 0.0
        self.model = Model(namespace="default", name="story", generation=1, arms=arms, **model)  # type: ignore[arg-type]
        self.table = Table(
            models={self.model.key: self.model},
            pods={
                ServiceKey("default", each.service): frozenset(f"{each.role}-{number}" for number in range(pods))
                for each in arms
            },
        )
        self.pool = StubPool(says)
        self.metrics = Metrics()
        self.breakers = Breakers(BreakerSettings(min_requests=4), clock=lambda: self.now)
        self.dispatcher = Dispatcher(
            pool=self.pool,  # type: ignore[arg-type]
            breakers=self.breakers,
            metrics=self.metrics,
            silence_seconds=60.0,
            random=random.Random(seed).random,
            refused=lambda question, answer, *, is_first_choice: None,
            clock=lambda: self.now,
        )
        self.failures: list[Failure] = []

    async def ask(
        self, prompt: str = "Once", *, rows: int = 1, whole: bool = True, forced: ArmRole | None = None, **more: object
    ) -> str:
        """The role of the arm that answers."""
        fields = {name: more.pop(name) for name in ("max_tokens", "sampler") if name in more}
        request = GenerateRequest.model_validate({"request_id": "r", "prompt": prompt, **fields})
        self.failures.clear()
        question = Question(
            table=self.table,
            model=self.model,
            requests=(request,) * rows,
            forced=forced,
            whole=whole,
            deadline=self.now + 300,
            **more,  # type: ignore[arg-type]
        )
        answer = await self.dispatcher.ask(question, failures=self.failures)
        answer.close()
        return answer.arm.role.value

    def counted(self, name: str, **labels: str) -> float:
        """A counter, summed over the labels that are not given."""
        return sum(
            sample.value
            for family in self.metrics.registry.collect()
            for sample in family.samples
            if sample.name == f"diffusion_gateway_{name}_total" and labels.items() <= sample.labels.items()
        )


def fails(reason: Reason) -> Events:
    return (WorkerError(reason, "told to"),)


async def test_20000_requests_at_5_percent_land_within_the_binomial_interval_and_none_is_lost() -> None:
    bench = Bench(arm("stable", 95), arm("canary", 5), AR)
    drawn = Counter([await bench.ask() for _ in range(20_000)])
    # 99.9 % of all such draws lie within 3.29 standard deviations.
    assert abs(drawn["canary"] - 1000) <= 3.29 * (20_000 * 0.05 * 0.95) ** 0.5
    assert drawn["canary"] + drawn["stable"] == 20_000
    assert bench.counted("arm_requests") == 20_000
    assert bench.counted("arm_requests", arm="canary") == drawn["canary"]


async def test_a_user_stays_on_an_arm() -> None:
    bench = Bench(arm("stable", 50), arm("canary", 50), AR, is_sticky=True)
    for user in map(str, range(20)):
        assert len({await bench.ask(user=user) for _ in range(5)}) == 1
    assert {await bench.ask(user=str(number)) for number in range(20)} == {"stable", "canary"}


@pytest.mark.parametrize(
    "reason",
    [Reason.UNAVAILABLE, Reason.WRONG_REVISION, Reason.QUEUE_FULL, Reason.OVERLOADED],
)
async def test_what_says_nothing_about_the_neighbour_asks_the_next_pod(reason: Reason) -> None:
    bench = Bench(
        arm("stable", 100), AR, pods=3, says=lambda target: fails(reason) if target.startswith("stable-0") else GOOD
    )
    assert await bench.ask() == "stable"
    assert bench.failures == []
    assert bench.counted("arm_failures", reason=reason) == 1
    assert bench.counted("fallbacks") == 0


@pytest.mark.parametrize(
    "reason", [Reason.TIMEOUT, Reason.ENGINE_ERROR, Reason.NON_FINITE, Reason.OUT_OF_MEMORY, Reason.PREEMPTED]
)
async def test_what_would_happen_there_too_goes_to_ar_at_once(reason: Reason) -> None:
    bench = Bench(
        arm("stable", 100), AR, pods=3, says=lambda target: fails(reason) if target.startswith("stable") else GOOD
    )
    assert await bench.ask() == "fallback"
    assert [target.split("-")[0] for target in bench.pool.asked] == ["stable", "fallback"]
    assert bench.counted("fallbacks", reason=reason) == 1
    assert bench.counted("arm_failed_requests", arm="stable") == 1


async def test_two_pods_of_an_arm_are_asked_and_no_more() -> None:
    bench = Bench(
        arm("stable", 100),
        AR,
        pods=4,
        says=lambda target: fails(Reason.QUEUE_FULL) if target.startswith("stable") else GOOD,
    )
    assert await bench.ask() == "fallback"
    assert len(bench.pool.asked) == 3


async def test_full_queues_tell_when_to_come_back_from_what_was_measured() -> None:
    bench = Bench(arm("stable", 100), AR, says=lambda _: fails(Reason.QUEUE_FULL))
    with pytest.raises(ApiError) as raised:
        await bench.ask()
    assert (raised.value.status, raised.value.retry_after_seconds) == (429, 8)


async def test_an_answer_that_is_not_good_enough_is_closed_when_ar_has_a_better_one() -> None:
    bench = Bench(
        arm("stable", 100),
        AR,
        says=lambda target: UNCONVERGED if target.startswith("stable") else GOOD,
        refuses_unconverged=True,
    )
    for whole in (True, False):
        assert await bench.ask(whole=whole) == "fallback"
    assert bench.counted("fallbacks", reason="unconverged") == 2
    # The gate of errors is not for this.
    assert bench.counted("arm_failed_requests") == 0
    assert all(stream.is_closed for stream in bench.pool.streams)


@pytest.mark.parametrize("whole", [True, False])
async def test_an_answer_that_is_not_good_enough_is_better_than_none(whole: bool) -> None:
    bench = Bench(
        arm("stable", 100),
        AR,
        says=lambda target: UNCONVERGED if target.startswith("stable") else fails(Reason.UNAVAILABLE),
        refuses_unconverged=True,
    )
    assert await bench.ask(whole=whole) == "stable"
    assert [failure.reason for failure in bench.failures] == [Reason.UNCONVERGED, Reason.UNAVAILABLE]


async def test_who_sets_the_cap_of_steps_takes_what_it_gives() -> None:
    bench = Bench(arm("stable", 100), AR, says=lambda _: UNCONVERGED, refuses_unconverged=True)
    assert await bench.ask(sampler=SamplerSettings(max_denoising_steps=4)) == "stable"
    assert await bench.ask(forced=ArmRole.STABLE) == "stable"
    assert await bench.ask(sampler=SamplerSettings(top_p=0.9)) == "fallback"


async def test_an_arm_whose_pods_all_rest_is_not_asked_and_comes_back() -> None:
    works = [False]
    bench = Bench(
        arm("stable", 100),
        AR,
        pods=2,
        says=lambda target: GOOD if works[0] or target.startswith("fallback") else fails(Reason.ENGINE_ERROR),
    )
    for _ in range(8):
        assert await bench.ask() == "fallback"
    bench.pool.asked.clear()
    assert await bench.ask() == "fallback"
    assert [target.split("-")[0] for target in bench.pool.asked] == ["fallback"]
    assert bench.counted("fallbacks", reason="breaker_open") == 1
    works[0] = True
    bench.now = 6.0
    for _ in range(4):
        assert await bench.ask() == "stable"
    assert bench.counted("fallbacks", reason="breaker_open") == 1


async def test_a_question_of_many_rows_is_one_probe() -> None:
    works = [False]
    bench = Bench(
        arm("stable", 100),
        AR,
        says=lambda target: GOOD if works[0] or target.startswith("fallback") else fails(Reason.ENGINE_ERROR),
    )
    for _ in range(4):
        assert await bench.ask() == "fallback"
    works[0] = True
    bench.now = 6.0
    assert await bench.ask(rows=8) == "stable"
    assert bench.breakers.open_among(bench.table.all_targets()) == 0


async def test_the_last_arm_is_asked_though_its_pods_rest() -> None:
    works = [False]
    bench = Bench(arm("stable", 100), says=lambda _: GOOD if works[0] else fails(Reason.ENGINE_ERROR))
    for _ in range(6):
        with pytest.raises(ApiError):
            await bench.ask()
    assert bench.breakers.open_among(bench.table.all_targets()) == 1
    works[0] = True
    assert await bench.ask() == "stable"


@pytest.mark.parametrize(("speaks_to_others", "probes"), [(True, 4), (False, 2)])
async def test_a_pod_that_lets_one_wait_while_it_speaks_to_others_rests_briefly(
    speaks_to_others: bool, probes: int
) -> None:
    bench = Bench(
        arm("stable", 100), AR, says=lambda target: fails(Reason.TIMEOUT) if target.startswith("stable") else GOOD
    )
    bench.pool.spoke_to_others_at = float("inf") if speaks_to_others else float("-inf")
    for _ in range(4):
        assert await bench.ask() == "fallback"
    bench.pool.asked.clear()
    for _ in range(4):
        bench.now += 5.0
        assert await bench.ask() == "fallback"
    assert sum(target.startswith("stable") for target in bench.pool.asked) == probes


@pytest.mark.parametrize(("spoke_to_others_at", "status"), [(9.0, 429), (1.0, 503)], ids=["busy", "frozen since"])
async def test_when_all_waited_in_vain_the_client_is_told_whether_it_is_too_much_or_broken(
    spoke_to_others_at: float, status: int
) -> None:
    def nothing_for_ten_seconds() -> WorkerError:
        bench.now = 10.0
        return WorkerError(Reason.TIMEOUT, "nothing came")

    bench = Bench(arm("fallback", 100, kind="ar"), says=lambda _: [nothing_for_ten_seconds])
    bench.now = 0.0
    bench.pool.spoke_to_others_at = spoke_to_others_at
    with pytest.raises(ApiError) as refused:
        await bench.ask()
    assert refused.value.status == status


async def test_busy_pods_do_not_rest() -> None:
    bench = Bench(
        arm("stable", 100), AR, says=lambda target: fails(Reason.QUEUE_FULL) if target.startswith("stable") else GOOD
    )
    for _ in range(20):
        assert await bench.ask() == "fallback"
    assert bench.breakers.open_among(bench.table.all_targets()) == 0


async def test_a_pod_that_failed_just_now_is_asked_after_the_others() -> None:
    bench = Bench(
        arm("stable", 100), AR, pods=2, says=lambda target: fails(Reason.UNAVAILABLE) if "-0" in target else GOOD
    )
    for _ in range(10):
        assert await bench.ask() == "stable"
    assert bench.counted("arm_failures") == 1


CAUSAL = {"causal_workloads": frozenset({Workload.CODE, Workload.MATH}), "detects_workload": True}
CODE = "Write a Python function that reverses a list."


async def test_causal_work_goes_to_ar_as_the_client_says_or_as_it_looks() -> None:
    bench = Bench(arm("stable", 100), AR, **CAUSAL)
    assert await bench.ask("Go on.", workload=Workload.MATH) == "fallback"
    assert await bench.ask(CODE) == "fallback"
    assert await bench.ask("Once upon a time") == "stable"
    assert bench.counted("ruled_requests", rule="math") == 1
    assert bench.counted("ruled_requests", rule="detected_code") == 1


async def test_what_a_client_says_goes_before_any_guess() -> None:
    bench = Bench(arm("stable", 100), AR, **CAUSAL)
    assert await bench.ask(CODE, workload=Workload.GENERAL) == "stable"


async def test_the_guess_can_be_switched_off_and_so_can_each_kind() -> None:
    off = Bench(arm("stable", 100), AR, **CAUSAL | {"detects_workload": False})
    assert await off.ask(CODE) == "stable"
    only_math = Bench(arm("stable", 100), AR, **CAUSAL | {"causal_workloads": frozenset({Workload.MATH})})
    assert await only_math.ask(CODE) == "stable"
    assert await only_math.ask("x", workload=Workload.CODE) == "stable"


async def test_at_the_deadline_no_other_arm_is_asked_and_blamed() -> None:
    def takes_all_the_time() -> WorkerError:
        bench.now += 300
        return WorkerError(Reason.TIMEOUT, "told to")

    bench = Bench(arm("stable", 100), AR, says=lambda _: (takes_all_the_time,))
    with pytest.raises(ApiError) as raised:
        await bench.ask()
    assert raised.value.status == 503
    assert [failure.arm.role.value for failure in bench.failures] == ["stable"]
    assert bench.counted("arm_requests", arm="fallback") == bench.counted("fallbacks") == 0


async def test_a_gateway_that_stops_asks_nobody_else() -> None:
    bench = Bench(arm("stable", 100), AR, says=lambda _: fails(Reason.GATEWAY_STOPS))
    with pytest.raises(ApiError):
        await bench.ask()
    assert bench.pool.asked == ["stable-0:8001"]
    assert bench.counted("arm_failed_requests") == bench.counted("fallbacks") == 0
