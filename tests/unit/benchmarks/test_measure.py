"""Repeated measurements: order, median, percentiles."""

import statistics
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.measure import Tally, interleaved, percentile, ratio

values = st.lists(st.floats(min_value=0.1, max_value=1e6), min_size=1, max_size=50)


def test_a_tally_has_median_and_extremes() -> None:
    assert Tally.of([3.0, 1.0, 2.0, 10.0]) == Tally(median=2.5, min=1.0, max=10.0, runs=4)


def test_there_is_no_tally_of_nothing() -> None:
    with pytest.raises(ValueError, match="no measurement"):
        Tally.of([])


def test_a_ratio_is_one_of_medians() -> None:
    assert ratio(Tally.of([30.0, 10.0, 20.0]), Tally.of([10.0])) == 2.0


@given(size=st.integers(1, 6), runs=st.integers(1, 12))
def test_every_round_has_everyone_once(size: int, runs: int) -> None:
    names = [str(i) for i in range(size)]
    order = interleaved(names, runs=runs)
    rounds = [order[i : i + size] for i in range(0, len(order), size)]
    assert len(rounds) == runs
    assert all(Counter(each) == Counter(names) for each in rounds)


def test_each_round_begins_with_another() -> None:
    assert interleaved(["a", "b", "c"], runs=4)[::3] == ["a", "b", "c", "a"]


@given(numbers=values, percent=st.integers(1, 100))
def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed(numbers: list[float], percent: int) -> None:
    found = percentile(numbers, percent)

    def share(limit: float) -> float:
        return 100 * sum(number <= limit for number in numbers) / len(numbers)

    assert found in numbers
    assert share(found) >= percent
    assert all(share(lower) < percent for lower in numbers if lower < found)


@given(numbers=values)
def test_the_last_percentile_is_the_maximum_and_the_middle_one_is_near_the_median(numbers: list[float]) -> None:
    assert percentile(numbers, 100) == max(numbers)
    assert percentile(numbers, 50) == statistics.median_low(numbers)


@pytest.mark.parametrize("percent", [0, -1, 101])
def test_a_percentile_outside_of_the_values_is_refused(percent: int) -> None:
    with pytest.raises(ValueError, match="percentile"):
        percentile([1.0], percent)
