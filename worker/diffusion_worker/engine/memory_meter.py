"""What torch's allocator holds at most while something runs."""

from types import TracebackType
from typing import Any, Self

import torch
from torch.autograd.profiler import profile

_ALLOCATION = "[memory]"


class MemoryMeter:
    """Counts tensors of the thread that it is entered in: bytes beyond those held at the beginning.

    On a GPU the allocator itself knows its peak. On a CPU torch's profiler hears of each allocation; what lies in memory
    of another kind (weights in large pages, workspaces of MKL) is not counted.
    """

    def __init__(self, device: torch.device) -> None:
        self.peak_bytes = 0
        self._device = device
        self._before = 0
        self._profile: Any = None

    def __enter__(self) -> Self:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
            torch.cuda.reset_peak_memory_stats(self._device)
            self._before = torch.cuda.memory_allocated(self._device)
        else:
            # Not torch.profiler: it makes a Python object of every event, most of a minute for a step of half a second.
            self._profile = profile(use_kineto=True, profile_memory=True)
            self._profile.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
            self.peak_bytes = torch.cuda.max_memory_allocated(self._device) - self._before
            return
        self._profile.__exit__(kind, error, trace)
        held = 0
        for event in self._profile.kineto_results.events():
            if event.name() == _ALLOCATION:
                held += event.nbytes()
                self.peak_bytes = max(self.peak_bytes, held)
