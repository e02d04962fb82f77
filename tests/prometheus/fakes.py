"""What may stand at Prometheus' address instead of it."""

import json
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs

EMPTY = {"status": "success", "data": {"resultType": "vector", "result": []}}


@dataclass
class Said:
    """One answer."""

    status: int = 200
    body: str = field(default_factory=lambda: json.dumps(EMPTY))
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, answer: Any, status: int = 200) -> Self:
        return cls(status=status, body=json.dumps(answer))


@dataclass
class Asked:
    """One request."""

    path: str
    form: dict[str, list[str]]
    headers: dict[str, str]


class Impostor:
    """An HTTP server that says what it is told to. A context manager."""

    def __init__(self, say: Callable[[Asked], Said], *, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[Asked] = []
        impostor = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                asked = Asked(self.path, form, dict(self.headers))
                impostor.asked.append(asked)
                said = say(asked)
                self.send_response(said.status)
                for name, value in said.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(said.body.encode())))
                self.end_headers()
                self.wfile.write(said.body.encode())

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        scheme = "https" if tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Silence:
    """A port that takes connections; once a request is there, `drip` is sent again and again, or nothing ever."""

    def __init__(self, drip: bytes = b"") -> None:
        self._drip = drip
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.settimeout(0.05)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._accept)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._socket.close()

    def _accept(self) -> None:
        taken: list[socket.socket] = []
        while not self._over.is_set():
            try:
                taken.append(self._socket.accept()[0])
                if self._drip:
                    taken[-1].sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            except TimeoutError:
                pass
            for one in list(taken):
                try:
                    one.sendall(self._drip)
                except OSError:
                    taken.remove(one)
                    one.close()
        for one in taken:
            one.close()
