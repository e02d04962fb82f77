"""A real API server for the tests that install the chart."""

from collections.abc import Iterator

import pytest

from cluster.controlplane import ControlPlane
from tests.chart.release import Release


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
    made.clean()
