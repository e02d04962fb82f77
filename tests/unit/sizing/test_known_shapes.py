"""Known models against arithmetic by hand. Sizes follow from config.json; see `shapes` for where its values are from."""

from dataclasses import replace
from math import ceil

import pytest
from diffusion_operator.core.sizing import (
    Arm,
    Asked,
    Budget,
    Device,
    Dtype,
    EngineCosts,
    Plan,
    Workload,
    engine_costs,
    footprint,
    plan,
)
from diffusion_worker.config import MaskCache
from diffusion_worker.sizing import kv_bytes
from diffusion_worker.sizing.costs import CPU_NUCLEUS_TILE, GPU_TILE

from tests.unit.sizing.shapes import DENSE_GQA, DENSE_MHA, DIFFUSION_GEMMA, DREAM, LLADA, KnownShape

KIB, MIB, GIB = 1024, 1024**2, 1024**3
GPU = engine_costs(Arm.DIFFUSION, Device.CUDA)
AR = engine_costs(Arm.AR, Device.CUDA)
TRANSFORMERS = replace(GPU, predict_copies=7)  # generate(): seven float32 copies, measured as peak RSS


def load(
    known: KnownShape, *, rows: int = 1, tokens: int = 2048, dtype: Dtype = Dtype.BFLOAT16, gpus: int = 1
) -> Workload:
    return Workload(rows=rows, tokens=tokens, canvas=known.canvas, guidance=False, dtype=dtype, gpus=gpus)


def planned(known: KnownShape, gib: int, dtype: str = "auto", engine: EngineCosts | None = None, **asked: int) -> Plan:
    wanted = Asked(tokens=2048, canvas=known.canvas, dtype=dtype, **asked)
    return plan(known.facts, wanted, Budget(memory_bytes=gib * GIB), engine=engine)


@pytest.mark.parametrize(
    ("known", "bytes_per_token"),
    [
        # layers × (keys and values) × heads × width × 2 bytes
        pytest.param(LLADA, 32 * 2 * 32 * 128 * 2, id="LLaDA, 512 KiB"),
        pytest.param(DREAM, 28 * 2 * 4 * 128 * 2, id="Dream, 56 KiB"),
        pytest.param(DENSE_MHA, 28 * 2 * 16 * 256 * 2, id="dense MHA, 448 KiB"),
        pytest.param(DENSE_GQA, 28 * 2 * 4 * 256 * 2, id="dense GQA, 112 KiB"),
    ],
)
def test_keys_and_values_of_models_with_full_layers_only(known: KnownShape, bytes_per_token: int) -> None:
    for tokens, held in ((64, 192), (1000, 1152), (2048, 2176)):  # and the canvas of 128, in multiples of 64
        assert kv_bytes(known.facts, load(known, tokens=tokens), GPU) == held * bytes_per_token
        assert kv_bytes(known.facts, replace(load(known, tokens=tokens), canvas=1), AR) == tokens * bytes_per_token


@pytest.mark.parametrize("tokens", [512, 1024, 2048, 8192, 32_768, 262_144])
def test_keys_and_values_of_diffusion_gemma(tokens: int) -> None:
    """25 sliding layers of 8 × 256 hold window - 1 + canvas tokens, 200 KiB each, in sixteens; 5 full ones of 2 × 512 all."""
    sliding = min(tokens + 256, 1280)
    expected = sliding * 200 * KIB + (tokens + 256) * 20 * KIB
    assert kv_bytes(DIFFUSION_GEMMA.facts, load(DIFFUSION_GEMMA, tokens=tokens), GPU) == expected


def test_an_engine_that_keeps_all_of_a_sliding_layer_needs_half_as_much_again_at_2048_tokens() -> None:
    """295 MiB against 440: the AR engine's cache, which drops nothing."""
    row = load(DIFFUSION_GEMMA)
    assert kv_bytes(DIFFUSION_GEMMA.facts, replace(row, canvas=1), AR) == 2048 * 220 * KIB
    assert kv_bytes(DIFFUSION_GEMMA.facts, row, GPU) == pytest.approx(295 * MIB, rel=0.001)


@pytest.mark.parametrize(
    ("known", "one_copy"),
    [
        pytest.param(DIFFUSION_GEMMA, 256 * 262_144 * 4, id="DiffusionGemma, 256 MiB"),
        pytest.param(LLADA, 128 * 126_464 * 4, id="LLaDA, 62 MiB"),
        pytest.param(DREAM, 128 * 152_064 * 4, id="Dream, 74 MiB"),
    ],
)
def test_logits_of_one_canvas(known: KnownShape, one_copy: int) -> None:
    sixteen = load(known, rows=16)
    cpu = engine_costs(Arm.DIFFUSION, Device.CPU)
    from_the_head = one_copy * 3 // 2  # bfloat16, and its float32 copy beside it
    on_gpu = max(16 * from_the_head, 16 * one_copy + 12 * min(known.canvas * known.facts.vocab_size, GPU_TILE) * 4)
    assert footprint(known.facts, sixteen, GPU).logits == on_gpu
    assert footprint(known.facts, replace(sixteen, guidance=True), GPU).logits == 16 * 2 * from_the_head
    assert footprint(known.facts, sixteen, TRANSFORMERS).logits >= 16 * 7 * one_copy
    on_cpu = max(16 * from_the_head, 16 * one_copy + ceil(5.25 * max(known.facts.vocab_size, CPU_NUCLEUS_TILE) * 4))
    assert footprint(known.facts, sixteen, cpu).logits == on_cpu
    # One row alone that draws within top-p: its probabilities, and the nucleus of a part of its positions beside them.
    positions = GPU_TILE // known.facts.vocab_size
    nucleus = min(128, positions) if known is not DIFFUSION_GEMMA else positions
    alone = footprint(known.facts, load(known), GPU).logits
    assert alone == pytest.approx(one_copy + 12 * nucleus * known.facts.vocab_size * 4, rel=0.01)


