"""Command line: `python -m benchmarks.engine --help`."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import checkpoints, paths, results, tables
from benchmarks.engine import limit, memory, passes, scaling, window
from benchmarks.exits import exit_code
from benchmarks.load import LoadGuard
from benchmarks.machine import Machine, require_cores, versions
from benchmarks.progress import say

_CORE = 1  # core 0 has the interrupts
_MEASURES: dict[str, Callable[[argparse.Namespace, LoadGuard], dict[str, Any]]] = {
    "scaling": lambda options, guard: scaling.measure(runs=options.runs, quick=options.quick, guard=guard),
    "limit": lambda options, guard: limit.measure(runs=options.runs, quick=options.quick, guard=guard),
    "memory": lambda options, _: memory.measure(quick=options.quick),
    "window": lambda options, guard: window.measure(runs=options.runs, quick=options.quick, guard=guard),
    "passes": lambda options, _: passes.measure(scorer=options.scorer, quick=options.quick),
}


def main() -> int:
    """0: measured; 1: could not be measured, and standard error says why."""
    options = _parser().parse_args()
    return exit_code(lambda: _measure(options), interrupted="interrupted; what was finished is written\n")


def _measure(options: argparse.Namespace) -> None:
    guard = LoadGuard(force=options.force)
    require_cores(2)
    os.sched_setaffinity(0, {_CORE})
    checkpoints.prepare()
    for name in options.benchmarks or _MEASURES:
        say(f"{name}: begins")
        content = _MEASURES[name](options, guard) | {
            "machine": Machine.here(),
            "versions": versions(["torch", "transformers"]),
            "pinning": f"one thread on core {_CORE}",
            "forced": options.force,
        }
        file = (paths.BENCH / f"quick-{name}.json") if options.quick else results.FOLDER / f"{name}.json"
        results.write(file, content)
        sys.stdout.write(tables.ENGINE[name](results.read(file) or {}) + "\n\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.engine",
        description="Our engine alone, on one core. See docs/benchmarks.md.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "benchmarks", nargs="*", type=_known, metavar="BENCHMARK", help=f"{', '.join(_MEASURES)}; none: all of them"
    )
    parser.add_argument("--runs", type=int, default=5, help="measurements of each figure, interleaved")
    parser.add_argument("--scorer", type=Path, default=None, help="passes: folder of the AR model that judges")
    parser.add_argument(
        "--quick", action="store_true", help="less of everything: does it work? Written to .bench, not to the results"
    )
    parser.add_argument(
        "--force", action="store_true", help="measure although the machine is loaded; noted in the results"
    )
    return parser


def _known(name: str) -> str:
    if name not in _MEASURES:
        raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(_MEASURES)}")
    return name


if __name__ == "__main__":
    sys.exit(main())
