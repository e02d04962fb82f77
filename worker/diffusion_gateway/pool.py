"""Channels to worker pods: kept while the pod is there, closed when it is gone and its last row has ended."""

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from diffusion_worker.wire import GenerateRequest, ScoreRequest
from tritonclient.grpc.aio import InferenceServerClient

from .overload import ServiceRate
from .reasons import Reason, WorkerError
from .triton import EventStream

_MAX_MESSAGE_BYTES = 64 * 2**20
_CHANNEL_OPTIONS = [
    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    # A pod whose node vanished sends no FIN. By default Triton hangs up at the fourth ping without data in between; at this
    # pace that is after 80 s, when --silence-seconds has ended the stream already.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 0),
    # How long one attempt to connect may take, and how soon the next may follow: pods come back at the same address.
    ("grpc.min_reconnect_backoff_ms", 3_000),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # Pods are reached directly, whatever the environment says about proxies.
    ("grpc.enable_http_proxy", 0),
]


@dataclass(eq=False)
class _Pod:
    client: InferenceServerClient
    rate: ServiceRate
    rows: int = 0
    retired: bool = False


class WorkerPool:
    """All pods that this gateway talks to, by `host:port`."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` counts seconds."""
        self._clock = clock
        self._pods: dict[str, _Pod] = {}
        self._streams: dict[EventStream, _Pod] = {}
        """Of all pods, also of those that were forgotten."""
        self._closing: set[asyncio.Future[None]] = set()
        self._stopped = False

    def keep_only(self, targets: Iterable[str]) -> None:
        """Forget pods that are no longer ready. Their rows in flight go on: a pod that drains still answers them."""
        for target in self._pods.keys() - set(targets):
            pod = self._pods.pop(target)
            pod.retired = True
            self._close_if_idle(pod)

    def by_load(self, targets: Sequence[str]) -> list[str]:
        """Those with the fewest rows in flight first, equals in any order."""
        shuffled = random.sample(targets, k=len(targets))
        return sorted(shuffled, key=self.in_flight)

    def in_flight(self, target: str) -> int:
        """Rows of this gateway on a pod."""
        pod = self._pods.get(target)
        return pod.rows if pod else 0

    def backlog(self, targets: Iterable[str]) -> tuple[int, float]:
        """Rows of this gateway that these pods have not ended yet, and how many of its rows they end per second."""
        now = self._clock()
        pods = [self._pods[target] for target in targets if target in self._pods]
        waiting = sum(pod in pods and not stream.has_ended for stream, pod in self._streams.items())
        return waiting, sum(pod.rate.per_second(now) for pod in pods)

    def open(
        self,
        target: str,
        request: GenerateRequest | ScoreRequest,
        *,
        revision: str | None = None,
        traceparent: str | None = None,
    ) -> EventStream:
        """Start a request on a pod of a revision. Failures to connect show in the stream.

        Raises:
            WorkerError: the pool was stopped.
        """
        if self._stopped:
            raise WorkerError(Reason.GATEWAY_STOPS, "no new rows while the gateway is shutting down")
        pod = self._pods.get(target)
        if pod is None:
            pod = self._pods[target] = _Pod(
                client=InferenceServerClient(target, channel_args=_CHANNEL_OPTIONS), rate=ServiceRate(self._clock())
            )
        stream = EventStream(pod.client, request, revision=revision, traceparent=traceparent, clock=self._clock)
        pod.rows += 1
        self._streams[stream] = pod
        stream.task.add_done_callback(lambda _: self._ended(pod, stream))
        return stream

    def stop(self) -> None:
        """End all rows with an error, for good."""
        self._stopped = True
        for stream in list(self._streams):
            stream.abort(WorkerError(Reason.GATEWAY_STOPS, "the gateway is shutting down"))

    async def close(self) -> None:
        """Stop, and close all channels."""
        self.stop()
        await asyncio.gather(*(stream.task for stream in self._streams), return_exceptions=True)
        self.keep_only(())
        await asyncio.gather(*self._closing)

    def _ended(self, pod: _Pod, stream: EventStream) -> None:
        pod.rows -= 1
        del self._streams[stream]
        if stream.has_answered:
            pod.rate.count(self._clock())
        self._close_if_idle(pod)

    def _close_if_idle(self, pod: _Pod) -> None:
        if pod.retired and not pod.rows:
            task = asyncio.ensure_future(pod.client.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
