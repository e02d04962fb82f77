"""The operator comes and goes; the resource stays."""

import base64
import json
import urllib.request

import pytest

from tests.api.operator_process import IMAGE, OperatorProcess
from tests.api.seen import AR_ALONE, MODEL, PROMOTED, Seen
from tests.api.server import Server, until


@pytest.fixture
def seen(server: Server, namespace: str) -> Seen:
    return Seen(server, namespace)


def test_a_killed_operator_goes_on_where_it_was(server: Server, seen: Seen) -> None:
    seen.create(rollout={"initialPercent": 100})
    with OperatorProcess(server, watch=seen.namespace) as first:
        seen.set_ready("ar", 1)
        seen.until_arms(*AR_ALONE)
        first.kill()
    generation = seen.status["routes"]["generation"]
    seen.set_ready("diffusion", 1)
    with OperatorProcess(server, watch=seen.namespace):
        seen.until_arms(*PROMOTED)
    assert seen.status["routes"]["generation"] == generation + 1


def test_another_worker_image_is_a_new_revision(server: Server, seen: Seen) -> None:
    seen.create()
    with OperatorProcess(server, watch=seen.namespace) as first:
        old = until(lambda: seen.revision("diffusion"), what="a revision")
        assert first.stop() == 0
    with OperatorProcess(server, watch=seen.namespace, image=f"{IMAGE}-next"):
        until(lambda: seen.revision("diffusion") not in {"", old}, what="another revision")


def test_deletion_needs_no_operator(server: Server, seen: Seen) -> None:
    seen.create()
    with OperatorProcess(server, watch=seen.namespace):
        until(lambda: all(len(names) == 2 for names in seen.names().values()), what="children of both revisions")
    assert "finalizers" not in server.read(seen.namespace, MODEL)["metadata"]
    uid = server.read(seen.namespace, MODEL)["metadata"]["uid"]
    server.kubectl("-n", seen.namespace, "delete", "dm", MODEL, "--timeout=10s")
    # No garbage collector runs here; it goes by this:
    for deployment in server.apps.list_namespaced_deployment(seen.namespace).items:
        owner = deployment.metadata.owner_references[0]
        assert (owner.uid, owner.controller, owner.block_owner_deletion) == (uid, True, True)


def test_children_that_went_while_no_watch_could_tell_are_made_again(server: Server, seen: Seen) -> None:
    seen.create()
    with OperatorProcess(server, watch=seen.namespace) as operator:
        until(lambda: all(len(names) == 2 for names in seen.names().values()), what="children of both revisions")
        before = _deployments(seen)
        with server.plane.api_server_away():
            # All Deployments of the cluster, so that the watch has nothing to tell of when it begins anew.
            _forget_in_etcd(server, "/registry/deployments/")
        until(lambda: _deployments(seen).keys() == before.keys(), what="the Deployments are there", seconds=120)
        assert set(_deployments(seen).values()).isdisjoint(before.values()), "others by the same names"
        assert operator.stop() == 0


def _deployments(seen: Seen) -> dict[str, str]:
    """UIDs by name."""
    found = seen.server.apps.list_namespaced_deployment(seen.namespace).items
    return {item.metadata.name: item.metadata.uid for item in found}


def _forget_in_etcd(server: Server, prefix: str) -> None:
    """Delete all keys that begin so."""
    key, end = prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)
    body = {name: base64.b64encode(text.encode()).decode() for name, text in {"key": key, "range_end": end}.items()}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{server.plane.etcd_url}/v3/kv/deleterange", json.dumps(body).encode(), timeout=30) as answer:
        assert int(json.load(answer)["deleted"]) > 0
