"""The traffic of the real-load benchmark, and what is made of its answers."""

import itertools

import pytest

from benchmarks.measure import percentile
from benchmarks.peers.real_load import LONGEST, SHORTEST, Service, Traffic, tokens_per_second
from benchmarks.peers.work import Answer, Answers, RealLoad, Request


def a_run(*totals: float, tokens: int = 10) -> Answers:
    return Answers(
        answers=tuple(Answer(tokens=tokens, first_block_seconds=total / 2, total_seconds=total) for total in totals)
    )


def a_load(*at: float) -> RealLoad:
    return RealLoad(requests=tuple(Request(at=seconds, content="x", max_tokens=16) for seconds in at))


def test_everyone_gets_the_same_requests_each_time() -> None:
    assert Traffic().load() == Traffic().load()


def test_limits_are_spread_evenly_from_the_shortest_to_the_longest() -> None:
    limits = sorted(request.max_tokens for request in Traffic(requests=64).load().requests)
    assert (limits[0], limits[-1]) == (SHORTEST, LONGEST)
    assert {b - a for a, b in itertools.pairwise(limits)} <= {3, 4}


def test_limits_do_not_grow_with_time() -> None:
    limits = [request.max_tokens for request in Traffic().load().requests]
    assert limits != sorted(limits)


def test_requests_come_in_order_at_the_rate_that_is_asked_for() -> None:
    at = [request.at for request in Traffic(requests=2000, rate=16.0).load().requests]
    assert at[0] == 0.0
    assert at == sorted(at)
    assert len(at) / at[-1] == pytest.approx(16.0, rel=0.1)


def test_gaps_between_arrivals_are_those_of_a_poisson_process() -> None:
    at = [request.at for request in Traffic(requests=4000, rate=1.0).load().requests]
    gaps = [b - a for a, b in itertools.pairwise(at)]
    assert percentile(gaps, 50) == pytest.approx(0.693, rel=0.1)
    assert percentile(gaps, 95) == pytest.approx(2.996, rel=0.1)


def test_throughput_counts_from_the_first_arrival_to_the_last_end() -> None:
    assert tokens_per_second(a_load(1.0, 2.0), a_run(4.0, 1.0)) == pytest.approx(20 / 4.0)


def test_a_service_has_tallies_over_its_runs() -> None:
    service = Service.of(a_load(0.0, 0.0), [a_run(1.0, 2.0), a_run(1.0, 4.0)])
    assert service.tokens_per_second.median == pytest.approx((10 + 5) / 2)
    assert service.tokens.median == 20
    assert service.total_seconds["p50"].max == 1.0
    assert service.total_seconds["p99"].min == 2.0
    assert service.first_block_seconds["p99"].max == 2.0
