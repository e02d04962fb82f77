"""The chart starts the programs with flags that they know."""

import argparse

import pytest
from diffusion_gateway import settings as gateway_settings

from tests.chart.chart import Rendered, render


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
