"""Command line: `python -m examples.train --help`."""

import argparse
from pathlib import Path

import torch

from examples.train import autoregressive, diffusion, prepare

DOCUMENTS, SEED = 26_000, 1
STAGES = [
    ("autoregressive", autoregressive.train, "storyteller-ar", 1000),
    ("diffusion", diffusion.train, "storyteller", 1500),
]


def main() -> None:
    """Run one stage, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m examples.train", description=__doc__)
    parser.add_argument("stage", choices=["all", "prepare", "autoregressive", "diffusion"])
    parser.add_argument("--data", type=Path, default=Path("build/stories"), help="tokenizer and token arrays")
    parser.add_argument("--out", type=Path, default=Path("build/checkpoints"), help="folder for the checkpoints")
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--steps", type=int, help="training steps (default: 1000 autoregressive, 1500 diffusion)")
    parser.add_argument(
        "--resume", type=Path, help="begin with the weights of this checkpoint (one training stage only)"
    )
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.resume and arguments.stage not in {"autoregressive", "diffusion"}:
        parser.error(f"--resume goes with the stage autoregressive or diffusion, not with {arguments.stage}")
    torch.set_num_threads(arguments.threads)
    if arguments.stage in {"all", "prepare"}:
        prepare.prepare(arguments.data, count=arguments.documents, seed=arguments.seed)
    for stage, train, name, steps in STAGES:
        if arguments.stage in {"all", stage}:
            out = arguments.out / name
            train(arguments.data, out, steps=arguments.steps or steps, resume=arguments.resume)


if __name__ == "__main__":
    main()
