"""From facts and memory to limits: what is checked, what is chosen, and what gets no pods."""

import json
from math import ceil
from typing import Any

import pytest
from diffusion_operator.api.models import DiffusionModel, RevisionStatus
from diffusion_operator.core.children import ChildKind, children
from diffusion_operator.core.pods import pod_spec
from diffusion_operator.core.sized.observation import ObservedNodes
from diffusion_worker.config import EngineConfig

from tests.unit.operator.builders import a_model, seen
from tests.unit.operator.builders import after as after_without_sizing
from tests.unit.sized.builders import (
    DIFFUSION_GEMMA,
    FACTS,
    GIB,
    a_gpu_model,
    after,
    an_ar_twin,
    condition,
    decide,
    failed,
    found,
    inspected,
    succeeded,
)

AUTO = {"limits": {"maxBatchSize": "auto", "maxSequenceLength": 2048}}


def of_kind(model: DiffusionModel, kind: str) -> RevisionStatus:
    (revision,) = [revision for revision in model.status.revisions if revision.template.kind == kind]
    return revision


def config(model: DiffusionModel, kind: str = "diffusion") -> EngineConfig:
    hash_ = of_kind(model, kind).hash
    (text,) = [
        child.manifest["data"]["model.json"]
        for child in children(model)
        if child.revision == hash_ and child.kind is ChildKind.CONFIG_MAP
    ]
    return EngineConfig.model_validate_json(text)


def changed(model: DiffusionModel, **spec: Any) -> DiffusionModel:
    return a_gpu_model(**spec).model_copy(update={"status": model.status})


def test_the_plan_is_in_the_status_by_arm_and_in_the_worker_s_file() -> None:
    model = inspected(a_gpu_model())
    assert model.status.sizing is not None
    diffusion, ar = model.status.sizing.arms
    assert (diffusion.kind, diffusion.rows, diffusion.tokens, diffusion.dtype) == ("diffusion", 8, 2048, "bfloat16")
    assert diffusion.memory.budget_bytes == 72 * GIB
    assert diffusion.memory.total <= diffusion.memory.budget_bytes
    assert ar.kind == "ar"
    planned = config(model).planned
    assert planned is not None
    assert config(model).memory_budget == 72 * GIB
    assert (planned.weights, planned.kv) == (diffusion.memory.weights, diffusion.memory.kv)


def test_what_is_written_is_checked_and_never_changed() -> None:
    model = inspected(a_gpu_model(limits={"maxBatchSize": 64, "maxSequenceLength": 100_000}))
    status, reason, message = condition(model, "Sized")
    assert (status, reason) == ("False", "DoesNotFit")
    assert "64 rows × 100,000 tokens in bfloat16 need" in message
    assert "more than the budget of 72.00 GiB" in message
    assert "What fits: " in message
    assert model.status.revisions == []
    assert condition(model, "Progressing")[:2] == ("False", "NotSized")
    assert model.status.phase == "Failed"


def test_absent_limits_are_eight_rows_at_the_model_s_own_length() -> None:
    model = inspected(a_gpu_model(limits={"maxSequenceLength": 2048}))
    assert of_kind(model, "diffusion").template.limits.max_batch_size == 8
    assert model.status.sizing is not None
    assert model.status.sizing.arms[0].rows == 8
    own = inspected(a_gpu_model(limits={}, resources={"gpus": 1, "gpuMemory": "500Gi"}))
    assert own.status.sizing is not None
    assert own.status.sizing.arms[0].tokens == FACTS[DIFFUSION_GEMMA].max_positions


def test_the_default_is_not_refused_where_fewer_rows_fit() -> None:
    """Limits stay as they were, so that no pod is replaced; the engine admits by the plan."""
    model = inspected(a_gpu_model(limits={"maxSequenceLength": 100_000}))
    assert "; of shorter ones up to 8 rows" in condition(model, "Sized")[2]
    limits = of_kind(model, "diffusion").template.limits
    assert (limits.max_batch_size, limits.planned_rows, limits.max_sequence_length) == (8, None, 100_000)
    assert model.status.sizing is not None
    assert 1 <= model.status.sizing.arms[0].rows < 8
    assert of_kind(model, "diffusion").memory == model.status.sizing.arms[0].memory
    written = inspected(a_gpu_model(limits={"maxBatchSize": 8, "maxSequenceLength": 100_000}))
    assert written.status.revisions == []


