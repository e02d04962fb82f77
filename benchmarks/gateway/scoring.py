"""What it costs live requests to compare a share of the answers with AR's: `python -m benchmarks.gateway.scoring`.

The gateway is not the limit here but the diffusion pod, as in every service with a real model: it answers a few requests at a time, and
more of them want to be answered. AR has a pod of its own.
"""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from benchmarks import machine, paths, results, tables
from benchmarks.exits import exit_code
from benchmarks.gateway import client, contestants, pace, rounds
from benchmarks.gateway.client import Streamed
from benchmarks.gateway.contestants import Proxy
from benchmarks.load import LoadGuard, Measured
from benchmarks.measure import Tally
from benchmarks.progress import say


def main() -> int:
    """0: measured; 1: could not be measured, and standard error says why."""
    options = _parser().parse_args()
    return exit_code(lambda: _run(options))


def _run(options: argparse.Namespace) -> None:
    machine.require_cores(2)
    with contestants.started("ours") as (proxies, roots):
        models = {"without": pace.BOUND_MODEL, "with": pace.BOUND_SCORED_MODEL}
        measured = _measure(
            options, {name: replace(proxies["ours"], model=each) for name, each in models.items()}, roots
        )
    found = {name: [each.result for each in runs] for name, runs in measured.items()}
    everyone = [each for runs in measured.values() for each in runs]
    content = {
        "machine": machine.Machine.here(),
        "rows": pace.BOUND_ROWS,
        "concurrency": options.concurrency,
        "percent": pace.SCORED_PERCENT,
        "requests_per_second": {
            name: Tally.of([run.requests / run.seconds for run in runs]) for name, runs in found.items()
        },
        # Of the two runs of one round: what the machine does to both cancels out.
        "ratio": Tally.of([a.seconds / b.seconds for a, b in zip(found["without"], found["with"], strict=True)]),
        "others": max(each.load.others for each in everyone),
        "disturbed_runs": sum(each.disturbed for each in everyone),
    }
    file = paths.BENCH / "quick-scoring.json" if options.quick else results.FOLDER / "scoring.json"
    results.write(file, content)
    say(f"written to {file}")
    sys.stdout.write(tables.scoring(results.read(file) or {}) + "\n")


def _measure(
    options: argparse.Namespace, proxies: Mapping[str, Proxy], roots: list[int]
) -> dict[str, list[Measured[Streamed]]]:
    requests, runs = (200, 1) if options.quick else (options.requests, options.runs)
    action = partial(client.closed_loop, requests=requests, concurrency=options.concurrency)
    rounds.warm_up(proxies)
    return rounds.in_rounds("scoring", action, proxies, runs=runs, guard=LoadGuard(force=options.force), roots=roots)


def _parser() -> argparse.ArgumentParser:
    return rounds.parser(
        "python -m benchmarks.gateway.scoring",
        "Throughput with and without comparing answers with AR's, where the pod is the limit. See docs/benchmarks.md.",
    )


if __name__ == "__main__":
    sys.exit(main())
