"""The command `diffusion-worker`."""

import argparse
import logging
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

EXIT_SOME_FAILED = 1
EXIT_INTERRUPTED = 130  # as a shell says it of SIGINT
EXIT_CONFIGURATION = 2  # as argparse's own: something that the caller gave is wrong

_BATCH_ROWS = 32


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns the exit code."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    match options.command:
        case "serve":
            return _serve(options)
        case "inspect":
            return _inspect(options)
        case _:
            return _offline(options)


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
    _add_batch(commands)
    _add_score(commands)
    _add_inspect(commands)
    return parser


def _add_serve(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    serve = commands.add_parser(
        "serve",
        help="run the model behind Triton: what a worker pod does",
        description="Runs the model behind Triton. Ends with 0 after SIGTERM once the running requests are answered, with 2 when "
        "the configuration is wrong, with 3 when the model takes more memory than its budget (the numbers are in /dev/termination-log), with 70 when Triton had to be killed because its python stub died or the engine hung.",
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
        default=300,
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
    from diffusion_worker.offline import arguments

    generate = commands.add_parser(
        "generate",
        help="answer one prompt in this terminal, without Triton",
        description="Loads a checkpoint and prints its answer to one prompt, block by block as blocks are committed.",
    )
    arguments.add_engine_arguments(generate)
    generate.add_argument("--prompt", required=True, help="text to go on from; a user's turn with --chat")
    generate.add_argument("--chat", action="store_true", help="render the prompt with the checkpoint's chat template")
    arguments.add_canvas_argument(generate)
    arguments.add_generation_arguments(generate)


def _add_batch(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    from diffusion_worker.offline import arguments

    batch = commands.add_parser(
        "batch",
        help="answer a file of prompts, without Triton",
        description="Answers each line of a JSON Lines file: an object with prompt, messages or prompt_token_ids, and what else a "
        "request may say (max_tokens, temperature, seed, stop, sampler, ...); id names it, or its line number does. Results are "
        "appended as they come. The same command goes on where it was stopped. Ends with 1 when some lines failed.",
    )
    arguments.add_engine_arguments(batch)
    _add_files(batch)
    batch.add_argument(
        "--max-batch-size", type=int, metavar="N", help="rows at a time; 32 if absent, with --config what that says"
    )
    arguments.add_canvas_argument(batch)
    arguments.add_generation_arguments(batch)


def _add_score(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    from diffusion_worker.config import EngineKind
    from diffusion_worker.offline import arguments

    score = commands.add_parser(
        "score",
        help="tell how likely an autoregressive model finds given texts",
        description="Scores each line of a JSON Lines file: an object with prompt, messages or prompt_token_ids, and completion or "
        "completion_token_ids; include_eos counts the end of the answer too. A result has nll (nats, summed over the tokens of "
        "the completion), tokens, text_bytes and perplexity. The same command goes on where it was stopped.",
    )
    arguments.add_engine_arguments(score, kind=EngineKind.AR)
    _add_files(score)


def _add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--input", type=Path, required=True, metavar="FILE", help="JSON Lines, one object per line")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="results, one per line, by id")


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
    from diffusion_worker.triton import logs
    from diffusion_worker.triton.errors import LaunchError
    from diffusion_worker.triton.launcher import ServeOptions, serve

    logs.configure()
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


def _offline(options: argparse.Namespace) -> int:
    """generate, batch or score."""
    from diffusion_worker.offline import arguments
    from diffusion_worker.offline.errors import OfflineError

    try:
        match options.command:
            case "generate":
                fields = arguments.generation_fields(options)
                config = arguments.engine_config(options, max_batch_size=1)
                from diffusion_worker.generate import generate

                generate(options.prompt, chat=options.chat, config=config, fields=fields)
                return 0
            case "batch":
                fields = arguments.generation_fields(options)
                absent = _BATCH_ROWS if options.config is None else None
                rows = absent if options.max_batch_size is None else options.max_batch_size
                config = arguments.engine_config(options, max_batch_size=rows)
                from diffusion_worker.offline.batch import answer_file

                progress = answer_file(options.input, options.output, config=config, defaults=fields)
            case _:
                config = arguments.engine_config(options, max_batch_size=None)
                from diffusion_worker.offline.score import score_file

                progress, total = score_file(options.input, options.output, config=config)
                sys.stderr.write(f"{total}\n")
    except OfflineError as error:
        return _refuse(error)
    except KeyboardInterrupt:
        sys.stderr.write("\ndiffusion-worker: stopped; what is done is kept, and the same command goes on from there\n")
        return EXIT_INTERRUPTED
    return EXIT_SOME_FAILED if progress.failed else 0


def _refuse(error: Exception) -> int:
    sys.stderr.write(f"diffusion-worker: {error}\n")
    return EXIT_CONFIGURATION


if __name__ == "__main__":
    sys.exit(main())
