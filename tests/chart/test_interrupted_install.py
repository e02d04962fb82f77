"""An installation that was killed half way is taken up again."""

import subprocess
from pathlib import Path

import pytest

from cluster import deploy, tools
from tests.chart.chart import CHART, NAMESPACE, RELEASE, HelmError
from tests.chart.release import Release, until


@pytest.fixture
def target(release: Release) -> deploy.Target:
    return deploy.Target(release.plane.kubeconfig, None, tools.path("kubectl"), tools.path("helm"))


def kill_an_installation_half_way(release: Release, helm: Path) -> None:
    command = [str(helm), f"--kubeconfig={release.plane.kubeconfig}", f"--namespace={NAMESPACE}", "upgrade", RELEASE]
    # Nothing becomes ready without controllers, so Helm waits until it is killed.
    command += [str(CHART), "--install", "--create-namespace", "--wait", "--set=image.registry=registry.example.com/x"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as killed:
        until(
            lambda: (
                any(
                    (secret.metadata.labels or {}).get("status") == "pending-install"
                    for secret in release.core.list_namespaced_secret(NAMESPACE).items
                )
                and bool(release.apps.list_namespaced_deployment(NAMESPACE).items)
            )
        )
        killed.kill()


def test_a_killed_installation_does_not_block_the_next_one(release: Release, target: deploy.Target) -> None:
    kill_an_installation_half_way(release, target.helm_path)
    with pytest.raises(HelmError, match="another operation"):
        release.install()

    deploy.forget_interrupted_installation(target)

    release.install()
    assert release.revision == 1


def test_there_may_be_nothing_to_forget(target: deploy.Target) -> None:
    deploy.forget_interrupted_installation(target)
