"""All families of one gateway, and for how long they are remembered."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator

from diffusion_operator.api.status import ArmKind, RouteArm
from prometheus_client import CollectorRegistry, disable_created_metrics
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from ..routes import Model, Table, ar_arm
from .answers import AnswerMetrics
from .arms import ArmMetrics
from .connections import ConnectionMetrics
from .families import Families
from .labels import MODEL, arm_labels
from .page import pieces
from .pairs import PairMetrics
from .requests import RequestMetrics

# Long enough for Prometheus to see the last count of a revision, also through an outage.
_REMEMBERED_SECONDS = 3600.0

# When each series began, as a series of its own: nobody reads it, and with many models it is half of what is scraped.
disable_created_metrics()  # type: ignore[no-untyped-call]

_Part = tuple[str, ...]
"""(namespace, model), or (namespace, model, revision)."""
_Begun = tuple[str, ...]
"""An arm's labels, and the revision of the AR arm beside it."""


class Metrics:
    """All metric families of one gateway."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` counts seconds."""
        self._clock = clock
        self._begun: frozenset[_Begun] = frozenset()
        self._shown: frozenset[_Part] = frozenset()
        self._left_at: dict[_Part, float] = {}
        """When what is no longer in the table left it."""
        self.registry = CollectorRegistry()
        self._families = Families(self.registry)
        self._families.plain += [ProcessCollector(registry=self.registry), PlatformCollector(registry=self.registry)]
        self.connections = ConnectionMetrics(self._families)
        self.requests = RequestMetrics(self._families)
        self.arms = ArmMetrics(self._families)
        self.answers = AnswerMetrics(self._families)
        self.pairs = PairMetrics(self._families)

    async def page(self) -> AsyncIterator[bytes]:
        """What Prometheus reads. It takes seconds for a thousand models, half of them for everything else that is due meanwhile."""
        began = time.perf_counter()
        for piece in pieces(labelled=self._families.labelled, plain=self._families.plain):
            # One turn of the loop is not enough: an event on its way through takes several, and each would wait for a piece.
            rest = time.perf_counter() - began
            if piece:
                yield piece
            await asyncio.sleep(rest)
            began = time.perf_counter()

    def show_table(self, table: Table) -> None:
        """Show the table in force. Counts of what it no longer names stay for an hour.

        What an arm is judged by begins at 0 as soon as the arm is in the table: Prometheus sees no step from nothing to 1.
        """
        self.arms.show_table(table)
        begun: set[_Begun] = set()
        for model in table.models.values():
            for arm, ar in _arms(model):
                key = (*arm_labels(model, arm), ar.revision if ar else "")
                if key not in self._begun:
                    self._begin(model, arm, ar)
                begun.add(key)
        self._begun = frozenset(begun)
        self._forget(_parts(table))

    def _begin(self, model: Model, arm: RouteArm, ar: RouteArm | None) -> None:
        self.requests.begin(model, arm)
        self.arms.begin(model, arm)
        self.answers.begin(model, arm)
        if ar is not None and arm.kind == ArmKind.DIFFUSION:
            self.pairs.begin(model, revision=arm.revision, ar_revision=ar.revision)

    def _forget(self, shown: frozenset[_Part]) -> None:
        """Drop the series of what left the table long ago. `shown` is what is in it now."""
        now = self._clock()
        self._left_at |= dict.fromkeys(self._shown - shown, now)
        self._shown = shown
        for part, left_at in list(self._left_at.items()):
            if part in shown:
                del self._left_at[part]
            elif now - left_at > _REMEMBERED_SECONDS:
                del self._left_at[part]
                for names in ((*MODEL, "revision"), (*MODEL, "ar_revision")):
                    self._families.forget(dict(zip(names, part, strict=False)))


def _arms(model: Model) -> Iterator[tuple[RouteArm, RouteArm | None]]:
    """Each arm, and the AR arm that its answers are compared with."""
    ar = ar_arm(model.arms)
    judge = ar if ar is not None and ar.kind == ArmKind.AR else None
    for arm in model.arms:
        yield arm, judge


def _parts(table: Table) -> frozenset[_Part]:
    models = table.models.values()
    revisions = {(model.namespace, model.name, arm.revision) for model in models for arm in model.arms}
    return frozenset({(model.namespace, model.name) for model in models} | revisions)
