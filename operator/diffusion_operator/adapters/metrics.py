"""What a rollout needs of a metrics store, in our words."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from diffusion_operator.core.gates import Quality, Speed
from diffusion_operator.core.rollout import Policy, Reading, Window
from diffusion_operator.core.verdict import Unreadable

NOT_CONFIGURED = (
    "no Prometheus is configured: start the operator with --prometheus-url (chart value prometheus.url), the address of a "
    "Prometheus that scrapes the gateways"
)


@dataclass(frozen=True, slots=True)
class ModelKey:
    """A DiffusionModel by namespace and name."""

    namespace: str
    name: str


class Metrics(Protocol):
    """What was measured of revisions. Methods raise nothing: what cannot be read says so in its place."""

    async def readings(
        self, model: ModelKey, windows: tuple[Window, ...], *, ar: str | None, policy: Policy, now: datetime
    ) -> Mapping[str, Reading]:
        """A reading for each window, by revision, of data up to `now`. `ar` is the revision of the AR arm.

        A part that cannot be read, or can never be, is `Unreadable` with what a person must do about it.
        """
        ...

    async def suspicious(self, *, now: datetime) -> frozenset[ModelKey]:
        """Models whose arms fail requests more than they should in these minutes: worth a look before the next is due.

        One cheap question for all models. Empty when it cannot be answered: the looks that are due go on.
        """
        ...


def unreadable(windows: tuple[Window, ...], why: str) -> Mapping[str, Reading]:
    """Readings of which nothing could be read, all for the same reason."""
    fault = Unreadable(why)
    quality = Quality(pairs=fault, repetition=fault)
    speed = Speed(first_token=fault, latency=fault, errors=fault)
    return {window.revision: Reading(window, quality=quality, speed=speed, guard=speed) for window in windows}


class NoMetrics:
    """Stands for a metrics store where none is configured: every gate says so, and no weight moves by itself."""

    async def readings(
        self,
        model: ModelKey,  # noqa: ARG002 - as the protocol has it
        windows: tuple[Window, ...],
        *,
        ar: str | None,  # noqa: ARG002
        policy: Policy,  # noqa: ARG002
        now: datetime,  # noqa: ARG002
    ) -> Mapping[str, Reading]:
        """Nothing, and why."""
        return unreadable(windows, NOT_CONFIGURED)

    async def suspicious(self, *, now: datetime) -> frozenset[ModelKey]:  # noqa: ARG002
        """Nobody."""
        return frozenset()
