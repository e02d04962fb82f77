"""Headers of safetensors files: a little-endian u64 length, then as many bytes of JSON.

Format: https://github.com/huggingface/safetensors#format
"""

import json
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from diffusion_worker.inspect.errors import InspectError

LENGTH_BYTES = 8
_MOST_HEADER_BYTES = 100_000_000  # the limit of the safetensors library
_BITS = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0", "I8", "U8", "BOOL"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}


@dataclass(frozen=True)
class Tensor:
    """One tensor as a header describes it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    stored_bytes: int

    @property
    def elements(self) -> int:
        """Number of values; 1 for a scalar."""
        return prod(self.shape)


def read_header(path: Path, *, may_lack_data: bool = False) -> tuple[Tensor, ...]:
    """Tensors of a file. With `may_lack_data` it may end after its header: made for planning, before the download.

    Raises InspectError for a file that is cut short, or no safetensors file at all.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = header_length(file.read(LENGTH_BYTES), name=str(path))
            header = file.read(length)
    except OSError as error:
        raise InspectError(f"{path} cannot be read: {error.strerror}") from error
    if len(header) < length:
        raise cut_short(str(path), has=size, needs=LENGTH_BYTES + length)
    tensors = parse_header(header, name=str(path))
    needs = LENGTH_BYTES + length + sum(tensor.stored_bytes for tensor in tensors)
    if size < needs and not (may_lack_data and size == LENGTH_BYTES + length):
        raise cut_short(str(path), has=size, needs=needs)
    return tensors


def header_length(prefix: bytes, *, name: str) -> int:
    """Length of the header in bytes, from the first eight bytes of the file `name`."""
    if len(prefix) < LENGTH_BYTES:
        raise cut_short(name, has=len(prefix), needs=LENGTH_BYTES)
    (length,) = struct.unpack("<Q", prefix)
    if not 2 <= length <= _MOST_HEADER_BYTES:
        raise InspectError(
            f"{name} is not a safetensors file: its header would have {length:,} bytes; convert the weights"
        )
    return int(length)


def parse_header(header: bytes, *, name: str) -> tuple[Tensor, ...]:
    """Tensors that the JSON of a header lists."""
    try:
        entries = json.loads(header)
    except (ValueError, RecursionError) as error:  # the latter where brackets are nested too deep
        raise InspectError(f"{name} is not a safetensors file: its header is not JSON; download it again") from error
    if not isinstance(entries, dict):
        raise InspectError(f"{name} is not a safetensors file: its header is not a JSON object; download it again")
    return tuple(_tensor(key, value, name) for key, value in entries.items() if key != "__metadata__")


def cut_short(name: str, *, has: int, needs: int) -> InspectError:
    """The error for a file of which the end is missing."""
    return InspectError(f"{name} is cut short: it has {has:,} of {needs:,} bytes; download it again")


def _tensor(key: str, entry: Any, name: str) -> Tensor:
    try:
        dtype, shape = str(entry["dtype"]), tuple(int(size) for size in entry["shape"])
        begin, end = (int(offset) for offset in entry["data_offsets"])
        tensor = Tensor(name=key, dtype=dtype, shape=shape, stored_bytes=end - begin)
    except (TypeError, KeyError, ValueError, OverflowError) as error:
        raise InspectError(f"{name} has no dtype, shape and data_offsets for {key}; download it again") from error
    bits = _BITS.get(dtype)
    if min(shape, default=0) < 0 or (bits is not None and -(-tensor.elements * bits // 8) != tensor.stored_bytes):
        raise InspectError(
            f"{name} contradicts itself: {key} of shape {list(shape)} in {dtype} is not {tensor.stored_bytes:,} bytes; "
            "download it again"
        )
    return tensor
