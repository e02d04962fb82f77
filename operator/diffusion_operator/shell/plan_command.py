"""`diffusion-operator plan`: what fits a GPU, without a cluster."""

import argparse
import json
from pathlib import Path

from diffusion_worker.inspect.errors import InspectError
from diffusion_worker.inspect.facts import ModelFacts, Source
from diffusion_worker.inspect.folder import inspect_folder
from pydantic import ValidationError

from diffusion_operator.api.units import amount
from diffusion_operator.core.sizing import Arm, Asked, Budget, Device, Dtype, Plan, SizingError, plan

from .plan_table import as_json, as_table

FITS, DOES_NOT_FIT, BAD_INPUT = 0, 1, 2
_LEAST_BYTES, _MOST_BYTES = 2**20, 2**60

DESCRIPTION = """\
Plans rows (requests in flight) and tokens of a model for a GPU, before anything is downloaded or started.

Ends with 0 when it fits, with 1 when it does not (what would fit is printed), with 2 when the input is wrong.
"""
EPILOG = """\
examples:
  diffusion-operator plan --source ./llada-8b --gpu-memory 80Gi --sequence 2048 --canvas 64
  diffusion-worker inspect hf://google/diffusiongemma-26B-A4B-it --output json > facts.json
  diffusion-operator plan --source facts.json --gpu-memory 80Gi --sequence 2048 --output json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the subcommand."""
    add = parser.add_argument
    add(
        "--source",
        required=True,
        help="folder with config.json and the safetensors files, their headers alone, or their index alone; or a file with "
        "what `diffusion-worker inspect --output json` printed",
    )
    add(
        "--gpu-memory",
        "--memory",
        required=True,
        type=_bytes,
        metavar="QUANTITY",
        help="memory of one GPU, such as 80Gi; with --device cpu that of the container",
    )
    add("--memory-utilization", type=_share, default=0.9, metavar="SHARE", help="share of it to plan with; default 0.9")
    add(
        "--sequence",
        type=_auto_or_number,
        metavar="TOKENS",
        help="prompt and answer of one row; default auto: the model's own",
    )
    add(
        "--batch",
        type=_auto_or_number,
        metavar="ROWS",
        help="requests in flight, 1 to 64; default auto: as many as fit",
    )
    add(
        "--dtype",
        choices=("auto", *(dtype.value for dtype in Dtype)),
        default="auto",
        help="of the weights; default auto: the checkpoint's",
    )
    add("--gpus", type=int, default=1, metavar="N", help="GPUs that share the model (tensor parallel); default 1")
    add("--canvas", type=int, metavar="TOKENS", help="tokens of a block; default: what the model is trained for")
    add("--guidance", action="store_true", help="classifier-free guidance: each row computes a second canvas")
    add(
        "--arm",
        choices=("auto", *(arm.value for arm in Arm)),
        default="auto",
        help="engine; default auto: by the model",
    )
    add("--device", choices=tuple(device.value for device in Device), default="cuda", help="default cuda")
    add("--output", choices=("table", "json"), default="table", help="for people, or for programs; default table")


def run(options: argparse.Namespace) -> tuple[int, str]:
    """Exit code, and what to print: to standard error when the code is BAD_INPUT."""
    device = Device(options.device)
    on_cpu = device is Device.CPU
    if on_cpu and options.gpus != 1:
        return BAD_INPUT, f"--gpus {options.gpus} and --device cpu exclude each other: leave one of them out\n"
    asked = Asked(
        rows=options.batch,
        tokens=options.sequence,
        canvas=options.canvas,
        # As the worker does: half precision is slow on CPU.
        dtype="float32" if on_cpu and options.dtype == "auto" else options.dtype,
        gpus=options.gpus,
        guidance=options.guidance,
        arm=None if options.arm == "auto" else Arm(options.arm),
    )
    budget = Budget(memory_bytes=options.gpu_memory, utilization=options.memory_utilization)
    if budget.bytes < 1:
        return BAD_INPUT, "--gpu-memory × --memory-utilization is less than one byte: raise --memory-utilization\n"
    try:
        facts = read_facts(options.source)
        made = plan(facts, asked, budget, device=device)
    except (InspectError, SizingError) as error:
        return BAD_INPUT, f"{error}\n"
    notes = _notes(facts, made)
    text = as_table(made, notes) if options.output == "table" else json.dumps(as_json(made, notes), indent=2) + "\n"
    return FITS if made.fits else DOES_NOT_FIT, text


def read_facts(source: str) -> ModelFacts:
    """Facts from a folder, or from a file that has them. Raises InspectError."""
    scheme, separator, rest = source.partition("://")
    if separator and scheme != "file":
        raise InspectError(
            f"{source} is not on this machine: run `diffusion-worker inspect {source} --output json > facts.json` where it "
            "is, and give --source facts.json"
        )
    if not source:
        raise InspectError("--source is empty: name a folder, or a file with facts")
    path = Path(rest if separator else source)
    if not path.is_file():
        return inspect_folder(path, may_lack_data=True)
    try:
        return ModelFacts.model_validate_json(path.read_bytes())
    except (ValidationError, OSError) as error:
        raise InspectError(
            f"{path} does not hold the facts of a model: make it with `diffusion-worker inspect SOURCE --output json`"
        ) from error


def _notes(facts: ModelFacts, made: Plan) -> list[str]:
    """What a reader of the numbers has to know."""
    notes = []
    if facts.weights_from is Source.INDEX:
        notes.append("parts of the weights are shared out from the index: the headers of the files would tell exactly")
    if facts.unknown_fields:
        notes.append(
            f"config.json has fields that were not understood and may need memory: {', '.join(facts.unknown_fields)}"
        )
    if made.dtype not in {Dtype.FLOAT32, Dtype.BFLOAT16, Dtype.FLOAT16} or facts.quantization:
        notes.append("the worker of this release loads float32, bfloat16 and float16 only")
    if made.gpus > 1:
        notes.append("the worker of this release runs a model on one GPU")
    return notes


def _bytes(text: str) -> int:
    try:
        found = int(amount(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if found < _LEAST_BYTES:
        # A bare number is bytes, as everywhere in Kubernetes, and hardly ever meant so.
        raise argparse.ArgumentTypeError(f"{text} is {found} bytes: write the memory with its unit, as 80Gi")
    if found > _MOST_BYTES:
        raise argparse.ArgumentTypeError("that is more than any GPU has: write the memory with its unit, as 80Gi")
    return found


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not a share: write a number above 0 and up to 1, such as 0.9")
    return share


def _auto_or_number(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text} is neither auto nor a whole number")
    return int(text)
