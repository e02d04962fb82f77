"""Measures proxies round by round, each beside a quiet machine, and what both benchmarks of the gateway can be told."""

import argparse
from collections.abc import Callable, Mapping
from functools import partial

from benchmarks.gateway import client
from benchmarks.gateway.client import Streamed
from benchmarks.gateway.contestants import Proxy
from benchmarks.load import LoadGuard, Measured
from benchmarks.measure import interleaved
from benchmarks.progress import say

_WARM_UP = 50


def warm_up(proxies: Mapping[str, Proxy]) -> None:
    """A few requests that are not measured."""
    for proxy in proxies.values():
        client.closed_loop(proxy.url, proxy.model, requests=_WARM_UP, concurrency=4)


def in_rounds(
    part: str,
    action: Callable[[str, str], Streamed],
    proxies: Mapping[str, Proxy],
    *,
    runs: int,
    guard: LoadGuard,
    roots: list[int],
) -> dict[str, list[Measured[Streamed]]]:
    """`action`, of URL and model, `runs` times with each proxy; the runs of each by its name. `roots`: see `LoadGuard.run`."""
    found: dict[str, list[Measured[Streamed]]] = {name: [] for name in proxies}
    for name in interleaved(list(proxies), runs=runs):
        measured = guard.run(f"{part} {name}", partial(_counted, proxies[name], action), roots=roots)
        say(f"{part}: {name}: {measured.result} ({measured.load})")
        found[name].append(measured)
    return found


def _counted(proxy: Proxy, action: Callable[[str, str], Streamed]) -> Streamed:
    before = proxy.cpu_seconds()
    streamed = action(proxy.url, proxy.model)
    return streamed.model_copy(update={"proxy_cpu_seconds": proxy.cpu_seconds() - before})


def parser(prog: str, description: str) -> argparse.ArgumentParser:
    """With the options that both have."""
    made = argparse.ArgumentParser(
        prog=prog, description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    made.add_argument("--runs", type=int, default=5, help="measurements of each, interleaved")
    made.add_argument("--requests", type=int, default=1500, help="requests of a run")
    made.add_argument("--concurrency", type=int, default=32, help="requests at once for the throughput")
    made.add_argument("--quick", action="store_true", help="one short run: does everything work? Not kept as a result")
    made.add_argument(
        "--force", action="store_true", help="measure although the machine is loaded; noted in the results"
    )
    return made
