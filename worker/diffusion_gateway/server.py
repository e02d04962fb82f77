"""One gateway process from start to SIGTERM."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Iterator
from typing import Any

import structlog
import uvicorn
from starlette.types import ASGIApp

from . import watch
from .app import admin_app, public_app
from .connections import KEEP_ALIVE_SECONDS, SOCKET_SEND_BYTES, Connections, allowed_connections
from .gateway import Gateway
from .settings import Settings
from .table_source import TableSource

# After the drain time streams end with an error event; this long they have to deliver it.
_LAST_WORDS_SECONDS = 2.0
# Connections that wait while the process is busy; the kernel may allow fewer.
_BACKLOG = 2048
_MAX_ADMIN_CONNECTIONS = 256
_log = structlog.get_logger()


class ListenError(Exception):
    """A port cannot be used."""


class _Server(uvicorn.Server):
    """uvicorn without its signal handling: there are two of them, and signals mean a drain first."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _server(app: ASGIApp, connections: Connections) -> _Server:
    config = uvicorn.Config(
        app,
        http=connections.protocol,  # type: ignore[arg-type] # uvicorn calls it as it would the class
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=int(2 * KEEP_ALIVE_SECONDS),  # `connections` closes, and counts
        backlog=_BACKLOG,
    )
    return _Server(config)


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections, which wait until they are served; port 0 is any that is free. Raises `ListenError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol spelled out, or asyncio leaves Nagle's algorithm on and a client waits 40 ms for its first block.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_SEND_BYTES)  # connections inherit it
        sock.listen(_BACKLOG)  # now, so that nobody who reads "gateway listens" is refused
    except OSError as error:
        sock.close()
        raise ListenError(f"cannot listen on {host}:{port}: {error.strerror}; is another program there?") from None
    return sock


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, then drain.

    Raises:
        KeysError: there are no API keys where they should be.
        ListenError: a port is taken.
        watch.ConfigurationError: there is no way to the API server.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    gateway = Gateway(settings)
    async with await watch.connect(settings.kubeconfig) as api:
        source = TableSource(api=api, namespaces=settings.namespaces, on_change=gateway.use_table)
        with (
            listen(settings.host, settings.port) as public_socket,
            listen(settings.host, settings.admin_port) as admin_socket,
        ):
            await run(gateway, source, public_socket=public_socket, admin_socket=admin_socket, stop=stop)


async def run(
    gateway: Gateway,
    source: TableSource,
    *,
    public_socket: socket.socket,
    admin_socket: socket.socket,
    stop: asyncio.Event,
) -> None:
    """Serve `gateway` on both sockets until `stop` is set, then drain."""
    gateway.synced = lambda: source.synced
    gateway.endpoints.secrets.read = source.read_secret
    shown = gateway.metrics.connections
    clients = Connections(limit=allowed_connections(gateway.settings.max_connections), count_closed=shown.count_closed)
    shown.show(lambda: len(clients))
    operators = Connections(limit=_MAX_ADMIN_CONNECTIONS)
    public, admin = _server(public_app(gateway), clients), _server(admin_app(gateway), operators)
    watching = asyncio.create_task(source.run())
    sweeping = [asyncio.create_task(connections.sweep()) for connections in (clients, operators)]
    servers = [
        asyncio.create_task(public.serve(sockets=[public_socket])),
        asyncio.create_task(admin.serve(sockets=[admin_socket])),
    ]
    _log.info("gateway listens", port=public_socket.getsockname()[1], admin_port=admin_socket.getsockname()[1])
    stopping = asyncio.create_task(stop.wait())
    parts: list[asyncio.Task[Any]] = [watching, *sweeping, *servers]
    try:
        # Whatever ends before the signal ends by mistake.
        await asyncio.wait((stopping, *parts), return_when=asyncio.FIRST_COMPLETED)
        for task in parts:
            if task.done():
                task.result()
                raise RuntimeError("a part of the gateway ended by itself")
        await _drain(gateway, public, servers[0])
    finally:
        for server in (public, admin):
            server.should_exit = server.force_exit = True
        stopping.cancel()
        for task in (watching, *sweeping):
            task.cancel()
        await gateway.pairs.close()
        await gateway.pool.close()
        await gateway.endpoints.close()
        await gateway.tracing.close()
        await asyncio.gather(stopping, *parts, return_exceptions=True)


async def _drain(gateway: Gateway, public: uvicorn.Server, serving: "asyncio.Task[None]") -> None:
    _log.info("gateway drains", seconds=gateway.settings.drain_seconds)
    gateway.draining = True
    gateway.pairs.stop()
    public.should_exit = True
    _, late = await asyncio.wait((serving,), timeout=gateway.settings.drain_seconds)
    if late:
        _log.warning("end answers in flight: the drain time is over")
        gateway.pool.stop()
        await asyncio.wait((serving,), timeout=_LAST_WORDS_SECONDS)
        public.force_exit = True
    _log.info("gateway stopped")
