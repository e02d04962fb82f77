"""Products of a few rows are those of many: what makes a row's numbers independent of its neighbours on a CPU.

Processors differ in this: with AVX-512 one row is summed in another way than several, with AVX2 three are.
"""

import pytest
import torch
from diffusion_worker.models.layers import Experts, Linear, Norm

ROWS = 96


@pytest.mark.parametrize("width", [16, 64, 100, Linear.MAX_EXACT_SUM])
@pytest.mark.parametrize("outputs", [4, 32, 96, 320])
@pytest.mark.parametrize("has_bias", [False, True])
def test_a_product_is_the_same_however_many_rows_it_has(width: int, outputs: int, has_bias: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, width, generator=generator)
    bias = torch.randn(outputs, generator=generator) if has_bias else None
    linear = Linear(torch.randn(width, outputs, generator=generator), bias)
    everything = linear(x)
    for rows in range(ROWS):
        assert torch.equal(linear(x[:rows]), everything[:rows]), rows


def test_an_expert_gives_a_token_the_same_whoever_else_comes_to_it() -> None:
    generator = torch.Generator().manual_seed(0)
    width, inner, experts = 64, 48, 8
    mixture = Experts(
        router=Linear(torch.randn(width, experts, generator=generator)),
        router_norm=Norm.with_weight(torch.ones(width), 1e-6),
        scale=torch.ones(experts),
        gate_and_up=torch.randn(experts, width, 2 * inner, generator=generator),
        down=torch.randn(experts, inner, width, generator=generator),
        top_k=2,
    )
    x = torch.randn(ROWS, width, generator=generator)
    everything = mixture(x, x)
    for rows in range(1, ROWS):
        assert torch.equal(mixture(x[:rows], x[:rows]), everything[:rows]), rows
