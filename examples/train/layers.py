"""DiffusionGemma's layers as functions of tensors, for training several canvases in one pass.

The experts are computed densely: with four of them that is cheaper than gathering tokens per expert. Names of weights are
those of `fast_forward.layer_weights`.
"""

import torch
import torch.nn.functional as F

from examples.train.models import CANVAS

Weights = dict[str, torch.Tensor]
LOGIT_CAP = 30.0


def rms_norm(x: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
    """Root-mean-square norm over the last axis."""
    x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    return x if weight is None else x * weight


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding of x [B, L, heads, head_dim]."""
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


def gated(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """Gated feed-forward layer with GELU."""
    return F.linear(F.gelu(F.linear(x, gate), approximate="tanh") * F.linear(x, up), down)


def project(h: torch.Tensor, w: Weights, cos: torch.Tensor, sin: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """q, k, v [B, heads, L, head_dim] of the normed input; the full-attention layer uses its keys as values."""
    B, L, _ = h.shape
    head_dim = w["q_norm"].numel()
    h = rms_norm(h, w["attention_in"])
    q = F.linear(h, w["q"]).view(B, L, -1, head_dim)
    k = F.linear(h, w["k"]).view(B, L, -1, head_dim)
    v = F.linear(h, w["v"]).view(B, L, -1, head_dim) if "v" in w else k
    q = rotate(rms_norm(q, w["q_norm"]), cos, sin)
    k = rotate(rms_norm(k, w["k_norm"]), cos, sin)
    return q.transpose(1, 2), k.transpose(1, 2), rms_norm(v).transpose(1, 2)


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Attention with shared key heads and scaling 1."""
    shared = q.size(1) // k.size(1)
    k, v = k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1.0)


def feed_forward(h: torch.Tensor, attended: torch.Tensor, w: Weights) -> torch.Tensor:
    """Everything behind the attention: its output projection, the dense layer and the experts side by side."""
    B, L, H = h.shape
    h = h + rms_norm(F.linear(attended.transpose(1, 2).reshape(B, L, -1), w["o"]), w["attention_out"])
    dense = rms_norm(gated(rms_norm(h, w["dense_in"]), w["gate"], w["up"], w["down"]), w["dense_out"])
    chances = F.linear(rms_norm(h) * w["router_scale"] * H**-0.5, w["router"]).softmax(-1)
    top, index = chances.topk(2, -1)
    top = top / top.sum(-1, keepdim=True) * w["expert_scale"][index]
    share = torch.zeros_like(chances).scatter(-1, index, top)  # [B, L, experts]
    E, twice, _ = w["experts_in"].shape
    x = F.linear(rms_norm(h, w["moe_in"]), w["experts_in"].reshape(E * twice, H)).view(B, L, E, twice)
    gate, up = x.chunk(2, -1)
    x = (F.gelu(gate, approximate="tanh") * up * share.unsqueeze(-1)).reshape(B, L, -1)
    mixed = rms_norm(F.linear(x, w["experts_out"].permute(1, 0, 2).reshape(H, -1)), w["moe_out"])
    return h + rms_norm(dense + mixed, w["layer_out"])


def encoder_layer(
    h: torch.Tensor, w: Weights, cos: torch.Tensor, sin: torch.Tensor, mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Causal layer; also returns its keys and values, which the canvases see."""
    q, k, v = project(h, w, cos, sin)
    return feed_forward(h, attend(q, k, v, mask), w), k, v


def full_layer(
    h: torch.Tensor,
    w: Weights,
    cos: torch.Tensor,
    sin: torch.Tensor,
    mask: torch.Tensor,
    ek: torch.Tensor,
    ev: torch.Tensor,
) -> torch.Tensor:
    """Decoder layer in which a canvas sees all tokens before it, and itself: one masked attention for all canvases."""
    q, k, v = project(h, w, cos, sin)
    return feed_forward(h, attend(q, torch.cat((ek, k), 2), torch.cat((ev, v), 2), mask), w)


def sliding_layer(
    h: torch.Tensor,
    w: Weights,
    cos: torch.Tensor,
    sin: torch.Tensor,
    mask: torch.Tensor,
    ek: torch.Tensor,
    ev: torch.Tensor,
    near: torch.Tensor,
) -> torch.Tensor:
    """Decoder layer in which a canvas sees the last WINDOW − 1 tokens before it, gathered per canvas, and itself."""
    q, k, v = project(h, w, cos, sin)
    B, heads, L, D = k.shape
    K, W = near.shape[1:]
    index = near.view(B, 1, K * W, 1).expand(B, heads, K * W, D)

    def per_canvas(cached: torch.Tensor, own: torch.Tensor) -> torch.Tensor:  # → [B·K, heads, W+C, D]
        cached = cached.gather(2, index).view(B, heads, K, W, D)
        both = torch.cat((cached, own.view(B, heads, K, CANVAS, D)), 3)
        return both.transpose(1, 2).reshape(B * K, heads, W + CANVAS, D)

    q = q.view(B, -1, K, CANVAS, D).transpose(1, 2).reshape(B * K, -1, CANVAS, D)
    out = attend(q, per_canvas(ek, k), per_canvas(ev, v), mask.view(B * K, 1, 1, -1))
    return feed_forward(h, out.view(B, K, -1, CANVAS, D).transpose(1, 2).reshape(B, -1, L, D), w)


def embed(
    canvas: torch.Tensor,
    earlier: torch.Tensor | None,
    temperature: torch.Tensor | None,
    embedding: torch.Tensor,
    conditioning: Weights,
) -> torch.Tensor:
    """Canvas embedding [B, L, H] plus self-conditioning on the logits of an `earlier` pass (None in the first step)."""
    scale = embedding.size(1) ** 0.5
    h = F.embedding(canvas, embedding) * scale
    if earlier is None:
        return rms_norm(h)
    expected = rms_norm((earlier / temperature).softmax(-1) @ embedding * scale, conditioning["in"])
    return rms_norm(h + gated(expected, conditioning["gate"], conditioning["up"], conditioning["down"]))


def logits(h: torch.Tensor, norm: torch.Tensor, embedding: torch.Tensor) -> torch.Tensor:
    """Soft-capped logits [B, L, V]."""
    return LOGIT_CAP * torch.tanh(F.linear(rms_norm(h, norm), embedding) / LOGIT_CAP)


def token_loss(h: torch.Tensor, norm: torch.Tensor, embedding: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross-entropy per position [B, L]."""
    flat = logits(h, norm, embedding).flatten(0, 1)
    return F.cross_entropy(flat, target.flatten(), reduction="none").view(target.shape)
