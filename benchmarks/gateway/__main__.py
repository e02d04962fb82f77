"""Command line: `python -m benchmarks.gateway --help`."""

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks import machine, paths, results, tables
from benchmarks.exits import exit_code
from benchmarks.gateway import client, contestants, environment, pace, rounds
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
    environment.prepare()
    with contestants.started("ours", "litellm", "envoy") as (proxies, roots):
        # The same gateway, asked for a model of which a share of the answers is compared with AR's.
        scoring = replace(proxies["ours"], model=pace.SCORED_MODEL)
        content = _measure(options, {**proxies, "ours_scoring": scoring}, roots)
    file = paths.BENCH / "quick-gateway.json" if options.quick else results.FOLDER / "gateway.json"
    results.write(file, content)
    say(f"written to {file}")
    sys.stdout.write(tables.gateway(results.read(file) or {}) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = rounds.parser(
        "python -m benchmarks.gateway",
        "Our gateway beside litellm's proxy and Envoy in front of a stub. See docs/benchmarks.md.",
    )
    parser.add_argument("--rate", type=float, default=100.0, help="requests per second for the time to first text")
    return parser


def _measure(options: argparse.Namespace, proxies: Mapping[str, Proxy], roots: list[int]) -> dict[str, Any]:
    guard = LoadGuard(force=options.force)
    runs = 1 if options.quick else options.runs
    requests = 200 if options.quick else options.requests
    actions: dict[str, Callable[[str, str], Streamed]] = {
        "at_rate": partial(client.at_rate, requests=requests, rate=options.rate),
        "closed_loop": partial(client.closed_loop, requests=requests, concurrency=options.concurrency),
    }
    rounds.warm_up(proxies)
    found = {
        part: rounds.in_rounds(part, action, proxies, runs=runs, guard=guard, roots=roots)
        for part, action in actions.items()
    }
    return _content(options, found)


def _content(
    options: argparse.Namespace, found: Mapping[str, Mapping[str, list[Measured[Streamed]]]]
) -> dict[str, Any]:
    at_rate = {name: [each.result for each in runs] for name, runs in found["at_rate"].items()}
    closed = {name: [each.result for each in runs] for name, runs in found["closed_loop"].items()}
    everyone = [each for part in found.values() for runs in part.values() for each in runs]
    names = [name for name in at_rate if name != "direct"]
    return {
        "machine": machine.Machine.here(),
        "versions": environment.versions(),
        "rate": options.rate,
        "concurrency": options.concurrency,
        "first_text_seconds": {
            name: {
                "p50": Tally.of([run.first_text_p50 for run in runs]),
                "p99": Tally.of([run.first_text_p99 for run in runs]),
            }
            for name, runs in at_rate.items()
        },
        # Each run beside the direct one of the same round: what the machine does to both cancels out.
        "added_p50_seconds": {
            name: Tally.of(
                [
                    run.first_text_p50 - direct.first_text_p50
                    for run, direct in zip(at_rate[name], at_rate["direct"], strict=True)
                ]
            )
            for name in names
        },
        "requests_per_core_second": {
            name: Tally.of([run.requests / run.proxy_cpu_seconds for run in closed[name]]) for name in names
        },
        "requests_per_second": {
            name: Tally.of([run.requests / run.seconds for run in runs]) for name, runs in closed.items()
        },
        "others": max(each.load.others for each in everyone),
        "disturbed_runs": sum(each.disturbed for each in everyone),
    }


if __name__ == "__main__":
    sys.exit(main())
