"""Command line: `python -m benchmarks.gateway --help`."""

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks import machine, paths, results, tables
from benchmarks.exits import exit_code
from benchmarks.gateway import client, contestants, environment, pace
from benchmarks.gateway.client import Streamed
from benchmarks.gateway.contestants import Proxy
from benchmarks.load import LoadGuard, Measured
from benchmarks.measure import Tally, interleaved
from benchmarks.progress import say

_WARM_UP = 50


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
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gateway",
        description="Our gateway beside litellm's proxy and Envoy in front of a stub. See docs/benchmarks.md.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--runs", type=int, default=5, help="measurements of each, interleaved")
    parser.add_argument("--rate", type=float, default=100.0, help="requests per second for the time to first text")
    parser.add_argument("--requests", type=int, default=1500, help="requests of a run at that rate")
    parser.add_argument("--concurrency", type=int, default=32, help="requests at once for the throughput")
    parser.add_argument(
        "--quick", action="store_true", help="one short run: does everything work? Not kept as a result"
    )
    parser.add_argument(
        "--force", action="store_true", help="measure although the machine is loaded; noted in the results"
    )
    return parser


def _measure(options: argparse.Namespace, proxies: Mapping[str, Proxy], roots: list[int]) -> dict[str, Any]:
    guard = LoadGuard(force=options.force)
    runs = 1 if options.quick else options.runs
    requests = 200 if options.quick else options.requests
    actions: dict[str, Callable[[str, str], Streamed]] = {
        "at_rate": partial(client.at_rate, requests=requests, rate=options.rate),
        "closed_loop": partial(client.closed_loop, requests=requests, concurrency=options.concurrency),
    }
    for proxy in proxies.values():
        client.closed_loop(proxy.url, proxy.model, requests=_WARM_UP, concurrency=4)
    found: dict[str, dict[str, list[Measured[Streamed]]]] = {part: {name: [] for name in proxies} for part in actions}
    for part, action in actions.items():
        for name in interleaved(list(proxies), runs=runs):
            measured = guard.run(f"{part} {name}", partial(_counted, proxies[name], action), roots=roots)
            say(f"{part}: {name}: {measured.result} ({measured.load})")
            found[part][name].append(measured)
    return _content(options, found)


def _counted(proxy: Proxy, action: Callable[[str, str], Streamed]) -> Streamed:
    before = proxy.cpu_seconds()
    streamed = action(proxy.url, proxy.model)
    return streamed.model_copy(update={"proxy_cpu_seconds": proxy.cpu_seconds() - before})


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
