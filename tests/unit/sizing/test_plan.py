"""What a plan answers."""

from dataclasses import replace
from typing import Any

import pytest
from diffusion_operator.core.sizing import (
    Arm,
    Asked,
    Budget,
    Device,
    Dtype,
    Plan,
    SizingError,
    Workload,
    engine_costs,
    explain,
    footprint,
    plan,
)

from tests.unit.sizing.shapes import DENSE_GQA, DENSE_MHA, DIFFUSION_GEMMA, DREAM, LLADA, KnownShape

GIB = 1024**3
GPU = engine_costs(Arm.DIFFUSION, Device.CUDA)


def planned(known: KnownShape, gib: float, **asked: Any) -> Plan:
    return plan(known.facts, Asked(**asked), Budget(memory_bytes=int(gib * GIB)))


def changes(made: Plan) -> dict[str, tuple[int, int, Dtype, int]]:
    return {other.change: (other.rows, other.tokens, other.dtype, other.gpus) for other in made.alternatives}


def test_auto_takes_the_most_rows_that_fit() -> None:
    made = planned(LLADA, 80, tokens=2048, canvas=64)
    assert made.fits
    assert made.bytes.total <= made.budget_bytes
    assert not planned(LLADA, 80, tokens=2048, canvas=64, rows=made.rows + 1).fits


def test_auto_never_takes_more_than_64_rows() -> None:
    assert planned(DREAM, 640, tokens=2048, canvas=64).rows == 64


def test_auto_takes_the_length_and_canvas_of_the_model() -> None:
    made = planned(DIFFUSION_GEMMA, 140)
    assert (made.tokens, made.canvas) == (262_144, 256)


def test_limits_that_are_given_are_checked_and_not_changed() -> None:
    made = planned(LLADA, 40, rows=32, tokens=4096, canvas=64)
    assert not made.fits
    assert (made.rows, made.tokens) == (32, 4096)
    assert made.shortfall_bytes == made.bytes.total - made.budget_bytes > 0


def test_what_is_smaller_than_the_budget_stays_as_asked() -> None:
    made = planned(LLADA, 80, rows=2, tokens=100, canvas=64)
    assert (made.fits, made.rows, made.tokens, made.shortfall_bytes) == (True, 2, 100, 0)


def test_the_budget_is_a_share_of_the_memory() -> None:
    assert Budget(memory_bytes=80 * GIB).bytes == 72 * GIB
    assert Budget(memory_bytes=1000, utilization=0.29).bytes == 290  # 289.99… as floats


def test_alternatives_fit_and_are_the_nearest() -> None:
    made = planned(LLADA, 40, rows=32, tokens=4096, canvas=64)
    found = changes(made)
    budget = Budget(memory_bytes=40 * GIB)
    for rows, tokens, dtype, gpus in found.values():
        asked = Asked(rows=rows, tokens=tokens, canvas=64, dtype=dtype.value, gpus=gpus)
        assert plan(LLADA.facts, asked, budget).fits
    rows = found["fewer rows"][0]
    assert not planned(LLADA, 40, rows=rows + 1, tokens=4096, canvas=64).fits
    tokens = found["shorter"][1]
    assert not planned(LLADA, 40, rows=32, tokens=tokens + 1, canvas=64).fits


def test_a_model_that_is_too_large_is_offered_smaller_weights_and_more_gpus() -> None:
    found = changes(planned(DIFFUSION_GEMMA, 40, tokens=2048))
    assert found == {
        "other dtype": (1, 2048, Dtype.FP8, 1),
        "more GPUs": (1, 2048, Dtype.BFLOAT16, 2),
    }


def test_rows_and_length_together_are_offered_when_neither_alone_would_do() -> None:
    found = changes(planned(DIFFUSION_GEMMA, 56, rows=64, tokens=262_144))
    assert "fewer rows" not in found
    assert "shorter" not in found
    rows, tokens, _, _ = found["fewer rows and shorter"]
    assert rows == 1
    assert 256 <= tokens < 262_144


def test_a_gpu_that_is_far_too_small_has_no_alternative() -> None:
    made = planned(DIFFUSION_GEMMA, 2, tokens=2048)
    assert (made.fits, made.alternatives) == (False, ())
    assert "use a GPU with more memory" in explain(made)


def test_guidance_adds_logits_and_activations_but_no_keys_and_values() -> None:
    plain, guided = (planned(DENSE_GQA, 80, rows=16, tokens=2048, canvas=64, guidance=on).bytes for on in (False, True))
    numbers, canvas = 16 * 64 * 256_000, 64 * 256_000
    assert plain.logits == 4 * numbers + 12 * 4 * canvas  # probabilities, and one row's nucleus beside them
    assert guided.logits == 2 * (2 + 4) * numbers  # of two canvases, the head's product and its float32 copy
    assert (guided.kv, guided.weights) == (plain.kv, plain.weights)
    assert guided.total > plain.total


