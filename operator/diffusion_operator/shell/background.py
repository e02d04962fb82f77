"""What the process does beside the loops: says that it is alive, asks which models look bad, and what became of endpoints."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta

import structlog

from diffusion_operator.adapters import clock
from diffusion_operator.adapters.errors import AdapterError
from diffusion_operator.adapters.gateways import HttpGateways, Key
from diffusion_operator.adapters.lease import RENEW_SECONDS, Alive, LifeLease
from diffusion_operator.adapters.metrics import Metrics as Measurements
from diffusion_operator.api.models import EndpointStatus

from .loops import Loops
from .metrics import Metrics

_SUSPICION_SECONDS = 20.0
_ENDPOINTS_SECONDS = 5.0
_LAST_RENEWAL_SECONDS = 3.0


async def alive_before(lease: LifeLease) -> Alive | None:
    """Until when the process before looked; None when that is not known, so that what it counted and did not write is lost."""
    try:
        found = await lease.read()
    except AdapterError as error:
        _log().warning("observed time of the process before is lost, as far as it was not written", error=str(error))
        return None
    now = clock.now()
    if found and found.until > now + timedelta(seconds=RENEW_SECONDS):
        # One of the two clocks was wrong: what it says is no time that anybody looked.
        _log().warning("the process before was alive in the future: what it counted is lost", until=str(found.until))
        return None
    return found and Alive(found.since, min(found.until, now))


@asynccontextmanager
async def beside(
    loops: Loops, *, lease: LifeLease, measurements: Measurements, gateways: HttpGateways, metrics: Metrics
) -> AsyncIterator[None]:
    """Do all of it within the block."""
    tasks = [
        asyncio.create_task(_stay_alive(lease, metrics), name="lease"),
        asyncio.create_task(_suspect(loops, measurements), name="suspicion"),
        asyncio.create_task(_follow_endpoints(loops, gateways), name="endpoints"),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # So that the process that comes next knows to the second.
        try:
            async with asyncio.timeout(_LAST_RENEWAL_SECONDS):
                await _renew(lease, metrics)
        except TimeoutError:
            pass


async def _stay_alive(lease: LifeLease, metrics: Metrics) -> None:
    while True:
        await _renew(lease, metrics)
        await asyncio.sleep(RENEW_SECONDS)


async def _renew(lease: LifeLease, metrics: Metrics) -> None:
    try:
        await lease.renew()
    except AdapterError as error:
        _log().warning("lease not renewed: a restart would lose observed time", error=str(error))
    else:
        metrics.writes.labels(verb="apply", kind="Lease").inc()


async def _suspect(loops: Loops, measurements: Measurements) -> None:
    while True:
        await asyncio.sleep(_SUSPICION_SECONDS)
        try:
            found = await measurements.suspicious(now=clock.now())
        except Exception:  # noqa: BLE001
            # The looks that are due go on without it.
            _log().exception("suspicious models not asked for")
            continue
        loops.look_soon((model.namespace, model.name) for model in found)


async def _follow_endpoints(loops: Loops, gateways: HttpGateways) -> None:
    """No watch tells of servers that are not ours: where gateways find something else than before, the loop is woken."""
    before: Mapping[Key, tuple[EndpointStatus, ...]] = {}
    while True:
        await asyncio.sleep(_ENDPOINTS_SECONDS)
        if not gateways.are_endpoints_wanted:
            continue
        try:
            after = await gateways.all_endpoints()
        except Exception as error:  # noqa: BLE001
            # Passes ask for themselves; this is what makes them come soon.
            _log().warning("gateways not asked for endpoints", error=str(error))
            continue
        for namespace, name in before.keys() | after.keys():
            if before.get((namespace, name)) != after.get((namespace, name)):
                loops.wake(namespace, name)
        before = after


def _log() -> structlog.stdlib.BoundLogger:
    logger: structlog.stdlib.BoundLogger = structlog.get_logger("background")
    return logger
