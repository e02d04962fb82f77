"""Command line: `python -m benchmarks.peers --help`."""

import argparse
import sys
from pathlib import Path

from benchmarks import checkpoints, machine, paths, results, tables
from benchmarks.exits import exit_code
from benchmarks.load import LoadGuard
from benchmarks.peers import environment, real_load, same_work, summary
from benchmarks.peers.placement import Cores, Placement
from benchmarks.progress import say

_QUICK_REQUESTS = 16


def main() -> int:
    """0: measured; 1: could not be measured, and standard error says why."""
    options = _parser().parse_args()
    return exit_code(lambda: _run(options), interrupted="interrupted; the same command goes on where it was\n")


def _run(options: argparse.Namespace) -> None:
    machine.require_cores(2)
    environment.prepare()
    checkpoints.prepare()
    if options.command != "setup":
        _measure(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description="Our engine beside vLLM and transformers: same weights, same work, same cores. See docs/benchmarks.md.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "command",
        choices=["setup", "same-work", "real-load", "all"],
        help="setup: make vLLM's environment and the checkpoint, which the others do as well",
    )
    parser.add_argument("--runs", type=int, default=5, help="measurements of each competitor, interleaved")
    parser.add_argument(
        "--cores",
        type=Cores,
        choices=list(Cores),
        default=Cores.ONE,
        help="one: each server's process tree on one core, the load client on the other; both: everyone on both",
    )
    parser.add_argument("--rate", type=float, default=real_load.Traffic.rate, help="real load: arrivals per second")
    parser.add_argument(
        "--rows", type=int, default=real_load.Traffic.rows, help="real load: requests that a server runs at once"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="one run, a quarter of the work: does everything work? Written to .bench, not to the results",
    )
    parser.add_argument(
        "--fresh", action="store_true", help="measure again what an earlier, unfinished command has measured"
    )
    parser.add_argument(
        "--force", action="store_true", help="measure although the machine is loaded; noted in the results"
    )
    return parser


def _measure(options: argparse.Namespace) -> None:
    guard = LoadGuard(force=options.force)
    placement = Placement.of(options.cores)
    runs = 1 if options.quick else options.runs
    file = _file(options)
    content = results.read(file) or {}
    common = summary.conditions(placement=placement, cores=options.cores, force=options.force)
    if options.command in ("same-work", "all"):
        rounds = same_work.measure(
            placement=placement, runs=runs, quick=options.quick, fresh=options.fresh, guard=guard
        )
        content |= summary.of_same_work(rounds, common)
        results.write(file, content)
    if options.command in ("real-load", "all"):
        requests = _QUICK_REQUESTS if options.quick else real_load.Traffic.requests
        traffic = real_load.Traffic(requests=requests, rate=options.rate, rows=options.rows)
        answers = real_load.measure(placement=placement, traffic=traffic, runs=runs, fresh=options.fresh, guard=guard)
        content |= summary.of_real_load(answers, traffic, common)
        results.write(file, content)
    say(f"written to {file}")
    for key, render in (("same_work", tables.same_work), ("real_load", tables.real_load)):
        if key in content:
            sys.stdout.write(render(results.read(file) or {}) + "\n\n")


def _file(options: argparse.Namespace) -> Path:
    """Each placement has a file of its own; a quick run is no result."""
    name = "peers.json" if options.cores is Cores.ONE else f"peers-{options.cores}-cores.json"
    return paths.BENCH / f"quick-{name}" if options.quick else results.FOLDER / name


if __name__ == "__main__":
    sys.exit(main())
