"""What the operator writes into its log."""

import logging
from collections.abc import Iterator

import pytest
import structlog
from diffusion_operator.shell import logs


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def crash(authorization: str) -> None:
    raise RuntimeError(f"failed with a header of {len(authorization)} characters")


@pytest.mark.parametrize("logger", ["structlog", "standard"])
@pytest.mark.parametrize("json", [True, False])
def test_tracebacks_do_not_show_what_was_in_variables(
    json: bool, logger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure(json=json, level="info")
    try:
        crash("-".join(("bearer", "of", "secrets")))
    except RuntimeError:
        (structlog.get_logger() if logger == "structlog" else logging.getLogger("kopf")).exception("crashed")
    logged = capsys.readouterr().err
    assert "failed with a header of 17 characters" in logged
    assert "bearer-of-secrets" not in logged
