"""What the operator reads from a real Prometheus is what the gateways counted: no more, no less, and never a 0 out of nothing."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from math import inf

import pytest
from diffusion_operator.adapters.metrics import ModelKey
from diffusion_operator.api.spec import DiffusionModelSpec
from diffusion_operator.core.gates import Quality
from diffusion_operator.core.rollout import Policy, Reading, Window, policy
from diffusion_operator.core.verdict import Buckets, Moments, Proportion, Unreadable

from tests.prometheus.exporter import Arm

SPEC = {"model": {"source": "file:///diffusion"}, "fallback": {"model": {"source": "file:///ar"}}}
POLICY = policy(DiffusionModelSpec.model_validate(SPEC))
HOUR = timedelta(hours=1)


def window(since: datetime, *, guard_since: datetime | None = None, revision: str = "new") -> Window:
    return Window(revision=revision, since=since, guard_since=guard_since or since, guard_index=0)


async def read(metrics, model: str, since: datetime, *, now: datetime | None = None, ar: str | None = "ar") -> Reading:
    found: Mapping[str, Reading] = await metrics.readings(
        ModelKey("stories", model), (window(since),), ar=ar, policy=POLICY, now=now or datetime.now(UTC)
    )
    return found["new"]


def why(part: object) -> str:
    assert isinstance(part, Unreadable), part
    return part.why


def arms(exporter, model: str) -> tuple[Arm, Arm]:
    """The canary and AR, with pairs between them."""
    canary = Arm(exporter, model=model, revision="new")
    canary.know_pairs("ar")
    return canary, Arm(exporter, model=model, revision="ar", arm="fallback", kind="ar")


async def test_every_measurement_is_what_the_gateways_counted(server, pod, metrics):
    since = datetime.now(UTC)
    one, other = pod(), pod()
    (canary, ar), (canary_there, _) = arms(one, "whole"), arms(other, "whole")
    server.scrape(one, pod="whole-1")
    server.scrape(other, pod="whole-2")

    canary.requests(100, failed=3)
    canary_there.requests(20, failed=1)
    canary.first_tokens(50, 80, 90, 97)
    canary_there.first_tokens(10, 15, 19, 19)
    canary.answers("33-64", 1.0, 2.0)
    canary_there.answers("33-64", 3.0)
    ar.answers("33-64", 4.0, 6.0)
    ar.answers("1025+", 100.0)
    canary.checked(90, repeating=9)
    canary.pairs("ar", 0.5, -0.25, 0.125)
    for exporter in (one, other):
        server.catch_up(exporter)
    found = await read(metrics, "whole", since)

    assert found.quality == Quality(pairs=Moments(3, 0.375, 0.328125), repetition=Proportion(90, 9))
    assert found.speed.errors == Proportion(120, 4)
    assert found.speed.first_token == Buckets((0.25, 0.5, 1.0, inf), (60, 95, 109, 116))
    lengths = found.speed.latency
    assert lengths[1].diffusion == Moments(3, 6.0, 14.0)
    assert lengths[1].ar == Moments(2, 10.0, 52.0)
    assert lengths[6].ar == Moments(1, 100.0, 10_000.0)
    assert found.guard == found.speed


async def test_nothing_happened_is_0_and_not_missing(server, pod, metrics):
    exporter = pod()
    arms(exporter, "quiet")
    server.scrape(exporter, pod="quiet-1")

    found = await read(metrics, "quiet", datetime.now(UTC) - HOUR)

    assert found.quality == Quality(pairs=Moments(0, 0, 0), repetition=Proportion(0, 0))
    assert found.speed.errors == Proportion(0, 0)
    assert found.speed.first_token == Buckets((0.25, 0.5, 1.0, inf), (0, 0, 0, 0))


async def test_a_counter_that_begins_anew_loses_nothing(server, pod, metrics):
    since = datetime.now(UTC)
    exporter = pod()
    canary, _ = arms(exporter, "restarted")
    server.scrape(exporter, pod="restarted-1")
    canary.requests(100, failed=10)
    canary.pairs("ar", 1.0, 1.0)
    server.catch_up(exporter)

    exporter.restart()
    canary.requests(40, failed=4)
    canary.pairs("ar", -1.0)
    server.catch_up(exporter)
    canary.requests(100)
    server.catch_up(exporter)
    found = await read(metrics, "restarted", since)

    assert found.speed.errors == Proportion(240, 14)
    assert found.quality.pairs == Moments(3, 1.0, 3.0)
    assert found.guard.errors == Proportion(240, 14)


async def test_a_gap_between_scrapes_loses_nothing(server, pod, metrics):
    since = datetime.now(UTC)
    exporter = pod()
    canary, _ = arms(exporter, "gap")
    server.scrape(exporter, pod="gap-1")
    canary.requests(10)
    server.catch_up(exporter)

    exporter.fails = True
    server.catch_up(exporter)
    canary.requests(10)
    during = await read(metrics, "gap", since)
    exporter.fails = False
    server.catch_up(exporter)

    assert during.speed.errors == Proportion(10, 0)
    assert (await read(metrics, "gap", since)).speed.errors == Proportion(20, 0)


async def test_a_pod_that_is_scraped_twice_counts_once(server, pod, metrics):
    since = datetime.now(UTC)
    exporter = pod()
    canary, _ = arms(exporter, "twice")
    server.scrape(exporter, job="annotations")
    server.scrape(exporter, job="monitor", pod="twice-1", endpoint="http")
    server.scrape(exporter, job="replica", pod="twice-1", prometheus_replica="b")
    canary.requests(100, failed=3)
    canary.first_tokens(1, 2, 3, 4)
    server.catch_up(exporter)

    before = await read(metrics, "twice", since)
    exporter.restart()
    server.catch_up(exporter)
    canary.requests(10)
    server.catch_up(exporter)
    after = await read(metrics, "twice", since)

    assert before.speed.errors == Proportion(100, 3)
    assert before.speed.first_token == Buckets((0.25, 0.5, 1.0, inf), (1, 2, 3, 4))
    assert after.speed.errors == Proportion(110, 3)


async def test_a_pod_that_went_in_the_step_counts_for_what_it_answered(server, pod, metrics):
    since = datetime.now(UTC)
    gone, stays = pod(), pod()
    (canary, _), (other, _) = arms(gone, "replaced"), arms(stays, "replaced")
    server.scrape(gone, pod="replaced-1")
    server.scrape(stays, pod="replaced-2")
    canary.requests(30)
    server.catch_up(gone)
    gone.fails = True
    other.requests(12)
    server.catch_up(stays)

    assert (await read(metrics, "replaced", since)).speed.errors == Proportion(42, 0)


async def test_what_came_before_the_step_does_not_count(server, pod, metrics):
    exporter = pod()
    canary, _ = arms(exporter, "before")
    canary.requests(1000, failed=500)
    server.scrape(exporter, pod="before-1")
    since = datetime.now(UTC)
    server.catch_up(exporter)
    canary.requests(7)
    server.catch_up(exporter)

    assert (await read(metrics, "before", since)).speed.errors == Proportion(7, 0)


async def test_other_revisions_and_models_do_not_count(server, pod, metrics):
    since = datetime.now(UTC)
    exporter = pod()
    canary, _ = arms(exporter, "mine")
    others = [
        Arm(exporter, model="mine", revision="old", arm="stable"),
        Arm(exporter, model="mine", revision="newer"),
        arms(exporter, "mine-too")[0],
    ]
    server.scrape(exporter, pod="mine-1")
    for arm in others:
        arm.requests(50, failed=50)
    canary.requests(5)
    server.catch_up(exporter)

    assert (await read(metrics, "mine", since)).speed.errors == Proportion(5, 0)


async def test_the_canary_that_became_stable_counts_under_both_roles(server, pod, metrics):
    since = datetime.now(UTC)
    exporter = pod()
    canary, _ = arms(exporter, "promoted")
    stable = Arm(exporter, model="promoted", revision="new", arm="stable")
    server.scrape(exporter, pod="promoted-1")
    canary.requests(100)
    stable.requests(60, failed=6)
    server.catch_up(exporter)

    assert (await read(metrics, "promoted", since)).speed.errors == Proportion(160, 6)


async def test_the_guard_has_its_minutes_alone(server, pod, metrics):
    since = datetime.now(UTC)
    exporter = pod()
    canary, _ = arms(exporter, "guarded")
    server.scrape(exporter, pod="guarded-1")
    canary.requests(100)
    server.catch_up(exporter)
    guard_since = datetime.now(UTC)
    server.catch_up(exporter)
    canary.requests(10, failed=9)
    server.catch_up(exporter)

    windows = (window(since, guard_since=guard_since),)
    found = await metrics.readings(
        ModelKey("stories", "guarded"), windows, ar="ar", policy=POLICY, now=datetime.now(UTC)
    )

    assert found["new"].speed.errors == Proportion(110, 9)
    assert found["new"].guard.errors == Proportion(10, 9)


async def test_series_of_a_revision_that_no_gateway_knows_are_no_zeros(server, pod, metrics):
    exporter = pod()
    Arm(exporter, model="unknown-revision", revision="old", arm="stable")
    server.scrape(exporter, pod="unknown-1")

    found = await read(metrics, "unknown-revision", datetime.now(UTC) - HOUR)

    assert "has not seen revision new there for five minutes" in why(found.speed.errors)
    assert why(found.quality.pairs) == why(found.guard.latency) == why(found.speed.errors)


async def test_a_model_that_no_gateway_knows_is_told_from_gateways_that_are_not_scraped(server, pod, metrics):
    exporter = pod()
    Arm(exporter, model="somebody-elses", revision="new")
    server.scrape(exporter, pod="elses-1")

    found = await read(metrics, "nobodys", datetime.now(UTC) - HOUR)
    never = await read(metrics, "nobodys", datetime.now(UTC) - HOUR, now=datetime.now(UTC) + HOUR)

    assert "but not of stories/nobodys" in why(found.speed.errors)
    assert "does not scrape the gateways" in why(never.speed.errors)


async def test_gateways_that_are_not_scraped_any_more_are_no_good_data(server, pod, metrics):
    exporter = pod()
    canary, _ = arms(exporter, "forgotten")
    server.scrape(exporter, pod="forgotten-1")
    canary.requests(500)
    server.catch_up(exporter)

    six_minutes_later = datetime.now(UTC) + timedelta(minutes=6)
    found = await read(metrics, "forgotten", datetime.now(UTC) - HOUR, now=six_minutes_later)

    assert "scrape" in why(found.speed.errors)


async def test_a_gateway_that_counts_no_pairs_leaves_the_other_gates_readable(server, pod, metrics):
    exporter = pod()
    canary = Arm(exporter, model="no-pairs", revision="new")
    Arm(exporter, model="no-pairs", revision="ar", arm="fallback", kind="ar")
    server.scrape(exporter, pod="no-pairs-1")

    found = await read(metrics, "no-pairs", datetime.now(UTC) - HOUR)

    assert "diffusion_gateway_pair" in why(found.quality.pairs)
    assert found.speed.errors == Proportion(0, 0)
    assert canary is not None


async def test_before_the_first_scrape_of_a_step_there_is_nothing_yet(server, metrics):
    found = await read(metrics, "new-born", datetime.now(UTC) - timedelta(seconds=5))

    assert found.speed.errors == Proportion()
    assert found.quality == Quality()


@pytest.mark.parametrize("value", [float("nan"), inf])
async def test_a_value_that_no_counter_has_is_no_data(server, pod, metrics, value):
    exporter = pod()
    canary, _ = arms(exporter, f"nonsense-{value}")
    canary.requests(value)
    server.scrape(exporter, pod=f"nonsense-{value}")

    found = await read(metrics, f"nonsense-{value}", datetime.now(UTC) - HOUR)

    assert "no counter has that value" in why(found.speed.errors)


async def test_series_of_two_clusters_are_not_added_up(server, pod, metrics):
    here, there = pod(), pod()
    arms(here, "two-clusters"), arms(there, "two-clusters")
    server.scrape(here, pod="a", cluster="test")
    server.scrape(there, pod="b", cluster="production")

    found = await read(metrics, "two-clusters", datetime.now(UTC) - HOUR)

    assert "'production', 'test'" in why(found.speed.errors)


async def test_without_a_gate_on_perplexity_nobody_asks_for_pairs(server, pod, metrics):
    exporter = pod()
    Arm(exporter, model="unscored", revision="new")
    Arm(exporter, model="unscored", revision="ar", arm="fallback", kind="ar")
    server.scrape(exporter, pod="unscored-1")

    windows = (window(datetime.now(UTC) - HOUR),)
    found = await metrics.readings(
        ModelKey("stories", "unscored"), windows, ar="ar", policy=Policy(), now=datetime.now(UTC)
    )

    assert found["new"].quality == Quality(pairs=Moments(), repetition=Proportion(0, 0))


async def test_models_whose_diffusion_arm_fails_requests_are_suspicious(server, pod, metrics):
    exporter = pod()
    bad, _ = arms(exporter, "failing")
    good, ar = arms(exporter, "sound")
    server.scrape(exporter, pod="failing-1")
    bad.requests(100, failed=5)
    good.requests(1000, failed=5)
    ar.requests(10, failed=10)
    server.catch_up(exporter)

    found = await metrics.suspicious(now=datetime.now(UTC))

    assert ModelKey("stories", "failing") in found
    assert ModelKey("stories", "sound") not in found
