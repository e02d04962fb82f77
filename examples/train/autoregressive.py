"""Training of the autoregressive twin: next-token prediction on the same documents."""

import time
from pathlib import Path

import torch
import torch.nn.functional as F

from examples.train.batches import token_batches
from examples.train.checkpoint import load_weights, save
from examples.train.models import autoregressive_model
from examples.train.optimizer import MuonAdam, learning_rate, resumed_learning_rate
from examples.train.prepare import Corpus, load_tokenizer

ROWS, LENGTH = 6, 320
REPORT_EVERY = 50


def train(data: Path, out: Path, *, steps: int, seed: int = 0, resume: Path | None = None) -> None:
    """Train for `steps` steps of 1,920 tokens and write the checkpoint to `out`; go on from `resume` if given."""
    model, tokenizer = autoregressive_model(seed=seed), load_tokenizer(data)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters", flush=True)
    if resume:
        load_weights(model, resume)
    optimizer = MuonAdam(model)

    compiled_loss = torch.compile(_loss, dynamic=False)
    source = token_batches(Corpus.load(data / "train.npz"), rows=ROWS, length=LENGTH, seed=seed)
    rate = resumed_learning_rate if resume else learning_rate
    began, recent = time.monotonic(), []
    for step in range(1, steps + 1):
        share = (step - 1) / steps
        loss = compiled_loss(model, *next(source))
        loss.backward()
        optimizer.step(rate(share))
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
    source = token_batches(corpus, rows=16, length=LENGTH, seed=1)
    losses = [_loss(model, *next(source)).item() for _ in range(batches_used)]
    model.train()
    return sum(losses) / len(losses)


def _loss(model: torch.nn.Module, tokens: torch.Tensor, documents: torch.Tensor) -> torch.Tensor:
    """Mean next-token loss of `tokens` [B, L+1]; each document sees itself only, as when serving."""
    row = torch.arange(tokens.size(1) - 1)
    seen = (documents[:, :-1, None] == documents[:, None, :-1]) & (row[:, None] >= row)
    logits = model(tokens[:, :-1], attention_mask=seen.unsqueeze(1)).logits
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
