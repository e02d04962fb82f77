"""`/healthz`, `/readyz` and `/metrics`."""

from typing import Self

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from .loops import Loops
from .metrics import Metrics


class HealthServer:
    """The operator's HTTP server. An async context manager."""

    def __init__(self, *, loops: Loops, metrics: Metrics, port: int, host: str | None = None) -> None:
        self._loops = loops
        self._metrics = metrics
        self._port = port
        self._host = host
        self._runner: web.AppRunner | None = None
        self.is_watching = False

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics_page)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner:
            await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        late = self._loops.overdue()
        if late:
            return web.Response(status=503, text=f"these loops have not ticked: {', '.join(late[:10])}\n")
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        if not self.is_watching:
            return web.Response(status=503, text="not watching yet: waiting for the API server or the CRD\n")
        return web.Response(text="ok\n")

    async def _metrics_page(self, _: web.Request) -> web.Response:
        self._loops.overdue()
        return web.Response(body=self._metrics.page(), headers={"Content-Type": CONTENT_TYPE_LATEST})
