"""The parts of DiffusionGemma's layers, as few passes over memory as torch's own operators allow.

All work on packed tokens [T, …]. Numbers follow transformers' `modeling_diffusion_gemma.py`; norms are computed in
float32. On a CPU the order of the operations is chosen so that a token's result does not depend on how many others
share the pass: see `Linear`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import gelu, grouped_mm

from diffusion_worker.sizing.costs import CPU_LAYER_TILE


@dataclass(frozen=True)
class Linear:
    """y = x W + b, with W [K, N] contiguous on a CPU.

    In this order MKL sums each product in the same way for four rows or a thousand, and is as fast for 64 as for 512.
    One row is different, and with AVX2 two and three are: they are computed as `FEW`. For K above `MAX_EXACT_SUM` MKL
    splits the sum by the number of rows; such models run their passes row by row (`DiffusionModel`).
    """

    weight: torch.Tensor
    bias: torch.Tensor | None = None

    FEW = 4
    MAX_EXACT_SUM = 768

    @classmethod
    def of(cls, *modules: torch.nn.Linear) -> "Linear":
        """One product in place of several with the same input: their outputs stand side by side."""
        weight = torch.cat([module.weight.detach() for module in modules]) if len(modules) > 1 else modules[0].weight
        biases = [module.bias.detach() for module in modules if module.bias is not None]
        return cls(weight=transposed(weight), bias=torch.cat(biases) if biases else None)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """[T, K] → [T, N]."""
        if 0 < len(x) < self.FEW and x.device.type == "cpu":
            return self(_as_more(x, self.FEW))[: len(x)]
        return torch.mm(x, self.weight) if self.bias is None else torch.addmm(self.bias, x, self.weight)


def _as_more(x: torch.Tensor, rows: int) -> torch.Tensor:
    """[T, K] → [rows, K], the first row repeated behind the others."""
    return torch.cat([x, x[:1].expand(rows - len(x), -1)])


def transposed(weight: torch.Tensor) -> torch.Tensor:
    """[…, N, K] → […, K, N]: a copy on a CPU; a GPU's kernels take either order."""
    flipped = weight.detach().transpose(-1, -2)
    return flipped.contiguous() if weight.device.type == "cpu" else flipped


