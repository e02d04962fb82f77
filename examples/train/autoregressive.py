"""Training of the autoregressive twin: next-token prediction on the same documents."""

import time
from pathlib import Path

import torch
import torch.nn.functional as F

from examples.train.batches import batches
from examples.train.checkpoint import load_weights, save
from examples.train.models import autoregressive_model
from examples.train.optimizer import MuonAdam, learning_rate
from examples.train.prepare import Corpus, load_tokenizer

ROWS, LENGTH = 6, 320
REPORT_EVERY = 50


def train(data: Path, out: Path, *, steps: int, resume: Path | None = None) -> None:
    """Train for `steps` steps of 1,920 tokens and write the checkpoint to `out`; go on from `resume` if given."""
    model, tokenizer = autoregressive_model(), load_tokenizer(data)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters", flush=True)
    if resume:
        load_weights(model, resume)
    optimizer = MuonAdam(model)

    @torch.compile(dynamic=False)
    def loss_of(tokens: torch.Tensor) -> torch.Tensor:
        logits = model(tokens[:, :-1]).logits
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    source = batches(Corpus.load(data / "train.npz"), rows=ROWS, length=LENGTH, seed=1 if resume else 0)
    began, recent = time.monotonic(), []
    for step in range(1, steps + 1):
        share = (step - 1) / steps
        loss = loss_of(next(source).tokens)
        loss.backward()
        optimizer.step(learning_rate(share))
        model.zero_grad(set_to_none=True)
        recent.append(loss.item())
        if step % REPORT_EVERY == 0:
            seconds = time.monotonic() - began
            mean = sum(recent[-REPORT_EVERY:]) / REPORT_EVERY
            print(
                f"step {step}/{steps} {seconds:.0f} s, {step * ROWS * LENGTH / seconds:.0f} tokens/s, loss {mean:.3f}",
                flush=True,
            )
    save(model, tokenizer, out)
    print(f"held-out loss {held_out_loss(model, Corpus.load(data / 'held_out.npz')):.4f} nats per token", flush=True)


@torch.no_grad()
def held_out_loss(model: torch.nn.Module, corpus: Corpus, *, batches_used: int = 12) -> float:
    """Mean next-token loss on held-out documents."""
    model.eval()
    source, losses = batches(corpus, rows=16, length=LENGTH, seed=1), []
    for _ in range(batches_used):
        tokens = next(source).tokens
        losses.append(F.cross_entropy(model(tokens[:, :-1]).logits.flatten(0, 1), tokens[:, 1:].flatten()).item())
    model.train()
    return sum(losses) / len(losses)
