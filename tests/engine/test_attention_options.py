"""What rows may be kept from seeing: everything beyond a window and a sink, or the prompt."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from diffusion_worker.models.checkpoint import open_checkpoint
from diffusion_worker.models.diffusion import DiffusionModel, FullAttentionLimit, load_diffusion_model

from tests.engine.checkpoints import CANVAS, VOCAB
from tests.engine.conftest import config_of

TOLERANCE = 1e-4


def tokens(count: int, seed: int) -> list[int]:
    """Reproducible token ids."""
    return torch.randint(VOCAB, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


def logits_of(
    model: DiffusionModel,
    committed: Sequence[list[int]],
    canvases: Sequence[list[int]],
    visible_from: Sequence[int] | None = None,
) -> torch.Tensor:
    """Logits [B, C, V] of canvases over one row's committed tokens, all in one pass."""
    cache = model.new_cache(max_rows=1)
    slot = cache.take_slot()
    length = 0
    for chunk in committed:
        model.encode(cache, [slot], [length], [chunk])
        length += len(chunk)
    count = len(canvases)
    soft = model.no_soft_embedding().expand(count, -1, -1)
    return model.denoise(cache, [slot] * count, [length] * count, torch.tensor(canvases), soft, visible_from)


def limited(folder: Path, *, window: int, sink: int) -> DiffusionModel:
    """The checkpoint with a limit on its full-attention layers."""
    checkpoint = open_checkpoint(config_of(folder, "diffusion"))
    return load_diffusion_model(checkpoint, limit=FullAttentionLimit(window=window, sink=sink))


@pytest.mark.parametrize("sink", [0, 4])
def test_a_window_that_covers_everything_changes_nothing(
    diffusion_folder: Path, diffusion_model: DiffusionModel, sink: int
) -> None:
    committed, canvas = [tokens(70, 1), tokens(CANVAS, 2)], [tokens(CANVAS, 3)]
    model = limited(diffusion_folder, window=70 + CANVAS, sink=sink)
    assert (logits_of(model, committed, canvas) - logits_of(diffusion_model, committed, canvas)).abs().max() < TOLERANCE


@pytest.mark.parametrize("chunks", [[100], [60, 40], [10] * 10, [99, 1]])
@torch.inference_mode()
def test_a_limited_layer_sees_and_holds_the_sink_and_the_window_and_nothing_else(
    diffusion_folder: Path, diffusion_model: DiffusionModel, chunks: list[int]
) -> None:
    window, sink = 8, 4
    prompt, canvas = tokens(100, 4), tokens(CANVAS, 5)
    parts = [prompt[sum(chunks[:i]) :][:chunk] for i, chunk in enumerate(chunks)]
    ours = logits_of(limited(diffusion_folder, window=window, sink=sink), parts, [canvas])
    # The full layer is the last one, so that the limit changes none of the keys: take them from the dense model.
    cache = diffusion_model.new_cache(max_rows=1)
    diffusion_model.encode(cache, [cache.take_slot()], [0], [prompt])
    full = cache.reserve(0, 100, CANVAS).layers[-1]
    full.tokens = torch.cat([full.tokens[:, :, :sink], full.tokens[:, :, 100 - window :]], dim=2)
    full.dropped = 100 - window - sink
    soft = diffusion_model.no_soft_embedding()[None]
    expected = diffusion_model.denoise(cache, [0], [100], torch.tensor([canvas]), soft)
    assert (ours - expected).abs().max() < TOLERANCE
    assert (ours - logits_of(diffusion_model, [prompt], [canvas])).abs().max() > 10 * TOLERANCE


def test_a_limit_saves_bytes(diffusion_folder: Path, diffusion_model: DiffusionModel) -> None:
    held = {}
    for name, model in (("dense", diffusion_model), ("limited", limited(diffusion_folder, window=8, sink=4))):
        cache = model.new_cache(max_rows=1)
        model.encode(cache, [cache.take_slot()], [0], [tokens(300, 4)])
        cache.reserve(0, 300, CANVAS)
        held[name] = cache.nbytes
    assert held["limited"].sliding == held["dense"].sliding
    assert held["limited"].full * 10 <= held["dense"].full


def test_a_prompt_in_chunks_equals_the_prompt_at_once_under_a_limit(diffusion_folder: Path) -> None:
    model = limited(diffusion_folder, window=12, sink=3)
    prompt, canvas = tokens(90, 6), [tokens(CANVAS, 7)]
    at_once = logits_of(model, [prompt], canvas)
    in_chunks = logits_of(model, [prompt[:31], prompt[31:32], prompt[32:80], prompt[80:]], canvas)
    assert (at_once - in_chunks).abs().max() < TOLERANCE


@pytest.mark.parametrize("hidden", [1, 2, 9, 40, 60])
@pytest.mark.parametrize("limit", [None, (20, 4)])
@torch.inference_mode()
def test_hidden_tokens_have_no_part_in_the_logits(
    diffusion_folder: Path, diffusion_model: DiffusionModel, hidden: int, limit: tuple[int, int] | None
) -> None:
    model = diffusion_model if limit is None else limited(diffusion_folder, window=limit[0], sink=limit[1])
    prompt, canvas = tokens(60, 8), tokens(CANVAS, 9)
    cache = model.new_cache(max_rows=1)
    model.encode(cache, [cache.take_slot()], [0], [prompt])
    soft = model.no_soft_embedding()[None]

    def logits(visible_from: int) -> torch.Tensor:
        return model.denoise(cache, [0], [60], torch.tensor([canvas]), soft, [visible_from])

    before = logits(hidden)
    all_seen = logits(0)
    for layer in cache.reserve(0, 60, CANVAS).layers:  # whatever stands where it may not look
        for index in range(60 - layer.dropped):
            sink = 0 if limit is None or layer.tokens.shape[1] != 1 else limit[1]
            position = index if index < sink else index + layer.dropped
            if 0 < position < hidden:
                layer.tokens[:, :, index] = 1e3
    assert torch.equal(logits(hidden), before)
    if hidden == 1:
        assert torch.equal(all_seen, before)
    else:
        assert (all_seen - before).abs().max() > 1e-3


def test_the_same_slot_takes_part_twice_without_mixing_its_canvases(diffusion_model: DiffusionModel) -> None:
    committed, canvases = [tokens(50, 10)], [tokens(CANVAS, 11), tokens(CANVAS, 12)]
    both = logits_of(diffusion_model, committed, canvases, [0, 50])
    (first,) = logits_of(diffusion_model, committed, canvases[:1])
    (second,) = logits_of(diffusion_model, committed, canvases[1:], [50])
    assert torch.equal(both[0], first)
    assert torch.equal(both[1], second)
