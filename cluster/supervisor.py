"""`python -m cluster.supervisor STATE`: process 1 of a running cluster. Started by `up`, not by people.

Talks to `up` through standard input and output: it prints its process id, then `unshared`, waits for a line that says
that the host's end of the link is there, and goes on alone.
"""

import json
import os
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from cluster import configuration, debian, sandbox
from cluster.configuration import Commands
from cluster.errors import ClusterError
from cluster.instance import Instance
from cluster.paths import StateFolder
from cluster.supervision import StopRequestedError, Supervisor

_START_SECONDS = 180.0
# Who needs whom: an API server that lost its etcd lingers for a minute.
_STOP_ORDER = (
    ("kubelet", "kube-proxy", "kube-scheduler", "kube-controller-manager"),
    ("kube-apiserver",),
    ("containerd", "registry", "etcd"),
)


def main() -> None:
    state = StateFolder(Path(sys.argv[1]))
    instance = Instance.load(state)
    if instance is None:
        sys.exit(f"{state.description} is missing or unreadable: start the cluster with `up`")
    debian.extend_path()
    try:
        if pid := sandbox.fork_into_new_pid_namespace():
            _tell(str(pid))
            os._exit(0)
        os.setsid()
        sandbox.enter_new_mount_and_network_namespaces()
        _tell("unshared")
    except ClusterError as error:
        _tell(f"error {error}")
        sys.exit(1)
    if not sys.stdin.readline():
        sys.exit(1)  # `up` was killed: end, and with us everything made so far
    _detach(state)
    try:
        _run(instance)
    except ClusterError as error:
        _log(f"giving up: {error}")
        sys.exit(1)


def _run(instance: Instance) -> None:
    state = instance.state
    sandbox.arrange_mounts(state)
    sandbox.configure_node_network(instance.addresses)
    supervisor = Supervisor(logs=state.logs, report=_log)
    try:
        _start_all(supervisor, instance)
        _log("everything is started")
        supervisor.run(each_turn=lambda: _write_status(state, supervisor))
    except StopRequestedError:
        _log("stopping")
        supervisor.stop(_STOP_ORDER)
        _log("stopped")


def _start_all(supervisor: Supervisor, instance: Instance) -> None:
    commands = Commands.load(configuration.commands_file(instance))
    trust = ssl.create_default_context(cafile=str(instance.state.pki / "ca.crt"))
    supervisor.start("etcd", commands.etcd)
    supervisor.start("containerd", commands.containerd)
    supervisor.start("registry", commands.registry)
    supervisor.wait_until(
        lambda: _answers(f"{configuration.ETCD_URL}/health", trust), what="etcd", seconds=_START_SECONDS
    )
    supervisor.start("kube-apiserver", commands.apiserver)
    supervisor.wait_until(
        lambda: Path(configuration.CONTAINERD_SOCKET).exists(), what="containerd", seconds=_START_SECONDS
    )
    _import_images(supervisor, instance)
    supervisor.wait_until(
        lambda: _answers(f"{instance.addresses.api_url}/readyz", trust), what="kube-apiserver", seconds=_START_SECONDS
    )
    supervisor.start("kube-controller-manager", commands.controller_manager)
    supervisor.start("kube-scheduler", commands.scheduler)
    supervisor.start("kube-proxy", commands.kube_proxy)
    supervisor.start("kubelet", commands.kubelet)


def _import_images(supervisor: Supervisor, instance: Instance) -> None:
    ctr = [str(instance.programs.path("ctr")), "--address", configuration.CONTAINERD_SOCKET, "--namespace", "k8s.io"]
    for archive in sorted(configuration.images_folder(instance).glob("*.tar")):
        deadline = time.monotonic() + _START_SECONDS
        # The socket is there a moment before containerd's services are.
        while True:
            done = subprocess.run([*ctr, "images", "import", str(archive)], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                break
            if time.monotonic() > deadline:
                raise ClusterError(f"containerd did not take {archive.name}: {done.stderr.strip()}")
            supervisor.turn(seconds=0.1)


def _answers(url: str, trust: ssl.SSLContext) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust))
    try:
        with opener.open(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _write_status(state: StateFolder, supervisor: Supervisor) -> None:
    components = [{"name": c.name, "running": c.pid is not None, "restarts": c.restarts} for c in supervisor.components]
    text = json.dumps(components)
    if not state.component_status.exists() or state.component_status.read_text() != text:
        unfinished = state.component_status.with_suffix(".new")
        unfinished.write_text(text)
        unfinished.rename(state.component_status)


def _detach(state: StateFolder) -> None:
    """Let go of `up`'s terminal and pipes."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(state.supervisor_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for source, targets in ((nothing, (0,)), (log, (1, 2))):
        for target in targets:
            os.dup2(source, target)
        os.close(source)
    os.chdir("/")


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _log(text: str) -> None:
    _tell(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {text}")


if __name__ == "__main__":
    main()
