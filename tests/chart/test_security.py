"""No pod asks for more than the restricted Pod Security Standard allows, and no role for more than the code uses."""

from pathlib import Path

import pytest

from tests.chart.chart import EVERYTHING, Manifest, render


def restricted_violations(pod: Manifest) -> list[str]:
    """Where a pod spec falls short of the restricted standard (and of a read-only root filesystem)."""
    found = [field for field in ("hostNetwork", "hostPID", "hostIPC") if pod.get(field)]
    # The standard allows a few more kinds; these are what the chart needs.
    found += [
        f"volume {volume['name']}" for volume in pod.get("volumes", []) if not {"emptyDir", "secret"} & volume.keys()
    ]
    security = pod.get("securityContext", {})
    if not security.get("runAsNonRoot") or not security.get("runAsUser"):
        found.append("may run as root")
    if security.get("seccompProfile") != {"type": "RuntimeDefault"}:
        found.append("no seccomp profile")
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        wanted = {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        if container.get("securityContext") != wanted:
            found.append(f"container {container['name']}: {container.get('securityContext')}")
        found += [f"host port {port['hostPort']}" for port in container.get("ports", []) if "hostPort" in port]
    return found


@pytest.mark.parametrize("files", [(), (EVERYTHING,)], ids=["defaults", "every value set"])
def test_every_pod_satisfies_the_restricted_standard(files: tuple[Path, ...]):
    pods = dict(render(files=files).pod_specs())
    assert len(pods) == 2
    assert {name: restricted_violations(pod) for name, pod in pods.items()} == {name: [] for name in pods}
