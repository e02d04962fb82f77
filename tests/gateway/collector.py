"""An OpenTelemetry collector that keeps what it gets: OTLP over HTTP, protobuf."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.gateway.stack import eventually


@dataclass(frozen=True)
class SeenSpan:
    """What the tests look at."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    """Empty: a root."""
    seconds: float
    failed: bool
    attributes: dict[str, Any]
    service: str


@dataclass
class Collector:
    url: str = ""
    spans: list[SeenSpan] = field(default_factory=list)

    async def expect(self, count: int) -> None:
        """Wait for so many spans: they are sent in the background, also after the gateway has ended."""
        await eventually(lambda: len(self.spans) >= count)

    def by_name(self, name: str) -> SeenSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found

    async def take(self, request: web.Request) -> web.Response:
        told = ExportTraceServiceRequest.FromString(await request.read())
        for resource in told.resource_spans:
            service = _values(resource.resource.attributes)["service.name"]
            for scope in resource.scope_spans:
                self.spans += [_span(span, service) for span in scope.spans]
        return web.Response(body=b"", content_type="application/x-protobuf")


def _span(span: Any, service: str) -> SeenSpan:
    return SeenSpan(
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        seconds=(span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
        failed=span.status.code == span.status.STATUS_CODE_ERROR,
        attributes=_values(span.attributes),
        service=service,
    )


def _values(attributes: Any) -> dict[str, Any]:
    return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in attributes}


@contextlib.asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    """A collector that runs on a loopback port."""
    collector = Collector()
    app = web.Application()
    app.router.add_post("/v1/traces", collector.take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    collector.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield collector
    finally:
        await runner.cleanup()
