"""What makes a running cluster usable: DNS, a Ready node, and accelerators that are only claimed."""

import subprocess
import time
from dataclasses import dataclass
from string import Template

import urllib3
from kubernetes import client, config

from cluster import configuration, paths, processes
from cluster.errors import ClusterError
from cluster.instance import Instance
from cluster.progress import Step

GPU_RESOURCE = "nvidia.com/gpu"
GPU_MEMORY_LABEL = "nvidia.com/gpu.memory"
_READY_SECONDS = 300.0  # fifteen are enough on a quiet machine


@dataclass(frozen=True)
class Accelerators:
    """GPUs that the node claims to have. Pods that ask for them are scheduled; there is no device behind them."""

    count: int = 0
    memory_mib: int = 0


NO_ACCELERATORS = Accelerators()


def make_ready(instance: Instance, accelerators: Accelerators) -> None:
    """Wait for the API server, apply DNS, wait for the node and DNS, claim accelerators."""
    with Step("wait for the API server, the node and DNS") as step:
        deadline = time.monotonic() + _READY_SECONDS
        applied = False
        while True:
            step.detail = missing = _what_is_missing(instance)
            if not missing:
                break
            if missing != "the API server" and not applied:
                apply(instance, "coredns.yaml", coredns_image=configuration.COREDNS_IMAGE)
                applied = True
            _require_alive(instance)
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{missing} did not become ready within {_READY_SECONDS:.0f} s: see {instance.state.logs}"
                )
            time.sleep(0.2)
    if accelerators.count:
        _claim(instance, accelerators)


def apply(instance: Instance, manifest: str, **values: str) -> None:
    """Apply `manifests/<manifest>` with `${name}` replaced by `values`."""
    text = Template((paths.SOURCE / "manifests" / manifest).read_text())
    rendered = text.substitute(values, dns_address=instance.addresses.dns)
    command = [
        str(instance.programs.path("kubectl")),
        f"--kubeconfig={instance.state.kubeconfig}",
        "apply",
        "--server-side",
        "--filename=-",
    ]
    deadline = time.monotonic() + 30
    while True:
        done = subprocess.run(command, input=rendered, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        if time.monotonic() > deadline:
            raise ClusterError(f"kubectl could not apply {manifest}: {done.stderr.strip()}")
        time.sleep(0.5)


def api_client(instance: Instance) -> client.ApiClient:
    """An administrator's client that does not retry behind our back."""
    made: client.ApiClient = config.new_client_from_config(str(instance.state.kubeconfig))  # type: ignore[no-untyped-call]
    made.configuration.retries = False
    return made


def _what_is_missing(instance: Instance) -> str:
    """Name of the first thing that is not ready; empty when everything is."""
    with api_client(instance) as connection:
        core = client.CoreV1Api(connection)
        try:
            nodes = core.list_node(_request_timeout=3).items
            if not any(
                c.type == "Ready" and c.status == "True" for n in nodes if n.status for c in n.status.conditions or ()
            ):
                return "the node"
            deployment = client.AppsV1Api(connection).read_namespaced_deployment(
                "coredns", "kube-system", _request_timeout=3
            )
            available = deployment.status and deployment.status.available_replicas
        except client.ApiException as error:
            return "DNS" if error.status == 404 else "the API server"
        except (urllib3.exceptions.HTTPError, OSError):
            return "the API server"
    return "" if available else "DNS"


def _require_alive(instance: Instance) -> None:
    if not processes.supervisors(instance.state):
        lines = instance.state.supervisor_log.read_text(errors="replace").splitlines()[-1:]
        raise ClusterError(f"the supervisor ended: {''.join(lines)} (logs in {instance.state.logs})")


def _claim(instance: Instance, accelerators: Accelerators) -> None:
    count, memory = str(accelerators.count), str(accelerators.memory_mib)
    with Step(f"claim {count} GPU(s) with {memory} MiB"), api_client(instance) as connection:
        core = client.CoreV1Api(connection)
        capacity = {"status": {"capacity": {GPU_RESOURCE: count}, "allocatable": {GPU_RESOURCE: count}}}
        core.patch_node_status(configuration.NODE, capacity)
        core.patch_node(configuration.NODE, {"metadata": {"labels": {GPU_MEMORY_LABEL: memory}}})
