"""From rounds to what peers.json holds."""

from collections.abc import Mapping
from typing import Any

from benchmarks.machine import Machine, versions
from benchmarks.measure import Tally, ratio
from benchmarks.peers import environment, real_load, same_work
from benchmarks.peers.placement import Cores, Placement
from benchmarks.peers.rounds import Rounds
from benchmarks.peers.work import Answers, Done

_TICK = 0.01  # seconds; CPU time is counted in these
_OURS, _PEERS = "ours", ("vllm", "transformers")
_PINNED = {
    Cores.ONE: "each competitor's whole process tree on core 1 with one thread for arithmetic; the load client on core 0",
    Cores.BOTH: "every competitor and the load client on cores 0 and 1, with two threads for arithmetic",
}


def conditions(*, placement: Placement, cores: Cores, force: bool) -> dict[str, Any]:
    """What all figures of one command have in common."""
    ours = versions(["torch", "transformers", "tritonclient", "nvidia-pytriton"])
    return {
        "machine": Machine.here(),
        "versions": {"ours": ours, "transformers": ours, "vllm": environment.versions()},
        "pinning": {"text": _PINNED[cores], "cores": cores, "threads": placement.threads, "openmp": "libiomp5 for all"},
        "vllm_shim": "ten Triton kernels that keep vLLM's books are replaced by NumPy (benchmarks/peers/vllm_shim)",
        "forced": force,
    }


def of_same_work(rounds: Mapping[str, Rounds[Done]], common: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that the same-work benchmark writes."""
    tallies = {
        level: {name: Tally.of([run.result.tokens_per_second for run in done.of(name)]) for name in done.rounds[0]}
        for level, done in rounds.items()
    }
    per_core = {
        level: {
            name: Tally.of([run.result.tokens / max(run.cpu_seconds, _TICK) for run in done.of(name)])
            for name in done.rounds[0]
        }
        for level, done in rounds.items()
    }
    return {
        "same_work": tallies,
        "same_work_ratios": {level: _ratios(by_name) for level, by_name in tallies.items()},
        "same_work_tokens_per_core_second": per_core,
        "same_work_conditions": {
            **common,
            "work": same_work.DESCRIPTION,
            "load": {level: _load(done) for level, done in rounds.items()},
        },
    }


def of_real_load(rounds: Rounds[Answers], traffic: real_load.Traffic, common: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that the real-load benchmark writes."""
    load = traffic.load()
    services = {name: real_load.Service.of(load, [run.result for run in rounds.of(name)]) for name in rounds.rounds[0]}
    tallies = {name: service.tokens_per_second for name, service in services.items()}
    return {
        "real_load": tallies,
        "real_load_ratios": _ratios(tallies),
        "real_load_service": services,
        "real_load_conditions": {**common, "traffic": traffic, "load": _load(rounds)},
    }


def _ratios(tallies: Mapping[str, Tally]) -> dict[str, float]:
    """How many times as fast as each peer we are."""
    return {name: ratio(tallies[_OURS], tallies[name]) for name in _PEERS}


def _load(rounds: Rounds[Any]) -> dict[str, Any]:
    """What else went on, in cores, in the worst run; and how many runs were disturbed (0, unless forced)."""
    runs = [run for done in rounds.rounds for run in done.values()]
    return {
        "others": max(run.others for run in runs),
        "stolen": max(run.stolen for run in runs),
        "disturbed_runs": sum(run.disturbed for run in runs),
        "runs": len(runs),
    }