def test_beside_the_logits_of_the_head_are_hidden_states_and_what_canvases_keep() -> None:
    """Of each position: tokens now and best, cosines and sines of both kinds of layers, states before and after a norm."""
    positions, d = 16 * 256, 2816
    made = footprint(DIFFUSION_GEMMA.facts, load(DIFFUSION_GEMMA, rows=16), GPU)
    beside = (8 + 8 + 1) + 4 * (256 + 128) + 4 * (512 + 256) + 2 * 2 * d
    assert made.self_conditioning == positions * 2 * d
    assert made.activations == positions * beside
    # Guidance: all of it twice but the tokens, and a copy of both branches' canvases and soft embeddings.
    guided = footprint(DIFFUSION_GEMMA.facts, replace(load(DIFFUSION_GEMMA, rows=16), guidance=True), GPU)
    assert guided.self_conditioning == made.self_conditioning
    assert guided.activations == positions * (17 + 2 * (beside - 17) + 2 * (8 + 2 * d))


def test_mask_models_have_logits_of_512_masks_at_a_time_whatever_the_rows() -> None:
    """Three copies: what the model says, the probabilities made of it, and a sum of exponentials; temporaries in tiles."""
    mask = engine_costs(Arm.DIFFUSION, Device.CUDA, LLADA.facts.family)
    copy = 512 * 126_464 * 4
    two_and_tiles = 2 * copy + 2 * GPU_TILE * 4
    for rows in (4, 16, 64):
        assert footprint(LLADA.facts, load(LLADA, rows=rows), mask).logits == max(3 * copy, two_and_tiles)


def test_guidance_of_a_mask_model_doubles_its_keys_and_values() -> None:
    """The unconditional sequence has a cache of its own; a block-diffusion model's has that of its prompt, hidden."""
    mask = engine_costs(Arm.DIFFUSION, Device.CUDA, LLADA.facts.family)
    for rows in (1, 7):
        plain = load(LLADA, rows=rows)
        kv = footprint(LLADA.facts, plain, mask).kv
        assert kv == rows * 2047 * 512 * KIB  # all but the last block, which may have one token
        assert footprint(LLADA.facts, replace(plain, guidance=True), mask).kv == 2 * kv
    assert footprint(LLADA.facts, replace(load(LLADA), mask_cache=MaskCache.NONE), mask).kv == 0


def test_a_window_for_full_layers_bounds_their_keys_and_values() -> None:
    """5 full layers of 2 × 512: sink, window and canvas, in sixteens, in place of all tokens."""
    free, bound = (
        kv_bytes(DIFFUSION_GEMMA.facts, replace(load(DIFFUSION_GEMMA, tokens=8192), **limits), GPU)
        for limits in ({}, {"attention_window": 1000, "attention_sink": 4})
    )
    assert free - bound == (8192 + 256 - 1264) * 20 * KIB  # 4 + 1000 + 256 = 1260, rounded up


def test_sixteen_rows_of_llada_hold_seventeen_gib_of_keys_and_values() -> None:
    """512 KiB × 16 × (2,048 and the canvas of 128)."""
    assert footprint(LLADA.facts, load(LLADA, rows=16), GPU).kv == 17 * GIB


def test_weights_in_sixteen_bits_are_two_bytes_each() -> None:
    for known in (LLADA, DREAM, DENSE_MHA):
        assert footprint(known.facts, load(known), GPU).weights == 2 * known.facts.parameters
    assert footprint(LLADA.facts, load(LLADA, dtype=Dtype.FLOAT32), GPU).weights == 4 * LLADA.facts.parameters


def test_the_diffusion_engine_lets_go_of_the_encoder_of_images() -> None:
    vision = 27 * (4 * 1152 + 3 * 4304) * 1152 + 2816 * 1152
    weights = footprint(DIFFUSION_GEMMA.facts, load(DIFFUSION_GEMMA), GPU).weights
    assert weights == 2 * (DIFFUSION_GEMMA.facts.parameters - vision)  # 47.0 GiB


