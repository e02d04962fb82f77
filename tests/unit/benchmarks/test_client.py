"""The load client, against a server that plays a part of OpenAI's API."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from benchmarks.errors import BenchmarkError
from benchmarks.peers.client import Client
from benchmarks.peers.work import RealLoad, Request, SameWork

WORK = SameWork(prompts=("a", "b", "c"), tokens=7, concurrency=2)
LOAD = RealLoad(
    requests=(Request(at=0.0, content="first", max_tokens=5), Request(at=0.05, content="second", max_tokens=6))
)


class Server(ThreadingHTTPServer):
    """Answers with as many tokens as are asked for, unless told otherwise."""

    tokens: int | None = None
    status = 200
    chunks: list[dict[str, Any]] | None = None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The client goes away after an error."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.bodies: list[dict[str, Any]] = []

    @property
    def client(self) -> Client:
        return Client(url=f"http://127.0.0.1:{self.server_address[1]}/v1", model="m", extra={"ignore_eos": True})


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        usage = {"completion_tokens": self.server.tokens or body["max_tokens"]}
        self.send_response(self.server.status)
        self.end_headers()
        if not body.get("stream"):
            self.wfile.write(json.dumps({"usage": usage}).encode())
            return
        chunks = self.server.chunks or [
            {"choices": [{"delta": {"role": "assistant", "content": ""}, "finish_reason": None}]},
            {"choices": [{"delta": {"content": "Once"}, "finish_reason": None}]},
            {"choices": [{"delta": {}, "finish_reason": "stop"}]},
            {"choices": [], "usage": usage},
        ]
        for chunk in chunks:
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_every_prompt_is_sent_once_with_the_servers_extra_fields(server: Server) -> None:
    done = server.client.same_work(WORK)
    assert done.tokens == 3 * 7
    assert done.seconds > 0
    assert sorted(body["prompt"] for body in server.bodies) == ["a", "b", "c"]
    assert all(body["ignore_eos"] and body["temperature"] == 1.0 for body in server.bodies)


def test_other_work_than_was_asked_for_is_no_result(server: Server) -> None:
    server.tokens = 6
    with pytest.raises(BenchmarkError, match=r"asked for 7 tokens each, but answered with \[6\]"):
        server.client.same_work(WORK)


def test_an_error_is_reported_with_what_the_server_said(server: Server) -> None:
    server.status = 503
    with pytest.raises(BenchmarkError, match=r"answered 503: \{.usage"):
        server.client.same_work(WORK)


def test_answers_come_in_the_order_of_the_requests_and_have_their_times(server: Server) -> None:
    first, second = server.client.real_load(LOAD).answers
    assert (first.tokens, second.tokens) == (5, 6)
    assert 0 < first.first_block_seconds <= first.total_seconds
    assert [body["messages"][0]["content"] for body in server.bodies] == ["first", "second"]


def test_real_load_lets_answers_end_when_they_are_done(server: Server) -> None:
    server.client.real_load(LOAD)
    assert all("ignore_eos" not in body for body in server.bodies)


def test_the_token_that_ends_a_turn_is_counted_by_nobody(server: Server) -> None:
    counting = Client(url=server.client.url, model="m", counts_end=True)
    assert [answer.tokens for answer in counting.real_load(LOAD).answers] == [4, 5]


def test_an_answer_that_breaks_off_is_no_result(server: Server) -> None:
    server.chunks = [{"error": {"message": "the pod is gone"}}]
    with pytest.raises(BenchmarkError, match=r"broke off.*the pod is gone"):
        server.client.real_load(LOAD)


def test_an_answer_without_usage_is_no_result(server: Server) -> None:
    server.chunks = [{"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}]
    with pytest.raises(BenchmarkError, match="without usage"):
        server.client.real_load(LOAD)


def test_a_server_that_is_not_there_is_no_result() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with pytest.raises(BenchmarkError, match="no answer from"):
        Client(url=url, model="m").same_work(WORK)
