"""Lets vLLM 0.32 serve DiffusionGemma on a CPU.

vLLM serves DiffusionGemma with its model runner V2 only. That runner keeps its books (which token of which request goes where) in ten
Triton kernels, and there is no Triton compiler for CPUs on the package index, so that vLLM refuses to start. This plugin puts NumPy
functions in their place. They move a few hundred integers for each pass; model, attention, scheduler and sampler are vLLM's own code.

A figure measured with it must say so: vLLM with a Triton compiler for CPUs might be a little faster or slower.
"""

from collections.abc import Callable
from typing import Any

from . import kernels

_registered = False


class _Launchable:
    """A function that is called as Triton kernels are: `kernel[grid](...)`."""

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(*arguments: Any, **options: Any) -> None:
            self._function(grid, *arguments, **options)

        return launch


def register() -> None:
    """Put the functions in place; called by vLLM when it loads its plugins, in each process, perhaps more than once."""
    global _registered
    from vllm.triton_utils import HAS_TRITON, triton

    if _registered or HAS_TRITON:
        return
    _registered = True
    triton.next_power_of_2 = lambda n: 1 if n <= 1 else 1 << (int(n) - 1).bit_length()

    import vllm.config.vllm as configuration

    configuration.HAS_TRITON = True  # its only use there is to refuse model runner V2

    import vllm.v1.worker.cpu.shm  # noqa: F401 - first: what it patches is used by the modules below as they load
    import vllm.v1.worker.gpu.block_table as block_table
    import vllm.v1.worker.gpu.buffer_utils as buffer_utils
    import vllm.v1.worker.gpu.input_batch as input_batch

    for module, name, function in (
        (buffer_utils, "_apply_write_kernel", kernels.apply_write),
        (block_table, "_gather_block_tables_kernel", kernels.gather_block_tables),
        (block_table, "_compute_slot_mappings_kernel", kernels.compute_slot_mappings),
        (input_batch, "_prepare_prefill_inputs_kernel", kernels.prepare_prefill_inputs),
        (input_batch, "_prepare_pos_seq_lens_kernel", kernels.prepare_positions),
        (input_batch, "_combine_sampled_and_draft_tokens_kernel", kernels.combine_sampled_and_draft_tokens),
        (input_batch, "_get_num_sampled_and_rejected_kernel", kernels.count_sampled_and_rejected),
        (input_batch, "_post_update_kernel", kernels.update_after_step),
        (input_batch, "_post_update_num_computed_tokens_kernel", kernels.update_computed_tokens),
        (input_batch, "_expand_idx_mapping_kernel", kernels.expand_request_indices),
    ):
        if not hasattr(module, name):
            raise RuntimeError(f"{module.__name__} has no {name}: this plugin is for vLLM 0.32")
        setattr(module, name, _Launchable(function))
