"""What the process takes of main memory at most while something runs."""

import re
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

_PROCESS = Path("/proc/self")
_RESET_PEAK = "5"  # see clear_refs in proc(5)


class ResidentMeter:
    """Asks the kernel, which costs nothing: what a profiler notes of each allocation may take more than the step itself.

    What malloc has kept from before and gives out again is not counted anew.
    """

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._before = 0

    def __enter__(self) -> Self:
        with suppress(OSError):  # where the peak cannot be reset, only what goes beyond it is seen
            (_PROCESS / "clear_refs").write_text(_RESET_PEAK, encoding="ascii")
        self._before = _status("VmHWM")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.peak_bytes = max(0, _status("VmHWM") - self._before)


def resident_bytes() -> int:
    """Of this process, now."""
    return _status("VmRSS")


def _status(name: str) -> int:
    """Bytes; 0 on a system that does not tell."""
    found = re.search(rf"^{name}:\s+(\d+) kB$", (_PROCESS / "status").read_text(encoding="utf-8"), re.MULTILINE)
    return 0 if found is None else int(found[1]) * 1024
