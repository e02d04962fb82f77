"""What the tensors of a checkpoint are for."""

from collections import Counter

import pytest
from diffusion_worker.inspect.config import read_shape
from diffusion_worker.inspect.errors import InspectError
from diffusion_worker.inspect.facts import ModelFacts, Source, WeightPart
from diffusion_worker.inspect.headers import Tensor
from diffusion_worker.inspect.weights import facts_from_index, facts_from_tensors

from tests.unit.sizing.shapes import DIFFUSION_GEMMA, DREAM, KNOWN, LLADA, KnownShape

BY_NAME = [pytest.param(known, id=known.name) for known in KNOWN]


def parts(facts: ModelFacts) -> Counter[WeightPart]:
    counted: Counter[WeightPart] = Counter()
    for group in facts.weights:
        counted[group.part] += group.parameters
    return counted


def from_index(known: KnownShape) -> ModelFacts:
    index = {
        "metadata": {"total_size": sum(tensor.stored_bytes for tensor in known.tensors)},
        "weight_map": {tensor.name: "a.safetensors" for tensor in known.tensors},
    }
    return facts_from_index(read_shape(known.config), index, name="index.json")


def test_the_parts_of_diffusion_gemma() -> None:
    d = 2816
    attention = 25 * (16 + 2 * 8 + 16) * 256 * d + 5 * (16 + 2 + 16) * 512 * d  # full layers have no v_proj
    assert parts(DIFFUSION_GEMMA.facts) == {
        WeightPart.EMBEDDING: 262_144 * d,
        WeightPart.EXPERTS: 30 * 128 * 3 * 704 * d,
        WeightPart.MATRICES: attention + 30 * 3 * 2112 * d,
        WeightPart.OTHER: 3 * 2112 * d + 30 * (128 * d + d + 1),  # self-conditioning; routers, norms and scalars
        WeightPart.VISION: 27 * (4 * 1152 + 3 * 4304) * 1152 + d * 1152,
    }


def test_the_published_sizes_are_met() -> None:
    """25.2 B of text, of which 3.8 B are active (model card); 8.02 B and 7.62 B."""
    text = DIFFUSION_GEMMA.facts.parameters - parts(DIFFUSION_GEMMA.facts)[WeightPart.VISION]
    assert text == pytest.approx(25.2e9, rel=0.005)
    assert DIFFUSION_GEMMA.facts.active_parameters == pytest.approx(3.8e9, rel=0.02)
    assert LLADA.facts.parameters == pytest.approx(8.02e9, rel=0.001)
    assert DREAM.facts.parameters == pytest.approx(7.62e9, rel=0.001)


def test_an_output_head_is_tied_unless_it_has_a_tensor() -> None:
    assert {known.name: known.facts.tied_embeddings for known in KNOWN} == {
        "DiffusionGemma 26B-A4B": True,
        "LLaDA-8B": False,
        "Dream-7B": False,
        "Dense 7B, MHA": True,
        "Dense 7B, GQA": True,
    }


def test_a_head_that_is_stored_although_it_is_tied_stays_tied() -> None:
    shape = read_shape(DREAM.config | {"tie_word_embeddings": True})
    assert facts_from_tensors(shape, DREAM.tensors).tied_embeddings


@pytest.mark.parametrize("known", BY_NAME)
def test_facts_fit_the_termination_message_of_a_container(known: KnownShape) -> None:
    unknown = tuple(f"{i:02}" + "x" * 46 for i in range(16))  # as long as they can be
    facts = known.facts.model_copy(update={"unknown_fields": unknown, "revision": "0" * 40})
    text = facts.model_dump_json(exclude_none=True)
    assert len(text.encode()) <= 4096
    assert ModelFacts.model_validate_json(text) == facts


@pytest.mark.parametrize("known", BY_NAME)
def test_the_index_alone_tells_nearly_the_same(known: KnownShape) -> None:
    exact, rough = known.facts, from_index(known)
    assert rough.weights_from is Source.INDEX
    assert rough.parameters == exact.parameters
    assert rough.tied_embeddings == exact.tied_embeddings
    for part in (WeightPart.EMBEDDING, WeightPart.EXPERTS, WeightPart.MATRICES):
        assert parts(rough)[part] == pytest.approx(parts(exact)[part], rel=0.001)


def test_an_index_tells_too_little_of_a_quantised_checkpoint() -> None:
    shape = read_shape(DREAM.config | {"quantization_config": {"quant_method": "fp8"}})
    with pytest.raises(InspectError, match=r"says too little of a checkpoint in fp8: add its \*\.safetensors"):
        facts_from_index(shape, {"metadata": {"total_size": 10}, "weight_map": {"a": "b"}}, name="index.json")


@pytest.mark.parametrize(
    "index", [{}, {"metadata": {}, "weight_map": {"a": "b"}}, {"metadata": {"total_size": 3}, "weight_map": {}}]
)
def test_what_is_no_index_is_refused(index: dict[str, object]) -> None:
    with pytest.raises(InspectError, match="it is not the index of a checkpoint"):
        facts_from_index(read_shape(DREAM.config), index, name="index.json")


def test_heads_that_contradict_the_weights_are_refused() -> None:
    shape = read_shape(DREAM.config | {"num_key_value_heads": 28})
    with pytest.raises(
        InspectError, match=r"k_proj\.weight has 512 rows, but config\.json implies kv heads × head_dim = 3584"
    ):
        facts_from_tensors(shape, DREAM.tensors)


def test_more_layers_than_config_json_says_are_refused() -> None:
    shape = read_shape(DREAM.config | {"num_hidden_layers": 27})
    with pytest.raises(InspectError, match=r"is of layer 27, but config\.json says that there are 27 layers"):
        facts_from_tensors(shape, DREAM.tensors)


def test_packed_weights_are_counted_as_they_are_stored() -> None:
    packed = Tensor("model.layers.0.self_attn.k_proj.weight", dtype="I32", shape=(64, 448), stored_bytes=64 * 448 * 4)
    shape = read_shape(DREAM.config | {"quantization_config": {"quant_method": "gptq"}})
    facts = facts_from_tensors(shape, [packed])
    assert facts.quantization == "gptq"
    assert facts.stored_bytes == 64 * 448 * 4
