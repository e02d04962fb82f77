"""The API server for tests answers, tells users apart, and is gone afterwards."""

import pytest
from kubernetes import client

from cluster.controlplane import ControlPlane
from cluster.errors import ClusterError


def test_an_api_server_answers_within_the_block_and_leaves_nothing() -> None:
    with ControlPlane() as plane:
        folder = plane.folder
        with plane.api_client() as administrator:
            names = [n.metadata.name for n in client.CoreV1Api(administrator).list_namespace().items]
        with (
            plane.api_client(plane.kubeconfig_for("jane")) as jane,
            pytest.raises(client.ApiException, match="Forbidden"),
        ):
            client.CoreV1Api(jane).list_namespace()
        assert '"user":{"username":"jane"' in plane.audit_log.read_text()

    assert "default" in names
    assert not folder.exists()
    with pytest.raises(ClusterError, match="not running"):
        _ = plane.kubeconfig
