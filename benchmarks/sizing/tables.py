"""What was measured, for people. Pure."""

from collections.abc import Mapping
from typing import Any

from benchmarks.tables import table

_MIB = 2**20
_KINDS = ("kv", "logits", "self_conditioning", "activations")


def worst(content: Mapping[str, Any]) -> float:
    """How far the plan is from the peak in the worst case, in either direction."""
    return max((_error(case) for case in content["cases"]), key=abs)


def of_checkpoints(content: Mapping[str, Any]) -> str:
    """A line for each checkpoint, and the worst case of all."""
    rows = []
    for name, about in content["checkpoints"].items():
        cases = [case for case in content["cases"] if case["checkpoint"] == name]
        if cases:
            peaks, errors = [case["peak"] for case in cases], [_error(case) for case in cases]
            mean = sum(map(abs, errors)) / len(errors)
            sizes = f"{min(peaks) / _MIB:.1f} to {max(peaks) / _MIB:.1f}"
            rows.append(
                [
                    f"{name}: {about}",
                    str(len(cases)),
                    sizes,
                    f"{min(errors):+.1%}",
                    f"{max(errors):+.1%}",
                    f"{mean:.1%}",
                ]
            )
    heads = ["checkpoint", "cases", "peak, MiB", "plan beside it, least", "most", "mean distance"]
    far = max(content["cases"], key=lambda case: abs(_error(case)))
    machine = content["machine"]
    said = f"Worst of {len(content['cases'])} cases: {_error(far):+.1%} ({_name(far)})"
    return f"{table(heads, rows)}\n\n{said}; torch {content['torch']}, commit {machine['commit']}, {machine['measured_at']}."


def of_cases(content: Mapping[str, Any]) -> str:
    """A line for each case, with what the plan is made of, in MiB."""
    rows = [
        [
            _name(case),
            *(f"{case[kind] / _MIB:.2f}" for kind in _KINDS),
            f"{_planned(case) / _MIB:.2f}",
            f"{case['peak'] / _MIB:.2f}",
            f"{_error(case):+.1%}",
        ]
        for case in content["cases"]
    ]
    return table(["case", *_KINDS, "plan", "peak", "error"], rows)


def _name(case: Mapping[str, Any]) -> str:
    about = f", {case['about']}" if case["about"] else ""
    return f"{case['checkpoint']}, {case['rows']} rows × {case['tokens']} tokens{about}"


def _planned(case: Mapping[str, Any]) -> int:
    return sum(case[kind] for kind in _KINDS)


def _error(case: Mapping[str, Any]) -> float:
    return float(_planned(case) / case["peak"] - 1)
