"""Facts as a person wants to see them."""

from collections import Counter
from collections.abc import Iterator

from diffusion_worker.inspect.facts import LayerGroup, ModelFacts, Source


def table(facts: ModelFacts) -> str:
    """One fact a line."""
    rows = list(_rows(facts))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows) + "\n"


def _rows(facts: ModelFacts) -> Iterator[tuple[str, str]]:
    yield "model", f"{facts.model_type} ({facts.architecture or 'no architecture given'})"
    yield "family", facts.family.value.replace("_", " ")
    if facts.revision:
        yield "commit", facts.revision
    about = (
        "" if facts.weights_from is Source.HEADERS else ", shared out from the index: the headers would tell exactly"
    )
    yield "parameters", f"{facts.parameters:,} in {_gib(facts.stored_bytes)}{about}"
    if facts.experts:
        experts = facts.experts
        yield "active", f"{facts.active_parameters:,} per token: {experts.active} of {experts.total} experts"
    by_dtype: Counter[str] = Counter()
    stored: Counter[str] = Counter()
    for group in facts.weights:
        by_dtype[group.dtype] += group.parameters
        stored[group.dtype] += group.stored_bytes
    for dtype, parameters in by_dtype.most_common():
        yield f"  {dtype}", f"{parameters:,} in {_gib(stored[dtype])}"
    for group in facts.weights:
        yield f"  {group.part.value}", f"{group.parameters:,} × {group.dtype}"
    yield "dtype", facts.dtype + (f", quantised by {facts.quantization}" if facts.quantization else "")
    for layers in facts.layers:
        yield f"layers, {layers.kind.value}", _layers(layers)
    if facts.shared_kv_projection:
        yield "shared K/V", "full layers have one projection for keys and values; both are cached"
    yield "hidden", f"{facts.hidden_size:,}, feed-forward {facts.intermediate_size:,}"
    yield "vocabulary", f"{facts.vocab_size:,}, {'tied' if facts.tied_embeddings else 'with an output head of its own'}"
    yield "positions", f"{facts.max_positions:,}"
    if facts.canvas_length:
        yield "canvas", f"{facts.canvas_length} tokens{', self-conditioned' if facts.self_conditioning else ''}"
    if facts.unknown_fields:
        yield "not understood", ", ".join(facts.unknown_fields)


def _layers(group: LayerGroup) -> str:
    window = f", window {group.window:,}" if group.window else ""
    borrowed = group.layers - group.kv_layers
    return f"{group.layers} × {group.heads} heads, {group.kv_heads} of keys and values × {group.head_dim}{window}" + (
        f"; {borrowed} of them read the cache of an earlier layer" if borrowed else ""
    )


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB" if size >= 2**27 else f"{size / 2**20:.1f} MiB"
