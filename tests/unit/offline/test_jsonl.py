"""Files of work and of results."""

import json
from pathlib import Path
from typing import Any

import pytest
from diffusion_worker.offline.errors import OfflineError
from diffusion_worker.offline.jsonl import Results, read_lines
from diffusion_worker.offline.run import is_final


def written(path: Path, *lines: str) -> Path:
    path.write_text("".join(lines))
    return path


def finished(path: Path, known: set[str]) -> set[str]:
    with Results(path, known=known, outcome="text", is_final=is_final) as results:
        return results.done


def test_a_line_is_called_by_its_id_or_its_number(tmp_path: Path) -> None:
    lines = read_lines(
        written(tmp_path / "in", '{"prompt": "a"}\n', "\n", '{"id": "x", "prompt": "b"}\n', '{"id": 7}\n')
    )
    assert [(line.id, line.fields) for line in lines] == [("1", {"prompt": "a"}), ("x", {"prompt": "b"}), ("7", {})]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"prompt": "a"}\n{"prompt"\n', "line 2: not a JSON object"),
        ("[1]\n", "line 1: not a JSON object"),
        ('{"id": "a"}\n{"id": "a"}\n', "line 2: the id 'a' is there twice"),
        ('{"id": "2"}\n{}\n', "line 2: the id '2' is there twice"),
        ('{"id": null}\n', "must be a string"),
        ('{"id": true}\n', "must be a string"),
        ("[" * 100_000 + "\n", "line 1: not a JSON object"),
        ("\n", "has no lines"),
    ],
)
def test_the_first_wrong_line_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(OfflineError, match=words.replace("'", ".")):
        read_lines(written(tmp_path / "in", text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OfflineError, match="cannot be read"):
        read_lines(tmp_path / "nothing")


@pytest.mark.parametrize("cut", [b'{"i', b'{"id": "b", "te', b'{"id": "b", "text": "\xc3'])
def test_a_line_cut_short_is_done_again(tmp_path: Path, cut: bytes) -> None:
    path = tmp_path / "out"
    path.write_bytes(b'{"id": "a", "text": "x"}\n' + cut)
    assert finished(path, {"a", "b"}) == {"a"}
    assert path.read_text() == '{"id": "a", "text": "x"}\n'


@pytest.mark.parametrize(
    ("code", "again"),
    [
        ("invalid_request", False),
        ("context_length_exceeded", False),
        ("engine_error", True),
        ("shutting_down", True),
        ("cancelled", True),
        ("overloaded", True),
    ],
)
def test_a_failure_is_tried_again_unless_the_line_is_at_fault(tmp_path: Path, code: str, again: bool) -> None:
    path = written(tmp_path / "out", json.dumps({"id": "a", "error": {"code": code}}) + "\n")
    assert finished(path, {"a"}) == (set() if again else {"a"})


def test_results_of_other_work_are_not_mixed_with_these(tmp_path: Path) -> None:
    path = written(tmp_path / "out", '{"id": "stranger", "text": "x"}\n')
    with pytest.raises(OfflineError, match="another --output"):
        finished(path, {"a"})
    assert "stranger" in path.read_text()


def test_results_are_in_the_file_as_soon_as_they_are_written(tmp_path: Path) -> None:
    record: dict[str, Any] = {"id": "a", "text": "ü\n"}
    with Results(tmp_path / "out", known={"a"}, outcome="text", is_final=is_final) as results:
        results.write(record)
        assert json.loads((tmp_path / "out").read_text()) == record


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OfflineError, match="cannot be written"):
        finished(tmp_path / "no" / "out", {"a"})


@pytest.mark.parametrize(
    "text",
    [
        '{"prompt": "an input without ids"}\n',
        '{"id": "a", "prompt": "an input with ids"}\n',
        '{"id": ["a"], "text": "x"}\n',
        '{"id": "a", "nll": 1.5}\n',
        "dear diary\n",
        '{"id": "a", "te\n{"id": "b", "text": "x"}\n',
        '{"prompt": "cut sho',
    ],
)
def test_a_file_that_is_not_all_results_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    path = written(tmp_path / "out", text)
    with pytest.raises(OfflineError, match="line 1: not a result of this command"):
        finished(path, {"a", "b", "1"})
    assert path.read_text() == text


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b'\xef\xbb\xbf{"prompt": "a"}\n')
    assert [line.fields for line in read_lines(tmp_path / "in")] == [{"prompt": "a"}]
