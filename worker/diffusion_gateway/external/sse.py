"""Server-sent events out of a stream of bytes: pure."""

MAX_EVENT_BYTES = 4 * 2**20
"""One with log-probabilities of a hundred tokens has some 100 KB."""


class TooLongError(ValueError):
    """An event that does not end."""


class ServerSentEvents:
    """Takes bytes as they come, gives the data of each event that is complete."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of the events that end in `piece`. Raises `TooLongError`."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) + sum(map(len, self._data)) > MAX_EVENT_BYTES:
            raise TooLongError(f"an event of more than {MAX_EVENT_BYTES} bytes")
        return [data for line in lines if (data := self._line(line.removesuffix(b"\r"))) is not None]

    def close(self) -> bytes | None:
        """The data of an event that nothing ends any more, at the end of the stream: some servers forget the last empty line."""
        if self._rest:
            self._line(self._rest)
            self._rest = b""
        return self._line(b"")

    def _line(self, line: bytes) -> bytes | None:
        if not line:
            data, self._data = self._data, []
            return b"\n".join(data) if data else None
        # Comments keep a connection alive; `event`, `id` and `retry` say nothing in this API.
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
        return None
