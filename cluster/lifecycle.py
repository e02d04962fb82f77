"""Starting and ending a cluster. Each step can be repeated, so that `up` heals whatever an interrupted one left."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster import (
    addresses,
    cgroups,
    configuration,
    mounts,
    node,
    paths,
    prerequisites,
    processes,
    programs,
    sandbox,
    scratch_image,
)
from cluster.errors import ClusterError, MissingPrerequisiteError
from cluster.instance import Instance
from cluster.locks import exclusive
from cluster.paths import StateFolder
from cluster.progress import Step, say

_STOP_SECONDS = 20.0


@dataclass(frozen=True)
class Status:
    """What is there of this checkout's cluster."""

    instance: Instance | None
    supervisor: int | None

    @property
    def running(self) -> bool:
        """Whether there is a supervisor that was started completely: the link is the last thing it waits for."""
        if self.instance is None or self.supervisor is None:
            return False
        return Path("/sys/class/net", self.instance.identity.interface).exists()


def status() -> Status:
    """Look without touching anything."""
    state = StateFolder.of_this_checkout()
    found = processes.supervisors(state)
    return Status(instance=Instance.load(state), supervisor=found[-1] if found else None)


def running_instance() -> Instance:
    """The running cluster; an error that says what to do when there is none."""
    now = status()
    if now.instance is None or now.supervisor is None:
        raise ClusterError("no cluster is running in this checkout: start it with `python -m cluster up`")
    bypass_proxies(now.instance.addresses)
    return now.instance


def bypass_proxies(of: addresses.Addresses) -> None:
    """A proxy of the environment has no business between us and the node, whoever asks: kubectl, helm, buildah, Python."""
    for name in ("NO_PROXY", "no_proxy"):
        known = os.environ.get(name, "").split(",")
        ours = [of.node, str(of.whole), configuration.REGISTRY_ALIAS]
        os.environ[name] = ",".join(filter(None, [*known, *(host for host in ours if host not in known)]))


def inside(command: Sequence[str], *, all_namespaces: bool = False) -> list[str]:
    """`command` in the cluster's network namespace or, with `all_namespaces`, also among its mounts and processes."""
    running_instance()
    kinds = ["--net", "--mount", "--pid"] if all_namespaces else ["--net"]
    # Never `ip netns exec`: it covers /sys, and with it the cgroups.
    return ["nsenter", f"--target={status().supervisor}", *kinds, "--", *command]


def up(accelerators: node.Accelerators = node.NO_ACCELERATORS) -> Instance:
    """Bring the cluster up, or find it up, and wait until its node and DNS are ready."""
    prerequisites.require()
    with exclusive(paths.SOURCE, purpose="start or end this checkout's cluster"):
        now = status()
        if now.running:
            instance = running_instance()
            say(f"already running, supervised by process {now.supervisor}")
        else:
            built = programs.ensure()
            _remove_leftovers(StateFolder.of_this_checkout())
            instance = _start(StateFolder.of_this_checkout(), built)
            bypass_proxies(instance.addresses)
        node.make_ready(instance, accelerators)
    return instance


def down() -> None:
    """End the cluster and remove everything that belonged to it, cached files aside."""
    prerequisites.require_for_down()
    with exclusive(paths.SOURCE, purpose="start or end this checkout's cluster"):
        state = StateFolder.of_this_checkout()
        if not processes.supervisors(state) and not state.root.exists():
            say("no cluster is running in this checkout")
        _remove_leftovers(state)


def _remove_leftovers(state: StateFolder) -> None:
    """End what runs of this checkout's cluster and remove what is left of it, however it came to its end."""
    identity = addresses.Identity.of(paths.REPOSITORY)
    if pids := processes.supervisors(state):
        with Step("end the running cluster"):
            processes.end(pids, state, grace_seconds=_STOP_SECONDS)
    sandbox.remove_link(identity.interface)
    cgroups.remove(identity.name)
    if state.root.exists():
        mounts.require_none(mounts.below(state.root))  # ours live in a namespace that is gone
        with Step(f"remove {state.root}"):
            shutil.rmtree(state.root)


def _start(state: StateFolder, built: programs.Programs) -> Instance:
    identity = addresses.Identity.of(paths.REPOSITORY)
    # Held until the route to the block exists, so that another checkout that starts now sees it as taken.
    with exclusive(paths.cache() / "addresses.lock", purpose="choose a network"), Step("start the supervisor") as step:
        block = addresses.choose(identity, addresses.networks_in_use())
        instance = Instance(state=state, identity=identity, addresses=block, programs=built)
        state.logs.mkdir(parents=True)
        registry_storage = paths.cache() / "registry"
        registry_storage.mkdir(parents=True, exist_ok=True)
        configuration.write(instance, registry_storage=registry_storage)
        _write_images(instance)
        instance.save()
        cgroups.create(identity.name)
        step.detail = f"node {block.node}"
        _launch_supervisor(instance)
    return instance


def _write_images(instance: Instance) -> None:
    folder = configuration.images_folder(instance)
    folder.mkdir()
    for reference, name in ((configuration.PAUSE_IMAGE, "pause"), (configuration.COREDNS_IMAGE, "coredns")):
        program = instance.programs.path(name)
        scratch_image.write(folder / f"{name}.tar", reference=reference, program=program)


def _launch_supervisor(instance: Instance) -> None:
    """Start the supervisor and give it the host's end of its link; see `supervisor.py` for what the two say."""
    with subprocess.Popen(
        processes.supervisor_command(instance.state),
        cwd=paths.REPOSITORY,
        env={name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")},  # out of reach
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=sys.stderr,
        start_new_session=True,
        text=True,
    ) as launcher:
        assert launcher.stdin is not None  # noqa: S101 - both are pipes
        assert launcher.stdout is not None  # noqa: S101
        pid = _answer(launcher.stdout.readline())
        _answer(launcher.stdout.readline())
        sandbox.connect_host(instance.addresses, interface=instance.identity.interface, pid=int(pid))
        launcher.stdin.write("linked\n")


def _answer(line: str) -> str:
    if line.startswith("error "):
        raise MissingPrerequisiteError(line.removeprefix("error ").strip())
    if not line:
        raise ClusterError("the supervisor ended at once: its complaint stands above")
    return line.strip()
