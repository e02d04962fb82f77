"""Connections to pods, and to AR servers that are not ours: kept while they are in the table, closed when they are gone and their last row has ended."""

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from diffusion_worker.wire import GenerateRequest, ScoreRequest

from .event_stream import EventStream
from .overload import ServiceRate
from .reasons import Reason, WorkerError
from .triton import TritonServer


class Server(Protocol):
    """What a connection leads to."""

    def open(
        self,
        request: GenerateRequest | ScoreRequest,
        *,
        revision: str | None,
        traceparent: str | None,
        clock: Callable[[], float],
    ) -> EventStream:
        """Start a request. Failures to connect show in the stream."""

    async def close(self) -> None:
        """Close the connection."""


@dataclass(eq=False)
class _Pod:
    server: Server
    rate: ServiceRate
    rows: int = 0
    spoke_at: float = float("-inf")
    """When a row that has ended got its last event."""
    retired: bool = False


class WorkerPool:
    """All servers that this gateway talks to, by target: `host:port` of a pod, or what `connect` understands."""

    def __init__(
        self, *, connect: Callable[[str], Server] = TritonServer, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`connect` leads to a target. `clock` counts seconds."""
        self._connect = connect
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

    def has_spoken(self, target: str, *, since: float) -> bool:
        """Whether any row of this gateway on a pod got an event after `since`, on the pool's clock."""
        pod = self._pods.get(target)
        if pod is None:
            return False
        return pod.spoke_at > since or any(
            each is pod and stream.spoke_at > since for stream, each in self._streams.items()
        )

    def backlog(self, targets: Iterable[str]) -> tuple[int, float]:
        """Rows of this gateway that these pods have not ended yet, and how many of its rows they end per second."""
        now = self._clock()
        pods = {self._pods[target] for target in targets if target in self._pods}
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
            pod = self._pods[target] = _Pod(server=self._connect(target), rate=ServiceRate(self._clock()))
        stream = pod.server.open(request, revision=revision, traceparent=traceparent, clock=self._clock)
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
        pod.spoke_at = max(pod.spoke_at, stream.spoke_at)
        del self._streams[stream]
        if stream.has_answered:
            pod.rate.count(self._clock())
        self._close_if_idle(pod)

    def _close_if_idle(self, pod: _Pod) -> None:
        if pod.retired and not pod.rows:
            task = asyncio.ensure_future(pod.server.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
