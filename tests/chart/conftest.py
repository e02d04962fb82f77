"""A real API server for the tests that install the chart."""

from collections.abc import Iterator

import pytest

from cluster.controlplane import ControlPlane
from tests.chart.release import Release, until


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    """etcd and kube-apiserver, without controllers: objects are stored, nothing runs."""
    with ControlPlane() as running:
        yield running


@pytest.fixture
def release(plane: ControlPlane) -> Iterator[Release]:
    """A release that is not installed yet, and is gone with its CRD after the test."""
    made = Release(plane)
    yield made
    if made.revision:
        made.uninstall()
    for name in made.crd_names():
        made.extensions.delete_custom_resource_definition(name)
    until(lambda: made.crd_names() == [])
