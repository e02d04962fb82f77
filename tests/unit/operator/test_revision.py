"""What makes a revision another one."""

from typing import Any

import pytest
from diffusion_operator.api.models import RevisionTemplate
from diffusion_operator.core.revision import revision_hash, wanted

from tests.unit.operator.builders import IMAGE, a_model, ar, diffusion

SAME = {
    "replicas": {"replicas": 5},
    "the rollout": {"rollout": {"initialPercent": 50, "paused": True, "stepDuration": "1h"}},
    "routing": {"routing": {"minOutputTokens": 8}},
    "scoring": {"scoring": {"samplePercent": 1}},
    "a sampler without settings": {"sampler": {}},
    "the sampler of the first release, by name": {"sampler": {"name": "entropy_bound"}},
    "attention to all tokens, written out": {"attention": {}},
    "a resource that nothing acts on": {"resources": {"gpuMemory": "80Gi"}},
    "a default that is written out": {"limits": {"batchWindow": "50ms", "queueSize": 64, "maxBatchSize": 8}},
    "limits that are auto": {"limits": {"maxBatchSize": "auto", "maxSequenceLength": "auto"}},
}

OTHER = {
    "another checkpoint": {"model": {"source": "file:///models/other"}},
    "another precision": {"model": {"source": "file:///models/storyteller", "dtype": "bfloat16"}},
    "another sampler setting": {"sampler": {"maxDenoisingSteps": 10}},
    "another sampler": {"sampler": {"name": "discrete_ddim"}},
    "guidance": {"sampler": {"guidanceScale": 0.8}},
    "another cache of a mask-token model": {"attention": {"maskCache": "dual"}},
    "a window of attention": {"attention": {"window": 512}},
    "another limit": {"limits": {"maxBatchSize": 16}},
    "other resources": {"resources": {"cpu": 2}},
    "other nodes": {"resources": {"nodeSelector": {"gpu": "h100"}}},
}


@pytest.mark.parametrize("spec", SAME.values(), ids=SAME.keys())
def test_the_revision_stays_with(spec: dict[str, Any]) -> None:
    assert diffusion(a_model(**spec)) == diffusion(a_model())


@pytest.mark.parametrize("spec", OTHER.values(), ids=OTHER.keys())
def test_the_revision_changes_with(spec: dict[str, Any]) -> None:
    assert diffusion(a_model(**spec)) != diffusion(a_model())


def test_another_worker_image_changes_both_arms() -> None:
    model = a_model()
    other = wanted(model.spec, image="worker:2")
    assert other.ar is not None
    assert (other.diffusion.hash, other.ar.hash) != (diffusion(model), ar(model))


def test_the_sampler_does_not_concern_ar() -> None:
    assert ar(a_model(sampler={"maxDenoisingSteps": 10}, attention={"window": 512})) == ar(a_model())


def test_a_number_and_its_text_are_the_same_quantity() -> None:
    assert diffusion(a_model(resources={"cpu": 2})) == diffusion(a_model(resources={"cpu": "2"}))


def test_the_hash_survives_the_api_server() -> None:
    template = wanted(a_model(sampler={"topP": 0.9}).spec, image=IMAGE).diffusion.template
    assert revision_hash(RevisionTemplate.model_validate(template.to_wire())) == revision_hash(template)


def test_known_revisions_keep_their_names_across_releases() -> None:
    """A change here replaces every pod of every installation at upgrade: intend it, and say so in the changelog."""
    assert (diffusion(a_model()), ar(a_model())) == ("bbcaadda", "af6acfd2")
