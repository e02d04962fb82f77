"""transformers is the oracle: same logits for single rows, mixed batches, later canvases and long prompts."""

from pathlib import Path

import pytest
import torch
from diffusion_worker.models.ar import ARModel
from diffusion_worker.models.cache import KVCache
from diffusion_worker.models.diffusion import DiffusionModel
from transformers import AutoModelForCausalLM, DiffusionGemmaForBlockDiffusion, DynamicCache

from tests.engine.checkpoints import CANVAS, VOCAB, WINDOW

TOLERANCE = 1e-4
PROMPT_LENGTHS = (1, 5, WINDOW - 1, WINDOW, 3 * WINDOW + 1)  # below, at and beyond the sliding window


@pytest.fixture(scope="module")
def reference(diffusion_folder: Path) -> DiffusionGemmaForBlockDiffusion:
    """transformers' own DiffusionGemma."""
    return DiffusionGemmaForBlockDiffusion.from_pretrained(diffusion_folder, dtype=torch.float32)


def tokens(count: int, seed: int) -> list[int]:
    """Reproducible token ids."""
    return torch.randint(VOCAB, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


@torch.no_grad()
def reference_logits(
    model: DiffusionGemmaForBlockDiffusion,
    committed: list[list[int]],
    canvas: list[int],
    self_conditioning_logits: torch.Tensor | None = None,
) -> torch.Tensor:
    """Logits [C, V] of one row by transformers alone: `committed` goes into its cache pass by pass."""
    cache = DynamicCache(config=model.config.text_config)
    for chunk in committed:
        model.model.encoder(input_ids=torch.tensor([chunk]), cache=cache)
    return model(
        decoder_input_ids=torch.tensor([canvas]), cache=cache, self_conditioning_logits=self_conditioning_logits
    ).logits[0]


def our_logits(
    model: DiffusionModel, committed: list[list[list[int]]], canvases: list[list[int]], soft: torch.Tensor | None = None
) -> torch.Tensor:
    """Logits [B, C, V] of several rows in one pass; each of `committed` holds one row's passes."""
    cache = model.new_cache(max_rows=len(committed))
    slots = [cache.take_slot() for _ in committed]
    lengths = [0] * len(committed)
    for number in range(max(len(passes) for passes in committed)):
        rows = [i for i, passes in enumerate(committed) if number < len(passes)]
        chunks = [committed[i][number] for i in rows]
        model.encode(cache, [slots[i] for i in rows], [lengths[i] for i in rows], chunks)
        for i, chunk in zip(rows, chunks, strict=True):
            lengths[i] += len(chunk)
    if soft is None:
        soft = model.no_soft_embedding().expand(len(committed), -1, -1)
    return model.denoise(cache, slots, lengths, torch.tensor(canvases), soft)


@pytest.mark.parametrize("length", PROMPT_LENGTHS)
def test_a_single_row(diffusion_model: DiffusionModel, reference: DiffusionGemmaForBlockDiffusion, length: int) -> None:
    prompt, canvas = tokens(length, 1), tokens(CANVAS, 2)
    ours = our_logits(diffusion_model, [[prompt]], [canvas])[0]
    assert (ours - reference_logits(reference, [prompt], canvas)).abs().max() < TOLERANCE


def test_rows_of_different_length_and_canvas_share_a_pass(
    diffusion_model: DiffusionModel, reference: DiffusionGemmaForBlockDiffusion
) -> None:
    committed = [[tokens(length, length)] for length in PROMPT_LENGTHS]
    committed[1] += [tokens(CANVAS, 100), tokens(CANVAS, 101)]  # this row is at its third canvas
    canvases = [tokens(CANVAS, 50 + i) for i in range(len(committed))]
    ours = our_logits(diffusion_model, committed, canvases)
    for i, (passes, canvas) in enumerate(zip(committed, canvases, strict=True)):
        assert (ours[i] - reference_logits(reference, passes, canvas)).abs().max() < TOLERANCE


def test_later_canvases_see_the_committed_ones(
    diffusion_model: DiffusionModel, reference: DiffusionGemmaForBlockDiffusion
) -> None:
    committed = [tokens(9, 3), *(tokens(CANVAS, 4 + i) for i in range(4))]
    canvas = tokens(CANVAS, 9)
    ours = our_logits(diffusion_model, [committed], [canvas])[0]
    assert (ours - reference_logits(reference, committed, canvas)).abs().max() < TOLERANCE


def test_a_prompt_in_chunks_equals_the_prompt_at_once(diffusion_model: DiffusionModel) -> None:
    prompt, canvas = tokens(70, 5), tokens(CANVAS, 6)
    at_once = our_logits(diffusion_model, [[prompt]], [canvas])
    in_chunks = our_logits(diffusion_model, [[prompt[:31], prompt[31:62], prompt[62:]]], [canvas])
    assert (at_once - in_chunks).abs().max() < TOLERANCE


def test_self_conditioning_as_soft_embedding_equals_self_conditioning_as_logits(
    diffusion_model: DiffusionModel, reference: DiffusionGemmaForBlockDiffusion
) -> None:
    prompt, canvas = tokens(7, 7), tokens(CANVAS, 8)
    logits = 3 * torch.randn(1, CANVAS, VOCAB, generator=torch.Generator().manual_seed(9))
    soft = torch.empty(1, CANVAS, diffusion_model.hidden_size)
    diffusion_model.soft_embedding(logits[0].softmax(dim=-1), out=soft[0])
    ours = our_logits(diffusion_model, [[prompt]], [canvas], soft)[0]
    theirs = reference_logits(reference, [prompt], canvas, logits)
    assert (theirs - reference_logits(reference, [prompt], canvas)).abs().max() > 0.01  # it matters at all
    assert (ours - theirs).abs().max() < TOLERANCE


@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_autoregressive_rows_of_different_length_share_a_pass(
    architecture: str, request: pytest.FixtureRequest
) -> None:
    model: ARModel = request.getfixturevalue(f"{architecture}_model")
    reference = AutoModelForCausalLM.from_pretrained(
        request.getfixturevalue(f"{architecture}_folder"), dtype=torch.float32
    )
    sequences = [tokens(length + 3, length) for length in PROMPT_LENGTHS]
    cache = KVCache(max_rows=len(sequences), max_length=256)
    slots = [cache.take_slot() for _ in sequences]
    lengths = [0] * len(sequences)
    for _ in range(4):  # the prompts, then three tokens one by one
        chunks = [
            sequence[:-3] if length == 0 else [sequence[length]]
            for sequence, length in zip(sequences, lengths, strict=True)
        ]
        ours = model.forward(cache, slots, lengths, chunks)
        lengths = [length + len(chunk) for length, chunk in zip(lengths, chunks, strict=True)]
        for i, (sequence, length) in enumerate(zip(sequences, lengths, strict=True)):
            with torch.no_grad():
                theirs = reference(input_ids=torch.tensor([sequence[:length]])).logits[0, -1]
            assert (ours[i] - theirs).abs().max() < TOLERANCE
