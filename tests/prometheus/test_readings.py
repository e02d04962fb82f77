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


async def test_every_measurement_is_what_the_gateways_counted(server, metrics):
    since = datetime.now(UTC)
    one, other = server.pods["one"], server.pods["other"]
    (canary, ar), (canary_there, _) = arms(one, "whole"), arms(other, "whole")
    server.catch_up()

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
    server.catch_up()
    found = await read(metrics, "whole", since)

    assert found.quality == Quality(pairs=Moments(3, 0.375, 0.328125), repetition=Proportion(90, 9))
    assert found.speed.errors == Proportion(120, 4)
    assert found.speed.first_token == Buckets((0.25, 0.5, 1.0, inf), (60, 95, 109, 116))
    lengths = found.speed.latency
    assert lengths[1].diffusion == Moments(3, 6.0, 14.0)
    assert lengths[1].ar == Moments(2, 10.0, 52.0)
    assert lengths[6].ar == Moments(1, 100.0, 10_000.0)
    assert found.guard == found.speed


async def test_nothing_happened_is_0_and_not_missing(server, metrics):
    exporter = server.pods["one"]
    arms(exporter, "quiet")
    server.catch_up()

    found = await read(metrics, "quiet", datetime.now(UTC) - HOUR)

    assert found.quality == Quality(pairs=Moments(0, 0, 0), repetition=Proportion(0, 0))
    assert found.speed.errors == Proportion(0, 0)
    assert found.speed.first_token == Buckets((0.25, 0.5, 1.0, inf), (0, 0, 0, 0))


async def test_a_counter_that_begins_anew_loses_nothing(server, metrics):
    since = datetime.now(UTC)
    exporter = server.pods["one"]
    canary, _ = arms(exporter, "restarted")
    server.catch_up()
    canary.requests(100, failed=10)
    canary.pairs("ar", 1.0, 1.0)
    server.catch_up()

    exporter.restart()
    canary.requests(40, failed=4)
    canary.pairs("ar", -1.0)
    server.catch_up()
    canary.requests(100)
    server.catch_up()
    found = await read(metrics, "restarted", since)

    assert found.speed.errors == Proportion(240, 14)
    assert found.quality.pairs == Moments(3, 1.0, 3.0)
    assert found.guard.errors == Proportion(240, 14)


async def test_a_gap_between_scrapes_loses_nothing(server, metrics):
    since = datetime.now(UTC)
    exporter = server.pods["one"]
    canary, _ = arms(exporter, "gap")
    server.catch_up()
    canary.requests(10)
    server.catch_up()

    exporter.fails = True
    server.miss(exporter)
    canary.requests(10)
    during = await read(metrics, "gap", since)
    exporter.fails = False
    server.catch_up()

    assert during.speed.errors == Proportion(10, 0)
    assert (await read(metrics, "gap", since)).speed.errors == Proportion(20, 0)


async def test_a_pod_that_is_scraped_twice_counts_once(server, metrics):
    since = datetime.now(UTC)
    exporter = server.pods["scraped thrice"]
    canary, _ = arms(exporter, "twice")
    server.catch_up()
    canary.requests(100, failed=3)
    canary.first_tokens(1, 2, 3, 4)
    server.catch_up()

    before = await read(metrics, "twice", since)
    exporter.restart()
    server.catch_up()
    canary.requests(10)
    server.catch_up()
    after = await read(metrics, "twice", since)

    assert before.speed.errors == Proportion(100, 3)
    assert before.speed.first_token == Buckets((0.25, 0.5, 1.0, inf), (1, 2, 3, 4))
    assert after.speed.errors == Proportion(110, 3)


async def test_a_pod_that_went_in_the_step_counts_for_what_it_answered(server, metrics):
    since = datetime.now(UTC)
    gone, stays = server.pods["one"], server.pods["other"]
    (canary, _), (other, _) = arms(gone, "replaced"), arms(stays, "replaced")
    server.catch_up()
    canary.requests(30)
    server.catch_up()
    gone.fails = True
    other.requests(12)
    server.catch_up()

    assert (await read(metrics, "replaced", since)).speed.errors == Proportion(42, 0)


async def test_what_came_before_the_step_does_not_count(server, metrics):
    exporter = server.pods["one"]
    canary, _ = arms(exporter, "before")
    canary.requests(1000, failed=500)
    server.catch_up()
    since = datetime.now(UTC)
    server.catch_up()
    canary.requests(7)
    server.catch_up()

    assert (await read(metrics, "before", since)).speed.errors == Proportion(7, 0)


async def test_other_revisions_and_models_do_not_count(server, metrics):
    since = datetime.now(UTC)
    exporter = server.pods["one"]
    canary, _ = arms(exporter, "mine")
    others = [
        Arm(exporter, model="mine", revision="old", arm="stable"),
        Arm(exporter, model="mine", revision="newer"),
        arms(exporter, "mine-too")[0],
    ]
    server.catch_up()
    for arm in others:
        arm.requests(50, failed=50)
    canary.requests(5)
    server.catch_up()

    assert (await read(metrics, "mine", since)).speed.errors == Proportion(5, 0)


