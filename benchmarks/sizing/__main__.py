"""Plan against measured peak, over shapes × rows × lengths × samplers × guidance."""

import argparse
import os
import sys
from dataclasses import asdict

from benchmarks import paths, results
from benchmarks.machine import Machine, versions
from benchmarks.progress import say
from benchmarks.sizing.measure import measure
from benchmarks.sizing.shapes import CHECKPOINTS, prepare
from benchmarks.sizing.tables import of_cases, of_checkpoints, worst

LIMIT = 0.1  # of the measured peak


def main() -> int:
    """Measure everything and print the tables; 1 when a plan is further from its peak than it may be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", metavar="NAME", nargs="+", help="some checkpoints; no results are written")
    options = parser.parse_args()
    os.environ["KINETO_LOG_LEVEL"] = "5"  # torch's profiler, which counts the allocations, is talkative
    measured = []
    for checkpoint in CHECKPOINTS:
        if options.only is None or checkpoint.name in options.only:
            path = prepare(checkpoint, paths.BENCH / "checkpoints" / "sizing")
            for done in measure(checkpoint, path):
                say(f"{done.checkpoint}, {done.rows} × {done.tokens} {done.about}: {done.error:+.1%}")
                measured.append(asdict(done))
    content = {
        "machine": asdict(Machine.here()),
        "torch": versions(["torch"])["torch"],
        "checkpoints": {checkpoint.name: checkpoint.about for checkpoint in CHECKPOINTS},
        "cases": measured,
    }
    if options.only is None:
        results.write(results.FOLDER / "sizing.json", content)
    sys.stdout.write(f"{of_cases(content)}\n\n{of_checkpoints(content)}\n")
    return int(abs(worst(content)) > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
