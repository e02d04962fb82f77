"""Durations and quantities."""

from decimal import Decimal

import pytest
from diffusion_operator.api.units import amount, seconds
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "value"), [("50ms", 0.05), ("30s", 30.0), ("1m30s", 90.0), ("24h", 86400.0), ("0ms", 0.0)]
)
def test_durations_are_read_in_seconds(text: str, value: float) -> None:
    assert seconds(text) == pytest.approx(value)


def test_parts_of_a_longest_duration_do_not_add_up_to_more() -> None:
    assert seconds("6ms87ms7ms") == seconds("100ms")


@pytest.mark.parametrize("text", ["", "24", "7d", "one hour", "-5s", "1.5h", "5 s", "h"])
def test_what_is_no_duration_is_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(ValueError, match="such as 50ms, 30s or 24h"):
        seconds(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("500m", Decimal("0.5")), ("80Gi", 80 * 1024**3), ("2", 2), (2, 2), ("1.5k", 1500), ("3M", 3_000_000)],
)
def test_quantities_are_read_in_base_units(text: str | int, value: Decimal | int) -> None:
    assert amount(text) == value


@pytest.mark.parametrize("text", ["", "lots", "0", 0, "-1", "1 Gi", "1gi", "1e3"])
def test_what_is_no_quantity_is_refused_with_a_remedy(text: str | int) -> None:
    with pytest.raises(ValueError, match="such as 500m, 2 or 16Gi"):
        amount(text)


@given(hours=st.integers(0, 10_000), minutes=st.integers(0, 59), rest=st.integers(0, 59))
def test_parts_of_a_duration_add_up(hours: int, minutes: int, rest: int) -> None:
    assert seconds(f"{hours}h{minutes}m{rest}s") == hours * 3600 + minutes * 60 + rest
