"""Retry-After follows what was measured, and stays within bounds."""

from diffusion_gateway.overload import ServiceRate, retry_after_seconds
from hypothesis import given
from hypothesis import strategies as st

RATES = st.floats(0, 10_000)


@given(rows=st.integers(0, 10**6), rate=RATES)
def test_it_is_a_whole_number_from_1_to_60(rows: int, rate: float) -> None:
    seconds = retry_after_seconds(rows=rows, rows_per_second=rate)
    assert isinstance(seconds, int)
    assert 1 <= seconds <= 60


@given(rows=st.integers(1, 10**6), rate=RATES, more=st.integers(0, 10**6), faster=RATES)
def test_more_rows_take_longer_and_a_faster_service_less(rows: int, rate: float, more: int, faster: float) -> None:
    base = retry_after_seconds(rows=rows, rows_per_second=rate)
    assert retry_after_seconds(rows=rows + more, rows_per_second=rate) >= base
    assert retry_after_seconds(rows=rows, rows_per_second=rate + faster) <= base


@given(rate=st.integers(1, 50), seconds=st.integers(1, 300))
def test_a_steady_service_is_measured_as_it_is(rate: int, seconds: int) -> None:
    measured = ServiceRate(0.0)
    for tick in range(rate * seconds):
        measured.count(tick / rate)
    assert abs(measured.per_second(float(seconds)) - rate) <= rate / min(seconds, 60) + 1e-9


def test_what_ended_more_than_a_minute_ago_is_forgotten() -> None:
    measured = ServiceRate(0.0)
    for second in range(30):
        measured.count(float(second))
    assert measured.per_second(60.0) == 29 / 60
    assert measured.per_second(200.0) == 0


def test_without_anything_measured_it_is_the_longest() -> None:
    assert retry_after_seconds(rows=5, rows_per_second=0) == 60
    assert retry_after_seconds(rows=0, rows_per_second=0) == 1
    assert retry_after_seconds(rows=30, rows_per_second=4) == 8
