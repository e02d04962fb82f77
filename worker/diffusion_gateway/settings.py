"""Settings: flags of `diffusion-gateway run`, each with an environment variable behind it."""

import argparse
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import urlsplit

from .breaker import BreakerSettings

# Not DIFFUSION_GATEWAY_: Kubernetes sets DIFFUSION_GATEWAY_PORT=tcp://… in pods beside a Service called diffusion-gateway.
ENV_PREFIX = "DIFFUSION_GW_"
_LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True)
class Settings:
    """How one gateway runs."""

    host: str = "0.0.0.0"  # noqa: S104 - a pod is reached at its own address
    port: int = 8080
    admin_port: int = 8081
    namespaces: tuple[str, ...] = ()
    """Empty: all."""
    kubeconfig: str | None = None
    """None: the pod's service account."""
    request_timeout_seconds: float = 300.0
    drain_seconds: float = request_timeout_seconds
    silence_seconds: float = 60.0
    max_in_flight: int = 512
    max_body_bytes: int = 2 * 2**20
    max_connections: int = 4096
    breaker_window_seconds: float = BreakerSettings.window_seconds
    breaker_min_requests: int = BreakerSettings.min_requests
    breaker_bad_percent: float = 100 * BreakerSettings.max_bad_share
    breaker_slow_seconds: float = BreakerSettings.slow_seconds
    breaker_open_seconds: float = BreakerSettings.open_seconds
    breaker_max_open_seconds: float = BreakerSettings.max_open_seconds
    api_keys_dir: str | None = None
    """None: everyone may ask."""
    cors_origins: tuple[str, ...] = ()
    """Empty: no page of another origin may ask."""
    otlp_endpoint: str | None = None
    """Base URL of an OpenTelemetry collector. None: no traces are sent."""
    trace_sample_percent: float = 100.0
    log_format: str = "json"
    log_level: str = "info"

    @property
    def breaker(self) -> BreakerSettings:
        """When a pod rests."""
        return BreakerSettings(
            window_seconds=self.breaker_window_seconds,
            min_requests=self.breaker_min_requests,
            max_bad_share=self.breaker_bad_percent / 100,
            slow_seconds=self.breaker_slow_seconds,
            open_seconds=self.breaker_open_seconds,
            max_open_seconds=self.breaker_max_open_seconds,
        )


def _positive(kind: type[int] | type[float], *, zero: bool = False) -> Callable[[str], float]:
    def parse(text: str) -> float:
        value = kind(text)
        if not (value >= 0 if zero else value > 0) or value == float("inf"):
            raise argparse.ArgumentTypeError(f"{text} is not a {'non-negative' if zero else 'positive'} number")
        return value

    parse.__name__ = kind.__name__  # argparse names it in "invalid int value: 'x'"
    return parse


def _port(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is not a port; use 1 to 65535, or 0 for any that is free")
    return value


def _one_of(*choices: str) -> Callable[[str], str]:
    # argparse's own `choices` lets a bad default through, and a default may come from the environment.
    def parse(text: str) -> str:
        if text not in choices:
            raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(choices)}")
        return text

    return parse


def _percent(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text} is not a percentage from 0 to 100")
    return value


def _origin(text: str) -> str:
    url = urlsplit(text)
    if text != "*" and (url.scheme not in ("http", "https") or text != f"{url.scheme}://{url.netloc}"):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an origin: write scheme and host only, such as https://chat.example.com, or *"
        )
    return text


def _origins(text: str) -> list[str]:
    return [_origin(part) for part in _namespaces(text)]


def _url(text: str) -> str:
    if urlsplit(text).scheme not in ("http", "https"):
        raise argparse.ArgumentTypeError(f"{text!r} is not an http or https URL, such as http://collector:4318")
    return text.rstrip("/")


def _namespaces(text: str) -> list[str]:
    return [name for name in (part.strip() for part in text.split(",")) if name]


