"""From a new checkpoint to its facts: Jobs, their failures, and what is never asked twice."""

from datetime import datetime, timedelta

import pytest
from diffusion_operator.api.models import DiffusionModel
from diffusion_operator.core.children import ChildKind, children
from diffusion_operator.core.sized.observation import ObservedInspection

from tests.unit.sized.builders import (
    DIFFUSION_GEMMA,
    FACTS,
    NOW,
    a_gpu_model,
    after,
    an_ar_twin,
    condition,
    decide,
    failed,
    found,
    inspected,
    jobs,
    succeeded,
)

FACTS_OF = FACTS[DIFFUSION_GEMMA]
TWIN = an_ar_twin(FACTS_OF)
HUB = {"source": "hf://owner/model", "revision": "abc", "tokenSecretRef": {"name": "hub", "key": "token"}}


def kinds(model: DiffusionModel) -> set[ChildKind]:
    return {child.kind for child in children(model)}


def retry_seconds(model: DiffusionModel, now: datetime) -> float:
    """Until the Job that failed is made again."""
    assert model.status.sizing is not None
    (at,) = [source.retry_at for source in model.status.sizing.sources if source.retry_at]
    return (at - now).total_seconds()


def test_a_new_resource_has_nothing_but_jobs_until_its_checkpoints_are_known() -> None:
    model = after(a_gpu_model())
    assert kinds(model) == {ChildKind.JOB}
    assert len(children(model)) == 2
    assert model.status.revisions == []
    assert condition(model, "Sized")[:2] == ("Unknown", "Inspecting")
    assert condition(model, "Progressing")[:2] == ("True", "Inspecting")


def test_pods_are_made_once_the_facts_are_known_and_fit() -> None:
    model = inspected(a_gpu_model())
    assert kinds(model) == {ChildKind.CONFIG_MAP, ChildKind.SERVICE, ChildKind.DEPLOYMENT}
    assert condition(model, "Sized")[:2] == ("True", "Planned")
    assert condition(model, "Progressing")[1] == "RevisionStarting"


def test_each_arm_starts_as_soon_as_its_own_checkpoint_is_known() -> None:
    model = after(a_gpu_model())
    results = found(model, ObservedInspection(), succeeded(TWIN))
    model = after(model, inspected=results)
    assert [revision.template.kind.value for revision in model.status.revisions] == ["ar"]
    assert condition(model, "Sized")[1] == "Inspecting"


def test_one_checkpoint_for_both_arms_is_read_once() -> None:
    source = {"source": "file:///models/storyteller"}
    assert len(jobs(after(a_gpu_model(model=source, fallback={"model": source})))) == 1


def test_a_job_that_was_read_goes() -> None:
    model = after(a_gpu_model())
    results = found(model, succeeded(FACTS_OF), succeeded(TWIN))
    decision = decide(model, inspected=results)
    assert decision.remove == frozenset(results)


def test_facts_are_kept_and_never_asked_for_again() -> None:
    model = inspected(a_gpu_model())
    assert jobs(model) == {}
    for change in ({"sampler": {"maxDenoisingSteps": 9}}, {"limits": {"maxBatchSize": 1}}, {"replicas": 3}):
        changed = after(a_gpu_model(**change).model_copy(update={"status": model.status}))
        assert jobs(changed) == {}
    assert jobs(after(model, image="registry.test/worker:2")) == {}


def test_another_revision_of_the_source_is_another_checkpoint() -> None:
    model = inspected(a_gpu_model(model=HUB), DIFFUSION_GEMMA)
    changed = a_gpu_model(model={**HUB, "revision": "def"}).model_copy(update={"status": model.status})
    assert len(jobs(after(changed))) == 1
    other_dtype = a_gpu_model(model={**HUB, "dtype": "float32"}).model_copy(update={"status": model.status})
    assert jobs(after(other_dtype)) == {}


def test_a_failed_job_is_the_message_and_is_made_again_less_and_less_often() -> None:
    model = after(a_gpu_model())
    now, pauses = NOW, []
    for _ in range(12):
        results = found(model, failed("hf://owner/model is gated:\n accept its terms"), succeeded(TWIN))
        decision = decide(model, inspected=results, now=now)
        model = model.model_copy(update={"status": decision.status})
        assert jobs(model) == {}
        pauses.append(retry_seconds(model, now))
        assert decision.look_again_seconds == min(pauses[-1], 600)
        assert condition(model, "Sized")[:2] == ("False", "FactsUnavailable")
        assert "hf://owner/model is gated: accept its terms" in condition(model, "Sized")[2]
        assert condition(model, "Progressing")[:2] == ("False", "NotSized")
        assert model.status.phase == "Failed"
        early = after(model, now=now + timedelta(seconds=pauses[-1] - 1))
        assert jobs(early) == {}
        now += timedelta(seconds=pauses[-1])
        model = after(model, now=now)
        assert len(jobs(model)) == 1
    assert pauses == [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600, 3600]


