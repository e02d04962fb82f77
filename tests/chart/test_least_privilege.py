"""The real programs run under the chart's roles: they are refused nothing, and nothing is granted that they do not use.

What they ask for is read from the API server's audit log.
"""

import contextlib
import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from diffusion_worker.inspect.folder import inspect_folder
from diffusion_worker.inspect.message import facts_message
from kubernetes.client.exceptions import ApiException, NotFoundException

from tests.chart.chart import NAMESPACE, RELEASE, ROOT, Rendered, render
from tests.chart.release import Release, until

MODELS = "serving.diffusion-operator.dev"
MODES: dict[str, dict[str, Any]] = {"cluster-wide": {}, "in one namespace": {"watchNamespaces": ["default"]}}

_APPLIED = (
    ("apps", "deployments"),
    ("", "services"),
    ("", "configmaps"),
    ("batch", "jobs"),
    ("coordination.k8s.io", "leases"),
)
# Asked by the authorizer or by admission within another request, so never seen in the audit log on their own.
UNSEEN = {
    # Server-side apply of an object that is not there yet is a PATCH that needs `create` too.
    *((group, kind, "create") for group, kind in _APPLIED),
    # OwnerReferencesPermissionEnforcement, where a cluster has it, asks this for blockOwnerDeletion.
    (MODELS, "diffusionmodels/finalizers", "update"),
}


class Use(NamedTuple):
    """One thing that was done, or may be done, to a kind of resource."""

    group: str
    resource: str
    verb: str


def granted(rendered: Rendered, account: str) -> set[Use]:
    """All that the roles bound to a ServiceAccount allow."""
    bound = {
        (item["roleRef"]["kind"], item["roleRef"]["name"])
        for kind in ("RoleBinding", "ClusterRoleBinding")
        for item in rendered.of(kind)
        if item["subjects"][0]["name"] == account
    }
    return {
        Use(group, resource, verb)
        for kind, name in bound
        for role in rendered.of(kind)
        if role["metadata"]["name"] == name
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def audited(release: Release, account: str, *, since: int) -> tuple[set[Use], set[Use]]:
    """What a ServiceAccount did and what it was refused, in the audit log's lines from `since` on."""
    done, refused = set(), set()
    for line in release.plane.audit_log.read_text().splitlines()[since:]:
        event = json.loads(line)
        if event["user"]["username"] != f"system:serviceaccount:{NAMESPACE}:{account}" or "objectRef" not in event:
            continue
        about = event["objectRef"]
        resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
        use = Use(about.get("apiGroup", ""), resource, event["verb"])
        (refused if event["responseStatus"]["code"] == 403 else done).add(use)
    return done, refused


def audit_lines(release: Release) -> int:
    """How long the audit log is now."""
    return len(release.plane.audit_log.read_text().splitlines())


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextlib.contextmanager
def running(release: Release, rendered: Rendered, deployment: str, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """A deployment's program as the chart starts it, as a process of ours under its ServiceAccount's rights."""
    (container,) = rendered.one("Deployment", deployment)["spec"]["template"]["spec"]["containers"]
    program, *subcommand = container["command"]
    kubeconfig = release.kubeconfig_of(deployment)
    command = [sys.executable, "-m", program.replace("-", "_"), *subcommand, *container["args"], *more]
    log = release.plane.folder / f"{deployment}.log"
    with log.open("wb") as sink:
        process = subprocess.Popen([*command, f"--kubeconfig={kubeconfig}"], stdout=sink, stderr=sink)
        try:
            yield process
            assert process.poll() is None, log.read_text()
        finally:
            process.terminate()
            try:
                process.wait(30)
            finally:
                process.kill()


def deployments(release: Release) -> set[str]:
    """Names of the Deployments that the operator made."""
    return {item.metadata.name for item in release.apps.list_namespaced_deployment("default").items}


def make_ready(release: Release) -> None:
    """Do the work of the absent controllers: all pods of all Deployments are ready."""
    ready = {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1, "updatedReplicas": 1}
    for name in deployments(release):
        with contextlib.suppress(NotFoundException):  # the operator may remove it meanwhile
            release.apps.patch_namespaced_deployment_status(name, "default", {"status": ready})


def find_facts(release: Release) -> None:
    """Do the work of the Job controller and of kubelet: each Job that inspects a checkpoint found one."""
    checkpoints = {"diffusion": "storyteller", "ar": "storyteller-ar"}
    with contextlib.suppress(ApiException):  # pods need it, and it is there already
        release.core.create_namespaced_service_account("default", {"metadata": {"name": "default"}})
    for job in release.batch.list_namespaced_job("default").items:
        template = job.spec.template
        (container,) = template.spec.containers
        checkpoint = ROOT / "examples" / "checkpoints" / checkpoints[container.command[2].rpartition("/")[2]]
        pod = {
            "metadata": {"name": job.metadata.name, "labels": template.metadata.labels},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "inspect", "image": container.image}]},
        }
        ended = {"exitCode": 0, "message": facts_message(inspect_folder(checkpoint))}
        state = {"name": "inspect", "image": container.image, "imageID": "", "ready": False, "restartCount": 0}
        status = {"phase": "Succeeded", "containerStatuses": [state | {"state": {"terminated": ended}}]}
        with contextlib.suppress(ApiException):  # it was done already
            release.core.create_namespaced_pod("default", pod)
            release.core.patch_namespaced_pod_status(job.metadata.name, "default", {"status": status})