def test_auto_rows_are_as_many_as_fit_and_short_ones_may_be_more() -> None:
    model = inspected(a_gpu_model(**AUTO))
    limits = of_kind(model, "diffusion").template.limits
    assert model.status.sizing is not None
    rows = model.status.sizing.arms[0].rows
    assert 8 < rows < 64
    assert (limits.max_batch_size, limits.planned_rows) == (64, rows)
    one_more = inspected(a_gpu_model(limits={"maxBatchSize": rows + 1, "maxSequenceLength": 2048}))
    assert condition(one_more, "Sized")[1] == "DoesNotFit"
    as_many = inspected(a_gpu_model(limits={"maxBatchSize": rows, "maxSequenceLength": 2048}))
    assert condition(as_many, "Sized")[1] == "Planned"


def test_auto_length_is_the_model_s_own_where_that_fits() -> None:
    model = inspected(
        a_gpu_model(
            limits={"maxBatchSize": 1, "maxSequenceLength": "auto"}, resources={"gpus": 1, "gpuMemory": "500Gi"}
        )
    )
    assert of_kind(model, "diffusion").template.limits.max_sequence_length is None


@pytest.mark.parametrize("rows", [8, "auto"])
def test_auto_length_is_less_where_the_model_s_own_does_not_fit(rows: object) -> None:
    limits = {"maxBatchSize": rows, "maxSequenceLength": "auto"}
    model = inspected(a_gpu_model(limits=limits, resources={"gpus": 1, "gpuMemory": "60Gi"}))
    assert condition(model, "Sized")[1] == "Planned"
    length = of_kind(model, "diffusion").template.limits.max_sequence_length
    assert length is not None
    assert 2048 < length < FACTS[DIFFUSION_GEMMA].max_positions


def test_auto_that_nothing_fits_gets_no_pods() -> None:
    limits = {"maxBatchSize": "auto", "maxSequenceLength": "auto"}
    model = inspected(a_gpu_model(limits=limits, resources={"gpus": 1, "gpuMemory": "24Gi"}))
    assert condition(model, "Sized")[1] == "DoesNotFit"
    assert model.status.revisions == []


def test_the_smallest_gpu_of_the_nodes_is_the_budget() -> None:
    nodes = ObservedNodes(gpu_memory_bytes=100 * GIB)
    model = inspected(a_gpu_model(resources={"gpus": 1}), nodes=nodes)
    assert model.status.sizing is not None
    assert model.status.sizing.gpu_memory_bytes == 100 * GIB
    assert model.status.sizing.arms[0].memory.budget_bytes == 90 * GIB


def test_the_last_known_gpu_holds_while_no_node_is_there() -> None:
    known = inspected(a_gpu_model(resources={"gpus": 1}), nodes=ObservedNodes(gpu_memory_bytes=100 * GIB))
    for nodes in (ObservedNodes(why="no node that pods may run on has the label"), None):
        assert after(known, nodes=nodes).status == known.status
    elsewhere = changed(known, resources={"gpus": 1, "nodeSelector": {"pool": "new"}})
    assert condition(after(elsewhere, nodes=ObservedNodes(why="no node")), "Sized")[1] == "NotLimited"


def test_nodes_with_larger_gpus_change_nothing() -> None:
    spec = {**AUTO, "resources": {"gpus": 1}}
    model = inspected(a_gpu_model(**spec), nodes=ObservedNodes(gpu_memory_bytes=70 * GIB))
    assert after(model, nodes=ObservedNodes(gpu_memory_bytes=80 * GIB)).status == model.status


def test_other_nodes_make_a_new_revision_when_auto_means_something_else() -> None:
    spec = {**AUTO, "resources": {"gpus": 1}}
    model = inspected(a_gpu_model(**spec), nodes=ObservedNodes(gpu_memory_bytes=80 * GIB))
    smaller = after(model, nodes=ObservedNodes(gpu_memory_bytes=70 * GIB))
    assert of_kind(model, "diffusion").hash not in {revision.hash for revision in smaller.status.revisions}
    explicit = inspected(a_gpu_model(resources={"gpus": 1}), nodes=ObservedNodes(gpu_memory_bytes=80 * GIB))
    same = after(explicit, nodes=ObservedNodes(gpu_memory_bytes=79 * GIB))
    assert same.status.revisions == explicit.status.revisions


