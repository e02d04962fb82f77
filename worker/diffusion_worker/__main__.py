"""The command `diffusion-worker`."""

import argparse
import logging
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

EXIT_CONFIGURATION = 2  # as argparse's own: something that the caller gave is wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns the exit code."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if options.command == "serve" else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    match options.command:
        case "serve":
            return _serve(options)
        case "inspect":
            return _inspect(options)
        case _:
            return _generate(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="diffusion-worker",
        description="Serves a block-diffusion language model, or an autoregressive one, on this machine.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=version("diffusion-operator"))
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_serve(commands)
    _add_generate(commands)
    _add_inspect(commands)
    return parser


def _add_serve(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    serve = commands.add_parser(
        "serve",
        help="run the model behind Triton: what a worker pod does",
        description="Runs the model behind Triton. Ends with 0 after SIGTERM once the running requests are answered, with 2 when "
        "the configuration is wrong, with 70 when Triton had to be killed because its python stub died or the engine hung.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    scratch = Path(tempfile.gettempdir()) / "diffusion-worker"
    serve.add_argument(
        "--config", type=Path, required=True, metavar="DIR", help="folder with model.json and config.pbtxt"
    )
    serve.add_argument(
        "--repository", type=Path, default=scratch, metavar="DIR", help="writable folder for Triton's model repository"
    )
    serve.add_argument(
        "--cache",
        type=Path,
        default=Path("/models/cache"),
        metavar="DIR",
        help="where hf:// checkpoints are downloaded to",
    )
    serve.add_argument("--address", default="0.0.0.0", help="address to listen on")  # noqa: S104 (a pod's is not known)
    serve.add_argument("--http-port", type=int, default=8000, metavar="PORT", help="health and HTTP inference")
    serve.add_argument("--grpc-port", type=int, default=8001, metavar="PORT", help="where gateways connect to")
    serve.add_argument("--metrics-port", type=int, default=8002, metavar="PORT", help="Prometheus metrics at /metrics")
    serve.add_argument(
        "--exit-timeout",
        type=int,
        default=60,
        metavar="SECONDS",
        help="how long running requests may take after SIGTERM",
    )
    serve.add_argument(
        "--hang-timeout",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="end a worker whose engine does not move for so long",
    )


def _add_generate(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    generate = commands.add_parser(
        "generate",
        help="answer one prompt in this terminal, without Triton",
        description="Loads a checkpoint and prints its answer to one prompt, block by block as blocks are committed.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    generate.add_argument(
        "--checkpoint", type=Path, required=True, metavar="DIR", help="folder in Hugging Face's layout"
    )
    generate.add_argument("--kind", choices=("diffusion", "ar"), default="diffusion", help="engine to run it with")
    generate.add_argument("--prompt", required=True, help="text to go on from; a user's turn with --chat")
    generate.add_argument("--chat", action="store_true", help="render the prompt with the checkpoint's chat template")
    generate.add_argument("--max-tokens", type=int, default=None, metavar="N", help="None: up to the model's limit")
    generate.add_argument("--temperature", type=float, default=1.0, help="0 takes the most likely token")
    generate.add_argument("--seed", type=int, default=None, help="None: drawn, and printed at the end")
    generate.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to run")
    generate.add_argument("--threads", type=int, default=1, metavar="N", help="torch's threads on CPU")


def _add_inspect(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    from diffusion_worker.inspect.command import add_arguments

    add_arguments(
        commands.add_parser(
            "inspect",
            help="tell what a checkpoint is, without loading it",
            description="Reads config.json and the headers of the weights: parameters, layers, vocabulary, canvas and all else "
            "that decides how much memory the model needs. Ends with 2 when the source cannot be read.",
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        )
    )


def _inspect(options: argparse.Namespace) -> int:
    from diffusion_worker.inspect.command import inspect
    from diffusion_worker.inspect.errors import InspectError

    try:
        sys.stdout.write(inspect(options))
    except InspectError as error:
        return _refuse(error)
    return 0


def _serve(options: argparse.Namespace) -> int:
    from diffusion_worker.sources import SourceError
    from diffusion_worker.triton.errors import LaunchError
    from diffusion_worker.triton.launcher import ServeOptions, serve

    try:
        return serve(
            ServeOptions(
                config=options.config,
                repository=options.repository,
                cache=options.cache,
                address=options.address,
                http_port=options.http_port,
                grpc_port=options.grpc_port,
                metrics_port=options.metrics_port,
                exit_timeout_seconds=options.exit_timeout,
                hang_seconds=options.hang_timeout,
            )
        )
    except (LaunchError, SourceError) as error:
        return _refuse(error)


def _generate(options: argparse.Namespace) -> int:
    from diffusion_worker.generate import GenerateError, generate

    try:
        generate(
            checkpoint=options.checkpoint,
            kind=options.kind,
            prompt=options.prompt,
            chat=options.chat,
            max_tokens=options.max_tokens,
            temperature=options.temperature,
            seed=options.seed,
            device=options.device,
            threads=options.threads,
        )
    except GenerateError as error:
        return _refuse(error)
    return 0


def _refuse(error: Exception) -> int:
    sys.stderr.write(f"diffusion-worker: {error}\n")
    return EXIT_CONFIGURATION


if __name__ == "__main__":
    sys.exit(main())
