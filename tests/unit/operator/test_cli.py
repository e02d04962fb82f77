"""The command line."""

import pytest
from diffusion_operator.shell.cli import settings_from
from diffusion_operator.shell.settings import OperatorSettings

LEAST = ["run", "--worker-image=worker:1", "--namespace=system"]


def test_two_flags_are_enough() -> None:
    settings, log_format, log_level = settings_from(LEAST, {})
    assert settings == OperatorSettings(
        worker_image="worker:1",
        namespace="system",
        gateway_service="diffusion-operator-gateway",
        gateway_url="http://diffusion-operator-gateway.system.svc/v1",
    )
    assert (log_format, log_level) == ("json", "info")


def test_flags_win_over_the_environment() -> None:
    environment = {"WORKER_IMAGE": "worker:2", "GATEWAY_URL": "http://models/v1", "WATCH_NAMESPACES": "a, b"}
    settings, _, _ = settings_from(LEAST, environment)
    assert (settings.worker_image, settings.gateway_url) == ("worker:1", "http://models/v1")
    assert settings.watch_namespaces == ("a", "b")
    assert settings_from([*LEAST, "--watch-namespace=c"], environment)[0].watch_namespaces == ("c",)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "--namespace=system"], "--worker-image is required"),
        (["run", "--worker-image=worker:1"], "--namespace is required"),
        ([*LEAST, "--log-format=xml"], "write json or console"),
        ([*LEAST, "--log-level=loud"], "write debug, info, warning or error"),
        ([*LEAST, "--port=http"], "write a number from 1 to 65535"),
        ([], "COMMAND"),
    ],
)
def test_a_wrong_command_line_says_what_to_write(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        settings_from(arguments, {})
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_help_tells_of_every_environment_variable(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        settings_from(["run", "--help"], {})
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    for variable in ("WORKER_IMAGE", "POD_NAMESPACE", "GATEWAY_SERVICE", "GATEWAY_URL", "WATCH_NAMESPACES"):
        assert f"${variable}" in shown
