"""The child's side of `Pinned.ask`: a line of JSON in, a line of JSON out."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel


class Lines:
    """Keeps standard output for answers; what libraries print goes to standard error, which is the log."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(sys.stdout.fileno()), "w")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def send(self, content: dict[str, Any]) -> None:
        """Answer."""
        self._out.write(json.dumps(content) + "\n")
        self._out.flush()

    def received(self) -> Iterator[dict[str, Any]]:
        """Questions until the other side closes the pipe, as it does when it ends in whatever way."""
        for line in sys.stdin:
            yield json.loads(line)


def answer_lines(lines: Lines, handlers: Mapping[str, Callable[[Any], BaseModel]]) -> None:
    """Say ready, then work until the other side goes away. A question is `{"handler's name": its argument}`."""
    lines.send({"ready": True})
    for question in lines.received():
        ((name, argument),) = question.items()
        lines.send(handlers[name](argument).model_dump())