def test_without_a_known_gpu_limits_are_taken_as_written_and_pods_start() -> None:
    why = ObservedNodes(why="list nodes for their GPUs: nodes is forbidden")
    model = inspected(a_gpu_model(limits={"maxBatchSize": "auto"}, resources={"gpus": 1}), nodes=why)
    status, reason, message = condition(model, "Sized")
    assert (status, reason) == ("Unknown", "NotLimited")
    assert "nodes is forbidden" in message
    assert "set resources.gpuMemory" in message
    limits = of_kind(model, "diffusion").template.limits
    assert (limits.max_batch_size, limits.planned_rows, limits.max_sequence_length) == (8, None, None)
    assert config(model).memory_budget is None


def test_on_cpu_the_budget_is_a_share_of_the_container_s_memory() -> None:
    model = inspected(a_gpu_model(resources={"memory": "200Gi", "memoryUtilization": 0.75}))
    assert model.status.sizing is not None
    assert model.status.sizing.arms[0].memory.budget_bytes == 150 * GIB
    assert model.status.sizing.arms[0].dtype == "float32"
    small = inspected(a_gpu_model(resources={}))
    assert condition(small, "Sized")[1] == "DoesNotFit"
    assert "budget of 1.80 GiB" in condition(small, "Sized")[2]


def test_memory_that_is_written_down_makes_no_new_revision() -> None:
    model = inspected(a_gpu_model())
    more = changed(model, resources={"gpus": 1, "gpuMemory": "100Gi", "memoryUtilization": 0.95})
    assert after(more).status.revisions == model.status.revisions


def test_a_limit_over_the_memory_is_caught_before_traffic_and_what_served_goes_on() -> None:
    at_once = {"rollout": {"initialPercent": 100}}
    model = inspected(a_gpu_model(**at_once))
    hashes = tuple(revision.hash for revision in model.status.revisions)
    for _ in range(3):
        model = after(model, ready=hashes)
    arms = model.status.routes.arms
    assert [(arm.role, arm.kind, arm.percent) for arm in arms] == [
        ("stable", "diffusion", 100),
        ("fallback", "ar", 0),
    ]
    lowered = changed(model, resources={"gpus": 1, "gpuMemory": "40Gi", "cpu": "2"}, **at_once)
    for _ in range(3):
        lowered = after(lowered, ready=hashes)
    assert tuple(revision.hash for revision in lowered.status.revisions) == hashes
    assert lowered.status.routes.arms == arms
    assert condition(lowered, "Sized")[1] == "DoesNotFit"
    assert condition(lowered, "Ready")[0] == "True"
    assert lowered.status.phase == "Degraded"


def test_a_revision_that_runs_is_not_taken_back_when_it_is_found_not_to_fit() -> None:
    spec = {"resources": {"gpus": 1, "gpuMemory": "40Gi"}}
    before = after_without_sizing(a_model(**spec), seen())  # as an operator without sizing made it
    hashes = [revision.hash for revision in before.status.revisions]
    upgraded = after(before)
    results = found(upgraded, succeeded(FACTS[DIFFUSION_GEMMA]), succeeded(an_ar_twin(FACTS[DIFFUSION_GEMMA])))
    upgraded = after(upgraded, inspected=results)
    assert condition(upgraded, "Sized")[1] == "DoesNotFit"
    assert [revision.hash for revision in upgraded.status.revisions] == hashes
    assert [child for child in children(upgraded) if child.kind is not ChildKind.JOB] == list(children(before))


@pytest.mark.parametrize("message", ["gated", "truncated"])
def test_an_upgrade_replaces_no_pods_whatever_the_job_says(message: str) -> None:
    before = after_without_sizing(a_model(limits={"maxBatchSize": "auto"}), seen())
    upgraded = after(before)
    upgraded = after(upgraded, inspected=found(upgraded, failed(message), failed(message)))
    assert list(children(upgraded)) == list(children(before))


