"""A real cluster is started twice, killed, healed and ended. In order: each test begins where the one before ended."""

import json
import os
import signal
import urllib.request
from collections.abc import Callable

from cluster import cgroups
from cluster.instance import Instance

from .conftest import Checkout

# A minimal Debian has no pgrep.
KILL_ETCD = 'for p in /proc/[0-9]*; do if [ "$(cat $p/comm)" = etcd ]; then kill -9 ${p#/proc/}; fi; done'
Eventually = Callable[[Callable[[], bool], str], None]


def is_ready(checkout: Checkout) -> bool:
    conditions = {c["type"]: c["status"] for c in checkout.node()["status"]["conditions"]}
    return conditions["Ready"] == "True"


def test_two_starts_at_once_make_one_cluster(checkout: Checkout) -> None:
    starts = [checkout.start("up", "--gpus=2", "--gpu-memory=40Gi") for _ in range(2)]
    outputs = [process.communicate(timeout=600)[0] for process in starts]

    assert [process.returncode for process in starts] == [0, 0], outputs
    assert checkout.supervisor()
    assert is_ready(checkout)


def test_the_node_claims_the_gpus_that_were_asked_for(checkout: Checkout) -> None:
    node = checkout.node()

    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    assert node["metadata"]["labels"]["nvidia.com/gpu.memory"] == "40960"


def test_another_start_says_that_it_runs(checkout: Checkout) -> None:
    before = checkout.supervisor()

    assert "already running" in checkout.run("up")
    assert checkout.supervisor() == before


def test_the_registry_and_the_namespace_are_reached_from_the_host(checkout: Checkout) -> None:
    instance = Instance.load(checkout.state)
    assert instance is not None

    with urllib.request.urlopen(f"http://{instance.addresses.registry}/v2/", timeout=10) as answer:
        assert answer.status == 200
    inside = json.loads(checkout.run("exec", "--", "ip", "-json", "-4", "address", "show", "dev", "eth0"))
    assert [address["local"] for address in inside[0]["addr_info"]] == [instance.addresses.node]


def test_writes_are_counted_in_the_audit_log(checkout: Checkout, eventually: Eventually) -> None:
    checkout.kubectl("create", "configmap", "counted")

    def writes() -> list[str]:
        events = map(json.loads, checkout.state.audit_log.read_text().splitlines())
        return [e["verb"] for e in events if e.get("objectRef", {}).get("name") == "counted"]

    eventually(lambda: writes() == ["create"], "the write is in the audit log once")


def test_a_program_that_crashes_is_started_again(checkout: Checkout, eventually: Eventually) -> None:
    checkout.run("exec", "--inside", "--", "sh", "-c", KILL_ETCD)

    eventually(lambda: "etcd ended with status -9" in checkout.state.supervisor_log.read_text(), "the crash is logged")
    assert "already running" in checkout.run("up")
    assert checkout.kubectl("get", "configmap", "counted")


def test_a_killed_supervisor_leaves_no_process_mount_or_interface(checkout: Checkout, eventually: Eventually) -> None:
    traces = checkout.traces()
    assert traces.processes > 8

    os.kill(checkout.supervisor(), signal.SIGKILL)

    eventually(lambda: traces.left() == [], "the kernel ends what belonged to the supervisor")


def test_the_next_start_heals(checkout: Checkout) -> None:
    checkout.run("up")

    assert is_ready(checkout)


def test_a_start_after_the_folder_was_lost_heals(checkout: Checkout) -> None:
    before = checkout.supervisor()
    checkout.state.description.unlink()
    checkout.state.kubeconfig.unlink()

    checkout.run("up")

    assert checkout.supervisor() != before
    assert is_ready(checkout)


def test_down_leaves_nothing(checkout: Checkout) -> None:
    traces = checkout.traces()
    assert cgroups.existing(checkout.identity.name)

    checkout.run("down")

    assert traces.left_after_down() == []


def test_down_without_a_cluster_says_so(checkout: Checkout) -> None:
    assert "no cluster is running" in checkout.run("down")
