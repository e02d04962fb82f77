"""What a training canvas asks for, and how it is spoiled."""

import torch

from examples.train import noise
from examples.train.geometry import CANVASES
from examples.train.models import CANVAS
from examples.train.tokenizer import EOS, PAD, VOCABULARY_LIMIT

LENGTH = CANVASES * CANVAS


def test_behind_an_end_of_turn_the_canvas_asks_for_padding() -> None:
    tokens = torch.full((1, LENGTH), 99)
    tokens[0, 10] = EOS
    wanted = noise.targets(tokens)
    assert wanted[0, 10] == EOS
    assert (wanted[0, 11:CANVAS] == PAD).all()


def test_the_next_canvas_is_asked_for_its_own_tokens_again() -> None:
    tokens = torch.full((1, LENGTH), 99)
    tokens[0, 10] = EOS
    assert (noise.targets(tokens)[0, CANVAS:] == 99).all()


def test_level_zero_leaves_the_left_edge_clean_and_level_one_spoils_everything() -> None:
    clean = torch.full((4, LENGTH), 99)
    spoiled = noise.corrupt(clean, torch.ones(4, CANVASES))
    assert spoiled.corrupted.all()
    kept = noise.corrupt(clean, torch.zeros(4, CANVASES)).tokens.view(4, CANVASES, CANVAS)
    assert (kept[..., 0] == 99).all()


def test_only_positions_marked_as_corrupted_change() -> None:
    clean = torch.full((4, LENGTH), 99)
    spoiled = noise.corrupt(clean, torch.full((4, CANVASES), 0.5))
    assert (spoiled.tokens[~spoiled.corrupted] == 99).all()


def test_noise_grows_during_training() -> None:
    torch.manual_seed(0)
    early, late = noise.levels(200, 0.0).mean(), noise.levels(200, 1.0).mean()
    assert late > early + 0.1


def test_an_earlier_canvas_is_at_least_as_noisy() -> None:
    clean, level = torch.full((4, LENGTH), 99), torch.full((4, CANVASES), 0.3)
    _, before = noise.earlier_canvas(clean, noise.corrupt(clean, level), level)
    assert (before >= level).all()


def test_own_mistakes_come_only_where_the_canvas_is_corrupted() -> None:
    clean = torch.full((8, LENGTH), 99)
    noisy = noise.corrupt(clean, torch.full((8, CANVASES), 0.5))
    predicts_7 = torch.zeros(8, LENGTH, VOCABULARY_LIMIT)
    predicts_7[..., 7] = 100.0
    mixed = noise.with_own_mistakes(noisy.tokens, noisy.corrupted, predicts_7)
    changed = mixed != noisy.tokens
    assert changed.any()
    assert (mixed[changed] == 7).all()
    assert noisy.corrupted[changed].all()
