"""Allocations that failed."""

import gc

import torch

_OF_THE_CPU = "DefaultCPUAllocator"  # c10/core/impl/alloc_cpu.cpp; what it is named by has no type of its own


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there was no memory left: that of a GPU, or of the process."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and _OF_THE_CPU in str(error)


def give_memory_back() -> None:
    """Free what an error's frames and the allocator's cache hold."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
