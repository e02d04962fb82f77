"""A plan in words, for people who look at a terminal or a condition."""

from dataclasses import asdict

from .plan import Plan

KINDS = {
    "weights": "weights",
    "kv": "keys and values",
    "logits": "logits of canvases",
    "self_conditioning": "self-conditioning",
    "activations": "activations",
    "reserve": "reserve",
}
_UNITS = (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024))


def explain(plan: Plan) -> str:
    """One sentence: what fits, or what is missing and what would fit instead."""
    what = f"{plan.rows} {'row' if plan.rows == 1 else 'rows'} × {plan.tokens:,} tokens in {plan.dtype.value}"
    if plan.gpus > 1:
        what += f" on {plan.gpus} GPUs"
    total, budget = human(plan.bytes.total), human(plan.budget_bytes)
    each = " on each" if plan.gpus > 1 else ""
    if plan.fits:
        return f"{what} take {total} of {budget}{each}"
    largest = sorted(asdict(plan.bytes).items(), key=lambda item: -item[1])[:3]
    parts = ", ".join(f"{KINDS[name]} {human(size)}" for name, size in largest)
    others = "; ".join(
        f"{other.change}: {other.rows} × {other.tokens:,} in {other.dtype.value} on {other.gpus} GPU{'s' if other.gpus > 1 else ''}"
        for other in plan.alternatives
    )
    return f"{what} need {total}{each} ({parts}), {human(plan.shortfall_bytes)} more than the budget of {budget}. " + (
        f"What fits: {others}" if others else "Nothing smaller of this model fits: use a GPU with more memory"
    )


def human(size: int) -> str:
    """Bytes in the unit that reads best."""
    for unit, factor in _UNITS:
        if size >= factor:
            return f"{size / factor:.2f} {unit}"
    return f"{size} B"
