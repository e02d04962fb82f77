"""Options of the subcommands that run an engine in this process."""

import argparse
from enum import StrEnum
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from diffusion_worker.config import EngineConfig, EngineKind, SamplerConfig, SamplerSettings
from diffusion_worker.offline.errors import OfflineError, explained
from diffusion_worker.wire import GenerateRequest

_FLAGS = {"name": "sampler", "top_p": "sampler_top_p"}  # where the field's own name would mislead
_OF_THE_CONFIG = ("kind", "device", "threads")  # that --config says already
_GENERATION = ("max_tokens", "temperature", "top_p", "seed", "presence_penalty", "frequency_penalty")


def add_engine_arguments(parser: argparse.ArgumentParser, *, kind: EngineKind | None = None) -> None:
    """Which checkpoint, in which engine, and where. A `kind` that is given cannot be chosen."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--checkpoint", type=Path, metavar="DIR", help="folder in Hugging Face's layout")
    source.add_argument(
        "--config",
        type=Path,
        metavar="DIR",
        help="folder with the model.json of a revision, as its pods have at /etc/dlm",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path("/models/cache"),
        metavar="DIR",
        help="where hf:// checkpoints are downloaded to",
    )
    if kind is None:
        parser.add_argument("--kind", choices=list(EngineKind), help="engine to run it with; diffusion if absent")
    parser.set_defaults(default_kind=kind or EngineKind.DIFFUSION)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), help="where to run; auto if absent")
    parser.add_argument("--threads", type=int, metavar="N", help="torch's threads on CPU; 1 if absent")


def add_generation_arguments(parser: argparse.ArgumentParser) -> None:
    """What a request may say, as options."""
    parser.add_argument("--max-tokens", type=int, metavar="N", help="of an answer; up to the model's limit if absent")
    parser.add_argument("--temperature", type=float, help="0 takes the most likely token; 1 if absent")
    parser.add_argument("--top-p", type=float, help="draw from the most likely tokens with this mass; all if absent")
    parser.add_argument("--seed", type=int, help="drawn, and told, if absent")
    parser.add_argument("--presence-penalty", type=float, help="--kind ar: off the logits of generated tokens")
    parser.add_argument("--frequency-penalty", type=float, help="--kind ar: the same, as often as they were generated")
    group = parser.add_argument_group("sampler", "How canvases are denoised; as the checkpoint says if absent.")
    for name, field in SamplerSettings.model_fields.items():
        group.add_argument(
            f"--{_FLAGS.get(name, name).replace('_', '-')}",
            dest=f"sampler.{name}",
            default=None,
            help=(field.description or "").replace("%", "%%") or None,
            **_kind_of(field.annotation),
        )


def _kind_of(annotation: Any) -> dict[str, Any]:
    kind = next(each for each in get_args(annotation) if each is not type(None))
    if kind is bool:
        return {"action": argparse.BooleanOptionalAction}
    if issubclass(kind, StrEnum):
        return {"choices": list(kind)}
    return {"type": kind, "metavar": "N" if kind is int else "X"}


def add_canvas_argument(parser: argparse.ArgumentParser) -> None:
    """The one setting of a sampler that is the engine's, not the request's."""
    field = SamplerConfig.model_fields["canvas_length"]
    parser.add_argument("--canvas-length", type=int, metavar="N", help=field.description)


def generation_fields(options: argparse.Namespace) -> dict[str, Any]:
    """The fields of a `GenerateRequest` that the options set; OfflineError when one is out of bounds."""
    fields = {name: getattr(options, name) for name in _GENERATION if getattr(options, name) is not None}
    sampler = {name: getattr(options, f"sampler.{name}") for name in SamplerSettings.model_fields}
    given = {name: value for name, value in sampler.items() if value is not None}
    if given:
        fields["sampler"] = given
    try:
        GenerateRequest.model_validate({"request_id": "options", "prompt": "x"} | fields)
    except ValidationError as error:
        raise OfflineError(explained(error)) from error
    return fields


def engine_config(options: argparse.Namespace, *, max_batch_size: int | None) -> EngineConfig:
    """The engine that the options ask for; OfflineError when there is none. `max_batch_size` None: as the revision says."""
    from diffusion_worker.sources import SourceError, resolve_source
    from diffusion_worker.triton.errors import LaunchError
    from diffusion_worker.triton.repository import read_config

    given = {name: value for name in _OF_THE_CONFIG if (value := getattr(options, name, None)) is not None}
    try:
        if options.config is not None:
            if given:
                flag = f"--{next(iter(given))}"
                raise OfflineError(f"{flag} and --config exclude each other: model.json says it; leave {flag} out")
            config = read_config(options.config)
        else:
            config = EngineConfig.model_validate(
                {
                    "kind": options.default_kind,
                    "model": options.checkpoint.name or "checkpoint",
                    "revision": "local",
                    "source": f"file://{options.checkpoint.absolute()}",
                    "path": str(options.checkpoint),
                }
                | given
            )
        fields = resolve_source(config, cache=options.cache).model_dump() | {"batch_window_seconds": 0.0}
        if max_batch_size is not None:
            fields["max_batch_size"] = max_batch_size
        if getattr(options, "canvas_length", None) is not None:
            fields["sampler"]["canvas_length"] = options.canvas_length
        return EngineConfig.model_validate(fields)
    except ValidationError as error:
        raise OfflineError(explained(error)) from error
    except (SourceError, LaunchError) as error:
        raise OfflineError(str(error)) from error
