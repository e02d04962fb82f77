"""Readings of revisions, from a Prometheus that scrapes the gateways."""

import asyncio
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Self

import structlog
from prometheus_client import CollectorRegistry

from diffusion_operator.adapters.metrics import NOT_CONFIGURED, ModelKey, unreadable
from diffusion_operator.core.gates import GateName
from diffusion_operator.core.rollout import Policy, Reading, Window

from . import evidence, queries, samples
from .absence import Never, nothing_yet
from .client import Client
from .failures import NoAnswerError, Reason
from .families import OF_BOTH_ARMS, PAIRS, REPETITION, SPEED, Family
from .queries import Span, Subject
from .settings import PrometheusSettings
from .telemetry import Telemetry

# After that long every gateway has the routes and was scraped: what is not there then will not come.
_GRACE_SECONDS = 120.0


class PrometheusMetrics:
    """The `Metrics` of a Prometheus. An async context manager."""

    def __init__(self, settings: PrometheusSettings, *, registry: CollectorRegistry) -> None:
        self._settings = settings
        self._telemetry = Telemetry(registry)
        self._client = Client(settings, self._telemetry)
        self._log = structlog.get_logger("prometheus")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._client.__aexit__(*error)

    async def readings(
        self, model: ModelKey, windows: tuple[Window, ...], *, ar: str | None, policy: Policy, now: datetime
    ) -> Mapping[str, Reading]:
        """A reading for each window, by revision, of data up to `now`."""
        url = self._settings.url_for(model.namespace)
        if not url:
            elsewhere = f"in namespace {model.namespace}, " if self._settings.is_configured else ""
            return unreadable(windows, elsewhere + NOT_CONFIGURED)
        is_scored = GateName.PERPLEXITY_RATIO in policy.gates
        found = await asyncio.gather(
            *(
                self._reading(url, Subject(model, window.revision, ar), window, is_scored=is_scored, now=now)
                for window in windows
            )
        )
        return {reading.window.revision: reading for reading in found}

    async def suspicious(self, *, now: datetime) -> frozenset[ModelKey]:
        """Models whose diffusion revisions fail more than 1 % of their requests in these minutes."""
        found: set[ModelKey] = set()
        for url in sorted({self._settings.url, *self._settings.namespace_urls.values()} - {""}):
            only, without = self._settings.namespaces_of(url)
            try:
                rows = await self._client.query(url, queries.suspicious_query(only=only, without=without), at=now)
                found |= samples.models(rows)
            except NoAnswerError as error:
                self._count(error)
            except (KeyError, TypeError, AttributeError):
                # JSON of a shape that no Prometheus has. The other addresses are asked nevertheless.
                self._log.exception("an answer could not be read", url=url)
                self._telemetry.failures.labels(reason=Reason.MISTAKE.value).inc()
        return frozenset(found)

    async def _reading(self, url: str, subject: Subject, window: Window, *, is_scored: bool, now: datetime) -> Reading:
        try:
            return await self._read(url, subject, window, is_scored=is_scored, now=now)
        except NoAnswerError as error:
            self._count(error, model=subject.model, revision=subject.revision)
            return unreadable((window,), str(error))[window.revision]
        except (KeyError, IndexError, TypeError, ValueError):
            # JSON of a shape that no Prometheus has. It must hold one rollout and not end its loop.
            self._log.exception("an answer could not be read", model=subject.model.name, revision=subject.revision)
            self._telemetry.failures.labels(reason=Reason.MISTAKE.value).inc()
            return unreadable((window,), "Prometheus' answer could not be read; the operator's log has it all")[
                window.revision
            ]

    async def _read(self, url: str, subject: Subject, window: Window, *, is_scored: bool, now: datetime) -> Reading:
        families = (*SPEED, *REPETITION, *(PAIRS if is_scored else ()))
        query = queries.window_query(subject, window, families=families, now=now)
        answer = samples.answered(await self._client.query(url, query, at=now))
        is_early = (now - window.since).total_seconds() < _GRACE_SECONDS
        if not answer.is_fresh and not is_early:
            raise _not_scraped(subject, await self._present(url, subject, {Family.REQUESTS}, now=now))
        increases = answer.increases
        if answer.reset:
            raw = queries.raw_query(
                subject,
                window,
                families={counter.family for _, counter in answer.reset},
                instances=answer.instances,
                now=now,
            )
            since = {Span.STEP: window.since, Span.GUARD: window.guard_since}
            increases = samples.corrected(answer, await self._client.query(url, raw, at=now), since=since)
        step = increases[Span.STEP]
        there = {(one.counter.family, one.counter.revision) for one in step}
        wanted = {(family, subject.revision) for family in families}
        wanted |= {(family, subject.ar) for family in OF_BOTH_ARMS if subject.ar}
        lacking = wanted - there
        if not lacking or is_early:
            absent: evidence.Absent = nothing_yet
        else:
            absent = Never(subject, await self._present(url, subject, {family for family, _ in lacking}, now=now))
            self._telemetry.failures.labels(reason=Reason.NEVER_ANY_DATA.value).inc()
        # The guard asks for nothing that the step has not got: a series that is there since a minute is in both.
        guard = evidence.speed(increases[Span.GUARD], revision=subject.revision, ar=subject.ar, absent=nothing_yet)
        return Reading(
            window,
            quality=evidence.quality(step, revision=subject.revision, absent=absent, is_scored=is_scored),
            speed=evidence.speed(step, revision=subject.revision, ar=subject.ar, absent=absent),
            guard=guard,
        )

    async def _present(
        self, url: str, subject: Subject, families: Collection[Family], *, now: datetime
    ) -> frozenset[tuple[Family, str]]:
        rows = await self._client.query(url, queries.presence_query(subject.model, sorted(families)), at=now)
        return frozenset(samples.present(rows))

    def _count(self, error: NoAnswerError, model: ModelKey | None = None, revision: str = "") -> None:
        self._telemetry.failures.labels(reason=error.reason.value).inc()
        self._log.warning(
            "Prometheus gave no answer",
            reason=error.reason.value,
            error=str(error),
            **({"namespace": model.namespace, "model": model.name, "revision": revision} if model else {}),
        )


def _not_scraped(subject: Subject, present: frozenset[tuple[Family, str]]) -> NoAnswerError:
    known = (Family.REQUESTS, "anything") in present
    why = Never(subject, present).why(Family.REQUESTS, subject.revision)
    return NoAnswerError(Reason.NOT_SCRAPED if known else Reason.NEVER_ANY_DATA, why)
