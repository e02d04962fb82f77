"""From a `config.json` to the shape of the model. Pure: text in, numbers out."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from diffusion_worker.inspect.errors import InspectError
from diffusion_worker.inspect.facts import Experts, Family, LayerGroup, LayerKind
from diffusion_worker.inspect.fields import Fields

_DIFFUSION_GEMMA = "diffusion_gemma"
_MASKED_DIFFUSION = {"llada", "llada_moe", "llada2_moe", "dream", "sdar", "sdar_moe"}
_KINDS = {"full_attention": LayerKind.FULL, "sliding_attention": LayerKind.SLIDING}
# Every n-th layer is a full one where config.json says neither layer_types nor a pattern (transformers 5.24).
_PATTERNS = {"gemma2": 2, "gemma3_text": 6, "gemma4_text": 6, "diffusion_gemma_text": 6, "cohere2": 4}
_WIDE_FULL_LAYERS = {"gemma4_text", "diffusion_gemma_text"}  # their full layers have a head_dim of their own: 512
_MOST_LAYERS = 10_000
_HEAD_DIMS = {"gemma2": 256, "gemma3_text": 256, "gemma4_text": 256, "diffusion_gemma_text": 256, "gemma": 256}


@dataclass(frozen=True)
class Shape:
    """What config.json says, the weights aside."""

    model_type: str
    architecture: str | None
    family: Family
    dtype: str
    quantization: str | None
    layers: tuple[LayerGroup, ...]
    kv_widths: tuple[int, ...]  # of each layer in order: rows of its key projection, kv_heads · head_dim
    hidden_size: int
    intermediate_size: int
    vocab_size: int
    max_positions: int
    tied_embeddings: bool | None  # None: not said
    shared_kv_projection: bool
    canvas_length: int | None
    self_conditioning: bool
    experts: Experts | None
    unknown_fields: tuple[str, ...]


def read_shape(config: Mapping[str, Any], *, name: str = "config.json") -> Shape:
    """Read a parsed config.json; `name` is for messages. Raises InspectError for what is no language model known here."""
    fields = Fields(config, name=name)
    model_type = str(fields.top("model_type", ""))
    if not model_type:
        raise InspectError(f"{name} has no model_type: it is not the configuration of a model in transformers' layout")
    if fields.top("is_encoder_decoder", default=False):
        raise InspectError(f"{name}: {model_type} is an encoder-decoder model; decoder-only language models are served")
    if fields.get("kv_lora_rank"):
        raise InspectError(f"{name}: {model_type} compresses its cache (kv_lora_rank), which is not known here")
    diffusion_gemma = model_type == _DIFFUSION_GEMMA
    canvas_length = fields.integer("canvas_length", 256 if diffusion_gemma else None)
    if canvas_length == 0:
        raise InspectError(f"{name}: canvas_length is 0; a canvas has at least one token")
    hidden_size = fields.required("hidden_size")
    quantization = fields.mapping(fields.top("quantization_config"), of="quantization_config")
    architectures = fields.top("architectures")
    layers = list(_layers(fields))
    return Shape(
        model_type=model_type,
        architecture=str(architectures[0]) if isinstance(architectures, list) and architectures else None,
        family=_family(model_type, canvas_length),
        dtype=str(
            fields.top("dtype")
            or fields.top("torch_dtype")
            or fields.get("dtype")
            or fields.get("torch_dtype", "float32")
        ),
        quantization=str(quantization.get("quant_method", "unknown")) if quantization else None,
        layers=_merged(layers),
        kv_widths=tuple(layer.kv_heads * layer.head_dim for layer in layers),
        hidden_size=hidden_size,
        intermediate_size=_intermediate_size(fields, hidden_size),
        vocab_size=max(fields.required("vocab_size"), fields.integer("embedding_size") or 0),
        max_positions=fields.required("max_position_embeddings"),
        tied_embeddings=_tied(fields),
        shared_kv_projection=bool(fields.get("attention_k_eq_v", diffusion_gemma)),
        canvas_length=canvas_length,
        self_conditioning=diffusion_gemma,
        experts=_experts(fields),
        unknown_fields=fields.unknown(),
    )


def _family(model_type: str, canvas_length: int | None) -> Family:
    if canvas_length is not None:
        return Family.BLOCK_DIFFUSION
    return Family.MASKED_DIFFUSION if model_type.lower() in _MASKED_DIFFUSION else Family.AUTOREGRESSIVE


def _tied(fields: Fields) -> bool | None:
    for key in ("tie_word_embeddings", "weight_tying"):
        value = fields.top(key, fields.get(key))
        if value is not None:
            return bool(value)
    return None


def _intermediate_size(fields: Fields, hidden_size: int) -> int:
    size = fields.integer("intermediate_size") or hidden_size * (fields.integer("mlp_ratio") or 0)
    # A model of experts only has no dense part; its config.json may leave the width out.
    return size or fields.required("moe_intermediate_size")


def _experts(fields: Fields) -> Experts | None:
    total = fields.integer("num_experts")
    if not total:
        return None
    active = fields.required("active_experts")
    if active > total:
        raise InspectError(f"{fields.name}: {active} of {total} experts are to be active for each token")
    width = fields.integer("moe_intermediate_size") or fields.required("intermediate_size")
    return Experts(total=total, active=active, intermediate_size=width)


def _merged(layers: Iterable[LayerGroup]) -> tuple[LayerGroup, ...]:
    """Layers that are alike, whatever their order, as one group each."""
    counts: dict[LayerGroup, tuple[int, int]] = {}
    for layer in layers:
        alike = layer.model_copy(update={"kv_layers": 0})
        of_all, of_kv = counts.get(alike, (0, 0))
        counts[alike] = (of_all + 1, of_kv + layer.kv_layers)
    return tuple(
        alike.model_copy(update={"layers": of_all, "kv_layers": of_kv}) for alike, (of_all, of_kv) in counts.items()
    )


def _layers(fields: Fields) -> Iterator[LayerGroup]:
    """Each layer, as a group of one."""
    heads = fields.required("num_attention_heads")
    kinds = _layer_kinds(fields)
    kv_heads = 1 if fields.get("multi_query_attention") else fields.integer("num_key_value_heads") or heads
    text_type = str(fields.get("model_type"))
    head_dim = fields.integer("head_dim") or _HEAD_DIMS.get(text_type) or fields.required("hidden_size") // heads
    full_kv_heads, full_head_dim = kv_heads, head_dim
    if text_type in _WIDE_FULL_LAYERS:
        full_head_dim = fields.integer("global_head_dim") or 512
        if fields.get("attention_k_eq_v", text_type.startswith(_DIFFUSION_GEMMA)):
            full_kv_heads = fields.integer("num_global_key_value_heads") or kv_heads
    per_layer_config = fields.mapping(fields.get("per_layer_config"), of="per_layer_config")
    per_layer = {str(index): own for index, own in per_layer_config.items()}
    first_sharing = len(kinds) - (fields.integer("num_kv_shared_layers") or 0)
    for index, kind in enumerate(kinds):
        full = kind is LayerKind.FULL
        own = fields.mapping(per_layer.get(str(index)), of=f"per_layer_config of layer {index}")
        try:
            yield LayerGroup(
                kind=kind,
                layers=1,
                window=None if full else _window(fields),
                heads=own.get("num_attention_heads", heads),
                kv_heads=own.get("num_key_value_heads", full_kv_heads if full else kv_heads),
                head_dim=own.get("head_dim", full_head_dim if full else head_dim),
                kv_layers=int(index < first_sharing),
            )
        except ValidationError as error:
            fault = error.errors()[0]
            raise InspectError(
                f"{fields.name}: {fault['loc'][0]} of layer {index} is {fault['input']!r:.80}, not a whole number above 0"
            ) from error


def _layer_kinds(fields: Fields) -> list[LayerKind]:
    count = fields.required("num_hidden_layers")
    if count > _MOST_LAYERS:
        raise InspectError(f"{fields.name}: num_hidden_layers is {count}; models have at most {_MOST_LAYERS}")
    types = fields.get("layer_types")
    if types is not None and not isinstance(types, list):
        raise InspectError(f"{fields.name}: layer_types is {types!r:.80}, not a list")
    if types is not None:
        strange = sorted({str(kind) for kind in types} - set(_KINDS))
        if strange:
            raise InspectError(
                f"{fields.name}: layers of type {', '.join(strange)} are not known; full and sliding attention are"
            )
        if len(types) != count:
            raise InspectError(f"{fields.name}: layer_types lists {len(types)} layers, num_hidden_layers says {count}")
        return [_KINDS[kind] for kind in types]
    if not fields.integer("sliding_window") or fields.get("use_sliding_window") is False:
        return [LayerKind.FULL] * count
    pattern = fields.integer("sliding_window_pattern") or _PATTERNS.get(str(fields.get("model_type")))
    if pattern:
        return [LayerKind.SLIDING if (index + 1) % pattern else LayerKind.FULL for index in range(count)]
    # Qwen 2 slides in its upper layers only, and only when told so; counted as full, which is never too little.
    return [LayerKind.FULL if fields.get("use_sliding_window") else LayerKind.SLIDING] * count


def _window(fields: Fields) -> int:
    window = fields.required("sliding_window")
    # transformers halves the window of encoders that look both ways.
    return window // 2 + 1 if fields.get("use_bidirectional_attention") == "all" else window
