"""A registry that remembers which families it has, for forgetting series and for writing them."""

from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.registry import Collector

Family = Counter | Gauge | Histogram


class Families:
    """Makes metric families in one registry, all named `diffusion_gateway_...`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._counted: list[tuple[Family, frozenset[str]]] = []
        self.labelled: list[Family] = []
        """Those with labels, so with as many series as there are models."""
        self.plain: list[Collector] = []
        """Those without."""

    def counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        """A counter; Prometheus sees its name with `_total`."""
        family = Counter(f"diffusion_gateway_{name}", text, labels, registry=self._registry)
        self._counted.append((family, frozenset(labels)))
        self._keep(family, labels)
        return family

    def histogram(self, name: str, text: str, labels: Sequence[str], *, buckets: Sequence[float]) -> Histogram:
        """A histogram with these upper bounds."""
        family = Histogram(f"diffusion_gateway_{name}", text, labels, buckets=buckets, registry=self._registry)
        self._counted.append((family, frozenset(labels)))
        self._keep(family, labels)
        return family

    def gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
        """What is the case now. Its owner clears it, so `forget` leaves it alone."""
        family = Gauge(f"diffusion_gateway_{name}", text, labels, registry=self._registry)
        self._keep(family, labels)
        return family

    def forget(self, labels: Mapping[str, str]) -> None:
        """Drop all counted series with these values."""
        for family, names in self._counted:
            if labels.keys() <= names:
                family.remove_by_labels(dict(labels))

    def _keep(self, family: Family, labels: Sequence[str]) -> None:
        if labels:
            self.labelled.append(family)
        else:
            self.plain.append(family)
