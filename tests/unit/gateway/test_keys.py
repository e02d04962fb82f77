"""API keys in a mounted Secret."""

from pathlib import Path

import pytest
import structlog
from diffusion_gateway.keys import Keys, KeysError, read_keys


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def secret(folder: Path, version: str, **entries: str) -> None:
    """As the kubelet writes it: data in a hidden folder, one link that is swapped, and a link per entry."""
    data = folder / version
    data.mkdir()
    for name, text in entries.items():
        (data / name).write_text(text)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(Path("..data") / name)
    new = folder / "..data_tmp"
    new.symlink_to(version)
    new.rename(folder / "..data")


def test_keys_are_the_lines_of_all_entries(tmp_path: Path) -> None:
    secret(tmp_path, "..1", team="sk-a\n\nsk-b\r\n", robot="sk-c")
    keys = read_keys(tmp_path)
    assert [keys.has(key) for key in ("sk-a", "sk-b", "sk-c")] == [True] * 3
    assert not any(keys.has(key) for key in ("", "sk-", "sk-a ", "SK-A", "sk-é", "team"))


def test_only_hashes_are_kept(tmp_path: Path) -> None:
    secret(tmp_path, "..1", team="sk-a")
    assert "sk-a" not in repr(read_keys(tmp_path))


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({}, "holds no API key"),
        ({"empty": "\n \n"}, "holds no API key"),
        ({"spaced": "ok\nnot a key"}, r"line 2 of .*spaced is no API key"),
        ({"umlaut": "schlüssel"}, r"line 1 of .*umlaut is no API key"),
        ({"long": "x" * 513}, r"line 1 of .*long has 513 characters"),
        ({"many": "\n".join(f"sk-{number}" for number in range(1001))}, "1001 API keys; at most 1000"),
        ({"large": "x" * (2**20 + 1)}, "large is larger than"),
    ],
)
def test_what_holds_no_keys_is_refused_with_what_is_wrong(tmp_path: Path, entries: dict[str, str], said: str) -> None:
    secret(tmp_path, "..1", **entries)
    with pytest.raises(KeysError, match=said) as refused:
        read_keys(tmp_path)
    assert "not a key" not in str(refused.value)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeysError, match=r"cannot read API keys from .*No such file.*mount the Secret"):
        Keys(tmp_path / "nothing")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"\xff\xfe")
    with pytest.raises(KeysError, match="not UTF-8"):
        read_keys(tmp_path)


def test_a_changed_secret_is_noticed_within_a_second(tmp_path: Path) -> None:
    clock = Clock()
    secret(tmp_path, "..1", team="sk-old")
    keys = Keys(tmp_path, clock=clock)
    secret(tmp_path, "..2", team="sk-new")
    clock.now = 0.9
    assert keys.current().has("sk-old")
    clock.now = 1.0
    assert keys.current().has("sk-new")
    assert not keys.current().has("sk-old")


def test_plain_files_are_noticed_too(tmp_path: Path) -> None:
    clock = Clock()
    (tmp_path / "key").write_text("sk-old")
    keys = Keys(tmp_path, clock=clock)
    (tmp_path / "key").write_text("sk-newer")
    clock.now = 1.0
    assert keys.current().has("sk-newer")


def test_an_unchanged_secret_is_not_read_again(tmp_path: Path) -> None:
    clock = Clock()
    secret(tmp_path, "..1", team="sk-a")
    keys = Keys(tmp_path, clock=clock)
    first = keys.current()
    clock.now = 100.0
    assert keys.current() is first


def test_a_secret_that_breaks_lets_nobody_in_and_says_so_once_until_it_is_whole_again(tmp_path: Path) -> None:
    clock = Clock()
    secret(tmp_path, "..1", team="sk-a")
    keys = Keys(tmp_path, clock=clock)
    secret(tmp_path, "..2", team="")
    with structlog.testing.capture_logs() as logs:
        for clock.now in (1.0, 2.0, 3.0):
            assert keys.current() is None
    assert [line["log_level"] for line in logs] == ["error"]
    assert "holds no API key" in logs[0]["error"]
    secret(tmp_path, "..3", team="sk-a")
    clock.now = 4.0
    assert keys.current().has("sk-a")


def test_a_secret_that_vanishes_lets_nobody_in(tmp_path: Path) -> None:
    clock = Clock()
    folder = tmp_path / "keys"
    folder.mkdir()
    (folder / "key").write_text("sk-a")
    keys = Keys(folder, clock=clock)
    (folder / "key").unlink()
    folder.rmdir()
    clock.now = 1.0
    assert keys.current() is None
