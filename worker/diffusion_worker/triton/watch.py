"""When a running Triton has to be ended, since it would not notice by itself.

Release 2.51 keeps all its health endpoints green after its python stub has died, and open streams hang. On a starved machine it was seen to
wait for a stub that had long loaded the model, with its ports closed, for good.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from diffusion_worker.triton.processes import Process

_STUB_NAME = "triton_python_b"  # as the kernel cuts it
_DEAD_FOR_SECONDS = 1.5  # a stub that Triton itself stops is a zombie for a moment
_GONE_FOR_SECONDS = 10.0  # between two stubs at start there may be none
_CLOSED_FOR_SECONDS = 90.0  # Triton opens its ports within a second of the last model's end of loading


@dataclass
class Watch:
    """Decides from what is seen at each look; keeps no clock of its own."""

    hang_seconds: float
    _seen: bool = False
    _trouble_since: dict[str, float] = field(default_factory=dict)

    def look(
        self, *, children: Sequence[Process], last_tick_age: float | None, has_listened: bool, now: float
    ) -> str | None:
        """What is wrong, or None.

        `children` are Triton's, `last_tick_age` is the age in seconds of the engine's last tick (None: not loaded yet), `has_listened`
        whether Triton's ports were ever open, `now` is in seconds of a monotonic clock.
        """
        stubs = [child for child in children if child.name.startswith(_STUB_NAME)]
        self._seen = self._seen or bool(stubs)
        if self._lasts("dead", _DEAD_FOR_SECONDS, now, holds=any(stub.is_zombie for stub in stubs)):
            return "Triton's python stub has died (killed, out of memory, or a crash of native code)"
        if self._lasts("gone", _GONE_FOR_SECONDS, now, holds=self._seen and not stubs):
            return "Triton's python stub is gone"
        is_closed = last_tick_age is not None and not has_listened
        if self._lasts("closed", _CLOSED_FOR_SECONDS, now, holds=is_closed):
            return f"the engine is loaded, but Triton has not opened its ports for {_CLOSED_FOR_SECONDS:.0f} s"
        if last_tick_age is not None and last_tick_age > self.hang_seconds:
            return f"the engine has not ticked for {last_tick_age:.0f} s (limit {self.hang_seconds:.0f} s)"
        return None

    def _lasts(self, trouble: str, seconds: float, now: float, *, holds: bool) -> bool:
        if not holds:
            self._trouble_since.pop(trouble, None)
            return False
        return now - self._trouble_since.setdefault(trouble, now) >= seconds