def a_new_revision_replaces_the_old_one(release: Release, *, queue: int) -> None:
    before = deployments(release)
    release.patch_model({"spec": {"limits": {"queueSize": queue}}})
    until(lambda: bool(deployments(release) - before))

    def old_is_gone() -> bool:
        make_ready(release)
        return bool(before - deployments(release)) and len(deployments(release)) == len(before)

    until(old_is_gone)
    a_canary_serves(release)  # which is an event, the same one whenever a revision returns


def a_canary_serves(release: Release) -> None:
    def serves() -> bool:
        make_ready(release)  # also what was made after its predecessor went
        return release.canary_serves()

    until(serves)


@pytest.mark.parametrize("mode", MODES)
def test_the_operator_uses_all_its_rights_and_misses_none(release: Release, mode: str):
    rendered = render(MODES[mode])
    release.install(MODES[mode])
    since = audit_lines(release)
    with running(release, rendered, RELEASE, f"--port={free_port()}"):
        # Whose GPUs are not said: nodes are asked, where a role allows it.
        release.create_model(**({} if MODES[mode] else {"resources": {"gpus": 1}}))

        def has_pods() -> bool:
            find_facts(release)
            return len(deployments(release)) == 2

        until(has_pods)
        a_canary_serves(release)
        # There and back again, so that an event repeats and is counted, which is a write of another kind.
        for queue in (3, 5, 3, 5):
            a_new_revision_replaces_the_old_one(release, queue=queue)
        # Asked of the log, since events of the other mode are still there.
        until(lambda: Use("", "events", "patch") in audited(release, RELEASE, since=since)[0])
        # Watches tell of it as long as it is there; that it is gone is asked.
        release.delete_model()
        until(lambda: Use(MODELS, "diffusionmodels", "get") in audited(release, RELEASE, since=since)[0])

    done, refused = audited(release, RELEASE, since=since)
    assert refused == set()
    assert done == granted(rendered, RELEASE) - {Use(*unseen) for unseen in UNSEEN}


@pytest.mark.parametrize("mode", MODES)
def test_the_gateway_uses_all_its_rights_and_misses_none(release: Release, mode: str):
    rendered, account, port = render(MODES[mode]), f"{RELEASE}-gateway", free_port()
    release.install(MODES[mode])
    since = audit_lines(release)

    def is_ready() -> bool:
        with contextlib.suppress(urllib.error.URLError, OSError):
            return bool(urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2).status == 200)
        return False

    def has_asked_for_all() -> bool:
        return audited(release, account, since=since)[0] >= granted(rendered, account)

    with running(release, rendered, account, "--host=127.0.0.1", f"--port={port}", f"--admin-port={free_port()}"):
        until(is_ready)  # without any model: `helm install --wait` comes before the first one
        until(has_asked_for_all)

    done, refused = audited(release, account, since=since)
    assert refused == set()
    assert done == granted(rendered, account)
