"""A breaker's life, event by event; tests/property/gateway has what holds for any traffic."""

import pytest
from diffusion_gateway.breaker import Breaker, BreakerSettings, Outcome, State
from diffusion_gateway.breakers import Breakers
from diffusion_gateway.routes import Model
from diffusion_operator.api.status import RouteArm

SETTINGS = BreakerSettings(window_seconds=60, min_requests=4, open_seconds=5, max_open_seconds=60, probes=2)
GOOD, SLOW, BAD, UNKNOWN = Outcome.GOOD, Outcome.SLOW, Outcome.BAD, Outcome.UNKNOWN


def after(*outcomes: Outcome, at: float = 0.0, breaker: Breaker | None = None) -> Breaker:
    breaker = breaker or Breaker(SETTINGS)
    for outcome in outcomes:
        breaker.end(breaker.start(at), outcome, at)
    return breaker


@pytest.mark.parametrize(
    ("outcomes", "state"),
    [
        ((BAD, BAD, BAD), State.CLOSED),
        ((BAD, BAD, BAD, BAD), State.OPEN),
        ((GOOD, GOOD, BAD, BAD), State.OPEN),
        ((GOOD, GOOD, GOOD, BAD), State.CLOSED),
        ((GOOD, GOOD, BAD, SLOW), State.OPEN),
        ((BAD, BAD, BAD, UNKNOWN, UNKNOWN), State.CLOSED),
    ],
)
def test_it_opens_on_the_share_of_bad_requests_once_there_are_enough(
    outcomes: tuple[Outcome, ...], state: State
) -> None:
    assert after(*outcomes).state(0.0) == state


def test_bad_requests_of_long_ago_do_not_count() -> None:
    breaker = after(BAD, BAD, BAD)
    assert after(BAD, at=61.0, breaker=breaker).state(61.0) == State.CLOSED


def test_a_request_is_slow_when_its_first_event_is_late() -> None:
    breaker = Breaker(SETTINGS)
    assert breaker.judge(SETTINGS.slow_seconds) == GOOD
    assert breaker.judge(SETTINGS.slow_seconds * 1.01) == SLOW


def test_after_its_rest_two_good_probes_close_it() -> None:
    breaker = after(BAD, BAD, BAD, BAD)
    assert not breaker.lets_through(4.9)
    assert breaker.state(5.0) == State.HALF_OPEN
    first, second = breaker.start(5.0), breaker.start(5.0)
    assert breaker.start(5.0) is None
    breaker.end(first, GOOD, 6.0)
    assert not breaker.lets_through(6.0)
    breaker.end(second, GOOD, 6.0)
    assert breaker.state(6.0) == State.CLOSED


def test_a_probe_whose_client_left_makes_room_for_another() -> None:
    breaker = after(BAD, BAD, BAD, BAD)
    first, second = breaker.start(5.0), breaker.start(5.0)
    breaker.end(first, UNKNOWN, 6.0)
    assert breaker.lets_through(6.0)
    breaker.end(second, GOOD, 6.0)
    assert breaker.state(6.0) == State.HALF_OPEN


def test_one_bad_probe_begins_a_longer_rest() -> None:
    breaker = after(BAD, BAD, BAD, BAD)
    breaker.end(breaker.start(5.0), BAD, 5.0)
    assert breaker.state(14.9) == State.OPEN
    assert breaker.state(15.0) == State.HALF_OPEN


def test_soon_after_it_closed_it_rests_longer_and_later_as_at_first() -> None:
    def closed(at: float) -> Breaker:
        return after(GOOD, GOOD, at=at, breaker=after(BAD, BAD, BAD, BAD))

    soon = after(BAD, BAD, BAD, BAD, at=20.0, breaker=closed(10.0))
    assert soon.state(29.9) == State.OPEN
    later = after(BAD, BAD, BAD, BAD, at=100.0, breaker=closed(10.0))
    assert later.state(105.0) == State.HALF_OPEN


def test_a_pod_that_stays_slow_never_rests_for_longer_than_at_first() -> None:
    breaker, now = after(SLOW, SLOW, SLOW, SLOW), 0.0
    for _ in range(5):
        assert breaker.state(now + 4.9) == State.OPEN
        now += 5.0
        breaker.end(breaker.start(now), SLOW, now)
    now += 5.0
    after(SLOW, SLOW, SLOW, SLOW, at=now, breaker=after(GOOD, GOOD, at=now, breaker=breaker))
    assert breaker.state(now + 4.9) == State.OPEN
    assert breaker.state(now + 5.0) == State.HALF_OPEN


def test_what_began_before_the_rest_says_nothing_about_the_pod_after_it() -> None:
    breaker = Breaker(SETTINGS)
    old = breaker.start(0.0)
    after(BAD, BAD, BAD, BAD, breaker=breaker)
    breaker.end(old, BAD, 6.0)
    assert breaker.state(6.0) == State.HALF_OPEN


def test_a_pod_that_failed_just_now_is_doubtful_for_a_while() -> None:
    breaker = after(BAD)
    assert breaker.is_doubtful(4.9)
    assert not breaker.is_doubtful(5.1)
    assert not after(GOOD, breaker=after(BAD)).is_doubtful(0.0)


MODEL = Model(namespace="default", name="story", generation=1, arms=())


def arm(revision: str) -> RouteArm:
    return RouteArm(role="stable", revision=revision, kind="diffusion", service=f"story-{revision}", percent=100)


def test_breakers_of_pods_that_are_gone_are_forgotten() -> None:
    breakers = Breakers(SETTINGS, clock=lambda: 0.0)
    for target in ("10.0.0.1:8001", "10.0.0.2:8001"):
        after(BAD, BAD, BAD, BAD, breaker=breakers.of(MODEL, arm("aaaa0001"), target))
    assert breakers.open_among(["10.0.0.1:8001", "10.0.0.2:8001", "10.0.0.3:8001"]) == 2
    breakers.keep_only(["10.0.0.2:8001"])
    assert breakers.open_among(["10.0.0.1:8001", "10.0.0.2:8001"]) == 1
    assert breakers.of(MODEL, arm("aaaa0001"), "10.0.0.1:8001").state(0.0) == State.CLOSED


def test_another_revision_at_the_same_address_starts_anew() -> None:
    breakers = Breakers(SETTINGS, clock=lambda: 0.0)
    after(BAD, BAD, BAD, BAD, breaker=breakers.of(MODEL, arm("aaaa0001"), "10.0.0.1:8001"))
    assert breakers.of(MODEL, arm("aaaa0001"), "10.0.0.1:8001").state(0.0) == State.OPEN
    assert breakers.of(MODEL, arm("bbbb0001"), "10.0.0.1:8001").state(0.0) == State.CLOSED


def test_half_open_pods_count_as_open_until_they_have_proved_themselves() -> None:
    now = [0.0]
    breakers = Breakers(SETTINGS, clock=lambda: now[0])
    after(BAD, BAD, BAD, BAD, breaker=breakers.of(MODEL, arm("aaaa0001"), "10.0.0.1:8001"))
    now[0] = 10.0
    assert breakers.open_among(["10.0.0.1:8001"]) == 1
    after(GOOD, GOOD, at=10.0, breaker=breakers.of(MODEL, arm("aaaa0001"), "10.0.0.1:8001"))
    assert breakers.open_among(["10.0.0.1:8001"]) == 0