def test_the_next_job_has_another_name_because_a_pod_of_a_job_cannot_run_again() -> None:
    model = after(a_gpu_model())
    first = {job.hash for job in jobs(model).values()}
    model = after(model, inspected=found(model, failed("no"), failed("no")))
    second = {job.hash for job in jobs(after(model, now=NOW + timedelta(minutes=1))).values()}
    assert not first & second


@pytest.mark.parametrize("change", ["image", "token"])
def test_what_may_help_is_tried_at_once(change: str) -> None:
    model = after(a_gpu_model(model={"source": "hf://owner/model"}))
    model = after(model, inspected=found(model, failed("gated"), succeeded(TWIN)))
    assert jobs(model) == {}
    if change == "image":
        assert len(jobs(after(model, image="registry.test/worker:2"))) == 1
    else:
        with_token = {"source": "hf://owner/model", "tokenSecretRef": {"name": "hub", "key": "token"}}
        assert len(jobs(after(a_gpu_model(model=with_token).model_copy(update={"status": model.status})))) == 1


@pytest.mark.parametrize("message", ["", "{}", "no json", "x" * 5000])
def test_a_job_that_leaves_no_facts_behind_has_failed(message: str) -> None:
    model = after(a_gpu_model())
    ended = ObservedInspection(has_ended=True, succeeded=True, message=message)
    model = after(model, inspected=found(model, ended, succeeded(TWIN)))
    assert condition(model, "Sized")[1] == "FactsUnavailable"


def test_facts_that_another_release_wrote_are_read_again() -> None:
    model = inspected(a_gpu_model())
    assert model.status.sizing is not None
    sources = [source.model_copy(update={"facts": '{"new": 1}'}) for source in model.status.sizing.sources]
    sizing = model.status.sizing.model_copy(update={"sources": sources})
    model = model.model_copy(update={"status": model.status.model_copy(update={"sizing": sizing})})
    hashes = [revision.hash for revision in model.status.revisions]
    model = after(model)
    assert len(jobs(model)) == 2
    assert [revision.hash for revision in model.status.revisions] == hashes  # what runs goes on


def test_a_job_that_waits_says_for_what() -> None:
    model = after(a_gpu_model())
    waits = ObservedInspection(waiting_for="no node fits (0/3 nodes are available)")
    model = after(model, inspected=found(model, waits, waits))
    assert "no node fits (0/3 nodes are available)" in condition(model, "Sized")[2]
    assert len(jobs(model)) == 2


def test_the_job_sees_the_checkpoint_as_the_pods_do() -> None:
    model = after(a_gpu_model(model=HUB, resources={"cacheClaim": "models", "nodeSelector": {"gpu": "h200"}}))
    (job,) = (job for job in jobs(model).values() if "hf://owner/model" in str(job.spec))
    pod = job.spec["template"]["spec"]
    container = pod["containers"][0]
    assert container["command"] == [
        "diffusion-worker",
        "inspect",
        "hf://owner/model",
        "--output=json",
        "--termination-message=/dev/termination-log",
        "--revision=abc",
        "--cache=/models/cache",
    ]
    assert container["env"] == [
        {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
        {"name": "HF_HOME", "value": "/models/cache/.home"},
    ]
    assert {"name": "cache", "persistentVolumeClaim": {"claimName": "models"}} in pod["volumes"]
    assert pod["nodeSelector"] == {"gpu": "h200"}
    assert "nvidia.com/gpu" not in str(container["resources"])


def test_the_job_is_as_restricted_as_the_pods_and_is_not_taken_for_one() -> None:
    model = after(a_gpu_model())
    for child in children(model):
        spec = child.manifest["spec"]
        pod, marks = spec["template"]["spec"], spec["template"]["metadata"]["labels"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
        assert spec["backoffLimit"] == 0
        assert spec["ttlSecondsAfterFinished"] > 0
        assert marks["app.kubernetes.io/name"] == "diffusion-inspect"
        assert "serving.diffusion-operator.dev/revision" not in marks
        assert child.manifest["metadata"]["ownerReferences"][0]["kind"] == "DiffusionModel"
