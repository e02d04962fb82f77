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
from benchmarks.gateway import client, contestants, pace
from benchmarks.gateway.client import Streamed
from benchmarks.gateway.contestants import Proxy
from benchmarks.load import LoadGuard, Measured
from benchmarks.measure import Tally, interleaved
from benchmarks.progress import say

_CONCURRENCY = 32


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
        "concurrency": _CONCURRENCY,
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
    guard = LoadGuard(force=options.force)
    requests, runs = (200, 1) if options.quick else (options.requests, options.runs)
    found: dict[str, list[Measured[Streamed]]] = {name: [] for name in proxies}
    for name in interleaved(list(proxies), runs=runs):
        proxy = proxies[name]
        action = partial(client.closed_loop, proxy.url, proxy.model, requests=requests, concurrency=_CONCURRENCY)
        measured = guard.run(name, action, roots=roots)
        say(f"{name}: {measured.result} ({measured.load})")
        found[name].append(measured)
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gateway.scoring",
        description="Throughput with and without comparing answers with AR's, where the pod is the limit. See docs/benchmarks.md.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--runs", type=int, default=5, help="measurements of each, interleaved")
    parser.add_argument("--requests", type=int, default=1500, help="requests of a run")
    parser.add_argument(
        "--quick", action="store_true", help="one short run: does everything work? Not kept as a result"
    )
    parser.add_argument(
        "--force", action="store_true", help="measure although the machine is loaded; noted in the results"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
