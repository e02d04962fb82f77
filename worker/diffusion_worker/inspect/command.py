"""`diffusion-worker inspect`."""

import argparse
import tempfile
from pathlib import Path

from diffusion_worker.inspect.source import MOUNT, inspect_source
from diffusion_worker.inspect.table import table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the subcommand."""
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="hf://owner/name[@revision], file:///path, pvc://claim/path, image://… or a folder",
    )
    parser.add_argument(
        "--revision", metavar="REV", help="commit, tag or branch, for hf:// only; None: its main branch"
    )
    parser.add_argument("--output", choices=("table", "json"), default="table", help="for people, or for programs")
    parser.add_argument(
        "--mount", type=Path, default=MOUNT, metavar="DIR", help="where the pvc:// or image:// source is mounted"
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(tempfile.gettempdir()) / "diffusion-worker-hub",
        metavar="DIR",
        help="where config.json of an hf:// source is downloaded to",
    )


def inspect(options: argparse.Namespace) -> str:
    """What the subcommand prints. Raises InspectError."""
    facts = inspect_source(options.source, revision=options.revision, cache=options.cache, mount=options.mount)
    return table(facts) if options.output == "table" else facts.model_dump_json(exclude_none=True) + "\n"