async def test_the_canary_that_became_stable_counts_under_both_roles(server, metrics):
    since = datetime.now(UTC)
    exporter = server.pods["one"]
    canary, _ = arms(exporter, "promoted")
    stable = Arm(exporter, model="promoted", revision="new", arm="stable")
    server.catch_up()
    canary.requests(100)
    stable.requests(60, failed=6)
    server.catch_up()

    assert (await read(metrics, "promoted", since)).speed.errors == Proportion(160, 6)


async def test_the_guard_has_its_minutes_alone(server, metrics):
    since = datetime.now(UTC)
    exporter = server.pods["one"]
    canary, _ = arms(exporter, "guarded")
    server.catch_up()
    canary.requests(100)
    server.catch_up()
    guard_since = datetime.now(UTC)
    server.catch_up()
    canary.requests(10, failed=9)
    server.catch_up()

    windows = (window(since, guard_since=guard_since),)
    found = await metrics.readings(
        ModelKey("stories", "guarded"), windows, ar="ar", policy=POLICY, now=datetime.now(UTC)
    )

    assert found["new"].speed.errors == Proportion(110, 9)
    assert found["new"].guard.errors == Proportion(10, 9)


async def test_series_of_a_revision_that_no_gateway_knows_are_no_zeros(server, metrics):
    exporter = server.pods["one"]
    Arm(exporter, model="unknown-revision", revision="old", arm="stable")
    server.catch_up()

    found = await read(metrics, "unknown-revision", datetime.now(UTC) - HOUR)

    assert "has not seen revision new there for five minutes" in why(found.speed.errors)
    assert why(found.quality.pairs) == why(found.guard.latency) == why(found.speed.errors)


async def test_a_model_that_no_gateway_knows_is_told_from_gateways_that_are_not_scraped(server, metrics):
    exporter = server.pods["one"]
    Arm(exporter, model="somebody-elses", revision="new")
    server.catch_up()

    found = await read(metrics, "nobodys", datetime.now(UTC) - HOUR)
    never = await read(metrics, "nobodys", datetime.now(UTC) - HOUR, now=datetime.now(UTC) + HOUR)

    assert "but not of stories/nobodys" in why(found.speed.errors)
    assert "does not scrape the gateways" in why(never.speed.errors)


async def test_gateways_that_are_not_scraped_any_more_are_no_good_data(server, metrics):
    exporter = server.pods["one"]
    canary, _ = arms(exporter, "forgotten")
    server.catch_up()
    canary.requests(500)
    server.catch_up()

    six_minutes_later = datetime.now(UTC) + timedelta(minutes=6)
    found = await read(metrics, "forgotten", datetime.now(UTC) - HOUR, now=six_minutes_later)

    assert "scrape" in why(found.speed.errors)


async def test_a_gateway_that_counts_no_pairs_leaves_the_other_gates_readable(server, metrics):
    exporter = server.pods["one"]
    canary = Arm(exporter, model="no-pairs", revision="new")
    Arm(exporter, model="no-pairs", revision="ar", arm="fallback", kind="ar")
    server.catch_up()

    found = await read(metrics, "no-pairs", datetime.now(UTC) - HOUR)

    assert "diffusion_gateway_pair" in why(found.quality.pairs)
    assert found.speed.errors == Proportion(0, 0)
    assert canary is not None


async def test_before_the_first_scrape_of_a_step_there_is_nothing_yet(server, metrics):
    found = await read(metrics, "new-born", datetime.now(UTC) - timedelta(seconds=5))

    assert found.speed.errors == Proportion()
    assert found.quality == Quality()


@pytest.mark.parametrize("value", [float("nan"), inf])
async def test_a_value_that_no_counter_has_is_no_data(server, metrics, value):
    exporter = server.pods["one"]
    canary, _ = arms(exporter, f"nonsense-{value}")
    canary.requests(value)
    server.catch_up()

    found = await read(metrics, f"nonsense-{value}", datetime.now(UTC) - HOUR)

    assert "no counter has that value" in why(found.speed.errors)


async def test_series_of_two_clusters_are_not_added_up(server, metrics):
    here, there = server.pods["in test"], server.pods["in production"]
    arms(here, "two-clusters"), arms(there, "two-clusters")
    server.catch_up()

    found = await read(metrics, "two-clusters", datetime.now(UTC) - HOUR)

    assert "'production', 'test'" in why(found.speed.errors)


async def test_without_a_gate_on_perplexity_nobody_asks_for_pairs(server, metrics):
    exporter = server.pods["one"]
    Arm(exporter, model="unscored", revision="new")
    Arm(exporter, model="unscored", revision="ar", arm="fallback", kind="ar")
    server.catch_up()

    windows = (window(datetime.now(UTC) - HOUR),)
    found = await metrics.readings(
        ModelKey("stories", "unscored"), windows, ar="ar", policy=Policy(), now=datetime.now(UTC)
    )

    assert found["new"].quality == Quality(pairs=Moments(), repetition=Proportion(0, 0))


async def test_models_whose_diffusion_arm_fails_requests_are_suspicious(server, metrics):
    exporter = server.pods["one"]
    bad, _ = arms(exporter, "failing")
    good, ar = arms(exporter, "sound")
    server.catch_up()
    bad.requests(100, failed=5)
    good.requests(1000, failed=5)
    ar.requests(10, failed=10)
    server.catch_up()

    found = await metrics.suspicious(now=datetime.now(UTC))

    assert ModelKey("stories", "failing") in found
    assert ModelKey("stories", "sound") not in found