def test_quantised_weights_of_diffusion_gemma() -> None:
    """Matrices and experts shrink; embedding and the small rest stay in 16 bits."""
    d = 2816
    attention = 25 * (16 + 2 * 8 + 16) * 256 * d + 5 * (16 + 2 + 16) * 512 * d
    matrices = attention + 30 * 3 * 2112 * d + 30 * 128 * 3 * 704 * d
    rest = 2 * (262_144 * d + 3 * 2112 * d + 30 * (128 * d + d + 1))
    fp8 = footprint(DIFFUSION_GEMMA.facts, load(DIFFUSION_GEMMA, dtype=Dtype.FP8), GPU).weights
    nvfp4 = footprint(DIFFUSION_GEMMA.facts, load(DIFFUSION_GEMMA, dtype=Dtype.NVFP4), GPU).weights
    assert fp8 == pytest.approx(rest + matrices, rel=0.001)  # 24.2 GiB
    assert nvfp4 == pytest.approx(rest + matrices * 9 / 16, rel=1e-6)  # 4 bits, and 8 for each 16 values


def test_two_gpus_hold_half_of_the_matrices_each() -> None:
    one, two = (footprint(LLADA.facts, load(LLADA, rows=16, gpus=gpus), GPU) for gpus in (1, 2))
    norms = 2 * 65 * 4096
    assert two.weights == (one.weights - norms) // 2 + norms
    assert two.kv == one.kv // 2
    assert two.logits == one.logits  # gathered for the sampler


def test_more_gpus_than_heads_for_keys_repeat_the_heads() -> None:
    four, eight = (kv_bytes(DIFFUSION_GEMMA.facts, load(DIFFUSION_GEMMA, tokens=64, gpus=gpus), GPU) for gpus in (4, 8))
    assert four == (64 + 256) * (25 * 2 * 2 * 256 * 2 + 5 * 2 * 1 * 512 * 2)
    assert eight == (64 + 256) * (
        25 * 2 * 1 * 256 * 2 + 5 * 2 * 1 * 512 * 2
    )  # each GPU has one of 2 heads of full layers


@pytest.mark.parametrize("known", [LLADA, DREAM, DENSE_MHA, DENSE_GQA], ids=lambda known: known.name)
def test_a_dense_7b_runs_16_rows_of_2048_tokens_on_80_gib(known: KnownShape) -> None:
    assert planned(known, 80, rows=16).fits
    assert planned(known, 80).rows >= 16


def test_on_40_gib_sixteen_rows_fit_a_dense_7b_however_many_heads_have_keys() -> None:
    """Of 36 GiB: 17 GiB of keys and values for LLaDA, 15 for MHA, 3.7 for GQA, 1.9 for Dream, and 14 to 16 of weights."""
    made = {known.name: planned(known, 40, rows=16) for known in (LLADA, DREAM, DENSE_MHA, DENSE_GQA)}
    assert all(each.fits for each in made.values())
    left = {name: (each.budget_bytes - each.bytes.total) / GIB for name, each in made.items()}
    assert left["LLaDA-8B"] < 2.5
    assert left["Dense 7B, MHA"] < 2.5
    assert left["Dense 7B, GQA"] > 12


def test_logits_of_all_2048_positions_would_not_fit_sixteen_rows() -> None:
    """Why logits are cropped to the block: LLaDA's generate.py has those of the whole sequence, and noise in float64."""
    positions_of_a_row = 2 * 1024
    whole = footprint(LLADA.facts, replace(load(LLADA, rows=16), canvas=1024), replace(GPU, predict_copies=2 * (1 + 2)))
    assert whole.logits == pytest.approx(16 * positions_of_a_row * 126_464 * (4 + 8), rel=0.02)  # 46 GiB
    assert whole.total > 72 * GIB > planned(LLADA, 80, rows=16).bytes.total


def test_diffusion_gemma_in_bfloat16_and_fp8() -> None:
    """Budget 72 GiB of 80 and 126 GiB of 140; weights 47 and 24 GiB; of a row: logits 0.375, keys and values 0.3."""
    assert not planned(DIFFUSION_GEMMA, 40).fits
    rows = {(gib, dtype): planned(DIFFUSION_GEMMA, gib, dtype).rows for gib in (80, 140) for dtype in ("auto", "fp8")}
    assert rows[80, "auto"] == pytest.approx((72 - 47 - 1) / (1.05 * (0.375 + 0.3)), abs=2)
    assert rows[80, "fp8"] == pytest.approx((72 - 24 - 1) / (1.05 * (0.375 + 0.3)), abs=3)
    assert rows[140, "auto"] == rows[140, "fp8"] == 64


def test_transformers_copies_of_the_logits_cost_rows() -> None:
    """Published estimates for generate() at 2,048 tokens: about 9 rows in bfloat16 and 18 in FP8 on 80 GB."""
    assert planned(DIFFUSION_GEMMA, 80, engine=TRANSFORMERS).rows == pytest.approx(9, abs=2)
    assert planned(DIFFUSION_GEMMA, 80, "fp8", TRANSFORMERS).rows == pytest.approx(18, abs=3)
    assert planned(DIFFUSION_GEMMA, 80).rows > 2 * planned(DIFFUSION_GEMMA, 80, engine=TRANSFORMERS).rows
