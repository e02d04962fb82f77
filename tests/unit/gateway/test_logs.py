import json
import logging
from collections.abc import Iterator

import pytest
import structlog
from diffusion_gateway import logs


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def crash(prompt: str) -> None:
    raise RuntimeError(f"failed on {len(prompt)} characters")


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_tracebacks_do_not_show_what_was_in_variables(log_format: str, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(log_format=log_format, level="info")
    try:
        crash("-".join(("my", "secret", "prompt")))
    except RuntimeError:
        structlog.get_logger().exception("crashed")
    logged = capsys.readouterr().out
    assert "failed on 16 characters" in logged
    assert "my-secret-prompt" not in logged


def test_json_lines_come_from_structlog_and_from_standard_logging(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(log_format="json", level="warning")
    structlog.get_logger().info("too quiet")
    structlog.get_logger().warning("ours", count=2)
    logging.getLogger("asyncio").error("theirs %d", 3)
    ours, theirs = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (ours["event"], ours["count"], ours["level"]) == ("ours", 2, "warning")
    assert (theirs["event"], theirs["level"]) == ("theirs 3", "error")