@dataclass(frozen=True)
class Norm:
    """x · w / √(mean x² + ε), RMSNorm; w is stored as w · √d, because the sum of x² is cheaper than its mean."""

    weight: torch.Tensor  # [d] float32, times √d
    root_eps: torch.Tensor  # √(d · ε), a scalar

    @classmethod
    def of(cls, module: Any) -> "Norm":
        """From transformers' module, one that has a weight."""
        return cls.with_weight(module.weight.detach(), module.eps)

    @classmethod
    def with_weight(cls, weight: torch.Tensor, eps: float) -> "Norm":
        """With a weight [d] or [H, d] for heads."""
        dim = weight.shape[-1]
        return cls(weight=weight.float() * dim**0.5, root_eps=torch.tensor((dim * eps) ** 0.5))

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """[…, d], in the type of x."""
        return self.direction(x).mul_(self.weight).to(x.dtype)

    def direction(self, x: torch.Tensor, *, consume: bool = False) -> torch.Tensor:
        """x / √(Σ x² + d ε) […, d] float32: the same for all norms of the same x. May take its place when consumed."""
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        inverse = torch.hypot(length, self.root_eps).reciprocal_()  # a product is far cheaper than a quotient
        return x.mul_(inverse) if consume and x.dtype == torch.float32 else x * inverse

    def scale(self, direction: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """From a direction to this norm's value."""
        return (direction * self.weight).to(dtype)

    def add_to(self, residual: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """residual + norm(x), in the residual's place; x is consumed."""
        direction = self.direction(x, consume=True)
        if residual.dtype == torch.float32:
            return residual.addcmul_(direction, self.weight)
        return residual.add_(direction.mul_(self.weight).to(residual.dtype))


def gated_gelu(gate_and_up: torch.Tensor) -> torch.Tensor:
    """gelu(gate) · up for [T, 2 I], gate first; the tanh form: gelu(x) = x · σ(√(8/π) (x + 0.044715 x³)).

    torch's own kernel for this form is slower on a CPU. In tiles, so that the temporaries stay in the cache.
    """
    gate, up = gate_and_up.chunk(2, dim=-1)
    if gate.dtype != torch.float32 or gate.device.type != "cpu":
        return gelu(gate, approximate="tanh") * up
    out = torch.empty(gate.shape, dtype=gate.dtype, device=gate.device)
    for x, u, y in zip(tiles(gate), tiles(up), tiles(out), strict=True):
        inner = torch.mul(x, x)
        torch.addcmul(x, inner, x, value=0.044715, out=inner)
        inner.mul_(1.5957691216057308).sigmoid_().mul_(x)
        torch.mul(inner, u, out=y)
    return out


def tiles(x: torch.Tensor) -> Sequence[torch.Tensor]:
    """Views of [T, N] with some of the rows each; all of it on a GPU, where a launch costs more than the memory."""
    if x.device.type != "cpu" or x.numel() <= CPU_LAYER_TILE:
        return (x,)
    return torch.split(x, max(1, CPU_LAYER_TILE // x.shape[1]))


@dataclass(frozen=True)
class Rotary:
    """Rotary positions of one pass for one kind of layer."""

    cos: torch.Tensor  # [T, 1, D] float32
    sin: torch.Tensor  # [T, 1, D/2] float32

    @classmethod
    def at(cls, positions: torch.Tensor, inverse_frequencies: torch.Tensor, scaling: float) -> "Rotary":
        """For tokens at `positions` [T]; `inverse_frequencies` [D/2]."""
        angle = positions[:, None].float() * inverse_frequencies
        cos = angle.cos() * scaling
        return cls(cos=torch.cat([cos, cos], dim=-1)[:, None], sin=(angle.sin() * scaling)[:, None])

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Turn the pairs (i, i + D/2) of x [T, H, D] float32; a new tensor."""
        half = x.shape[-1] // 2
        turned = x * self.cos
        turned[..., :half].addcmul_(x[..., half:], self.sin, value=-1)
        turned[..., half:].addcmul_(x[..., :half], self.sin)
        return turned


@dataclass(frozen=True)
class Experts:
    """A mixture of gated feed-forward networks, of which each token takes its best few."""

    router: Linear  # [d, E]
    router_norm: Norm
    scale: torch.Tensor  # [E] float32, of each expert's weight
    gate_and_up: torch.Tensor  # [E, d, 2 I]
    down: torch.Tensor  # [E, I, d]
    top_k: int

    def __call__(self, x: torch.Tensor, direction: torch.Tensor) -> torch.Tensor:
        """[T, d] → [T, d]; the router sees the `direction` of the norms' input."""
        T, k = len(x), self.top_k
        scores = self.router(self.router_norm.scale(direction, x.dtype)).float()
        best, expert = scores.topk(k, dim=-1)
        # The softmax over all experts, renormalised over the best, is the softmax over the best.
        weight = (best - best[:, :1]).exp_()
        weight = weight / weight.sum(dim=-1, keepdim=True) * self.scale[expert]

        sorted_experts, order = expert.flatten().sort(stable=True)  # of the T · k (token, expert) pairs, by expert
        by_expert = _Groups.of(sorted_experts, experts=len(self.scale))
        outer = by_expert.multiply(
            gated_gelu(by_expert.multiply(x.index_select(0, order // k), self.gate_and_up)), self.down
        )
        outer = outer.index_select(0, order.argsort()).view(T, k, -1)
        return torch.bmm(weight[:, None].to(x.dtype), outer).squeeze(1)


@dataclass(frozen=True)
class _Groups:
    """Consecutive rows that belong to one expert after the other."""

    ends: torch.Tensor  # [E] int32
    small: Sequence[tuple[int, int, int]]  # (start, end, expert) of groups of few rows; on a CPU only, see Linear

    @classmethod
    def of(cls, sorted_experts: torch.Tensor, *, experts: int) -> "_Groups":
        """From each row's expert, in order. On a GPU the ends stay there."""
        every = torch.arange(experts, device=sorted_experts.device)
        ends = torch.searchsorted(sorted_experts, every, right=True, out_int32=True)
        if ends.device.type != "cpu":
            return cls(ends, [])
        on_host = ends.tolist()
        groups = zip([0, *on_host[:-1]], on_host, range(experts), strict=True)
        return cls(ends, [group for group in groups if 0 < group[1] - group[0] < Linear.FEW])

    def multiply(self, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Each group of the rows of x with its weights [K, N]."""
        y = grouped_mm(x, weights, offs=self.ends)
        for start, end, expert in self.small:
            y[start:end] = Linear(weights[expert])(x[start:end])
        return y
