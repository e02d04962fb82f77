"""A real Prometheus, pods for it to scrape, and the operator's way to read both."""

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from diffusion_operator.adapters.prometheus.readings import PrometheusMetrics
from diffusion_operator.adapters.prometheus.settings import PrometheusSettings
from prometheus_client import CollectorRegistry

from tests.prometheus.server import Server

PODS = {
    "one": [{"pod": "one"}],
    "other": [{"pod": "other"}],
    # By a scrape configuration that knows no pods, by one that does, and by the other replica of Prometheus.
    "scraped thrice": [{}, {"pod": "thrice", "endpoint": "http"}, {"pod": "thrice", "prometheus_replica": "b"}],
    "in test": [{"pod": "there", "cluster": "test"}],
    "in production": [{"pod": "there", "cluster": "production"}],
}


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    prometheus = Server(tmp_path_factory.mktemp("prometheus"), PODS)
    prometheus.start()
    yield prometheus
    prometheus.stop()


@pytest.fixture
def server(running: Server) -> Iterator[Server]:
    yield running
    for pod in running.pods.values():
        pod.fails = False
        pod.also = str
        pod.counters.clear()


@pytest.fixture
async def metrics(server: Server) -> AsyncIterator[PrometheusMetrics]:
    async with PrometheusMetrics(PrometheusSettings(url=server.url), registry=CollectorRegistry()) as connected:
        yield connected


@pytest.fixture
def certificate(tmp_path: Path) -> Callable[[], Path]:
    """Makes a certificate for loopback that signed itself; one file has its key as well."""

    def make() -> Path:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "prometheus")])
        now = datetime.now(UTC)
        loopback = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(loopback, critical=False)
            .sign(key, hashes.SHA256())
        )
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file = tmp_path / "prometheus.pem"
        file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
        return file

    return make
