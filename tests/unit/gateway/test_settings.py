import argparse

import pytest
from diffusion_gateway.settings import Settings, add_arguments, from_arguments


def parse(*arguments: str, **environ: str) -> Settings:
    parser = argparse.ArgumentParser()
    environ = {f"DIFFUSION_GW_{name}": value for name, value in environ.items()}
    add_arguments(parser, environ=environ)
    return from_arguments(parser.parse_args(arguments), environ=environ)


def test_without_flags_the_defaults_hold() -> None:
    assert parse() == Settings()


def test_a_flag_wins_over_the_environment_which_wins_over_the_default() -> None:
    assert parse(PORT="9000").port == 9000
    assert parse("--port=9001", PORT="9000").port == 9001


def test_namespaces_add_up_and_come_with_commas_from_the_environment() -> None:
    assert parse("--namespace=a", "--namespace=b,c", "--namespace=a").namespaces == ("a", "b", "c")
    assert parse(NAMESPACES="x, y").namespaces == ("x", "y")
    assert parse("--namespace=a", NAMESPACES="x,y").namespaces == ("a",)


@pytest.mark.parametrize(
    "arguments",
    [
        "--port=70000",
        "--port=x",
        "--drain-seconds=-1",
        "--max-in-flight=0",
        "--silence-seconds=nan",
        "--log-format=xml",
        "--max-connections=0",
        "--cors-origins=https://a.example.com/path",
        "--cors-origins=a.example.com",
        "--otlp-endpoint=collector:4318",
        "--trace-sample-percent=101",
        "--trace-sample-percent=nan",
    ],
)
def test_impossible_values_are_refused(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(arguments)
    assert arguments.split("=")[0] in capsys.readouterr().err


@pytest.mark.parametrize("environ", [{"PORT": "x"}, {"DRAIN_SECONDS": "soon"}, {"LOG_FORMAT": "xml"}])
def test_impossible_values_from_the_environment_are_refused_too(environ: dict[str, str]) -> None:
    with pytest.raises(SystemExit):
        parse(**environ)


def test_origins_are_separated_by_commas() -> None:
    origins = ("https://a.example.com", "http://localhost:3000")
    assert parse(f"--cors-origins={','.join(origins)}").cors_origins == origins
    assert parse(CORS_ORIGINS=", ".join(origins)).cors_origins == origins
    assert parse("--cors-origins=*").cors_origins == ("*",)


def test_the_collector_may_come_from_opentelemetrys_own_variable() -> None:
    def endpoint(*arguments: str, **environ: str) -> str | None:
        parser = argparse.ArgumentParser()
        add_arguments(parser, environ=environ)
        return from_arguments(parser.parse_args(arguments), environ=environ).otlp_endpoint

    given = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318/"}
    assert endpoint(**given) == "http://collector:4318"
    assert endpoint("--otlp-endpoint=http://other:4318", **given) == "http://other:4318"
    assert endpoint() is None
    with pytest.raises(SystemExit):
        endpoint(OTEL_EXPORTER_OTLP_ENDPOINT="collector:4318")


def test_help_names_every_environment_variable() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser, environ={})
    for name in ("PORT", "ADMIN_PORT", "NAMESPACES", "KUBECONFIG", "DRAIN_SECONDS", "LOG_FORMAT"):
        assert f"DIFFUSION_GW_{name}" in parser.format_help().replace("\n", "")
