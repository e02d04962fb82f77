"""Command line: `python -m examples.train --help`."""

import argparse
from pathlib import Path

import torch

from examples.train import autoregressive, diffusion, prepare

DOCUMENTS, SEED = 26_000, 1


def main() -> None:
    """Run one stage, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m examples.train", description=__doc__)
    parser.add_argument("stage", choices=["all", "prepare", "autoregressive", "diffusion"])
    parser.add_argument("--data", type=Path, default=Path("build/stories"), help="tokenizer and token arrays")
    parser.add_argument("--out", type=Path, default=Path("build/checkpoints"), help="folder for the checkpoints")
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--steps", type=int, help="training steps (default: 400 autoregressive, 1000 diffusion)")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.stage in {"all", "prepare"}:
        prepare.prepare(arguments.data, count=arguments.documents, seed=arguments.seed)
    if arguments.stage in {"all", "autoregressive"}:
        autoregressive.train(arguments.data, arguments.out / "storyteller-ar", steps=arguments.steps or 400)
    if arguments.stage in {"all", "diffusion"}:
        diffusion.train(arguments.data, arguments.out / "storyteller", steps=arguments.steps or 1000)


if __name__ == "__main__":
    main()
