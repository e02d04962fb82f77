"""The operator against a real API server."""

import json
from collections.abc import Callable, Iterator

import pytest

from tests.api.operator_process import URL, OperatorProcess
from tests.api.seen import AR_ALONE, MODEL, PROMOTED, Seen
from tests.api.server import Server, until
from tests.api.test_validation import resource


@pytest.fixture(scope="module")
def operator(server: Server) -> Iterator[OperatorProcess]:
    """One operator for the whole module: each test has a namespace of its own."""
    with OperatorProcess(server) as running:
        yield running


@pytest.fixture
def seen(server: Server, namespace: str) -> Iterator[Seen]:
    made = Seen(server, namespace)
    yield made
    made.forget()


def test_a_resource_goes_from_nothing_to_diffusion_at_full_weight(operator: OperatorProcess, seen: Seen) -> None:
    seen.create(rollout={"initialPercent": 100})
    until(lambda: all(len(names) == 2 for names in seen.names().values()), what="children of both revisions")
    assert seen.condition("Ready")["status"] == "False"
    assert {c["observedGeneration"] for c in seen.status["conditions"]} == {1}
    assert seen.status["phase"] == "Pending"
    assert seen.status["url"] == URL

    seen.set_ready("ar", 1)
    seen.until_arms(*AR_ALONE)
    assert seen.condition("Ready")["status"] == "True"
    seen.set_ready("diffusion", 1)
    seen.until_arms(*PROMOTED)
    assert (seen.status["phase"], seen.status["rollout"]["diffusionPercent"]) == ("Serving", 100)

    printed = seen.server.kubectl("-n", seen.namespace, "get", "dm", MODEL)
    assert printed.split()[:8] == ["NAME", "PHASE", "READY", "WEIGHT", "ROLLOUT", "STEP", "GATES", "URL"]
    assert printed.splitlines()[1].split()[:5] == [MODEL, "Serving", "True", "100", "Promoted"]
    described = seen.server.kubectl("-n", seen.namespace, "describe", "dm", MODEL)
    assert "RoutesChanged" in described


def test_a_canary_gets_its_share_and_is_promoted_when_spec_says_so(operator: OperatorProcess, seen: Seen) -> None:
    seen.create(rollout={"initialPercent": 20})
    seen.set_ready("ar", 1)
    seen.set_ready("diffusion", 1)
    seen.until_arms(("stable", "ar", 80), ("canary", "diffusion", 20), ("fallback", "ar", 0))
    assert seen.condition("Progressing")["reason"] == "CanaryServing"
    seen.change(rollout={"initialPercent": 100})
    seen.until_arms(*PROMOTED)


def test_an_old_revision_goes_after_the_new_one_took_over(operator: OperatorProcess, seen: Seen) -> None:
    seen.create(rollout={"initialPercent": 100})
    seen.set_ready("ar", 1)
    seen.set_ready("diffusion", 1)
    seen.until_arms(*PROMOTED)
    old = seen.revision("diffusion")

    seen.change(sampler={"maxDenoisingSteps": 10})
    until(lambda: seen.revision("diffusion") != old, what="a new revision")
    new = seen.revision("diffusion")
    until(lambda: f"{MODEL}-{new}" in seen.names()["Deployment"], what="its Deployment")
    assert f"{MODEL}-{old}" in seen.names()["Deployment"]
    seen.set_ready("diffusion", 1)
    until(lambda: seen.status["rollout"]["stableRevision"] == new, what="the new one is stable")
    until(lambda: all(f"{MODEL}-{old}" not in names for names in seen.names().values()), what="the old one is gone")
    until(lambda: seen.condition("Progressing")["reason"] == "Settled", what="settled")


def test_an_idle_operator_writes_nothing(operator: OperatorProcess, seen: Seen) -> None:
    seen.create(rollout={"initialPercent": 100}, resources={"memory": "1024Mi", "cpu": "1000m"})
    seen.set_ready("ar", 1)
    seen.set_ready("diffusion", 1)
    until(lambda: seen.status.get("phase") == "Serving", what="Serving")
    # The promoted revision is watched on: here without a metrics store, which is told once.
    until(lambda: seen.condition("MetricsAvailable").get("status") == "False", what="the first look at metrics")
    # The last write wakes the loop once more; from then on each wake must end without a write.
    settled = seen.versions()
    writes, passes = operator.writes(), operator.passes()
    name = f"{MODEL}-{seen.revision('ar')}"
    for number in range(3):
        seen.server.apps.patch_namespaced_deployment_status(
            name, seen.namespace, {"status": {"observedGeneration": number + 1}}
        )
        until(lambda p=passes, n=number: operator.passes() > p + n, what="another pass")
    after = seen.versions()
    after[f"V1Deployment/{name}"] = settled[f"V1Deployment/{name}"]  # we wrote that one
    assert (after, operator.writes()) == (settled, writes)


