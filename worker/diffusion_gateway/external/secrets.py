"""Keys of AR servers, from Secrets. Never logged, never in a message."""

import asyncio
import base64
import binascii
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from diffusion_operator.api.models import SecretKeyRef

from ..reasons import Reason, WorkerError

# A key that a server refuses is read again before the next request, but no more often than this.
_AT_MOST_EVERY_SECONDS = 1.0

ReadSecret = Callable[[str, str], Awaitable[Mapping[str, str]]]
"""`data` of a Secret, base64 by entry, from namespace and name. Raises `SecretError`."""


class SecretError(Exception):
    """A Secret cannot be read; the message says why and what to do."""

    def __init__(self, message: str, *, is_certain: bool = True) -> None:
        """`is_certain`: false when the API server could not be asked, so that what was read before may still be right."""
        super().__init__(message)
        self.is_certain = is_certain


@dataclass
class _Entry:
    key: str | None = None
    why_not: str = ""
    read_at: float = float("-inf")
    is_doubted: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Secrets:
    """Keys are kept while they work: requests do not wait for the API server, `refresh` follows a rotation."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: dict[tuple[str, str, str], _Entry] = {}
        self.read: ReadSecret = _nobody_reads

    async def key(self, namespace: str, ref: SecretKeyRef) -> str:
        """The key. Raises `WorkerError` (unauthorized) when there is none."""
        entry = self._entry(namespace, ref)
        is_old = self._clock() - entry.read_at > _AT_MOST_EVERY_SECONDS
        if is_old and (entry.key is None or entry.is_doubted):
            await self.refresh(namespace, ref)
        if entry.key is None:
            raise WorkerError(Reason.UNAUTHORIZED, entry.why_not)
        return entry.key

    async def refresh(self, namespace: str, ref: SecretKeyRef) -> str | None:
        """Read it again. Returns why there is no key, None when there is one."""
        entry = self._entry(namespace, ref)
        async with entry.lock:
            try:
                entry.key, entry.why_not = _value(await self.read(namespace, ref.name), ref), ""
            except SecretError as error:
                entry.why_not = str(error)
                if error.is_certain:
                    entry.key = None
            entry.read_at, entry.is_doubted = self._clock(), False
        return entry.why_not if entry.key is None else None

    def doubt(self, namespace: str, ref: SecretKeyRef) -> None:
        """A server refuses the key: the next request has it read again."""
        self._entry(namespace, ref).is_doubted = True

    def keep_only(self, used: set[tuple[str, str, str]]) -> None:
        """Forget keys that nobody uses any more: (namespace, name, key)."""
        self._entries = {each: entry for each, entry in self._entries.items() if each in used}

    def _entry(self, namespace: str, ref: SecretKeyRef) -> _Entry:
        return self._entries.setdefault((namespace, ref.name, ref.key), _Entry())


def _value(data: Mapping[str, str], ref: SecretKeyRef) -> str:
    if ref.key not in data:
        raise SecretError(f"Secret {ref.name} has no entry {ref.key}: add it, or correct secretRef.key")
    try:
        key = base64.b64decode(data[ref.key], validate=True).decode().strip()
    except (binascii.Error, UnicodeDecodeError):
        raise SecretError(f"entry {ref.key} of Secret {ref.name} is no text") from None
    if not key or not key.isascii() or not key.isprintable():
        raise SecretError(f"entry {ref.key} of Secret {ref.name} is no bearer token: one line of printable ASCII")
    return key


async def _nobody_reads(namespace: str, name: str) -> Mapping[str, str]:
    raise SecretError(f"Secret {namespace}/{name} cannot be read before the gateway runs", is_certain=False)
