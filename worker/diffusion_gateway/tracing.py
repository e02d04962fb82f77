"""Sends spans to an OpenTelemetry collector. OpenTelemetry is imported only where one is configured."""

import asyncio
import random
import threading
import time
from importlib.metadata import version
from typing import TYPE_CHECKING

from .spans import Span, spans_of
from .trace import Trace
from .trace_context import TraceContext, continue_trace

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

# Longer than a usual export, shorter than what Kubernetes leaves after the drain.
_LAST_SPANS_SECONDS = 2.0


class Tracing:
    """Decides what is traced. Without a collector nothing is sent, but the trace is still passed on."""

    def __init__(self, endpoint: str | None, *, sample_percent: float) -> None:
        """`endpoint`: base URL of a collector, None: there is none."""
        self._exporter = _Exporter(endpoint) if endpoint else None
        self._sample_percent = sample_percent

    def begin(self, given: str | None) -> TraceContext:
        """The context of a request that came with this `traceparent`."""
        sample = self._exporter is not None and random.random() * 100 < self._sample_percent  # noqa: S311 - no secret
        return continue_trace(given, sample_new=sample)

    def end(self, trace: Trace) -> None:
        """Hand over the spans of a request; when too many wait for the collector they are dropped."""
        if self._exporter is not None and trace.context.sampled and not trace.is_probe:
            self._exporter.send(trace.context.trace_id, spans_of(trace, ended=time.monotonic()))

    async def close(self) -> None:
        """Send what is left. Takes two seconds at most."""
        if self._exporter is not None:
            await asyncio.to_thread(self._exporter.close)


class _Exporter:
    """OTLP over HTTP from a thread of its own, with a bounded queue. TLS, headers and the like come from OTEL_ variables."""

    def __init__(self, endpoint: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        release = version("diffusion-operator")
        # What OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say wins.
        defaults = Resource({"service.name": "diffusion-gateway", "service.version": release})
        told = Resource.create()
        unnamed = str(told.attributes.get("service.name", "")).startswith("unknown_service")
        self._resource = told.merge(defaults) if unnamed else defaults.merge(told)
        self._scope = InstrumentationScope("diffusion_gateway", release)
        self._processor = BatchSpanProcessor(OTLPSpanExporter(f"{endpoint}/v1/traces"))

    def send(self, trace_id: str, spans: list[Span]) -> None:
        to_epoch = time.time() - time.monotonic()
        for span in spans:
            self._processor.on_end(self._readable(trace_id, span, to_epoch=to_epoch))

    def _readable(self, trace_id: str, span: Span, *, to_epoch: float) -> "ReadableSpan":
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

        def context(span_id: str, *, remote: bool) -> SpanContext:
            return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=remote, trace_flags=TraceFlags(1))

        return ReadableSpan(
            span.name,
            context=context(span.span_id, remote=False),
            parent=context(span.parent_id, remote=not span.of_client) if span.parent_id else None,
            resource=self._resource,
            attributes=span.attributes,
            kind=SpanKind.CLIENT if span.of_client else SpanKind.SERVER,
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
            start_time=int((span.started + to_epoch) * 1e9),
            end_time=int((span.ended + to_epoch) * 1e9),
            instrumentation_scope=self._scope,
        )

    def close(self) -> None:
        # A collector that does not answer would hold the process for half a minute.
        last = threading.Thread(target=self._processor.shutdown, daemon=True)
        last.start()
        last.join(_LAST_SPANS_SECONDS)
