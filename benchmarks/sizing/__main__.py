"""Plan against measured peak, over shapes × rows × lengths × samplers × guidance."""

import argparse
import os
import sys
from collections.abc import Iterator

from benchmarks import paths
from benchmarks.progress import say
from benchmarks.sizing.measure import Measured, cases, measure
from benchmarks.sizing.shapes import CHECKPOINTS, prepare
from benchmarks.sizing.tables import of_cases, of_checkpoints, worst


def main() -> int:
    """Measure everything and print the tables; 1 when a plan is further from its peak than it may be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rows and lengths")
    parser.add_argument("--only", metavar="NAME", nargs="+", help="some checkpoints")
    parser.add_argument("--cases", action="store_true", help="print each case")
    options = parser.parse_args()
    os.environ["KINETO_LOG_LEVEL"] = "5"  # torch's profiler, which counts the allocations, is talkative
    measured = list(_measured(options.only, quick=options.quick))
    if options.cases:
        sys.stdout.write(of_cases(measured))
    sys.stdout.write(of_checkpoints(measured))
    return int(abs(worst(measured).error) > LIMIT)


LIMIT = 0.1  # of the measured peak


def _measured(only: list[str] | None, *, quick: bool) -> Iterator[Measured]:
    for checkpoint in CHECKPOINTS:
        if only is None or checkpoint.name in only:
            path = prepare(checkpoint, paths.BENCH / "checkpoints" / "sizing")
            for done in measure(checkpoint, path, list(cases(checkpoint, quick=quick))):
                say(f"{checkpoint.name}, {done.case.rows} × {done.case.tokens}, {done.case.about}: {done.error:+.1%}")
                yield done


if __name__ == "__main__":
    raise SystemExit(main())
