"""Objects that carry our labels and are not ours."""

from dataclasses import replace

from diffusion_operator.adapters.cluster import LiveChild
from diffusion_operator.api.models import DiffusionModel
from diffusion_operator.core.children import ChildKind, children
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
