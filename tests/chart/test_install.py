"""Install, upgrade, uninstall and reinstall on a real API server."""

import shutil
from pathlib import Path

import pytest
import yaml
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from tests.chart.chart import CHART, EVERYTHING, NAMESPACE, RELEASE, ROOT, HelmError, render
from tests.chart.release import CRD, Release, until


def test_install_creates_what_was_rendered(release: Release):
    release.install()

    assert release.revision == 1
    expected = {item["metadata"]["name"] for item in render().of("Deployment")}
    assert {item.metadata.name for item in release.apps.list_namespaced_deployment(NAMESPACE).items} == expected
    assert release.crd_names() == [CRD]


def test_the_api_server_accepts_every_value_and_every_object(release: Release):
    on = ["crds.install", "rbac.create", "rbac.aggregateUserRoles", "gateway.podDisruptionBudget.enabled"]
    # These are the Prometheus Operator's kinds, which this API server does not know.
    off = ["metrics.podMonitor.enabled", "metrics.prometheusRule.enabled"]
    values = {**dict.fromkeys(on, True), **dict.fromkeys(off, False), "watchNamespaces": ["default"]}
    release.install(values, f"--values={EVERYTHING}")
    assert release.revision == 1


def test_upgrading_again_without_a_change_changes_no_object(release: Release):
    release.install()
    before = {
        item.metadata.name: item.metadata.generation
        for item in release.apps.list_namespaced_deployment(NAMESPACE).items
    }
    release.install()
    after = {
        item.metadata.name: item.metadata.generation
        for item in release.apps.list_namespaced_deployment(NAMESPACE).items
    }
    assert (release.revision, after) == (2, before)


def test_upgrade_changes_values_and_rollback_brings_them_back(release: Release):
    release.install()
    release.install({"gateway.replicas": 3})
    assert release.replicas(f"{RELEASE}-gateway") == 3
    release.helm("rollback", RELEASE, "1")
    assert release.replicas(f"{RELEASE}-gateway") == 2


def test_upgrade_brings_a_newer_crd_and_keeps_the_models(release: Release, tmp_path: Path):
    """Helm itself never upgrades a chart's crds/ folder; ours are templates for this reason."""
    older = tmp_path / "older"
    shutil.copytree(CHART, older)
    (path,) = (older / "files" / "crds").glob("*.yaml")
    crd = yaml.safe_load(path.read_text())
    columns = crd["spec"]["versions"][0].pop("additionalPrinterColumns")
    path.write_text(yaml.safe_dump(crd))

    release.install(chart=older)
    uid = release.create_model()
    release.install()

    stored = release.extensions.read_custom_resource_definition(CRD)
    assert len(stored.spec.versions[0].additional_printer_columns) == len(columns)
    assert release.model_uid() == uid


def test_uninstall_keeps_the_models_and_a_new_install_takes_them_over(release: Release):
    release.install()
    uid = release.create_model()

    release.uninstall()
    assert release.apps.list_namespaced_deployment(NAMESPACE).items == []
    assert release.rbac.list_cluster_role(label_selector=f"app.kubernetes.io/instance={RELEASE}").items == []
    assert release.model_uid() == uid

    release.install()
    assert release.model_uid() == uid


def test_uninstall_removes_the_models_when_asked_to_keep_nothing(release: Release):
    release.install({"crds.keep": False})
    release.create_model()
    release.uninstall()
    until(lambda: release.crd_names() == [])


def test_a_crd_that_was_applied_by_hand_is_taken_over_only_when_asked(release: Release):
    (path,) = (ROOT / "crds").glob("*.yaml")
    release.extensions.create_custom_resource_definition(yaml.safe_load(path.read_text()))

    with pytest.raises(HelmError, match="ownership"):
        release.install()
    release.install({"crds.install": False})
    release.install({}, "--take-ownership")
    stored = release.extensions.read_custom_resource_definition(CRD)
    assert stored.metadata.labels["app.kubernetes.io/managed-by"] == "Helm"


def test_the_restricted_standard_admits_every_pod(release: Release):
    """The API server's own Pod Security admission is the judge."""
    release.install()
    namespace = client.V1Namespace(
        metadata=client.V1ObjectMeta(name="restricted", labels={"pod-security.kubernetes.io/enforce": "restricted"})
    )
    release.core.create_namespace(namespace)
    for deployment in release.apps.list_namespaced_deployment(NAMESPACE).items:
        template = deployment.spec.template
        pod = client.V1Pod(metadata=client.V1ObjectMeta(name=deployment.metadata.name), spec=template.spec)
        created = release.core.create_namespaced_pod("restricted", pod)
        assert created.metadata.uid
    # The judge is awake: what the standard forbids is refused.
    pod.metadata.name = "root"
    pod.spec.security_context = None
    with pytest.raises(ApiException, match="violates PodSecurity"):
        release.core.create_namespaced_pod("restricted", pod)
