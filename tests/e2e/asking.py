"""Requests as a client makes them, and how each of them ended."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import httpx2

LONGEST_SECONDS = 150.0
"""For a client that waits longer than any deadline in these tests: who gets here hangs."""


@dataclass
class Ending:
    """How one request ended."""

    status: int = 0
    """0: no HTTP answer."""
    headers: dict[str, str] = field(default_factory=dict)
    text: str = ""
    finish_reason: str | None = None
    error: dict[str, Any] | None = None
    voices: set[str] = field(default_factory=set)
    """Id and fingerprint of the chunks: one answer has one."""
    is_done: bool = False
    """[DONE] came."""
    after_error: int = 0
    """Events behind the one that said that the answer broke off."""
    cut: str | None = None
    """The connection broke."""
    hung: bool = False
    seconds: float = 0.0

    @property
    def arm(self) -> str | None:
        return self.headers.get("x-diffusion-arm")

    @property
    def is_complete(self) -> bool:
        """A whole answer of one voice."""
        return (
            self.status == 200
            and self.finish_reason is not None
            and self.error is None
            and self.is_done
            and len(self.voices) == 1
        )

    @property
    def is_refused(self) -> bool:
        """An error in OpenAI's form instead of an answer."""
        return self.status >= 400 and bool(self.error and self.error["code"] and self.error["message"])

    @property
    def is_broken_off(self) -> bool:
        """A stream that ended with one error event and nothing behind it."""
        return (
            self.status == 200
            and self.error is not None
            and self.error["code"] == "answer_broken_off"
            and not self.is_done
            and self.after_error == 0
            and len(self.voices) <= 1
        )


class Stream:
    """A streamed answer that is read event by event."""

    def __init__(self, lines: Iterator[str], ending: Ending) -> None:
        self._lines = lines
        self.ending = ending

    def read_text(self) -> str:
        """Wait for the next piece of text; empty at the end."""
        for line in self._lines:
            if line.startswith("data: ") and (text := take(line.removeprefix("data: "), self.ending)):
                return text
        return ""

    def read_rest(self) -> Ending:
        while self.read_text():
            pass
        return self.ending


@contextmanager
def streaming(url: str, *, headers: dict[str, str] | None = None, **body: Any) -> Iterator[Stream]:
    """A streamed completion. A connection that breaks, or that is refused, is told in its ending."""
    ending, began, is_open = Ending(), time.monotonic(), False
    try:
        with (
            httpx2.Client(base_url=url, timeout=LONGEST_SECONDS, trust_env=False) as client,
            client.stream("POST", "/v1/completions", json=_body(body, stream=True), headers=headers) as response,
        ):
            ending.status, ending.headers = response.status_code, dict(response.headers)
            if response.status_code != 200:
                response.read()
                ending.error = response.json()["error"]
            is_open = True
            yield Stream(response.iter_lines(), ending)
    except httpx2.TimeoutException:
        ending.hung = True
    except httpx2.TransportError as error:
        ending.cut = repr(error)
    finally:
        ending.seconds = time.monotonic() - began
    if not is_open:
        yield Stream(iter(()), ending)


def ask(url: str, *, stream: bool = True, headers: dict[str, str] | None = None, **body: Any) -> Ending:
    """One completion, read to its end."""
    if stream:
        ending = Ending()
        with streaming(url, headers=headers, **body) as answer:
            ending = answer.ending
            if ending.status == 200:
                answer.read_rest()
        return ending
    ending, began = Ending(), time.monotonic()
    try:
        with httpx2.Client(base_url=url, timeout=LONGEST_SECONDS, trust_env=False) as client:
            response = client.post("/v1/completions", json=_body(body, stream=False), headers=headers)
    except httpx2.TimeoutException:
        ending.hung = True
    except httpx2.TransportError as error:
        ending.cut = repr(error)
    else:
        ending.status, ending.headers = response.status_code, dict(response.headers)
        take(response.text, ending)
        ending.is_done = response.status_code == 200
    ending.seconds = time.monotonic() - began
    return ending


def take(data: str, ending: Ending) -> str:
    """Note what an event says, and return its text."""
    if data == "[DONE]":
        ending.is_done = True
        return ""
    ending.after_error += ending.error is not None
    event = json.loads(data)
    if "error" in event:
        ending.error = event["error"]
        return ""
    ending.voices.add(f"{event['id']} {event['system_fingerprint']}")
    text = ""
    for choice in event["choices"]:
        text += choice["text"]
        ending.finish_reason = choice["finish_reason"] or ending.finish_reason
    ending.text += text
    return text


def _body(body: dict[str, Any], *, stream: bool) -> dict[str, Any]:
    return {"prompt": "Once upon a time", "max_tokens": 64, **body, "stream": stream}


class Load:
    """Clients that ask again and again, streams and whole answers in turn, bounded in count."""

    def __init__(self, url: str, *, model: str, clients: int = 3, requests: int = 400) -> None:
        self.endings: list[Ending] = []
        self._url, self._model, self._requests = url, model, requests
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(clients)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(LONGEST_SECONDS + 30)
        assert not any(thread.is_alive() for thread in self._threads), "a request hangs"

    @property
    def incomplete(self) -> list[Ending]:
        """Requests that got no whole answer."""
        with self._lock:
            return [ending for ending in self.endings if not ending.is_complete]

    @property
    def unclear(self) -> list[Ending]:
        """Requests whose client cannot tell what became of them."""
        return [
            ending
            for ending in self.incomplete
            if ending.hung or not (ending.is_refused or ending.is_broken_off or ending.cut)
        ]

    @property
    def complete(self) -> int:
        """How many whole answers there are so far."""
        with self._lock:
            return sum(ending.is_complete for ending in self.endings)

    def wait_for_answers(self, count: int, *, within: float = 120) -> None:
        """Wait for so many more whole answers."""
        deadline, goal = time.monotonic() + within, self.complete + count
        while self.complete < goal:
            assert time.monotonic() < deadline, f"no {count} answers within {within} s: {self.incomplete}"
            time.sleep(0.2)

    def _run(self) -> None:
        for number in range(self._requests):
            if self._stop.is_set():
                return
            ending = ask(self._url, model=self._model, max_tokens=128, stream=number % 3 > 0)
            with self._lock:
                self.endings.append(ending)
            if not ending.is_complete:
                time.sleep(0.2)  # a client that is refused does not ask again at once
