"""What the gateway pods say of themselves: what they counted, and the route table that is in force in each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2
from prometheus_client.parser import text_string_to_metric_families

GATEWAY = "app.kubernetes.io/component=gateway"
SYSTEM = "diffusion-system"

_Series = tuple[str, str, frozenset[tuple[str, str]]]


@dataclass(frozen=True)
class Counts:
    """Every sample of every gateway pod."""

    samples: Mapping[_Series, float]

    def sum(self, name: str, **labels: str) -> float:
        """All series of a name that have these labels, over all pods."""
        wanted = frozenset(labels.items())
        return sum(value for (_, found, own), value in self.samples.items() if found == name and wanted <= own)

    def by(self, label: str, name: str, **labels: str) -> dict[str, float]:
        """The same, apart by the values of a label; zeros are left out."""
        values = {dict(own)[label] for (_, found, own) in self.samples if found == name and label in dict(own)}
        sums = {value: self.sum(name, **labels, **{label: value}) for value in sorted(values)}
        return {value: total for value, total in sums.items() if total}

    def since(self, before: "Counts") -> "Counts":
        """What was added. A pod that is new began at 0."""
        return Counts({series: value - before.samples.get(series, 0.0) for series, value in self.samples.items()})


def pods(cluster: Any) -> dict[str, str]:
    """Address of each ready gateway pod, by name."""
    ready = cluster.ready_pods(GATEWAY, namespace=SYSTEM)
    found = cluster.pods(GATEWAY, namespace=SYSTEM)
    return {pod["metadata"]["name"]: pod["status"]["podIP"] for pod in found if pod["metadata"]["name"] in ready}


def counts(cluster: Any) -> Counts:
    """What all ready gateways have counted so far."""
    samples: dict[_Series, float] = {}
    addresses = pods(cluster)
    assert addresses, "no gateway is ready"
    for name, address in addresses.items():
        for family in text_string_to_metric_families(metrics(address)):
            for sample in family.samples:
                samples[name, sample.name, frozenset(sample.labels.items())] = sample.value
    return Counts(samples)


def metrics(address: str) -> str:
    """What the gateway at `address` shows to Prometheus."""
    return httpx2.get(f"http://{address}:8081/metrics", timeout=30, trust_env=False).text


def routes(address: str, model: str, *, namespace: str = "default") -> dict[str, Any]:
    """The table of one model that is in force in the gateway at `address`; empty when it knows none."""
    answer = httpx2.get(f"http://{address}:8081/admin/routes", timeout=30, trust_env=False).json()
    found: dict[str, Any] = answer["models"].get(f"{namespace}/{model}", {})
    return found


def ready_everywhere(cluster: Any, model: str, *, kind: str) -> set[int]:
    """How many pods of an arm's kind the gateways see as ready; one number when they agree."""
    return {
        sum({arm["revision"]: arm["readyPods"] for arm in table.get("arms", []) if arm["kind"] == kind}.values())
        for table in (routes(address, model) for address in pods(cluster).values())
    }
