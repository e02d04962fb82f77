"""A plan on a terminal, and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from diffusion_operator.core.sizing import Plan
from diffusion_operator.core.sizing.explain import KINDS, explain, human


def as_json(plan: Plan, notes: Sequence[str]) -> dict[str, Any]:
    """JSON-ready; sizes are bytes on each GPU."""
    return {
        "fits": plan.fits,
        "rows": plan.rows,
        "tokens": plan.tokens,
        "canvas": plan.canvas,
        "dtype": plan.dtype.value,
        "gpus": plan.gpus,
        "budget_bytes": plan.budget_bytes,
        "total_bytes": plan.bytes.total,
        "shortfall_bytes": plan.shortfall_bytes,
        "bytes": asdict(plan.bytes),
        "alternatives": [asdict(other) for other in plan.alternatives],
        "notes": list(notes),
    }


def as_table(plan: Plan, notes: Sequence[str]) -> str:
    """Lines for people."""
    return "\n".join(_lines(plan, notes)) + "\n"


def _lines(plan: Plan, notes: Sequence[str]) -> Iterator[str]:
    yield f"{'Fits' if plan.fits else 'Does not fit'}: {explain(plan)}."
    yield ""
    for kind, size in asdict(plan.bytes).items():
        yield f"{KINDS[kind]:<20}{human(size):>12}{size / plan.budget_bytes:>8.1%}"
    yield f"{'total':<20}{human(plan.bytes.total):>12}{plan.bytes.total / plan.budget_bytes:>8.1%}"
    yield f"{'budget':<20}{human(plan.budget_bytes):>12}"
    if plan.alternatives:
        yield ""
        yield f"{'what fits':<24}{'rows':>6}{'tokens':>10}  {'dtype':<10}{'GPUs':>5}{'takes':>12}"
        for other in plan.alternatives:
            yield (
                f"{other.change:<24}{other.rows:>6}{other.tokens:>10,}  {other.dtype.value:<10}{other.gpus:>5}"
                f"{human(other.total_bytes):>12}"
            )
    if notes:
        yield ""
    for note in notes:
        yield f"Note: {note}."
