"""A real API server with the CRD, for what only an API server can answer."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from diffusion_operator.api.crd import CRD_PATH
from kubernetes import client

from cluster.controlplane import ControlPlane
from tests.api.server import Server

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    """etcd and kube-apiserver, without controllers: objects are stored, nothing runs."""
    with ControlPlane() as running:
        yield running


@pytest.fixture(scope="session")
def crd() -> dict[str, object]:
    """The CRD as it is committed."""
    loaded: dict[str, object] = yaml.safe_load((REPOSITORY / CRD_PATH).read_text())
    return loaded


@pytest.fixture(scope="session")
def server(plane: ControlPlane, crd: dict[str, object]) -> Iterator[Server]:
    """The API server, with the CRD established."""
    made = Server(plane)
    client.ApiextensionsV1Api(made.api).create_custom_resource_definition(crd)
    made.until_established(crd)
    yield made
    made.api.close()


@pytest.fixture
def namespace(server: Server) -> str:
    """A namespace of this test's own. There is no controller that could remove it."""
    return server.new_namespace()
