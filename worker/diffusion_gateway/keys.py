"""API keys from a mounted Secret. Read again when the Secret changes; what cannot be read lets nobody in.

Only hashes are kept, and every request is compared with all of them: neither a process' memory nor its response times tell a key.
"""

import hashlib
import hmac
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import structlog

_CHECK_SECONDS = 1.0
_LONGEST_KEY = 512
_MOST_KEYS = 1000
_MOST_BYTES = 2**20  # what a Secret may hold
_log = structlog.get_logger()

_Signature = tuple[tuple[str, int, int, int], ...]


class KeysError(Exception):
    """The folder has no keys that can be used. Says which file, and what to do; never a key."""


@dataclass(frozen=True)
class KeySet:
    """SHA-256 of each key."""

    digests: tuple[bytes, ...]

    def has(self, key: str) -> bool:
        """Whether this is one of the keys. Takes as long for each key, right or wrong."""
        digest = hashlib.sha256(key.encode()).digest()
        found = False
        for known in self.digests:
            found |= hmac.compare_digest(digest, known)
        return found


def read_keys(folder: Path) -> KeySet:
    """Keys in the files of a folder, one a line. Raises `KeysError`."""
    digests: dict[bytes, None] = {}
    for path in _files(folder):
        for number, line in enumerate(_text(path).splitlines(), start=1):
            if key := line.strip():
                _check(key, where=f"line {number} of {path}")
                digests[hashlib.sha256(key.encode()).digest()] = None
    if not digests:
        raise KeysError(f"{folder} holds no API key: put one key on a line into any entry of the Secret mounted there.")
    if len(digests) > _MOST_KEYS:
        raise KeysError(f"{folder} holds {len(digests)} API keys; at most {_MOST_KEYS} are allowed.")
    return KeySet(tuple(digests))


def _files(folder: Path) -> Iterable[Path]:
    # Kubernetes keeps the data of a mounted Secret in a hidden folder and swaps the link `..data` to it.
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith(".") and path.is_file())
    except OSError as error:
        raise KeysError(f"cannot read API keys from {folder}: {error.strerror}; mount the Secret there.") from None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise KeysError(f"{path} is larger than {_MOST_BYTES} bytes; it must hold API keys only.")
        return data.decode()
    except OSError as error:
        raise KeysError(f"cannot read API keys from {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise KeysError(f"{path} is not UTF-8; it must hold one API key on a line.") from None


def _check(key: str, *, where: str) -> None:
    # Clients send it in a header, which has no room for anything else.
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise KeysError(f"{where} is no API key: use printable ASCII characters without spaces.")
    if len(key) > _LONGEST_KEY:
        raise KeysError(f"{where} has {len(key)} characters; an API key has at most {_LONGEST_KEY}.")


class Keys:
    """The keys in force. Looks for a change once a second at most, when it is asked."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Read the keys. Raises `KeysError`: a gateway that could let nobody in does not start."""
        self._folder = folder
        self._clock = clock
        self._signature = _signature(folder)
        self._keys: KeySet | None = read_keys(folder)
        self._checked_at = clock()

    def current(self) -> KeySet | None:
        """The keys. None: the Secret was changed into something that cannot be read."""
        now = self._clock()
        if now - self._checked_at >= _CHECK_SECONDS:
            self._checked_at = now
            signature = _signature(self._folder)
            if signature != self._signature:
                self._signature = signature
                self._read_again()
        return self._keys

    def _read_again(self) -> None:
        try:
            self._keys = read_keys(self._folder)
        except KeysError as error:
            # Keeping the old keys would keep a key alive that was just taken away.
            self._keys = None
            _log.error("nobody is let in: the API keys cannot be read", error=str(error))
        else:
            _log.info("API keys were read again", keys=len(self._keys.digests))


def _signature(folder: Path) -> _Signature:
    """Changes with the files. For a mounted Secret that is one `stat` of the link that Kubernetes swaps."""
    data = folder / "..data"
    try:
        if data.is_symlink():
            status = data.lstat()
            return ((str(data.readlink()), status.st_ino, status.st_mtime_ns, 0),)
        with os.scandir(folder) as entries:
            found = [(entry.name, entry.stat()) for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        return ((f"unreadable: {error.errno}", 0, 0, 0),)
    return tuple(sorted((name, status.st_ino, status.st_mtime_ns, status.st_size) for name, status in found))
