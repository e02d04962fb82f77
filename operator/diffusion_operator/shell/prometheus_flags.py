"""Flags of `diffusion-operator run` about Prometheus."""

import argparse
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from diffusion_operator.adapters.prometheus.settings import DEFAULT_TIMEOUT_SECONDS, PrometheusSettings
from diffusion_operator.api.units import seconds


def add_arguments(parser: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    """Add the flags, with defaults from the environment."""
    parser.add_argument(
        "--prometheus-url",
        default=environment.get("PROMETHEUS_URL", ""),
        metavar="URL",
        help="Prometheus that scrapes the gateways, without /api/v1; without one no rollout moves by itself [$PROMETHEUS_URL]",
    )
    parser.add_argument(
        "--prometheus-namespace-url",
        action="append",
        metavar="NAMESPACE=URL",
        help="another Prometheus for the models of a namespace; may be repeated [$PROMETHEUS_NAMESPACE_URLS, "
        "comma-separated]",
    )
    parser.add_argument(
        "--prometheus-bearer-token-file",
        default=environment.get("PROMETHEUS_BEARER_TOKEN_FILE", ""),
        metavar="FILE",
        help="token for Prometheus, read anew for each query [$PROMETHEUS_BEARER_TOKEN_FILE]",
    )
    parser.add_argument(
        "--prometheus-ca-file",
        default=environment.get("PROMETHEUS_CA_FILE", ""),
        metavar="FILE",
        help="certificates that Prometheus' own is checked by; default: the public ones [$PROMETHEUS_CA_FILE]",
    )
    parser.add_argument(
        "--prometheus-insecure",
        action="store_true",
        default=environment.get("PROMETHEUS_INSECURE", "") == "true",
        help="do not check Prometheus' certificate [$PROMETHEUS_INSECURE=true]",
    )
    parser.add_argument(
        "--prometheus-timeout",
        default=environment.get("PROMETHEUS_TIMEOUT", f"{DEFAULT_TIMEOUT_SECONDS:g}s"),
        metavar="DURATION",
        help=f"how long an answer may take [$PROMETHEUS_TIMEOUT; default {DEFAULT_TIMEOUT_SECONDS:g}s]",
    )


def settings(options: Any, environment: Mapping[str, str], *, error: Callable[[str], object]) -> PrometheusSettings:
    """What the flags say. `error` is told what is wrong with them, and does not return."""
    given = options.prometheus_namespace_url
    if given is None:
        given = [one.strip() for one in environment.get("PROMETHEUS_NAMESPACE_URLS", "").split(",") if one.strip()]
    found = PrometheusSettings(
        url=options.prometheus_url,
        namespace_urls=_by_namespace(given, error),
        bearer_token_file=Path(options.prometheus_bearer_token_file) if options.prometheus_bearer_token_file else None,
        ca_file=Path(options.prometheus_ca_file) if options.prometheus_ca_file else None,
        insecure=options.prometheus_insecure,
        timeout_seconds=_timeout(options.prometheus_timeout, error),
    )
    for flag, url in (("--prometheus-url", found.url), *_named(found.namespace_urls)):
        if url and (why := _fault(url)):
            error(f"{flag} is {url!r}: {why}")
    return found


def _by_namespace(given: Iterable[str], error: Callable[[str], object]) -> dict[str, str]:
    urls: dict[str, str] = {}
    for one in given:
        namespace, separator, url = one.partition("=")
        if not namespace or not separator or not url:
            error(f"--prometheus-namespace-url is {one!r}: write NAMESPACE=URL")
        if namespace in urls:
            error(f"--prometheus-namespace-url is given twice for {namespace}: a namespace has one Prometheus")
        urls[namespace] = url
    return urls


def _named(urls: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(f"--prometheus-namespace-url of {namespace}", url) for namespace, url in urls.items()]


def _fault(url: str) -> str:
    """What is wrong with an address; empty for a good one."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return "write http://… or https://… with a host"
    if parts.username or parts.password:
        return "a password does not belong in an address: give a token with --prometheus-bearer-token-file"
    if parts.query or parts.fragment or "/api/v1" in parts.path:
        return "leave out /api/v1 and all that follows"
    return ""


def _timeout(text: str, error: Callable[[str], object]) -> float:
    try:
        found = seconds(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= 120:
        error(f"--prometheus-timeout is {text!r}: write a duration of at most 120s, such as 20s")
    return found
