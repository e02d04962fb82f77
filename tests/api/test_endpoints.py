"""`fallback.endpoint`: the operator reads from a gateway what became of it. The test plays the gateway."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from diffusion_operator.api.models import FallbackEndpoint, endpoint_hash

from tests.api.operator_process import OperatorProcess
from tests.api.seen import Seen
from tests.api.server import Server, until

REPOSITORY = Path(__file__).parents[2]
ENDPOINT = {"url": "http://vllm.models.svc:8000/v1", "model": "twin"}
REVISION = endpoint_hash(FallbackEndpoint(**ENDPOINT))
SERVICE = "diffusion-operator-gateway"


class Gateway:
    """The admin port of one gateway pod."""

    def __init__(self) -> None:
        self.endpoints: dict[str, list[dict[str, Any]]] = {}
        pages = {"/admin/routes": lambda: {"models": {}}, "/admin/endpoints": lambda: {"models": self.endpoints}}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps(pages[self.path]()).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Not into the test's output."""

        self._server = ThreadingHTTPServer((own_address(), 0), Handler)
        self.address, self.port = self._server.server_address[:2]

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    def found(self, seen: Seen, state: str, **more: Any) -> None:
        self.endpoints = {f"{seen.namespace}/storyteller": [{"revision": REVISION, "state": state, **more}]}


def own_address() -> str:
    """Of this machine. The API server takes no loopback addresses of pods. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])


@pytest.fixture
def gateway(server: Server) -> Iterator[Gateway]:
    made = Gateway()
    name, meta = f"{SERVICE}-abcde", {"kubernetes.io/service-name": SERVICE}
    manifest = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": "default", "labels": meta},
        "addressType": "IPv4",
        "ports": [{"name": "admin", "port": made.port, "protocol": "TCP"}],
        "endpoints": [{"addresses": [made.address], "conditions": {"ready": True}}],
    }
    server.kubectl("-n", "default", "apply", "-f", "-", text=json.dumps(manifest))
    with made.running():
        yield made
    server.kubectl("-n", "default", "delete", "endpointslice", name)


def test_the_example_is_accepted(server: Server, namespace: str) -> None:
    server.kubectl("-n", namespace, "apply", "-f", str(REPOSITORY / "examples" / "external-fallback.yaml"))


def test_a_server_that_a_gateway_finds_ready_is_ar(server: Server, namespace: str, gateway: Gateway) -> None:
    seen = Seen(server, namespace)
    with OperatorProcess(server, watch=namespace):
        seen.create(fallback={"endpoint": ENDPOINT})
        until(lambda: seen.condition("FallbackAvailable").get("reason") == "EndpointUnknown", what="EndpointUnknown")
        assert seen.arms() == []
        gateway.found(seen, "Ready", scores=[])
        seen.until_arms(("stable", "ar", 100), ("fallback", "ar", 0))
        assert seen.condition("FallbackAvailable")["reason"] == "EndpointCannotScore"
        assert [arm["endpoint"] for arm in seen.status["routes"]["arms"]] == [ENDPOINT] * 2
        assert len(seen.names()["Deployment"]) == 1
        gateway.found(seen, "Unreachable", message="no route to host", scores=[])
        until(lambda: seen.condition("FallbackAvailable").get("reason") == "EndpointUnreachable", what="Unreachable")
        assert "no route to host" in seen.condition("FallbackAvailable")["message"]
        assert seen.arms() == [("stable", "ar", 100), ("fallback", "ar", 0)]
        seen.set_ready("diffusion", 1)
        gateway.found(seen, "Ready", scores=["chats"])
        seen.until_arms(("stable", "ar", 95), ("canary", "diffusion", 5), ("fallback", "ar", 0))
        assert seen.condition("FallbackAvailable")["reason"] == "EndpointReady"
