"""Objects that carry our labels and are not ours."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from diffusion_operator.adapters.cluster import LiveChild
from diffusion_operator.api.models import DiffusionModel
from diffusion_operator.core.children import ChildKind, children
from diffusion_operator.core.drift import is_in_place
from diffusion_operator.shell.measuring import Memory
from diffusion_operator.shell.metrics import Metrics
from diffusion_operator.shell.reconcile import Reconciler

from tests.sim.fake_cluster import FakeCluster, FakeGateways
from tests.unit.operator.builders import SETTINGS, a_model, after, ar, diffusion, seen

MODEL = a_model(rollout={"initialPercent": 100})


def objects_of(model: DiffusionModel) -> dict[tuple[ChildKind, str], LiveChild]:
    """What an operator made for a resource."""
    made = children(after(model, seen()))
    return {
        (child.kind, child.name): LiveChild(
            kind=child.kind, name=child.name, revision=child.revision, is_going=False, manifest=child.manifest
        )
        for child in made
    }


async def passes(cluster: FakeCluster, count: int) -> None:
    reconciler = Reconciler(cluster=cluster, gateways=FakeGateways(), settings=SETTINGS, metrics=Metrics())
    memory = Memory(wake=lambda: None)
    for _ in range(count):
        await reconciler.run_once("stories", "storyteller", memory=memory)


async def test_pods_that_an_earlier_resource_of_the_name_left_are_not_routed_before_they_are_taken_over() -> None:
    earlier = MODEL.model_copy(update={"metadata": MODEL.metadata.model_copy(update={"uid": "earlier"})})
    cluster = FakeCluster(MODEL)
    cluster.objects = objects_of(earlier)
    cluster.ready = {diffusion(MODEL): 1, ar(MODEL): 1}
    await passes(cluster, 1)
    assert cluster.arms == []
    assert {child.owner for child in cluster.objects.values()} == {MODEL.metadata.uid}
    await passes(cluster, 1)
    assert [(arm.revision, arm.percent) for arm in cluster.arms] == [(diffusion(MODEL), 100), (ar(MODEL), 0)]


async def test_a_copy_of_a_deployment_that_a_person_made_is_neither_counted_nor_removed() -> None:
    cluster = FakeCluster(MODEL)
    copied = next(child for child in objects_of(MODEL).values() if child.kind is ChildKind.DEPLOYMENT)
    copy = replace(copied, name="my-copy", revision="0badc0de")
    cluster.objects[copy.kind, copy.name] = copy
    await passes(cluster, 3)
    assert cluster.objects[copy.kind, copy.name] is copy


async def test_what_was_orphaned_on_purpose_is_taken_over_or_removed() -> None:
    old = a_model(sampler={"maxDenoisingSteps": 9})
    cluster = FakeCluster(MODEL)
    for key, child in objects_of(old).items():
        metadata = {name: value for name, value in child.manifest["metadata"].items() if name != "ownerReferences"}
        cluster.objects[key] = replace(child, manifest={**child.manifest, "metadata": metadata})
    await passes(cluster, 3)
    assert cluster.revisions == {diffusion(MODEL), ar(MODEL)}
    assert {child.owner for child in cluster.objects.values()} == {MODEL.metadata.uid}


async def test_children_that_are_in_place_are_looked_at_again_when_one_changes_or_is_gone() -> None:
    cluster = FakeCluster(MODEL)
    reconciler = Reconciler(cluster=cluster, gateways=FakeGateways(), settings=SETTINGS, metrics=Metrics())
    memory = Memory(wake=lambda: None)

    async def is_repaired() -> bool:
        await reconciler.run_once("stories", "storyteller", memory=memory)
        return cluster.objects.keys() == wanted and is_in_place(as_made, cluster.objects[place].manifest)

    for _ in range(3):
        await reconciler.run_once("stories", "storyteller", memory=memory)
    assert memory.in_place is not None
    wanted = set(cluster.objects)
    place = next(place for place in wanted if place[0] is ChildKind.DEPLOYMENT)
    child, as_made = cluster.objects[place], without_version(cluster.objects[place].manifest)
    for _ in range(2):
        del cluster.objects[place]
        assert await is_repaired()
    metadata = {**child.manifest["metadata"], "resourceVersion": "edited"}
    cluster.objects[place] = replace(child, manifest={**child.manifest, "metadata": metadata, "spec": {}})
    assert await is_repaired()


def without_version(manifest: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {name: value for name, value in manifest["metadata"].items() if name != "resourceVersion"}
    return {**manifest, "metadata": metadata}
