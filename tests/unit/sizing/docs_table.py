"""The tables of docs/sizing.md: `python -m tests.unit.sizing.docs_table` writes them, with `--check` compares them."""

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from diffusion_operator.core.sizing import Arm, Asked, Budget, Device, EngineCosts, Plan, engine_costs, plan

from tests.unit.sizing.shapes import DENSE_GQA, DENSE_MHA, DIFFUSION_GEMMA, DREAM, KNOWN, LLADA, KnownShape

PAGE = Path(__file__).parents[3] / "docs" / "sizing.md"
GIB = 1024**3
TOKENS = 2048
SIZES = (24, 40, 80, 140)
OURS = engine_costs(Arm.DIFFUSION, Device.CUDA)


def tables() -> dict[str, str]:
    """Tables by the name of their place in the page."""
    return {"rows": "\n".join(_rows()), "sixteen": "\n".join(_sixteen()), "copies": "\n".join(_copies())}


def with_tables(page: str) -> str:
    """The page with its tables made anew."""
    for name, table in tables().items():
        page, count = re.subn(
            rf"(<!-- table {name} -->\n).*?(<!-- end -->)",
            lambda found, table=table: f"{found[1]}{table}\n{found[2]}",  # type: ignore[misc]
            page,
            flags=re.DOTALL,
        )
        if count != 1:
            raise SystemExit(f"{PAGE} has no place for the table {name}")
    return page


def _planned(
    known: KnownShape, gib: int, *, dtype: str = "auto", rows: int | None = None, engine: EngineCosts | None = None
) -> Plan:
    asked = Asked(rows=rows, tokens=TOKENS, canvas=known.canvas, dtype=dtype)
    return plan(known.facts, asked, Budget(memory_bytes=gib * GIB), engine=engine)


def _rows() -> Iterator[str]:
    yield "| model, canvas | weights in | " + " | ".join(f"{size} GiB" for size in SIZES) + " |"
    yield "|---|---|" + "---|" * len(SIZES)
    for known in KNOWN:
        for dtype in ("bfloat16", "fp8", "nvfp4"):
            plans = [_planned(known, size, dtype=dtype) for size in SIZES]
            cells = " | ".join(str(made.rows) if made.fits else "–" for made in plans)
            yield f"| {known.name}, {known.canvas} | {dtype}: {_gib(plans[0].bytes.weights)} | {cells} |"


def _sixteen() -> Iterator[str]:
    kinds = ("weights", "kv", "logits", "activations", "reserve")
    yield "| model, canvas | " + " | ".join(kinds) + " | total | 80 GiB | 40 GiB |"
    yield "|---|" + "---|" * (len(kinds) + 3)
    for known in (LLADA, DREAM, DENSE_MHA, DENSE_GQA, DIFFUSION_GEMMA):
        made = _planned(known, 80, rows=16)
        sizes = asdict(made.bytes)
        cells = " | ".join(_gib(sizes[kind]) for kind in kinds)
        on = [_planned(known, size, rows=16) for size in (80, 40)]
        answers = " | ".join("fits" if each.fits else f"{_gib(each.shortfall_bytes)} short" for each in on)
        yield f"| {known.name}, {known.canvas} | {cells} | {_gib(made.bytes.total)} | {answers} |"


def _copies() -> Iterator[str]:
    yield "| weights in, GPU | ours: 1.5 | 2 | transformers: 7 |"
    yield "|---|---|---|---|"
    for dtype in ("bfloat16", "fp8"):
        for gib in (80, 140):
            rows = [
                _planned(DIFFUSION_GEMMA, gib, dtype=dtype, engine=replace(OURS, predict_copies=copies)).rows
                for copies in (1, 2, 7)
            ]
            yield f"| {dtype}, {gib} GiB | " + " | ".join(map(str, rows)) + " |"


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"


def main() -> int:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only tell whether the page is up to date")
    check = parser.parse_args().check
    page = PAGE.read_text(encoding="utf-8")
    made = with_tables(page)
    if check:
        return int(made != page)
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