@pytest.mark.parametrize(
    ("damage", "repaired"),
    [
        (
            lambda c, name: c.server.apps.delete_namespaced_deployment(name, c.namespace),
            lambda c, name: name in c.names()["Deployment"],
        ),
        (
            lambda c, name: c.server.core.delete_namespaced_service(name, c.namespace),
            lambda c, name: name in c.names()["Service"],
        ),
        (
            lambda c, name: c.server.core.patch_namespaced_config_map(
                name, c.namespace, {"data": {"model.json": "{}"}}
            ),
            lambda c, name: c.server.core.read_namespaced_config_map(name, c.namespace).data["model.json"] != "{}",
        ),
        (
            lambda c, name: c.server.apps.patch_namespaced_deployment(name, c.namespace, {"spec": {"replicas": 7}}),
            lambda c, name: c.server.apps.read_namespaced_deployment(name, c.namespace).spec.replicas == 1,
        ),
    ],
    ids=["a deleted Deployment", "a deleted Service", "an edited ConfigMap", "a scaled Deployment"],
)
def test_drift_is_repaired(
    operator: OperatorProcess,
    seen: Seen,
    damage: Callable[[Seen, str], None],
    repaired: Callable[[Seen, str], bool],
) -> None:
    seen.create()
    until(lambda: all(len(names) == 2 for names in seen.names().values()), what="children of both revisions")
    name = f"{MODEL}-{seen.revision('diffusion')}"
    damage(seen, name)
    until(lambda: repaired(seen, name), what="repaired")


def test_what_others_add_is_left_alone(operator: OperatorProcess, seen: Seen) -> None:
    seen.create()
    until(lambda: all(len(names) == 2 for names in seen.names().values()), what="children of both revisions")
    name = f"{MODEL}-{seen.revision('ar')}"
    passes = operator.passes()
    seen.server.apps.patch_namespaced_deployment(name, seen.namespace, {"metadata": {"labels": {"team": "a"}}})
    until(lambda: operator.passes() > passes, what="another pass")
    read = seen.server.apps.read_namespaced_deployment(name, seen.namespace)
    assert read.metadata.labels["team"] == "a"


def test_a_resource_that_comes_back_under_its_name_is_served_anew(operator: OperatorProcess, seen: Seen) -> None:
    for _ in range(2):
        seen.create()
        until(lambda: all(len(names) == 2 for names in seen.names().values()), what="children of both revisions")
        uid = seen.server.read(seen.namespace, MODEL)["metadata"]["uid"]

        def owned(uid: str = uid) -> bool:
            found = seen.server.apps.list_namespaced_deployment(seen.namespace).items
            return {owner.uid for item in found for owner in item.metadata.owner_references} == {uid}

        until(owned, what="children are the new resource's")
        seen.server.kubectl("-n", seen.namespace, "delete", "dm", MODEL, "--timeout=10s")


def test_a_refused_child_is_told_in_a_condition_and_healed(operator: OperatorProcess, seen: Seen) -> None:
    seen.create(resources={"nodeSelector": {"not/a/label": "x"}})
    until(lambda: seen.condition("Progressing").get("reason") == "ChildRejected", what="ChildRejected")
    assert "not/a/label" in seen.condition("Progressing")["message"]
    seen.change(resources={"nodeSelector": None})
    until(lambda: seen.condition("Progressing").get("reason") == "RevisionStarting", what="healed")
    until(lambda: len(seen.names()["Deployment"]) == 2, what="Deployments")


def test_what_a_pod_waits_for_is_told_although_its_deployment_does_not_change(
    operator: OperatorProcess, seen: Seen
) -> None:
    seen.create()
    until(lambda: seen.condition("Progressing").get("reason") == "RevisionStarting", what="RevisionStarting")
    seen.let_a_pod_wait("ar", "ImagePullBackOff")
    until(lambda: "ImagePullBackOff" in seen.condition("Progressing")["message"], what="the cause in the message")


def test_health_and_metrics_are_served(operator: OperatorProcess, seen: Seen) -> None:
    seen.create()
    until(lambda: seen.status.get("phase") == "Pending", what="Pending")
    assert operator.get("/healthz") == "ok\n"
    assert 'diffusion_operator_reconciles_total{outcome="ok"}' in operator.get("/metrics")
    assert 'diffusion_operator_models{phase="Pending"}' in operator.get("/metrics")


def test_kubectl_diff_after_apply_shows_nothing(operator: OperatorProcess, seen: Seen) -> None:
    manifest = json.dumps(resource(rollout={"initialPercent": 100}))
    seen.server.kubectl("-n", seen.namespace, "apply", "-f", "-", text=manifest)
    until(lambda: seen.status.get("phase"), what="a status")
    assert seen.server.kubectl("-n", seen.namespace, "diff", "-f", "-", text=manifest, check=False) == ""
