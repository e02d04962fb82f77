"""Command line: `python -m benchmarks.operator --help`."""

import argparse
import asyncio
import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from benchmarks import machine, paths, results, tables
from benchmarks.exits import exit_code
from benchmarks.load import LoadGuard, Snapshot
from benchmarks.operator import argo
from benchmarks.operator.contestants import ARGO, OURS, Contestant
from benchmarks.operator.measure import Figures, measure

_SIZES = (1, 100, 1000)


def main() -> int:
    """0: measured; 1: could not be measured, and standard error says why."""
    options = _parser().parse_args()
    return exit_code(lambda: _run(options))


def _run(options: argparse.Namespace) -> None:
    sizes = options.models or ((1, 50) if options.quick else _SIZES)
    idle_seconds = 20.0 if options.quick else 60.0 * options.idle_minutes
    guard = LoadGuard(force=options.force, attempts=2, snapshot=_snapshot)
    machine.require_cores(2)
    if options.argo:
        argo.build()
    measured = []
    for contestant, models in [*((OURS, models) for models in sizes), *([(ARGO, max(sizes))] if options.argo else [])]:
        action = partial(_measure, contestant, models, reactions=options.reactions, idle_seconds=idle_seconds)
        measured.append(guard.run(f"{contestant.name}, {models}", action))
    content = {
        "machine": machine.Machine.here(),
        "versions": machine.versions(("kopf", "kubernetes", "pydantic")),
        "sizes": [each.result for each in measured[: len(sizes)]],
        "argo": measured[-1].result if options.argo else None,
        "argo_version": argo.VERSION,
        "others": max(each.load.others for each in measured),
        "disturbed_runs": sum(each.disturbed for each in measured),
    }
    file = paths.BENCH / "quick-operator.json" if options.quick else results.FOLDER / "operator.json"
    results.write(file, content)
    sys.stdout.write(f"{tables.operator(results.read(file) or {})}\n\nwritten to {file}\n")


def _measure(contestant: Contestant, models: int, *, reactions: int, idle_seconds: float) -> Figures:
    return asyncio.run(measure(contestant, models, reactions=reactions, idle_seconds=idle_seconds))


def _snapshot(_: Iterable[int]) -> Snapshot:
    """All that this process has started belongs to the benchmark: API server, etcd, operator, surroundings."""
    return replace(Snapshot.take([os.getpid()]), own=0.0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.operator",
        description="The operator with models in mid-canary on a real API server. See docs/benchmarks.md.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--models", type=int, action="append", help=f"how many; may be repeated; {_SIZES} by default")
    parser.add_argument("--idle-minutes", type=float, default=10.0, help="how long to count writes and CPU time")
    parser.add_argument("--reactions", type=int, default=20, help="changed specs, and deleted children")
    parser.add_argument(
        "--argo", action="store_true", help="Argo Rollouts as well, with as many; builds it first, which needs Go"
    )
    parser.add_argument(
        "--quick", action="store_true", help="50 models, idle for 20 s: does it work? Not kept as a result"
    )
    parser.add_argument(
        "--force", action="store_true", help="measure although the machine is loaded; noted in the results"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
