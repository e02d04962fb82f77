"""A real Prometheus, pods for it to scrape, and the operator's way to read both."""

from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from diffusion_operator.adapters.prometheus import PrometheusMetrics, PrometheusSettings
from prometheus_client import CollectorRegistry

from tests.prometheus.exporter import Exporter
from tests.prometheus.server import Server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("prometheus"))
    running.start()
    yield running
    running.stop()


@pytest.fixture
def pod() -> Iterator[Callable[[], Exporter]]:
    """Makes pods."""
    made: list[Exporter] = []

    def make() -> Exporter:
        made.append(Exporter())
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
async def metrics(server: Server) -> AsyncIterator[PrometheusMetrics]:
    async with PrometheusMetrics(PrometheusSettings(url=server.url), registry=CollectorRegistry()) as connected:
        yield connected
