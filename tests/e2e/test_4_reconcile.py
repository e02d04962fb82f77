"""The operator's loop on a real cluster: new revisions, drift, quiet, deletion."""

import json
import time

import pytest

from cluster.paths import REPOSITORY
from tests.audit import operator_writes

EXAMPLE = REPOSITORY / "examples" / "storyteller.yaml"
KINDS = "deployments,replicasets,pods,services,configmaps,endpointslices"


def revision(cluster, role):
    return next((arm["revision"] for arm in cluster.arms() if arm["role"] == role), None)


def test_kubectl_diff_after_apply_shows_nothing(cluster):
    cluster.kubectl("apply", "-f", str(EXAMPLE))

    assert cluster.kubectl("diff", "-f", str(EXAMPLE)) == ""


def test_a_quiet_minute_has_no_write_by_the_operator(cluster):
    time.sleep(5)
    before = operator_writes()
    assert before > 0, "the audit log shows no write by the operator at all: wrong user name?"

    time.sleep(60)

    assert operator_writes() == before


@pytest.mark.parametrize("kind", ["deployment", "service", "configmap"])
def test_a_deleted_child_comes_back(cluster, eventually, kind):
    name = f"storyteller-{revision(cluster, 'stable')}"
    uid = cluster.target.get(kind, name)["metadata"]["uid"]

    cluster.kubectl("delete", kind, name, "--wait=false")

    eventually(lambda: cluster.target.get(kind, name)["metadata"]["uid"] != uid, f"{kind} {name} is made again")


def test_a_changed_child_is_put_right(cluster, eventually):
    name = f"storyteller-{revision(cluster, 'stable')}"
    cluster.kubectl("patch", "service", name, "--type=merge", "-p", '{"spec":{"selector":{"wrong":"label"}}}')

    eventually(
        lambda: "wrong" not in cluster.target.get("service", name)["spec"]["selector"] or None, "drift is repaired"
    )


def test_a_new_spec_becomes_a_canary_and_then_the_stable_revision(cluster, eventually):
    old = revision(cluster, "stable")
    cluster.patch({"spec": {"rollout": {"initialPercent": 20}, "sampler": {"maxDenoisingSteps": 12}}})

    eventually(lambda: revision(cluster, "canary") not in {None, old}, "the new revision is the canary")
    shares = {arm["role"]: arm["percent"] for arm in cluster.arms()}
    assert shares == {"stable": 80, "canary": 20}
    new = revision(cluster, "canary")

    cluster.patch({"spec": {"rollout": {"initialPercent": 100}}})
    eventually(lambda: revision(cluster, "stable") == new, "the canary is promoted")
    eventually(
        lambda: f"storyteller-{old}" not in cluster.kubectl("get", KINDS, "-o", "name"),
        "the old revision's objects are gone",
    )

    cluster.kubectl("apply", "-f", str(EXAMPLE))
    eventually(lambda: revision(cluster, "stable") == old, "the old spec gives the old revision again")


def test_a_revision_that_cannot_start_gets_no_traffic_and_says_why(cluster, eventually):
    before = cluster.arms()
    cluster.patch({"spec": {"model": {"source": "file:///models/nowhere"}}})
    try:
        eventually(
            lambda: (
                "nowhere" in cluster.condition("Progressing").get("message", "")
                or "nowhere" in json.dumps(cluster.model()["status"])
            ),
            "the status names the source that cannot be loaded",
        )
        time.sleep(10)
        assert cluster.arms() == before
        assert cluster.condition("Ready")["status"] == "True", "the promoted revision serves on"
    finally:
        cluster.kubectl("apply", "-f", str(EXAMPLE))
    eventually(lambda: cluster.condition("Progressing")["status"] == "False", "settled again")


def test_deleting_the_resource_leaves_no_object_behind(cluster, eventually):
    def mine():
        names = cluster.kubectl("get", f"{KINDS},events.events.k8s.io", "-o", "name").split()
        return [name for name in names if "storyteller" in name and not name.startswith("event")]

    assert mine()
    cluster.kubectl("delete", "dm", "storyteller")

    eventually(lambda: not mine() or None, "no object of the storyteller is left", within=180)
    cluster.kubectl("apply", "-f", str(EXAMPLE))
    eventually(cluster.everything_is_ready, "the storyteller serves again")
