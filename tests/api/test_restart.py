"""The operator comes and goes; the resource stays."""

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
