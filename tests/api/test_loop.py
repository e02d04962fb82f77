"""The operator against a real API server. The test plays kubelet and controllers: it says when pods are ready."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from diffusion_operator.api import labels

from tests.api.operator_process import IMAGE, URL, OperatorProcess
from tests.api.server import Server, until
from tests.api.test_validation import resource

MODEL = "storyteller"


class Cluster:
    """One resource in one namespace, seen from outside."""

    def __init__(self, server: Server, namespace: str) -> None:
        self.server = server
        self.namespace = namespace

    def create(self, **spec: Any) -> None:
        self.server.create(self.namespace, resource(**spec))

    def change(self, **spec: Any) -> None:
        self.server.patch(self.namespace, MODEL, {"spec": spec})

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.server.read(self.namespace, MODEL).get("status", {})
        return found

    def condition(self, type_: str) -> dict[str, Any]:
        return next((c for c in self.status.get("conditions", []) if c["type"] == type_), {})

    def arms(self) -> list[tuple[str, str, int]]:
        arms = self.status.get("routes", {}).get("arms", [])
        return [(arm["role"], arm["kind"], arm["percent"]) for arm in arms]

    def revision(self, kind: str) -> str:
        """Hash of the newest revision of a kind."""
        hashes = [r["hash"] for r in self.status.get("revisions", []) if r["template"]["kind"] == kind]
        return str(hashes[-1]) if hashes else ""

    def names(self) -> dict[str, set[str]]:
        """Names of all children by kind."""
        selector = f"{labels.MODEL}={MODEL}"
        lists: dict[str, Callable[..., Any]] = {
            "Deployment": self.server.apps.list_namespaced_deployment,
            "Service": self.server.core.list_namespaced_service,
            "ConfigMap": self.server.core.list_namespaced_config_map,
        }
        return {
            kind: {item.metadata.name for item in list_(self.namespace, label_selector=selector).items}
            for kind, list_ in lists.items()
        }

    def versions(self) -> dict[str, str]:
        """Resource versions of the resource and all its children."""
        selector = f"{labels.MODEL}={MODEL}"
        apps, core = self.server.apps, self.server.core
        items = [
            *apps.list_namespaced_deployment(self.namespace, label_selector=selector).items,
            *core.list_namespaced_service(self.namespace, label_selector=selector).items,
            *core.list_namespaced_config_map(self.namespace, label_selector=selector).items,
        ]
        versions = {f"{type(item).__name__}/{item.metadata.name}": item.metadata.resource_version for item in items}
        own = self.server.read(self.namespace, MODEL)["metadata"]["resourceVersion"]
        return {**versions, MODEL: own}

    def set_ready(self, kind: str, pods: int) -> None:
        """What the Deployment controller would report."""
        name = f"{MODEL}-{until(lambda: self.revision(kind), what=f'a {kind} revision')}"
        until(lambda: name in self.names()["Deployment"], what=f"Deployment {name}")
        self.server.apps.patch_namespaced_deployment_status(
            name, self.namespace, {"status": {"replicas": max(pods, 1), "readyReplicas": pods}}
        )

    def until_arms(self, *arms: tuple[str, str, int]) -> None:
        until(lambda: self.arms() == list(arms), what=f"arms {arms}, not {self.arms()}")


AR_ALONE = (("stable", "ar", 100), ("fallback", "ar", 0))
PROMOTED = (("stable", "diffusion", 100), ("fallback", "ar", 0))


@pytest.fixture
def cluster(server: Server, namespace: str) -> Cluster:
    return Cluster(server, namespace)


@pytest.fixture
def operator(server: Server, namespace: str) -> Iterator[OperatorProcess]:
    with OperatorProcess(server, namespace=namespace) as running:
        yield running


def test_a_resource_goes_from_nothing_to_diffusion_at_full_weight(operator: OperatorProcess, cluster: Cluster) -> None:
    cluster.create(rollout={"initialPercent": 100})
    until(lambda: all(len(names) == 2 for names in cluster.names().values()), what="children of both revisions")
    assert cluster.condition("Ready")["status"] == "False"
    assert {c["observedGeneration"] for c in cluster.status["conditions"]} == {1}
    assert cluster.status["phase"] == "Pending"
    assert cluster.status["url"] == URL

    cluster.set_ready("ar", 1)
    cluster.until_arms(*AR_ALONE)
    assert cluster.condition("Ready")["status"] == "True"
    cluster.set_ready("diffusion", 1)
    cluster.until_arms(*PROMOTED)
    assert (cluster.status["phase"], cluster.status["rollout"]["diffusionPercent"]) == ("Serving", 100)

    printed = cluster.server.kubectl("-n", cluster.namespace, "get", "dm", MODEL)
    assert printed.split()[:5] == ["NAME", "PHASE", "READY", "WEIGHT", "URL"]
    assert printed.splitlines()[1].split()[:5] == [MODEL, "Serving", "True", "100", URL]
    described = cluster.server.kubectl("-n", cluster.namespace, "describe", "dm", MODEL)
    assert "RoutesChanged" in described


def test_a_canary_gets_its_share_and_is_promoted_when_spec_says_so(operator: OperatorProcess, cluster: Cluster) -> None:
    cluster.create(rollout={"initialPercent": 20})
    cluster.set_ready("ar", 1)
    cluster.set_ready("diffusion", 1)
    cluster.until_arms(("stable", "ar", 80), ("canary", "diffusion", 20), ("fallback", "ar", 0))
    assert cluster.condition("Progressing")["reason"] == "CanaryServing"
    cluster.change(rollout={"initialPercent": 100})
    cluster.until_arms(*PROMOTED)


def test_an_old_revision_goes_after_the_new_one_took_over(operator: OperatorProcess, cluster: Cluster) -> None:
    cluster.create(rollout={"initialPercent": 100})
    cluster.set_ready("ar", 1)
    cluster.set_ready("diffusion", 1)
    cluster.until_arms(*PROMOTED)
    old = cluster.revision("diffusion")

    cluster.change(sampler={"maxDenoisingSteps": 10})
    until(lambda: cluster.revision("diffusion") != old, what="a new revision")
    new = cluster.revision("diffusion")
    until(lambda: f"{MODEL}-{new}" in cluster.names()["Deployment"], what="its Deployment")
    assert f"{MODEL}-{old}" in cluster.names()["Deployment"]
    cluster.set_ready("diffusion", 1)
    until(lambda: cluster.status["rollout"]["stableRevision"] == new, what="the new one is stable")
    until(lambda: all(f"{MODEL}-{old}" not in names for names in cluster.names().values()), what="the old one is gone")
    until(lambda: cluster.condition("Progressing")["reason"] == "Settled", what="settled")


def test_an_idle_operator_writes_nothing(operator: OperatorProcess, cluster: Cluster) -> None:
    cluster.create(rollout={"initialPercent": 100}, resources={"memory": "1024Mi", "cpu": "1000m"})
    cluster.set_ready("ar", 1)
    cluster.set_ready("diffusion", 1)
    until(lambda: cluster.status.get("phase") == "Serving", what="Serving")
    # The last write wakes the loop once more; from then on each wake must end without a write.
    settled = cluster.versions()
    writes, passes = operator.writes(), operator.passes()
    name = f"{MODEL}-{cluster.revision('ar')}"
    for number in range(3):
        cluster.server.apps.patch_namespaced_deployment_status(
            name, cluster.namespace, {"status": {"observedGeneration": number + 1}}
        )
        until(lambda p=passes, n=number: operator.passes() > p + n, what="another pass")
    after = cluster.versions()
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
    cluster: Cluster,
    damage: Callable[[Cluster, str], None],
    repaired: Callable[[Cluster, str], bool],
) -> None:
    cluster.create()
    until(lambda: all(len(names) == 2 for names in cluster.names().values()), what="children of both revisions")
    name = f"{MODEL}-{cluster.revision('diffusion')}"
    damage(cluster, name)
    until(lambda: repaired(cluster, name), what="repaired")


def test_what_others_add_is_left_alone(operator: OperatorProcess, cluster: Cluster) -> None:
    cluster.create()
    until(lambda: all(len(names) == 2 for names in cluster.names().values()), what="children of both revisions")
    name = f"{MODEL}-{cluster.revision('ar')}"
    passes = operator.passes()
    cluster.server.apps.patch_namespaced_deployment(name, cluster.namespace, {"metadata": {"labels": {"team": "a"}}})
    until(lambda: operator.passes() > passes, what="another pass")
    read = cluster.server.apps.read_namespaced_deployment(name, cluster.namespace)
    assert read.metadata.labels["team"] == "a"


def test_a_killed_operator_goes_on_where_it_was(server: Server, cluster: Cluster) -> None:
    cluster.create(rollout={"initialPercent": 100})
    with OperatorProcess(server, namespace=cluster.namespace) as first:
        cluster.set_ready("ar", 1)
        cluster.until_arms(*AR_ALONE)
        first.kill()
    generation = cluster.status["routes"]["generation"]
    cluster.set_ready("diffusion", 1)
    with OperatorProcess(server, namespace=cluster.namespace):
        cluster.until_arms(*PROMOTED)
    assert cluster.status["routes"]["generation"] == generation + 1


def test_another_worker_image_is_a_new_revision(server: Server, cluster: Cluster) -> None:
    cluster.create()
    with OperatorProcess(server, namespace=cluster.namespace) as first:
        old = until(lambda: cluster.revision("diffusion"), what="a revision")
        assert first.stop() == 0
    with OperatorProcess(server, namespace=cluster.namespace, image=f"{IMAGE}-next"):
        until(lambda: cluster.revision("diffusion") not in {"", old}, what="another revision")


def test_deletion_needs_no_operator(server: Server, cluster: Cluster) -> None:
    cluster.create()
    with OperatorProcess(server, namespace=cluster.namespace):
        until(lambda: all(len(names) == 2 for names in cluster.names().values()), what="children of both revisions")
    assert "finalizers" not in server.read(cluster.namespace, MODEL)["metadata"]
    uid = server.read(cluster.namespace, MODEL)["metadata"]["uid"]
    server.kubectl("-n", cluster.namespace, "delete", "dm", MODEL, "--timeout=10s")
    # No garbage collector runs here; it goes by this:
    for deployment in server.apps.list_namespaced_deployment(cluster.namespace).items:
        owner = deployment.metadata.owner_references[0]
        assert (owner.uid, owner.controller, owner.block_owner_deletion) == (uid, True, True)


def test_a_resource_that_comes_back_under_its_name_is_served_anew(operator: OperatorProcess, cluster: Cluster) -> None:
    for _ in range(2):
        cluster.create()
        until(lambda: all(len(names) == 2 for names in cluster.names().values()), what="children of both revisions")
        uid = cluster.server.read(cluster.namespace, MODEL)["metadata"]["uid"]

        def owned(uid: str = uid) -> bool:
            found = cluster.server.apps.list_namespaced_deployment(cluster.namespace).items
            return {owner.uid for item in found for owner in item.metadata.owner_references} == {uid}

        until(owned, what="children are the new resource's")
        cluster.server.kubectl("-n", cluster.namespace, "delete", "dm", MODEL, "--timeout=10s")


def test_a_refused_child_is_told_in_a_condition_and_healed(operator: OperatorProcess, cluster: Cluster) -> None:
    cluster.create(resources={"nodeSelector": {"not/a/label": "x"}})
    until(lambda: cluster.condition("Progressing").get("reason") == "ChildRejected", what="ChildRejected")
    assert "not/a/label" in cluster.condition("Progressing")["message"]
    cluster.change(resources={"nodeSelector": None})
    until(lambda: cluster.condition("Progressing").get("reason") == "RevisionStarting", what="healed")
    until(lambda: len(cluster.names()["Deployment"]) == 2, what="Deployments")


def test_fields_that_nothing_acts_on_are_told(operator: OperatorProcess, cluster: Cluster) -> None:
    cluster.create(scoring={"samplePercent": 5}, sampler={"name": "discrete_ddim"})
    until(lambda: cluster.condition("SpecApplied"), what="conditions")
    assert cluster.condition("SpecApplied")["status"] == "False"
    assert "sampler.name=discrete_ddim, scoring.samplePercent" in cluster.condition("SpecApplied")["message"]


def test_health_and_metrics_are_served(operator: OperatorProcess, cluster: Cluster) -> None:
    cluster.create()
    until(lambda: cluster.status.get("phase") == "Pending", what="Pending")
    assert operator.get("/healthz") == "ok\n"
    until(lambda: 'diffusion_operator_models{phase="Pending"} 1.0' in operator.get("/metrics"), what="a counted model")


def test_kubectl_diff_after_apply_shows_nothing(operator: OperatorProcess, cluster: Cluster) -> None:
    manifest = json.dumps(resource(rollout={"initialPercent": 100}))
    cluster.server.kubectl("-n", cluster.namespace, "apply", "-f", "-", text=manifest)
    until(lambda: cluster.status.get("phase"), what="a status")
    assert cluster.server.kubectl("-n", cluster.namespace, "diff", "-f", "-", text=manifest, check=False) == ""