def test_the_plan_of_a_running_revision_stays_as_it_was_made() -> None:
    model = inspected(a_gpu_model())
    other = after(changed(model, resources={"gpus": 1, "gpuMemory": "100Gi"}))
    assert [json.dumps(dict(child.manifest)) for child in children(other)] == [
        json.dumps(dict(child.manifest)) for child in children(model)
    ]


def test_a_checkpoint_in_the_wrong_place_gets_no_pods() -> None:
    gemma = FACTS[DIFFUSION_GEMMA]
    model = after(a_gpu_model())
    model = after(model, inspected=found(model, succeeded(an_ar_twin(gemma)), succeeded(gemma)))
    status, reason, message = condition(model, "Sized")
    assert (status, reason) == ("False", "WrongModel")
    assert "is an autoregressive model, not a diffusion model" in message
    assert "is a diffusion model, not an autoregressive one" in message
    assert model.status.revisions == []


def test_a_length_beyond_the_model_s_positions_gets_no_pods() -> None:
    model = inspected(a_gpu_model(limits={"maxBatchSize": 1, "maxSequenceLength": 1_000_000}))
    assert condition(model, "Sized")[1] == "DoesNotFit"
    assert "longer than the" in condition(model, "Sized")[2]


def test_guidance_needs_more_memory() -> None:
    plain, guided = inspected(a_gpu_model(**AUTO)), inspected(a_gpu_model(**AUTO, sampler={"guidanceScale": 2}))
    assert plain.status.sizing is not None
    assert guided.status.sizing is not None
    assert guided.status.sizing.arms[0].rows < plain.status.sizing.arms[0].rows


def test_a_mask_token_model_is_planned_with_the_engine_s_block() -> None:
    facts = FACTS["LLaDA-8B"]
    model = after(a_gpu_model())
    model = after(model, inspected=found(model, succeeded(facts), succeeded(an_ar_twin(facts))))
    assert condition(model, "Sized")[1] == "Planned"


def test_a_decision_that_was_written_gives_no_new_one() -> None:
    for model in (after(a_gpu_model()), inspected(a_gpu_model()), inspected(a_gpu_model(limits={"maxBatchSize": 64}))):
        decision = decide(model)
        assert decision.status == model.status
        assert decision.events == ()


def main_memory(model: DiffusionModel, kind: str = "diffusion") -> str:
    (worker,) = pod_spec(of_kind(model, kind), config_map="any")["containers"]
    assert worker["resources"]["limits"]["memory"] == worker["resources"]["requests"]["memory"]
    return str(worker["resources"]["limits"]["memory"])


def test_a_pod_with_a_gpu_has_main_memory_for_the_weights_that_pass_through_it() -> None:
    """Two bytes of each parameter, the encoder of images among them, and the 2 GiB that any pod has."""
    model = inspected(a_gpu_model())
    needed = 2 * FACTS[DIFFUSION_GEMMA].parameters + 2 * GIB
    assert main_memory(model) == f"{ceil(needed / 1024**2)}Mi"


def test_main_memory_that_is_written_wins() -> None:
    assert main_memory(inspected(a_gpu_model(resources={"gpus": 1, "gpuMemory": "80Gi", "memory": "60Gi"}))) == "60Gi"


def test_on_cpu_or_without_facts_main_memory_is_the_default() -> None:
    assert main_memory(inspected(a_gpu_model(resources={"memory": "200Gi"}))) == "200Gi"
    unlimited = ObservedNodes(why="nodes is forbidden")
    assert main_memory(inspected(a_gpu_model(resources={"gpus": 1}), nodes=unlimited)) == "2Gi"


def test_a_revision_of_an_older_operator_keeps_the_main_memory_that_its_pods_have() -> None:
    """An upgrade replaces no pods."""
    model = inspected(a_gpu_model())
    older = [made.model_copy(update={"main_memory_bytes": None}) for made in model.status.revisions]
    model = model.model_copy(update={"status": model.status.model_copy(update={"revisions": older})})
    assert main_memory(after(model)) == "2Gi"
