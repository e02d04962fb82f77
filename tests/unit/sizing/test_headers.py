"""Headers of safetensors files."""

import struct
from pathlib import Path

import pytest
from diffusion_worker.inspect.errors import InspectError
from diffusion_worker.inspect.headers import read_header

from tests.unit.sizing.shapes import a_tensor, header

TENSORS = [a_tensor("a", 2, 3), a_tensor("b", 4, dtype="F32"), a_tensor("scalar")]
DATA = bytes(12 + 16 + 2)


def a_file(folder: Path, content: bytes) -> Path:
    path = folder / "model.safetensors"
    path.write_bytes(content)
    return path


def raw(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def test_a_header_lists_the_tensors(tmp_path: Path) -> None:
    assert list(read_header(a_file(tmp_path, header(TENSORS) + DATA))) == TENSORS


def test_a_file_without_its_data_is_cut_short(tmp_path: Path) -> None:
    with pytest.raises(InspectError, match=r"is cut short: it has \d+ of \d+ bytes; download it again"):
        read_header(a_file(tmp_path, header(TENSORS)))


def test_for_planning_a_header_alone_is_enough(tmp_path: Path) -> None:
    assert list(read_header(a_file(tmp_path, header(TENSORS)), may_lack_data=True)) == TENSORS


@pytest.mark.parametrize("missing", [1, len(DATA) - 1])
def test_a_file_with_a_part_of_its_data_is_cut_short_even_for_planning(tmp_path: Path, missing: int) -> None:
    with pytest.raises(InspectError, match="is cut short"):
        read_header(a_file(tmp_path, (header(TENSORS) + DATA)[:-missing]), may_lack_data=True)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is cut short: it has 0 of 8 bytes"),
        (header(TENSORS)[:20], "is cut short: it has 20 of"),
        (b"PK\x03\x04 a zip file, as torch.save makes", "is not a safetensors file"),
        (raw("{not json"), "is not a safetensors file: its header is not JSON"),
        (raw("[1, 2]"), "not a JSON object"),
        (raw("[" * 100_000), "its header is not JSON"),
        (raw('{"a": {"dtype": "BF16", "shape": [Infinity], "data_offsets": [0, 2]}}'), "has no dtype, shape and"),
        (raw('{"a": {"dtype": "BF16"}}'), "has no dtype, shape and data_offsets for a"),
        (
            raw('{"a": {"dtype": "BF16", "shape": [3], "data_offsets": [0, 5]}}'),
            r"a of shape \[3\] in BF16 is not 5 bytes",
        ),
        (raw('{"a": {"dtype": "BF16", "shape": [-1, -1], "data_offsets": [0, 2]}}'), "contradicts itself"),
    ],
)
def test_what_is_no_safetensors_file_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(InspectError, match=words):
        read_header(a_file(tmp_path, content))


def test_a_format_that_is_newer_than_this_reader_is_taken_at_its_word(tmp_path: Path) -> None:
    (tensor,) = read_header(
        a_file(tmp_path, raw('{"a": {"dtype": "F3", "shape": [8], "data_offsets": [0, 3]}}') + b"abc")
    )
    assert (tensor.dtype, tensor.stored_bytes) == ("F3", 3)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InspectError, match=r"gone\.safetensors cannot be read"):
        read_header(tmp_path / "gone.safetensors")
