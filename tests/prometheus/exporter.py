"""Stands for gateway pods: counters on a page that a real Prometheus scrapes."""

import threading
from collections import defaultdict
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWER_LENGTHS = ("1-32", "33-64", "65-128", "129-256", "257-512", "513-1024", "1025+")
BOUNDS = ("0.25", "0.5", "1.0", "+Inf")
GATEWAY = "diffusion_gateway_"


class Exporter:
    """One pod. Counters are there with 0 before anything happens, as a gateway's are."""

    def __init__(self) -> None:
        self.counters: dict[tuple[str, tuple[tuple[str, str], ...]], float] = defaultdict(float)
        self.fails = False
        self.also: Callable[[], str] = str
        """More of the page."""
        self.refused = 0
        self._ticks = 0
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                exporter.refused += exporter.fails
                body = exporter.page().encode()
                self.send_response(503 if exporter.fails else 200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def page(self) -> str:
        lines = [f"scrape_tick {self._ticks}"]
        for (name, labels), number in sorted(self.counters.items()):
            shown = ",".join(f'{key}="{value}"' for key, value in labels)
            lines.append(f"{name}{{{shown}}} {number}")
        return "\n".join([*lines, self.also()])

    def tick(self) -> int:
        """Marks what is on the page now: whoever has stored this number has stored all that came before."""
        self._ticks += 1
        return self._ticks

    def restart(self) -> None:
        """The container ended and came back: all counters are 0."""
        for key in self.counters:
            self.counters[key] = 0.0

    def add(self, name: str, amount: float, **labels: str) -> None:
        self.counters[GATEWAY + name, tuple(sorted(labels.items()))] += amount


class Arm:
    """One arm of one model on a pod, by what a gateway counts of it."""

    def __init__(self, exporter: Exporter, *, model: str, revision: str, arm: str = "canary", kind: str = "diffusion"):
        self._exporter = exporter
        self._model = {"model_namespace": "stories", "model": model}
        self._labels = {**self._model, "arm": arm, "revision": revision, "kind": kind}
        self._revision = revision
        for name in ("arm_requests", "arm_failed_requests", "checked_answers", "repeating_answers"):
            self._add(f"{name}_total", 0)
        for length in ANSWER_LENGTHS:
            self._answers(length, 0, 0.0)
        self.first_tokens(*(0 for _ in BOUNDS))

    def know_pairs(self, ar: str) -> None:
        self.pairs(ar)

    def requests(self, count: int, failed: int = 0) -> None:
        self._add("arm_requests_total", count)
        self._add("arm_failed_requests_total", failed)

    def first_tokens(self, *counts: int) -> None:
        """How many within each bound, cumulative."""
        for bound, count in zip(BOUNDS, counts, strict=True):
            self._add("time_to_first_token_seconds_bucket", count, le=bound)

    def answers(self, length: str, *seconds: float) -> None:
        for one in seconds:
            self._answers(length, 1, one)

    def checked(self, count: int, repeating: int = 0) -> None:
        self._add("checked_answers_total", count)
        self._add("repeating_answers_total", repeating)

    def pairs(self, ar: str, *differences: float) -> None:
        labels = {**self._model, "revision": self._revision, "ar_revision": ar}
        add = self._exporter.add
        add("pairs_total", len(differences), **labels)
        add("pair_nll_above_total", sum(max(d, 0.0) for d in differences), **labels)
        add("pair_nll_below_total", sum(max(-d, 0.0) for d in differences), **labels)
        add("pair_nll_squared_total", sum(d * d for d in differences), **labels)

    def _answers(self, length: str, count: int, seconds: float) -> None:
        self._add("answers_total", count, length=length)
        self._add("answer_seconds_total", seconds, length=length)
        self._add("answer_seconds_squared_total", seconds * seconds, length=length)

    def _add(self, name: str, amount: float, **more: str) -> None:
        self._exporter.add(name, amount, **self._labels, **more)
