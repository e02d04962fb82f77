"""Result files."""

from pathlib import Path

import pytest

from benchmarks import results
from benchmarks.measure import Tally


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "x.json"
    results.write(file, {"name": "größer", "tally": Tally.of([1.0, 2.0])})
    assert results.read(file) == {"name": "größer", "tally": {"median": 1.5, "min": 1.0, "max": 2.0, "runs": 2}}


def test_nothing_is_left_beside_the_file(tmp_path: Path) -> None:
    results.write(tmp_path / "x.json", {})
    assert [file.name for file in tmp_path.iterdir()] == ["x.json"]


def test_no_file_is_no_result(tmp_path: Path) -> None:
    assert results.read(tmp_path / "x.json") is None


def test_what_has_no_form_in_json_is_refused_and_the_old_file_stays(tmp_path: Path) -> None:
    results.write(tmp_path / "x.json", {"a": 1})
    with pytest.raises(TypeError, match="object has no place"):
        results.write(tmp_path / "x.json", {"a": object()})
    assert results.read(tmp_path / "x.json") == {"a": 1}
