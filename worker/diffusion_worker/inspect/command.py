"""`diffusion-worker inspect`."""

import argparse
import tempfile
from pathlib import Path

from diffusion_worker.inspect.errors import InspectError
from diffusion_worker.inspect.message import facts_message, refusal_message
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
    parser.add_argument(
        "--termination-message",
        type=Path,
        metavar="FILE",
        help="write facts, or why there are none, to FILE as well, in at most 4,096 bytes: what Kubernetes keeps of a "
        "container that ended",
    )


def inspect(options: argparse.Namespace) -> str:
    """What the subcommand prints. Raises InspectError."""
    try:
        facts = inspect_source(options.source, revision=options.revision, cache=options.cache, mount=options.mount)
        if options.termination_message:
            _write(options.termination_message, facts_message(facts))
    except InspectError as error:
        if options.termination_message:
            _write(options.termination_message, refusal_message(error))
        raise
    return table(facts) if options.output == "table" else facts.model_dump_json(exclude_none=True) + "\n"


def _write(file: Path, message: str) -> None:
    try:
        file.write_text(message, encoding="utf-8")
    except OSError as error:
        raise InspectError(f"{file} cannot be written: {error.strerror}") from error
