"""Whatever comes: a breaker opens only for cause, rests for a bounded time, and lets few through while it is half open."""

from diffusion_gateway.breaker import Breaker, BreakerSettings, Outcome, State, Ticket
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

SETTINGS = BreakerSettings(
    window_seconds=60,
    min_requests=4,
    max_bad_share=0.5,
    slow_seconds=1,
    open_seconds=5,
    max_open_seconds=40,
    probes=2,
)
OUTCOMES = st.sampled_from(Outcome)


class AnyTraffic(RuleBasedStateMachine):
    """Requests that overlap as they like, and time that passes."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.breaker = Breaker(SETTINGS)
        self.tickets: list[tuple[Ticket, State]] = []

    @rule(seconds=st.floats(0, 30))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def a_request_starts(self) -> None:
        state, lets = self.breaker.state(self.now), self.breaker.lets_through(self.now)
        ticket = self.breaker.start(self.now)
        assert (ticket is not None) == lets
        assert lets or state != State.CLOSED
        assert not (lets and state == State.OPEN)
        if ticket is not None:
            self.tickets.append((ticket, state))

    @precondition(lambda self: self.tickets)
    @rule(outcome=OUTCOMES, which=st.integers(0, 10**6))
    def a_request_ends(self, outcome: Outcome, which: int) -> None:
        ticket, _ = self.tickets.pop(which % len(self.tickets))
        before = self.breaker.state(self.now)
        self.breaker.end(ticket, outcome, self.now)
        after = self.breaker.state(self.now)
        if before == State.OPEN:
            assert after == State.OPEN, "what began before the rest cannot end it"
        if outcome not in (Outcome.BAD, Outcome.SLOW):
            assert after != State.OPEN or before == State.OPEN, "only a bad or slow request opens"
        if outcome == Outcome.SLOW and before != State.OPEN:
            assert self.breaker.state(self.now + SETTINGS.open_seconds) != State.OPEN, "the rest of a slow pod is short"
        if outcome == Outcome.UNKNOWN:
            assert after == before

    @invariant()
    def a_rest_ends(self) -> None:
        assert self.breaker.state(self.now + SETTINGS.max_open_seconds) != State.OPEN

    @invariant()
    def few_probes_are_under_way(self) -> None:
        if self.breaker.state(self.now) == State.HALF_OPEN:
            current = max((ticket.era for ticket, _ in self.tickets), default=0)
            probes = [1 for ticket, state in self.tickets if ticket.era == current and state == State.HALF_OPEN]
            assert len(probes) <= SETTINGS.probes


AnyTraffic.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestAnyTraffic = AnyTraffic.TestCase


@given(outcomes=st.lists(OUTCOMES, max_size=80))
def test_it_is_open_as_soon_as_the_share_is_reached_and_not_before(outcomes: list[Outcome]) -> None:
    breaker, seen, bad = Breaker(SETTINGS), 0, 0
    for outcome in outcomes:
        breaker.end(breaker.start(0.0), outcome, 0.0)
        seen += outcome != Outcome.UNKNOWN
        is_bad = outcome in (Outcome.BAD, Outcome.SLOW)
        bad += is_bad
        should_be_open = is_bad and seen >= SETTINGS.min_requests and 2 * bad >= seen
        assert (breaker.state(0.0) == State.OPEN) == should_be_open
        if should_be_open:
            break


@given(rests=st.integers(1, 60))
def test_rests_double_up_to_the_bound(rests: int) -> None:
    breaker, now = Breaker(SETTINGS), 0.0
    for _ in range(SETTINGS.min_requests):
        breaker.end(breaker.start(now), Outcome.BAD, now)
    for rest in range(rests):
        seconds = min(SETTINGS.open_seconds * 2**rest, SETTINGS.max_open_seconds)
        assert breaker.state(now + seconds * 0.999) == State.OPEN
        now += seconds
        assert breaker.state(now) == State.HALF_OPEN
        breaker.end(breaker.start(now), Outcome.BAD, now)
