"""`diffusion-gateway`: the command line."""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version

import uvloop

from . import keys, logs, server, settings, watch


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Returns the exit code: 0 after a drain, 2 when something is not set up."""
    parser = argparse.ArgumentParser(
        prog="diffusion-gateway",
        description="OpenAI-compatible gateway to the DiffusionModels of a Kubernetes cluster.",
    )
    parser.add_argument("--version", action="version", version=version("diffusion-operator"))
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser(
        "run",
        help="serve until SIGTERM",
        description="Serve the DiffusionModels of a cluster. Needs to list and watch diffusionmodels and endpointslices. "
        "SIGTERM: readiness goes, answers in flight end, exit code 0.",
    )
    settings.add_arguments(run)
    chosen = settings.from_arguments(parser.parse_args(arguments))
    logs.configure(log_format=chosen.log_format, level=chosen.log_level)
    try:
        uvloop.run(server.serve(chosen))
    except (keys.KeysError, watch.ConfigurationError, server.ListenError) as error:
        sys.stderr.write(f"diffusion-gateway: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