def add_arguments(parser: argparse.ArgumentParser, *, environ: Mapping[str, str] | None = None) -> None:
    """Declare the flags. A flag wins over its environment variable, which wins over the default."""
    environ = os.environ if environ is None else environ
    default = Settings()

    def flag(
        name: str, explanation: str, *, shown: str | None = None, second_variable: str = "", **options: Any
    ) -> None:
        dest = options.get("dest", name.replace("-", "_"))
        variable = ENV_PREFIX + dest.upper()
        value = environ.get(variable) or environ.get(second_variable) or getattr(default, dest)
        shown = shown or f"default: {getattr(default, dest)}"
        # argparse passes string defaults through `type`, so that a bad variable is refused like a bad flag.
        parser.add_argument(f"--{name}", default=value, help=f"{explanation} [{variable}; {shown}]", **options)

    flag("host", "Address to listen on.")
    flag("port", "Port of the OpenAI-compatible API.", type=_port, metavar="PORT")
    flag("admin-port", "Port of /admin/routes, health and metrics; not for clients.", type=_port, metavar="PORT")
    variable = ENV_PREFIX + "NAMESPACES"
    parser.add_argument(
        "--namespace",
        dest="namespaces",
        action="append",
        type=_namespaces,
        default=None,
        metavar="NAMESPACE",
        help=f"Serve the DiffusionModels of this namespace only; may be repeated [{variable}, separated by commas; default: all]",
    )
    flag(
        "kubeconfig",
        "How to reach the API server.",
        shown="default: the pod's service account",
        metavar="FILE",
    )
    seconds = _positive(float)
    flag(
        "drain-seconds",
        "After SIGTERM, how long answers in flight may go on before they end with an error.",
        type=_positive(float, zero=True),
        metavar="SECONDS",
    )
    flag("request-timeout-seconds", "How long an answer may take in all.", type=seconds, metavar="SECONDS")
    flag(
        "silence-seconds",
        "How long a worker may be silent within an answer before it counts as gone.",
        type=seconds,
        metavar="SECONDS",
    )
    flag("max-in-flight", "Requests at the same time; more get 429.", type=_positive(int), metavar="N")
    flag(
        "max-body-bytes",
        "Largest request body; larger ones get 413, and more than 16 of them in flight 429.",
        type=_positive(int),
        metavar="BYTES",
    )
    flag(
        "max-connections",
        "Connections at the same time; with more, the one that has waited longest for a request is closed.",
        type=_positive(int),
        metavar="N",
    )
    flag(
        "breaker-window-seconds",
        "Over how long a pod's failed and slow requests are counted.",
        type=seconds,
        metavar="SECONDS",
    )
    flag(
        "breaker-min-requests",
        "Requests to a pod within the window before their share counts.",
        type=_positive(int),
        metavar="N",
    )
    flag(
        "breaker-bad-percent",
        "A pod rests when this share of its requests failed or was slow.",
        type=_percent,
        metavar="PERCENT",
    )
    flag(
        "breaker-slow-seconds",
        "A request is slow when its first event takes longer.",
        type=seconds,
        metavar="SECONDS",
    )
    flag(
        "breaker-open-seconds",
        "How long a pod rests first; each rest that follows soon is twice as long.",
        type=seconds,
        metavar="SECONDS",
    )
    flag("breaker-max-open-seconds", "The longest rest.", type=seconds, metavar="SECONDS")
    flag(
        "api-keys-dir",
        "Folder of a mounted Secret whose entries hold the API keys, one a line; changes are noticed.",
        shown="default: everyone may ask",
        metavar="DIR",
    )
    flag(
        "cors-origins",
        "Origins, separated by commas, whose pages may ask; * means all.",
        shown="default: none",
        type=_origins,
        metavar="ORIGINS",
    )
    flag(
        "otlp-endpoint",
        "Where spans go by OTLP over HTTP, without /v1/traces. OTEL_EXPORTER_OTLP_ENDPOINT and the other variables of OpenTelemetry count too.",
        shown="default: nowhere",
        second_variable="OTEL_EXPORTER_OTLP_ENDPOINT",
        type=_url,
        metavar="URL",
    )
    flag(
        "trace-sample-percent",
        "Share of the requests that are traced, of those whose client did not decide it.",
        type=_percent,
        metavar="PERCENT",
    )
    flag("log-format", "json for machines, console for people.", type=_one_of("json", "console"), metavar="FORMAT")
    flag(
        "log-level",
        f"Least severe level that is logged: {', '.join(_LEVELS)}.",
        type=_one_of(*_LEVELS),
        metavar="LEVEL",
    )


def from_arguments(arguments: argparse.Namespace, *, environ: Mapping[str, str] | None = None) -> Settings:
    """Settings from parsed flags."""
    environ = os.environ if environ is None else environ
    values = {item.name: getattr(arguments, item.name) for item in fields(Settings)}
    given = values["namespaces"]
    names = (
        _namespaces(environ.get(ENV_PREFIX + "NAMESPACES", ""))
        if given is None
        else [n for part in given for n in part]
    )
    values["namespaces"] = tuple(dict.fromkeys(names))
    values["cors_origins"] = tuple(dict.fromkeys(values["cors_origins"]))
    return Settings(**values)
