"""Command line: `python -m examples.train --help`."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from examples.train import autoregressive, diffusion, prepare

DOCUMENTS, SEED = 40_000, 1


@dataclass(frozen=True)
class Stage:
    """One training run: its checkpoint, its length, and the seed of its weights and of the order of its data."""

    train: Callable[..., None]
    checkpoint: str
    steps: int
    seed: int
    goes_on_from: str = ""


STAGES = {
    "autoregressive": Stage(autoregressive.train, "storyteller-ar", 900, 0),
    "scorer": Stage(autoregressive.train, "storyteller-scorer", 900, 1),
    "diffusion": Stage(diffusion.train, "storyteller", 2500, 0),
    "second": Stage(diffusion.train, "storyteller-2", 430, 2, goes_on_from="storyteller"),
}


def main() -> None:
    """Run one stage, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m examples.train", description=__doc__)
    parser.add_argument("stage", choices=["all", "prepare", *STAGES])
    parser.add_argument("--data", type=Path, default=Path("build/stories"), help="tokenizer and token arrays")
    parser.add_argument("--out", type=Path, default=Path("build/checkpoints"), help="folder for the checkpoints")
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    parser.add_argument("--seed", type=int, default=SEED, help="of the documents")
    parser.add_argument("--steps", type=int, help="training steps, instead of the stage's own number")
    parser.add_argument("--resume", type=Path, help="begin with the weights of this checkpoint (one stage only)")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.resume and arguments.stage not in STAGES:
        parser.error(f"--resume goes with one of {', '.join(STAGES)}, not with {arguments.stage}")
    torch.set_num_threads(arguments.threads)
    if arguments.stage in {"all", "prepare"}:
        prepare.prepare(arguments.data, count=arguments.documents, seed=arguments.seed)
    for name, stage in STAGES.items():
        if arguments.stage in {"all", name}:
            earlier = arguments.out / stage.goes_on_from if stage.goes_on_from else None
            stage.train(
                arguments.data,
                arguments.out / stage.checkpoint,
                steps=arguments.steps or stage.steps,
                seed=stage.seed,
                resume=arguments.resume or earlier,
            )


if __name__ == "__main__":
    main()
