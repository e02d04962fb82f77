"""Stop strings, wherever the text was cut into pieces."""

from collections.abc import Sequence


class StopMatcher:
    """Lets text through until a stop string appears in it, and holds back what may be the beginning of one."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [stop for stop in stops if stop]
        self._held = ""

    def push(self, text: str) -> tuple[str, bool]:
        """Text that may go out, and whether a stop string was completed. The stop string itself never goes out."""
        text = self._held + text
        start = self._start_of_stop(text)
        if start is not None:
            self._held = ""
            return text[:start], True
        held = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held], False

    def preview(self, text: str) -> str:
        """What is held and `text`, up to a stop string. Nothing is taken in, and nothing held back."""
        text = self._held + text
        return text[: self._start_of_stop(text)]

    def flush(self) -> str:
        """What was held back; at the end it is ordinary text."""
        held, self._held = self._held, ""
        return held

    def _start_of_stop(self, text: str) -> int | None:
        """Where the stop string begins that is completed first, as if the text had come letter by letter."""
        found = [(at + len(stop), at) for stop in self._stops if (at := text.find(stop)) >= 0]
        return min(found)[1] if found else None


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` with which `stop` begins."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
