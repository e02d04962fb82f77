"""The chart starts the programs with flags that they know."""

import argparse

import pytest
from diffusion_gateway import settings as gateway_settings
from diffusion_operator.shell import cli

from tests.chart.chart import NAMESPACE, REGISTRY, Rendered, render


def arguments_of(rendered: Rendered, deployment: str) -> list[str]:
    """The arguments of the deployment's container."""
    (container,) = rendered.one("Deployment", deployment)["spec"]["template"]["spec"]["containers"]
    return list(container["args"])


@pytest.mark.parametrize("namespaces", [(), ("stories", "poems")], ids=["all namespaces", "two namespaces"])
def test_the_gateway_understands_its_arguments(namespaces: tuple[str, ...]):
    values = {"watchNamespaces": list(namespaces), "gateway.drainSeconds": 77, "gateway.logLevel": "warning"}
    parser = argparse.ArgumentParser(exit_on_error=False)
    gateway_settings.add_arguments(parser, environ={})
    parsed = parser.parse_args(arguments_of(render(values), "diffusion-operator-gateway"))
    found = gateway_settings.from_arguments(parsed, environ={})

    assert found.namespaces == namespaces
    assert (found.drain_seconds, found.log_level) == (77, "warning")
    assert (found.port, found.admin_port) == (8080, 8081)
    assert (found.api_keys_dir, found.cors_origins, found.otlp_endpoint) == (None, (), None)


def test_the_gateway_understands_what_restricts_and_traces_it():
    values = {
        "gateway.apiKeys.secretName": "team-keys",
        "gateway.corsOrigins": ["https://a.example.com", "https://b.example.com"],
        "gateway.tracing": {"endpoint": "http://collector:4318", "samplePercent": 12.5},
    }
    parser = argparse.ArgumentParser(exit_on_error=False)
    gateway_settings.add_arguments(parser, environ={})
    parsed = parser.parse_args(arguments_of(render(values), "diffusion-operator-gateway"))
    found = gateway_settings.from_arguments(parsed, environ={})

    assert found.api_keys_dir == "/etc/diffusion-gateway/api-keys"
    assert found.cors_origins == ("https://a.example.com", "https://b.example.com")
    assert (found.otlp_endpoint, found.trace_sample_percent) == ("http://collector:4318", 12.5)


@pytest.mark.parametrize("namespaces", [(), ("stories", "poems")], ids=["all namespaces", "two namespaces"])
def test_the_operator_understands_its_arguments(namespaces: tuple[str, ...]):
    values = {"watchNamespaces": list(namespaces), "worker.image.tag": "v2", "operator.logLevel": "warning"}
    arguments = arguments_of(render(values), "diffusion-operator")
    found, log_format, log_level = cli.settings_from(["run", *arguments], {})

    assert found.watch_namespaces == namespaces
    assert found.worker_image == f"{REGISTRY}/diffusion-worker:v2"
    assert (found.namespace, found.gateway_service) == (NAMESPACE, "diffusion-operator-gateway")
    assert (log_format, log_level, found.port) == ("json", "warning", 8080)


@pytest.mark.parametrize(("port", "suffix"), [(80, ""), (8000, ":8000")])
def test_models_say_where_the_gateways_service_is(port: int, suffix: str):
    rendered = render({"gateway.service.port": port})
    found, _, _ = cli.settings_from(["run", *arguments_of(rendered, "diffusion-operator")], {})
    (service,) = rendered.of("Service")
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    assert found.gateway_url == f"http://{name}.{namespace}.svc{suffix}/v1"
