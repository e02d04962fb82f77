"""The kernel's account of a process' peak."""

import torch
from diffusion_worker.engine.resident_meter import ResidentMeter, resident_bytes

MIB = 2**20


def test_memory_that_is_taken_and_given_back_within_counts_at_its_peak() -> None:
    with ResidentMeter() as meter:
        block = torch.ones(256 * MIB, dtype=torch.uint8)
        assert resident_bytes() > 256 * MIB
        del block
    assert 200 * MIB < meter.peak_bytes < 400 * MIB


def test_what_was_given_back_before_does_not_count() -> None:
    block = torch.ones(256 * MIB, dtype=torch.uint8)
    del block
    with ResidentMeter() as meter:
        pass
    assert meter.peak_bytes < 64 * MIB
