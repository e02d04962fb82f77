"""`diffusion-operator`: the command line. Each flag can be given as an environment variable as well."""

import argparse
import asyncio
import gc
import io
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from types import ModuleType

from . import explain_command, logs, plan_command, prometheus_flags, simulate_command
from .settings import OperatorSettings

# Python's 700 look for garbage a thousand times while a thousand resources are made, among objects that live on.
_NEW_OBJECTS_BETWEEN_COLLECTIONS = 10_000
_INTERRUPTED = 130  # as a shell says it of SIGINT
_READER_GONE = 141  # and of SIGPIPE
_DESCRIPTION = """\
Kubernetes operator for DiffusionModel resources: makes worker pods of them, and tells gateways which pods get which
share of the requests.
"""

_EPILOG = """\
examples, outside a cluster:
  diffusion-operator plan --source ./model --gpu-memory 80Gi --sequence 2048
  diffusion-operator simulate -f dm.yaml --scenario regressed
  diffusion-operator explain storyteller --namespace stories
  diffusion-operator run --kubeconfig ~/.kube/config --namespace diffusion-system \\
    --worker-image registry.example.com/diffusion-worker:1.0 --log-format console
"""


def parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """The command line, with defaults from the environment."""
    top = argparse.ArgumentParser(
        prog="diffusion-operator",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=version("diffusion-operator"))
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, text: str, module: ModuleType) -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=text,
            description=module.DESCRIPTION,
            epilog=module.EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    plan_command.add_arguments(command("plan", "tell how many rows and tokens of a model fit a GPU", plan_command))
    simulate_command.add_arguments(
        command("simulate", "play a rollout on a model of traffic, to see what its gates would do", simulate_command)
    )
    explain_command.add_arguments(
        command("explain", "tell what happened to a rollout and why", explain_command), environment
    )
    run = commands.add_parser(
        "run", help="watch DiffusionModels and act on them", description="Watch DiffusionModels and act on them."
    )

    def add(flag: str, variable: str, text: str, *, default: str | None = None) -> None:
        run.add_argument(
            flag,
            default=environment.get(variable, default),
            help=f"{text} [${variable}{f'; default {default}' if default else ''}]",
        )

    add("--worker-image", "WORKER_IMAGE", "image of the worker pods (required)")
    add("--namespace", "POD_NAMESPACE", "namespace of the operator and of the gateway's Service (required)")
    add("--gateway-service", "GATEWAY_SERVICE", "name of the gateway's Service", default="diffusion-operator-gateway")
    add("--gateway-url", "GATEWAY_URL", "address for status.url; default: that of the gateway's Service")
    run.add_argument(
        "--watch-namespace",
        action="append",
        metavar="NAMESPACE",
        help="act on DiffusionModels of this namespace only; may be repeated; default: all namespaces "
        "[$WATCH_NAMESPACES, comma-separated]",
    )
    add("--kubeconfig", "KUBECONFIG", "kubeconfig file; default: the pod's service account or ~/.kube/config")
    add("--sizing", "SIZING", "on, or off: start pods without knowing whether they fit the memory", default="on")
    prometheus_flags.add_arguments(run, environment)
    add("--port", "PORT", "port of /healthz, /readyz and /metrics", default="8080")
    add("--log-format", "LOG_FORMAT", "json or console", default="json")
    add("--log-level", "LOG_LEVEL", "debug, info, warning or error", default="info")
    return top


def settings_from(arguments: Sequence[str] | None, environment: Mapping[str, str]) -> tuple[OperatorSettings, str, str]:
    """Settings, log format and log level. Ends the process with a message when the command line is wrong."""
    top = parser(environment)
    options = top.parse_args(arguments)
    for name in ("worker_image", "namespace"):
        if not getattr(options, name):
            top.error(f"--{name.replace('_', '-')} is required")
    if options.log_format not in {"json", "console"}:
        top.error(f"--log-format is {options.log_format!r}: write json or console")
    if options.log_level not in {"debug", "info", "warning", "error"}:
        top.error(f"--log-level is {options.log_level!r}: write debug, info, warning or error")
    if not options.port.isdigit() or not 0 < int(options.port) < 65536:
        top.error(f"--port is {options.port!r}: write a number from 1 to 65535")
    if options.sizing not in {"on", "off"}:
        top.error(f"--sizing is {options.sizing!r}: write on or off")
    namespaces = options.watch_namespace or environment.get("WATCH_NAMESPACES", "").split(",")
    service_url = f"http://{options.gateway_service}.{options.namespace}.svc/v1"
    settings = OperatorSettings(
        worker_image=options.worker_image,
        namespace=options.namespace,
        gateway_service=options.gateway_service,
        gateway_url=options.gateway_url or service_url,
        watch_namespaces=tuple(name.strip() for name in namespaces if name.strip()),
        kubeconfig=options.kubeconfig or None,
        port=int(options.port),
        sizing=options.sizing == "on",
        prometheus=prometheus_flags.settings(options, environment, error=top.error),
    )
    return settings, options.log_format, options.log_level


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the operator, or answer a question; returns the exit code."""
    options = parser(os.environ).parse_args(arguments)
    commands = {"plan": plan_command.run, "simulate": simulate_command.run, "explain": explain_command.run}
    if options.command in commands:
        try:
            return _answer(options.command, *commands[options.command](options))
        except KeyboardInterrupt:
            return _INTERRUPTED
    settings, log_format, log_level = settings_from(arguments, os.environ)
    logs.configure(json=log_format == "json", level=log_level)
    gc.set_threshold(_NEW_OBJECTS_BETWEEN_COLLECTIONS)
    try:
        return asyncio.run(_until_sigterm(settings))
    except asyncio.CancelledError:
        return 0


def _answer(command: str, code: int, text: str) -> int:
    """Print what a command found: 2 is wrong input, and goes to standard error."""
    if code == plan_command.BAD_INPUT:
        sys.stderr.write(f"diffusion-operator {command}: {text}")
        return code
    if sys.stdout is None:  # closed by whoever started us
        return code
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that does not know a sign must not hide the rest
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return _READER_GONE
    except OSError as error:
        _drop_output()
        why = f"the answer cannot be written: {error.strerror}: send it where there is room\n"
        return _answer(command, plan_command.BAD_INPUT, why)
    return code


def _drop_output() -> None:
    """What is still in the buffer would fail once more when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


async def _until_sigterm(settings: OperatorSettings) -> int:
    # kopf handles signals once it runs. Until then, as the first process of a container, we would ignore SIGTERM.
    task = asyncio.current_task()
    if task:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    # kopf and kubernetes take a second to import: not for --help
    from diffusion_operator.adapters.errors import NoClusterError

    from .process import run

    try:
        await run(settings)
    except NoClusterError as error:
        return _answer("run", plan_command.BAD_INPUT, f"{error}\n")
    return 0
