"""What the tensors of a checkpoint are for, and how many bytes each part takes. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from diffusion_worker.inspect.config import Shape
from diffusion_worker.inspect.errors import InspectError
from diffusion_worker.inspect.facts import ModelFacts, Source, WeightGroup, WeightPart
from diffusion_worker.inspect.headers import Tensor

_VISION = re.compile(r"vision|visual|audio|multi_modal")
_LAYER = re.compile(r"(?:layers|blocks|h)\.(\d+)\.")
_KEY_PROJECTION = re.compile(r"(?:layers|blocks)\.(\d+)\.(?:self_attn\.)?k_proj\.weight$")
_ROUTER = re.compile(r"router|gate\.weight$")
# The output head: `lm_head` of transformers' models, `ff_out` beside the blocks of LLaDA's.
_HEAD = re.compile(r"(?:^|\.)lm_head\.weight$|^(?:model\.)?transformer\.ff_out\.weight$")
_UNPACKED = {
    "F64",
    "F32",
    "F16",
    "BF16",
    "F8_E4M3",
    "F8_E5M2",
}  # one value in each element, so that shapes can be checked
_DTYPE_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
_SAFETENSORS_NAME = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}


def facts_from_tensors(shape: Shape, tensors: Iterable[Tensor], *, revision: str | None = None) -> ModelFacts:
    """Facts of a model whose headers are known. Raises InspectError when they contradict its config.json."""
    tensors = list(tensors)
    _check_key_projections(shape, tensors)
    elements: Counter[tuple[WeightPart, str]] = Counter()
    stored: Counter[tuple[WeightPart, str]] = Counter()
    for tensor in tensors:
        key = (_part(tensor, shape), tensor.dtype)
        elements[key] += tensor.elements
        stored[key] += tensor.stored_bytes
    groups = tuple(
        WeightGroup(part=part, dtype=dtype, parameters=elements[part, dtype], stored_bytes=stored[part, dtype])
        for part, dtype in sorted(elements)
    )
    return _facts(
        shape, groups, Source.HEADERS, tied=_tied(shape, [tensor.name for tensor in tensors]), revision=revision
    )


def facts_from_index(shape: Shape, index: Mapping[str, Any], *, name: str, revision: str | None = None) -> ModelFacts:
    """Facts from a `model.safetensors.index.json` alone: its total, shared out as config.json's shapes imply."""
    metadata, names = index.get("metadata"), index.get("weight_map")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    # Some indices have the total as a float; infinity is none.
    if not isinstance(total, int | float) or not 0 < total < 2**63 or not isinstance(names, dict) or not names:
        raise InspectError(f"{name} has no metadata.total_size and weight_map: it is not the index of a checkpoint")
    if shape.quantization or shape.dtype not in _DTYPE_BYTES:
        raise InspectError(
            f"{name} says too little of a checkpoint in {shape.quantization or shape.dtype}: add its *.safetensors, "
            "of which the headers are enough"
        )
    size = _DTYPE_BYTES[shape.dtype]
    tied = _tied(shape, names)
    left = int(total) // size
    groups = []
    for part, wanted in (
        (WeightPart.EMBEDDING, shape.vocab_size * shape.hidden_size * (1 if tied else 2)),
        (WeightPart.EXPERTS, _expert_parameters(shape)),
        (WeightPart.MATRICES, _matrix_parameters(shape)),
        (WeightPart.OTHER, left),
    ):
        parameters = min(wanted, left)
        left -= parameters
        if parameters:
            groups.append(
                WeightGroup(
                    part=part,
                    dtype=_SAFETENSORS_NAME[shape.dtype],
                    parameters=parameters,
                    stored_bytes=parameters * size,
                )
            )
    return _facts(shape, tuple(groups), Source.INDEX, tied=tied, revision=revision)


def _facts(
    shape: Shape, weights: tuple[WeightGroup, ...], source: Source, *, tied: bool, revision: str | None
) -> ModelFacts:
    return ModelFacts(
        model_type=shape.model_type,
        architecture=shape.architecture,
        family=shape.family,
        revision=revision,
        dtype=shape.dtype,
        quantization=shape.quantization,
        weights=weights,
        weights_from=source,
        layers=shape.layers,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        vocab_size=shape.vocab_size,
        max_positions=shape.max_positions,
        tied_embeddings=tied,
        shared_kv_projection=shape.shared_kv_projection,
        canvas_length=shape.canvas_length,
        self_conditioning=shape.self_conditioning,
        experts=shape.experts,
        unknown_fields=shape.unknown_fields,
    )


def _part(tensor: Tensor, shape: Shape) -> WeightPart:
    if _VISION.search(tensor.name):
        return WeightPart.VISION
    if len(tensor.shape) == 2 and tensor.shape[0] == shape.vocab_size:
        return WeightPart.EMBEDDING
    if not _LAYER.search(tensor.name):
        return WeightPart.OTHER
    if ".experts." in tensor.name:
        return WeightPart.EXPERTS
    is_matrix = len(tensor.shape) >= 2 and not _ROUTER.search(tensor.name)
    return WeightPart.MATRICES if is_matrix else WeightPart.OTHER


def _tied(shape: Shape, names: Iterable[str]) -> bool:
    """Without a tensor for it, the output head is the embedding, whatever config.json says or leaves out."""
    return not any(_HEAD.search(name) for name in names) or bool(shape.tied_embeddings)


def _check_key_projections(shape: Shape, tensors: Iterable[Tensor]) -> None:
    """config.json's heads against the weights: a wrong default here would plan a cache of the wrong size."""
    for tensor in tensors:
        found = _KEY_PROJECTION.search(tensor.name)
        if found is None or _VISION.search(tensor.name) or tensor.dtype not in _UNPACKED:
            continue
        layer, width = int(found[1]), tensor.shape[0]
        if layer >= len(shape.kv_widths):
            raise InspectError(
                f"{tensor.name} is of layer {layer}, but config.json says that there are {len(shape.kv_widths)} layers"
            )
        if width != shape.kv_widths[layer]:
            raise InspectError(
                f"{tensor.name} has {width} rows, but config.json implies kv heads × head_dim = {shape.kv_widths[layer]}; "
                "one of the two belongs to another model"
            )


def _expert_parameters(shape: Shape) -> int:
    if shape.experts is None:
        return 0
    return len(shape.kv_widths) * shape.experts.total * 3 * shape.hidden_size * shape.experts.intermediate_size


def _matrix_parameters(shape: Shape) -> int:
    """Projections of attention, and a gated feed-forward part, as all models here have them."""
    attention = 0
    for group in shape.layers:
        shares_projection = shape.shared_kv_projection and group.window is None
        kv = group.kv_heads * (1 if shares_projection else 2)
        attention += group.layers * (2 * group.heads + kv) * group.head_dim * shape.hidden_size
    return attention + len(shape.kv_widths) * 3 * shape.hidden_size * shape.intermediate_size
