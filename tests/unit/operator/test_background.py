"""What the process before left behind."""

from datetime import UTC, datetime, timedelta

import pytest
from diffusion_operator.adapters import clock
from diffusion_operator.adapters.errors import TransientError
from diffusion_operator.adapters.lease import Alive, LifeLease
from diffusion_operator.shell.background import alive_before

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Left(LifeLease):
    """A Lease that says this, or cannot be read."""

    def __init__(self, said: Alive | Exception | None) -> None:
        self.said = said

    async def read(self) -> Alive | None:
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOW)


@pytest.mark.parametrize(
    ("said", "believed"),
    [
        (Alive(NOW - 2 * HOUR, NOW - HOUR), Alive(NOW - 2 * HOUR, NOW - HOUR)),
        (Alive(NOW - HOUR, NOW + timedelta(seconds=5)), Alive(NOW - HOUR, NOW)),
        (Alive(NOW - HOUR, NOW + HOUR), None),
        (TransientError("500"), None),
        (None, None),
    ],
    ids=[
        "it ended an hour ago",
        "its clock was a little ahead",
        "it lived in the future",
        "unreadable",
        "the first one",
    ],
)
async def test_how_long_the_process_before_was_alive(said: Alive | Exception | None, believed: Alive | None) -> None:
    assert await alive_before(Left(said)) == believed
