"""Prometheus in a pod that scrapes every pod annotated with `prometheus.io/scrape`, `port` and `path`."""

import shutil
import subprocess
import time
from pathlib import Path

from kubernetes import client

from cluster import configuration, lifecycle, node, paths, programs, scratch_image
from cluster.errors import ClusterError
from cluster.instance import Instance
from cluster.locks import exclusive
from cluster.progress import Step

NODE_PORT = 30090
"""Where it answers on the node's address."""
URL = "http://prometheus.monitoring:9090"
"""Where it answers in the cluster: the chart's value `prometheus.url`."""

# Debian's package will not do: it is built without the discovery of Kubernetes' pods.
_MODULE = "github.com/prometheus/prometheus"
_VERSION = "v0.316.0"  # how Go's modules spell Prometheus 3.16.0
_TAGS = "remove_all_sd,enable_kubernetes_sd"  # the other ways of discovery bring a dozen clouds' libraries
_IMAGE = f"{configuration.REGISTRY_ALIAS}/prometheus:1"
_READY_SECONDS = 120.0


def install(instance: Instance) -> str:
    """Install it, or find it installed; return its address on the host."""
    program = ensure_program()
    url = f"http://{instance.node_address}:{NODE_PORT}"
    with Step(f"install Prometheus at {url}"):
        if not _available(instance):
            archive = configuration.images_folder(instance) / "prometheus.tar"
            scratch_image.write(archive, reference=_IMAGE, program=program)
            _import(instance, str(archive))
        node.apply(instance, "prometheus.yaml", prometheus_image=_IMAGE, node_port=str(NODE_PORT))
        deadline = time.monotonic() + _READY_SECONDS
        while not _available(instance):
            if time.monotonic() > deadline:
                raise ClusterError("Prometheus is not ready: see `kubectl -n monitoring describe pods`")
            time.sleep(0.5)
    return url


def ensure_program(name: str = "prometheus") -> Path:
    """`prometheus` or `promtool` from the cache, compiled first where it is not there yet (minutes)."""
    program = paths.cache() / "programs" / f"{name}-{_VERSION}" / name
    if not program.is_file():
        with exclusive(paths.cache() / "programs.lock", purpose="compile the same programs"):
            if not program.is_file():
                _compile(program.parent, name)
    return program


def _compile(folder: Path, name: str) -> None:
    programs.require_go()
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    command = ["go", "install", "-v", "-trimpath", "-tags", _TAGS, "-ldflags", "-s -w"]
    with Step(f"compile {name} {_VERSION} (once per machine; minutes)") as step:
        command.append(f"{_MODULE}/cmd/{name}@{_VERSION}")
        programs.run_go(command, step, environment={"GOBIN": str(unfinished), "GOFLAGS": ""})
    unfinished.rename(folder)


def _import(instance: Instance, archive: str) -> None:
    ctr = [str(instance.programs.path("ctr")), "--address", configuration.CONTAINERD_SOCKET, "--namespace", "k8s.io"]
    command = lifecycle.inside([*ctr, "images", "import", archive], all_namespaces=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"containerd did not take the image of Prometheus: {done.stderr.strip()}")


def _available(instance: Instance) -> bool:
    with node.api_client(instance) as connection:
        try:
            deployment = client.AppsV1Api(connection).read_namespaced_deployment("prometheus", "monitoring")
        except client.ApiException as error:
            if error.status == 404:
                return False
            raise
    return bool(deployment.status and deployment.status.available_replicas)
