"""Why there is no series where one should be. Pure.

A gateway has all counters of an arm from the moment it knows the arm, with 0. So a series that is not there is not the same
as one that says 0: the first can be for ever, and must be seen.
"""

from collections.abc import Collection
from dataclasses import dataclass

from diffusion_operator.core.verdict import Unreadable

from .families import Family
from .queries import Subject

_MORE = "docs/monitoring.md tells how to set this up"


def nothing_yet(families: Collection[Family], revision: str) -> Unreadable | None:  # noqa: ARG001 - an evidence.Absent
    """For the first moments of a step, before the first scrape."""
    return None


@dataclass(frozen=True, slots=True)
class Never:
    """For later: what is not there now will not come by itself.

    `present` are the families of which there is any series, with `anything`, and with `model` for one of this model.
    """

    subject: Subject
    present: frozenset[tuple[Family, str]]

    def __call__(self, families: Collection[Family], revision: str) -> Unreadable | None:
        """What is wrong, from the first of the missing families."""
        return Unreadable(self.why(min(families), revision))

    def why(self, family: Family, revision: str) -> str:
        """How far from the right series the nearest ones are."""
        model = f"{self.subject.model.namespace}/{self.subject.model.name}"
        if (family, "anything") not in self.present:
            if family is Family.REQUESTS:
                return (
                    f"Prometheus has no metric {family} at all: it does not scrape the gateways, or is not the one that does. "
                    f"Look at its targets; {_MORE}"
                )
            return (
                f"Prometheus has no metric {family} at all: the gateways are of another release than the operator, or the "
                f"scrape drops it. Look at a gateway's /metrics; {_MORE}"
            )
        if (family, "model") not in self.present:
            return (
                f"Prometheus has {family}, but not of {model}: no gateway that it scrapes knows this model, or the scrape "
                f"changes the labels model_namespace and model; {_MORE}"
            )
        return (
            f"Prometheus has {family} of {model}, but has not seen revision {revision} there for five minutes: gateways are "
            "not scraped any more, or have no routes to it. Look at Prometheus' targets and at the gateways' /admin/routes"
        )
