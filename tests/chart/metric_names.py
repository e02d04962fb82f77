"""The metrics that our programs have, and those that a text names."""

import re
from functools import cache
from itertools import chain

from diffusion_gateway.metrics import Metrics as GatewayMetrics
from diffusion_operator.adapters.prometheus.telemetry import Telemetry
from diffusion_operator.shell.metrics import Metrics as OperatorMetrics
from prometheus_client import CollectorRegistry

from tests.chart.chart import ROOT

_SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}


def named(text: str) -> set[str]:
    """Names of metrics of ours in PromQL."""
    return set(re.findall(r"\b(?:diffusion_(?:gateway|operator)|dlm)_\w+", text))


@cache
def known() -> frozenset[str]:
    """Every series' name that a scrape of one of our programs can give."""
    telemetry = CollectorRegistry()
    Telemetry(telemetry)
    operator, found = OperatorMetrics(), set[str]()
    registries = (GatewayMetrics().registry, operator.registry, telemetry)
    for family in (*chain.from_iterable(each.collect() for each in registries), *operator.rollouts.describe()):
        found |= {f"{family.name}{suffix}" for suffix in _SUFFIXES.get(family.type, ())}
    # The worker's are made within Triton, which is not needed to read their names.
    for source in (ROOT / "worker" / "diffusion_worker" / "triton").glob("*.py"):
        found |= set(re.findall(r'"(dlm_\w+)"', source.read_text()))
    return frozenset(found)
