"""Durations and quantities as people write them in Kubernetes: `24h`, `50ms`, `80Gi`, `500m`."""

import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import AfterValidator, Field

_DURATION = re.compile(r"^([0-9]+(ms|s|m|h))+$")
_DURATION_PART = re.compile(r"([0-9]+)(ms|s|m|h)")
_MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}

_QUANTITY = re.compile(r"^([0-9]+(?:\.[0-9]+)?)(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$")
_FACTORS: dict[str | None, Decimal] = {
    None: Decimal(1),
    "m": Decimal("0.001"),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate(("k", "M", "G", "T", "P"), start=1)},
    **{suffix: Decimal(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi"), start=1)},
}

_STORED_FACTORS = {"u": Decimal("0.000001"), "n": Decimal("0.000000001")}

DURATION_REMEDY = "write whole numbers with ms, s, m or h, such as 50ms, 30s or 24h (a week is 168h)"
QUANTITY_REMEDY = "write a positive number with an optional unit, such as 500m, 2 or 16Gi"


def seconds(duration: str) -> float:
    """Seconds of a duration such as `24h` or `1m30s`.

    Raises:
        ValueError: it is not a duration.
    """
    if not _DURATION.match(duration):
        raise ValueError(f"{duration!r} is not a duration: {DURATION_REMEDY}")
    # Whole numbers until the end: 0.006 + 0.087 + 0.007 is more than 0.1.
    return sum(int(number) * _MILLISECONDS[unit] for number, unit in _DURATION_PART.findall(duration)) / 1000


def amount(quantity: str | int) -> Decimal:
    """Value of a quantity such as `80Gi` (in bytes) or `500m` (in cores).

    Raises:
        ValueError: it is not a positive quantity.
    """
    match = _QUANTITY.match(str(quantity))
    if match is None or Decimal(match[1]) == 0:
        raise ValueError(f"{quantity!r} is not a quantity: {QUANTITY_REMEDY}")
    return Decimal(match[1]) * _FACTORS[match[2]]


def stored_amount(quantity: str | int) -> Decimal:
    """Value of a quantity as the API server writes it: what is finer than a thousandth comes back with u or n.

    Raises:
        ValueError: it is not a quantity.
    """
    text = str(quantity)
    factor = _STORED_FACTORS.get(text[-1:])
    return amount(text[:-1]) * factor if factor else amount(text)


def cel(*rules: tuple[str, str]) -> dict[str, Any]:
    """Rules that the API server checks, each as (expression, what to do when it is false)."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in rules]}


def _is_duration(value: str) -> str:
    seconds(value)
    return value


def _is_positive(value: str) -> str:
    if seconds(value) == 0:
        raise ValueError(f"{value!r} is no time: write a positive duration such as 30s")
    return value


def _is_quantity(value: str | int) -> str:
    amount(value)
    return str(value)


def _is_quantity_or_auto(value: str | int) -> str:
    return value if value == "auto" else _is_quantity(value)


_QUANTITY_RULE = (
    "(type(self) == int ? self > 0 : self.matches('^[0-9]+([.][0-9]+)?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$') "
    "&& quantity(self).isGreaterThan(quantity('0')))"
)

_INT_OR_STRING = {"x-kubernetes-int-or-string": True}

Duration = Annotated[
    str,
    AfterValidator(_is_duration),
    Field(
        max_length=24,
        json_schema_extra=cel(("self.matches('^([0-9]+(ms|s|m|h))+$')", f"not a duration: {DURATION_REMEDY}")),
    ),
]

PositiveDuration = Annotated[Duration, AfterValidator(_is_positive)]
"""The API server's rule for it is the field's, `positive`, since what 0 would do differs."""

Quantity = Annotated[
    str | int,
    AfterValidator(_is_quantity),
    Field(json_schema_extra=_INT_OR_STRING | cel((_QUANTITY_RULE, f"not a quantity: {QUANTITY_REMEDY}"))),
]

QuantityOrAuto = Annotated[
    str | int,
    AfterValidator(_is_quantity_or_auto),
    Field(
        json_schema_extra=_INT_OR_STRING
        | cel((f"self == 'auto' || {_QUANTITY_RULE}", f"neither auto nor a quantity: {QUANTITY_REMEDY}, or auto"))
    ),
]


def positive(remedy: str) -> dict[str, Any]:
    """Rule for a duration that must not be zero."""
    return cel(("!self.matches('^([0-9]+(ms|s|m|h))+$') || duration(self) > duration('0s')", remedy))
