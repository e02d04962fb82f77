"""What was measured, for people."""

from collections.abc import Iterable, Sequence

from benchmarks.sizing.measure import Measured
from benchmarks.sizing.shapes import CHECKPOINTS

_MIB = 2**20


def worst(measured: Iterable[Measured]) -> Measured:
    """The case whose plan is furthest from its peak, in either direction."""
    return max(measured, key=lambda each: abs(each.error))


def of_checkpoints(measured: Sequence[Measured]) -> str:
    """A line for each checkpoint, and the worst of all."""
    lines = [
        "| checkpoint | cases | peak, MiB | plan / peak, least | most | mean of the distance |",
        "|---|---|---|---|---|---|",
    ]
    for checkpoint in CHECKPOINTS:
        of_it = [each for each in measured if each.checkpoint == checkpoint.name]
        if of_it:
            peaks, errors = [each.peak for each in of_it], [each.error for each in of_it]
            mean = sum(map(abs, errors)) / len(errors)
            lines.append(
                f"| {checkpoint.name}: {checkpoint.about} | {len(of_it)} | {min(peaks) / _MIB:.1f} to {max(peaks) / _MIB:.1f} "
                f"| {1 + min(errors):.3f} | {1 + max(errors):.3f} | {mean:.1%} |"
            )
    far = worst(measured)
    case = f"{far.checkpoint}, {far.case.rows} rows × {far.case.tokens} tokens, {far.case.about}"
    return "\n".join([*lines, "", f"Worst of {len(measured)}: {far.error:+.1%} ({case})", ""])


def of_cases(measured: Iterable[Measured]) -> str:
    """A line for each case, with what the plan is made of."""
    lines = [
        "| case | kv | logits | self-conditioning | activations | plan | peak | error |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for each in measured:
        plan = each.planned
        parts = (plan.kv, plan.logits, plan.self_conditioning, plan.activations, each.expected, each.peak)
        sizes = " | ".join(f"{part / _MIB:.2f}" for part in parts)
        case = f"{each.checkpoint}, {each.case.rows} × {each.case.tokens}, {each.case.about}"
        lines.append(f"| {case} | {sizes} | {each.error:+.1%} |")
    return "\n".join([*lines, ""]) + "\n"
