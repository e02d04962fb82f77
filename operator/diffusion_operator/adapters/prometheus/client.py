"""prometheus-api-client in a few threads: it blocks, and the event loop must not."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, Self

from prometheus_api_client import PrometheusConnect
from urllib3 import Retry

from .failures import NoAnswerError, Reason
from .session import Session
from .settings import PrometheusSettings
from .telemetry import Telemetry

# A look is one query, and a thousand models look a few times each second.
_THREADS = 4
# Whom nobody hears of is not asked again by everybody: a thousand looks would wait for each other in a row.
_PAUSE_SECONDS = 10.0
_DOWN = frozenset({Reason.UNREACHABLE, Reason.TIMEOUT, Reason.OVERLOADED})


class Client:
    """Instant queries, to one address or several. An async context manager."""

    def __init__(self, settings: PrometheusSettings, telemetry: Telemetry) -> None:
        self._settings = settings
        self._telemetry = telemetry
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="prometheus")
        self._failed: dict[str, tuple[float, NoAnswerError]] = {}
        """By address, when it gave no sign of life last, and how."""
        addresses = {settings.url, *settings.namespace_urls.values()} - {""}
        # Looks come again before long, so nothing is retried; a session is used by several threads, which differ in nothing
        # that it keeps: it has no cookies to speak of.
        self._connections = {
            url: PrometheusConnect(url=url.rstrip("/"), session=Session(settings), retry=Retry(0), method="POST")
            for url in addresses
        }

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        # Whoever waits for an answer is gone. A thread that still reads one ends by its deadline.
        self._threads.shutdown(wait=False, cancel_futures=True)
        for connection in self._connections.values():
            connection.close()

    async def query(self, url: str, promql: str, *, at: datetime) -> Sequence[Mapping[str, Any]]:
        """The vector or matrix that `promql` gives at a moment.

        Raises:
            NoAnswerError: there is none that can be used.
        """
        failed_at, error = self._failed.get(url, (float("-inf"), None))
        if error is not None and time.monotonic() - failed_at < _PAUSE_SECONDS:
            raise NoAnswerError(error.reason, str(error))
        most = 2 * self._settings.timeout_seconds
        try:
            async with asyncio.timeout(most):
                found = await asyncio.get_running_loop().run_in_executor(self._threads, self._ask, url, promql, at)
        except TimeoutError as late:
            why = f"{url} keeps {_THREADS} queries waiting, and this one had no turn in {most:g} s. Is it overloaded?"
            raise NoAnswerError(Reason.TIMEOUT, why) from late
        except NoAnswerError as why_not:
            if why_not.reason in _DOWN:
                self._failed[url] = (time.monotonic(), why_not)
            raise
        self._failed.pop(url, None)
        return found

    def _ask(self, url: str, promql: str, at: datetime) -> Sequence[Mapping[str, Any]]:
        started = time.monotonic()
        try:
            # Prometheus gives up when we do, so that nothing goes on computing for nobody.
            limits = {"time": f"{at.timestamp():.3f}", "timeout": f"{self._settings.timeout_seconds:g}"}
            found: Sequence[Mapping[str, Any]] = self._connections[url].custom_query(promql, params=limits)
            return found
        finally:
            self._telemetry.seconds.observe(time.monotonic() - started)
