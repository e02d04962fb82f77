"""Number formats of weights, and what a model's weights take in each."""

from enum import StrEnum
from fractions import Fraction

from diffusion_worker.inspect.facts import ModelFacts, WeightGroup, WeightPart

from .errors import SizingError


class Dtype(StrEnum):
    """Formats that can be planned, widest first. The engine of this release loads float32, bfloat16 and float16."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FP8 = "fp8"
    NVFP4 = "nvfp4"
    INT4 = "int4"

    @property
    def element_bytes(self) -> int:
        """Bytes of one number in activations, keys and values: quantised weights are computed with in 16 bits."""
        return 4 if self is Dtype.FLOAT32 else 2

    @property
    def matrix_bytes(self) -> Fraction:
        """Bytes of one parameter of a matrix that may be quantised, scales included."""
        return _MATRIX_BYTES[self]


_MATRIX_BYTES = {
    Dtype.FLOAT32: Fraction(4),
    Dtype.BFLOAT16: Fraction(2),
    Dtype.FLOAT16: Fraction(2),
    Dtype.FP8: 1 + Fraction(4, 128 * 128),  # a float32 scale for each block of 128 × 128, as DeepSeek's and vLLM's
    Dtype.NVFP4: Fraction(1, 2) + Fraction(1, 16),  # an fp8 scale for each 16 values
    Dtype.INT4: Fraction(1, 2)
    + Fraction(2, 128)
    + Fraction(1, 256),  # scale of 16 and zero point of 4 bits for each 128
}
# Embeddings, norms, routers and vision stay in 16 bits: as published quantised checkpoints have them.
_QUANTISED = frozenset({WeightPart.MATRICES, WeightPart.EXPERTS})
# Tensor parallelism splits these over the GPUs; each GPU holds all of the others.
_SPLIT = frozenset({WeightPart.EMBEDDING, WeightPart.MATRICES, WeightPart.EXPERTS})
_STORED_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})


def dtype_of(facts: ModelFacts, wanted: str) -> Dtype:
    """The format that `wanted` means for this model; `auto` is what its config.json says.

    Raises:
        SizingError: it is not a format, or the checkpoint is quantised and cannot be held in another one.
    """
    if facts.quantization is not None and wanted != "auto":
        raise SizingError(
            f"the checkpoint is quantised already ({facts.quantization}): plan it with dtype auto, not {wanted}"
        )
    name = facts.dtype if wanted == "auto" else wanted
    if name not in set(Dtype):
        raise SizingError(f"dtype is {name}: write auto or one of {', '.join(Dtype)}")
    return Dtype(name)


def weight_bytes(facts: ModelFacts, dtype: Dtype, *, gpus: int, keeps_vision: bool) -> int:
    """Bytes of the weights on each of `gpus` GPUs."""
    return sum(
        _group_bytes(group, facts, dtype, gpus)
        for group in facts.weights
        if keeps_vision or group.part is not WeightPart.VISION
    )


def _group_bytes(group: WeightGroup, facts: ModelFacts, dtype: Dtype, gpus: int) -> int:
    if facts.quantization is not None or group.dtype not in _STORED_FLOATS:
        size = group.stored_bytes
    elif group.part in _QUANTISED:
        size = -(-group.parameters * dtype.matrix_bytes // 1)
    else:
        size = group.parameters * dtype.element_bytes
    return -(-size // gpus) if group.part in _SPLIT else size
