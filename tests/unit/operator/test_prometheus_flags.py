"""Where Prometheus is, as flags and as environment."""

from pathlib import Path

import pytest
from diffusion_operator.adapters.prometheus.settings import PrometheusSettings
from diffusion_operator.shell.cli import settings_from

LEAST = ["run", "--worker-image=worker:1", "--namespace=system"]


def given(*flags: str, **environment: str) -> PrometheusSettings:
    return settings_from([*LEAST, *flags], environment)[0].prometheus


def test_without_a_flag_there_is_no_prometheus():
    assert given() == PrometheusSettings()
    assert not given().is_configured


def test_every_flag_has_its_setting():
    found = given(
        "--prometheus-url=https://prometheus.example.com/base",
        "--prometheus-namespace-url=poems=http://poems:9090",
        "--prometheus-namespace-url=prose=http://prose:9090",
        "--prometheus-bearer-token-file=/token",
        "--prometheus-ca-file=/ca.crt",
        "--prometheus-insecure",
        "--prometheus-timeout=1m",
    )

    assert found == PrometheusSettings(
        url="https://prometheus.example.com/base",
        namespace_urls={"poems": "http://poems:9090", "prose": "http://prose:9090"},
        bearer_token_file=Path("/token"),
        ca_file=Path("/ca.crt"),
        insecure=True,
        timeout_seconds=60.0,
    )


def test_the_environment_says_it_as_well():
    found = given(
        PROMETHEUS_URL="http://prometheus:9090",
        PROMETHEUS_NAMESPACE_URLS="poems=http://poems:9090, prose=http://prose:9090",
        PROMETHEUS_INSECURE="true",
        PROMETHEUS_TIMEOUT="500ms",
    )

    assert found.url == "http://prometheus:9090"
    assert set(found.namespace_urls) == {"poems", "prose"}
    assert (found.insecure, found.timeout_seconds) == (True, 0.5)


def test_a_model_is_looked_up_in_its_namespaces_prometheus():
    found = given("--prometheus-url=http://all:9090", "--prometheus-namespace-url=poems=http://poems:9090")

    assert found.url_for("poems") == "http://poems:9090"
    assert found.url_for("prose") == "http://all:9090"
    assert found.namespaces_of("http://all:9090") == (frozenset(), frozenset({"poems"}))
    assert found.namespaces_of("http://poems:9090") == (frozenset({"poems"}), frozenset())


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--prometheus-url=prometheus:9090", "write http://"),
        ("--prometheus-url=http://prometheus:9090/api/v1", "leave out /api/v1"),
        ("--prometheus-url=http://me:secret@prometheus", "does not belong in an address"),
        ("--prometheus-namespace-url=poems", "write NAMESPACE=URL"),
        ("--prometheus-namespace-url=poems=poems:9090", "--prometheus-namespace-url of poems"),
        ("--prometheus-timeout=20", "write a duration"),
        ("--prometheus-timeout=0s", "write a duration"),
    ],
)
def test_a_wrong_flag_is_refused_with_what_to_write(capsys, flag, said):
    with pytest.raises(SystemExit):
        given(flag)
    assert said in capsys.readouterr().err


def test_a_namespace_has_one_prometheus(capsys):
    with pytest.raises(SystemExit):
        given("--prometheus-namespace-url=poems=http://a", "--prometheus-namespace-url=poems=http://b")
    assert "twice for poems" in capsys.readouterr().err
