"""Training of the diffusion model: predict the clean canvas from a noisy one and the text before it."""

import time
from dataclasses import dataclass
from pathlib import Path

import torch

from examples.train import noise
from examples.train.batches import Batch, canvas_batches
from examples.train.checkpoint import load_weights, save
from examples.train.fast_forward import FastForward, largest_difference
from examples.train.geometry import ENCODED, encoder_masks, lay_out
from examples.train.models import CANVAS, diffusion_model
from examples.train.optimizer import MuonAdam, learning_rate, resumed_learning_rate
from examples.train.prepare import Corpus, load_tokenizer

ROWS = 4
CONDITIONED_ROWS = 3
"""Rows that learn with self-conditioning, as in all steps of the sampler but a canvas's first."""
REPORT_EVERY = 50
KEEP_EVERY = 100
EARLY_SHARE = 0.1
"""The checkpoint after this part of the steps is kept: words, but no sentences. A canary has to catch it."""
T_MIN, T_MAX = 0.2, 0.7
"""Range of temperatures under which generation feeds logits back, at the end and at the beginning of a canvas."""


@dataclass(frozen=True)
class Losses:
    """Mean losses of a step: on the canvases (with and without self-conditioning), and of the encoder's next token."""

    canvas: torch.Tensor
    next_token: torch.Tensor
    conditioned: float
    unconditioned: float


def train(data: Path, out: Path, *, steps: int, seed: int = 0, resume: Path | None = None) -> None:
    """Train for `steps` steps of 1,536 tokens; write the checkpoint to `out`, and earlier ones beside it.

    With `resume` it goes on from that checkpoint, at the noise levels of a finished training.
    """
    model, tokenizer = diffusion_model(seed=seed), load_tokenizer(data)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters", flush=True)
    difference = largest_difference(model)
    if difference > 2e-3:
        raise RuntimeError(
            f"the training pass differs from the model's own by {difference}: has transformers changed the model?"
        )
    if resume:
        load_weights(model, resume)
    fast, optimizer = FastForward(model, compiled=True), MuonAdam(model)
    source = canvas_batches(Corpus.load(data / "train.npz"), rows=ROWS, seed=seed)
    rate = resumed_learning_rate if resume else learning_rate
    began, history = time.monotonic(), []
    for step in range(1, steps + 1):
        share = (step - 1) / steps
        losses = losses_of(fast, next(source), share=1.0 if resume else share)
        # The encoder learns to predict the next token as well: a cheap signal that teaches it what matters in the text.
        (losses.canvas + (1.0 if share < 0.3 and not resume else 0.3) * losses.next_token).backward()
        optimizer.step(rate(share))
        model.zero_grad(set_to_none=True)
        history.append((losses.canvas.item(), losses.conditioned, losses.unconditioned, losses.next_token.item()))
        if step % REPORT_EVERY == 0:
            canvas, conditioned, plain, next_token = torch.tensor(history[-REPORT_EVERY:]).mean(0).tolist()
            seconds = time.monotonic() - began
            print(
                f"step {step}/{steps} {seconds:.0f} s, {step * ROWS * ENCODED / seconds:.0f} tokens/s, canvas {canvas:.3f} "
                f"(conditioned {conditioned:.3f}, not {plain:.3f}), next token {next_token:.3f}",
                flush=True,
            )
        if step == round(steps * EARLY_SHARE) and not resume:
            save(model, tokenizer, out.with_name(f"{out.name}-early"))
        elif step % KEEP_EVERY == 0 and step < steps:
            save(model, tokenizer, out.with_name(f"{out.name}-{step}"))
    save(model, tokenizer, out)


def losses_of(fast: FastForward, batch: Batch, *, share: float) -> Losses:
    """One pass over a batch; the first rows are conditioned on an earlier, noisier pass."""
    geometry = lay_out(batch.begins, batch.documents, fast.frequencies)
    clean = noise.targets(batch.tokens.gather(1, geometry.positions))
    level = noise.levels(clean.size(0), share)
    noisy = noise.corrupt(clean, level)
    h, cache = fast.encode(batch.tokens[:, :ENCODED], encoder_masks(batch.documents))
    next_token = fast.loss(h, batch.tokens[:, 1 : ENCODED + 1]).mean()
    part = CONDITIONED_ROWS
    with torch.no_grad():
        before, before_level = noise.earlier_canvas(clean, noisy, level)
        near_cache = [(k[:part], v[:part]) for k, v in cache]
        earlier = fast.logits(fast.decode(fast.embed(before[:part]), near_cache, geometry.head(part)))
        # The sampler's temperature falls with its steps, which follow the noise only roughly.
        progress = (before_level[:part] + 0.2 * torch.randn(before_level[:part].shape)).clamp(0, 1)
        temperature = (T_MIN + (T_MAX - T_MIN) * progress).repeat_interleave(CANVAS, 1)[..., None]
        canvas = noise.with_own_mistakes(noisy.tokens[:part], noisy.corrupted[:part], earlier / temperature)
    h = torch.cat((fast.embed(canvas, earlier, temperature), fast.embed(noisy.tokens[part:])))
    loss = fast.loss(fast.decode(h, cache, geometry), clean)
    return Losses(loss.mean(), next_token, loss[:part].mean().item(), loss[part:].mean().item())