def test_the_autoregressive_arm_has_logits_of_one_position_or_of_a_text_that_is_scored() -> None:
    made = planned(DENSE_MHA, 80, rows=16, tokens=2048)
    assert made.canvas == 1
    assert made.bytes.logits == 2 * 128 * 256_000 * 4  # logits of 128 tokens, and their exponentials
    load = Workload(
        rows=16, tokens=2048, canvas=1, guidance=False, dtype=Dtype.BFLOAT16, gpus=1, top_p=False, scores=False
    )
    alone = footprint(DENSE_MHA.facts, load, engine_costs(Arm.AR, Device.CUDA)).logits
    assert alone == 16 * 256_000 * 4 * 4  # two copies, and as much again for temporaries of all of them
    assert made.bytes.self_conditioning == 0


def test_an_autoregressive_arm_holds_one_text_more_which_is_scored_beside_requests() -> None:
    row = 28 * 2 * 16 * 256 * 2 * 2048
    for rows in (1, 16):
        assert planned(DENSE_MHA, 80, rows=rows, tokens=2048).bytes.kv == (rows + 1) * row


def test_an_idle_autoregressive_engine_scores_as_much_as_its_rows_would_take() -> None:
    """Nine rows of 64 tokens, one of them a text beside the others; eight texts without it have logits of 262 tokens."""
    made = planned(DENSE_MHA, 80, rows=8, tokens=64).bytes
    row = 28 * 2 * 16 * 256 * 2 * 64
    assert made.kv == 9 * row
    assert made.logits == 2 * (2**26 // 256_000) * 256_000 * 4 - row


def test_no_more_tokens_are_scored_than_texts_have() -> None:
    assert planned(DENSE_MHA, 80, rows=1, tokens=16).bytes.logits == 2 * 16 * 256_000 * 4


def test_the_arm_can_be_chosen() -> None:
    assert planned(DENSE_MHA, 80, rows=4, tokens=2048, canvas=64).canvas == 64
    assert planned(DIFFUSION_GEMMA, 80, rows=4, tokens=2048, arm=Arm.AR).canvas == 1
    with pytest.raises(SizingError, match="say how many tokens a block has, such as 64"):
        planned(DENSE_MHA, 80, rows=4, tokens=2048, arm=Arm.DIFFUSION)


def test_logits_and_the_tensors_of_layers_are_never_alive_together() -> None:
    """What counts is the larger of the two."""
    load = Workload(rows=2, tokens=2048, canvas=16, guidance=False, dtype=Dtype.BFLOAT16, gpus=1, top_p=False)
    few, more = (footprint(DENSE_MHA.facts, load, replace(GPU, predict_copies=copies)) for copies in (1, 2))
    assert few.logits < more.logits
    assert few.activations + few.logits == more.activations + more.logits
    assert few.total == more.total


def test_on_cpu_there_is_no_context_of_cuda() -> None:
    budget = Budget(memory_bytes=80 * GIB)
    asked = Asked(rows=1, tokens=128, canvas=64)
    on_cpu, on_gpu = (plan(LLADA.facts, asked, budget, device=device) for device in (Device.CPU, Device.CUDA))
    assert on_cpu.bytes.reserve < on_gpu.bytes.reserve


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"rows": 0}, "0 rows: write auto or a number from 1 to 64"),
        ({"rows": 65}, "65 rows"),
        ({"tokens": 8}, "a sequence of 8 tokens: write auto or at least 16"),
        ({"tokens": 4097}, "a sequence of 4097 tokens is longer than the 4096 positions of the model"),
        ({"canvas": 2000}, "a canvas of 2000 tokens: write a number from 8 to 1024"),
        ({"canvas": 0}, "a canvas of 0 tokens: write a number from 8 to 1024"),
        ({"canvas": 7}, "a canvas of 7 tokens"),
        ({"canvas": 64, "arm": Arm.AR}, "an autoregressive engine has no canvas"),
        ({"canvas": None}, "config.json of llada gives no canvas length: say how many tokens"),
        ({"dtype": "int3"}, "dtype is int3: write auto or one of float32, bfloat16"),
        ({"gpus": 3}, "cannot be split over 3 GPUs: 1, 2, 4, 8 can be"),
        ({"gpus": 0}, "cannot be split over 0 GPUs"),
        ({"guidance": True, "canvas": None, "arm": Arm.AR}, "guidance is of diffusion"),
    ],
)
def test_what_no_amount_of_memory_would_run_is_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(SizingError, match=words):
        planned(LLADA, 80, **{"canvas": 64} | asked)


def test_a_quantised_checkpoint_keeps_its_format() -> None:
    quantised = DREAM.facts.model_copy(update={"quantization": "fp8"})
    budget = Budget(memory_bytes=80 * GIB)
    with pytest.raises(SizingError, match="quantised already"):
        plan(quantised, Asked(tokens=2048, canvas=64, dtype="bfloat16"), budget)
    made = plan(quantised, Asked(tokens=2048, canvas=64), budget)
    assert made.bytes.weights == quantised.stored_bytes


def test_a_plan_in_words() -> None:
    assert explain(planned(LLADA, 80, rows=16, tokens=2048, canvas=64)).startswith(
        "16 rows × 2,048 tokens in bfloat16 take "
    )
    said = explain(planned(LLADA, 24, rows=16, tokens=2048, canvas=64))
    assert "keys and values 15.99 GiB, weights 14.93 GiB" in said
    assert "more than the budget of 21.60 GiB. What fits: fewer rows: " in said
