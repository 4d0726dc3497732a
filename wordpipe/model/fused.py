"""Fused operations for a CPU, where nothing compiles the layers: the same mathematics in fewer passes over memory.

A small model's step on a CPU spends a third of its time not in matrix products but in moving activations: each operation of
torch reads and writes them once, and its gradient does so again, into memory that is fresh and zeroed. A function here does
several operations at a time and writes its gradients where they are needed. Every one has a plain twin in the tests; a GPU
uses the plain operations, which a compiled program fuses by itself.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

_aten = torch.ops.aten
_ACTIVATION_GRADIENTS = {F.gelu: _aten.gelu_backward.grad_input, F.silu: _aten.silu_backward.grad_input}
_MAX_KEYS = {torch.float32: 256, torch.bfloat16: 512}  # beyond, torch's kernel, which holds no scores, is faster


def fuses(x: Tensor) -> bool:
    """Whether this file's functions are used here: on a CPU, and in no program that is compiled."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


def attends(heads: Tensor) -> bool:
    """Whether `attend` is faster for these (…, T, heads, E) queries, keys and values: on a CPU, T not too long.

    One core, 4,096 positions, 4 heads of 64, forward and backward, ms, torch's kernel → `attend`: float32 T = 128 36 → 26,
    256 54 → 41, 512 72 → 130; bfloat16 128 80 → 9, 256 50 → 25, 512 72 → 38, 1024 76 → 240 (its backward is slow there).
    """
    return fuses(heads) and heads.shape[-3] <= _MAX_KEYS.get(heads.dtype, 0)


def attend(
    heads_BTRE: Tensor, angles: tuple[Tensor, Tensor] | None, *, n_heads: int, n_kv_heads: int, causal: bool
) -> Tensor:
    """Rotary positions and scaled dot-product attention of whole sequences, without padding.

    Args:
        heads_BTRE: R = H queries, G keys and G values of every position, in that order.
        angles: cosines and signed sines (T, E) of `Rotary`, float32; None: nothing is turned.
        n_heads: H.
        n_kv_heads: G, a divisor of H.
        causal: a position sees only itself and what came before.

    Returns:
        mixed_BTD: what every head gathered, D = H · E, of the type of `heads_BTRE`.
    """
    if not torch.is_inference_mode_enabled() or heads_BTRE.dtype is not torch.float32:
        mixed_BTD: Tensor = _Attend.apply(heads_BTRE, angles, n_heads, n_kv_heads, causal)  # type: ignore[no-untyped-call]
        return mixed_BTD
    # without a gradient to prepare for, torch's kernel takes the heads where they are, and nothing is copied. One core,
    # 2,048 positions, 4 heads of 64, float32, ms, `_Attend` → this: T = 8 6.2 → 5.5, 32 6.1 → 4.0, 128 7.7 → 6.5,
    # 256 14.4 → 10.3
    B, T, _, E = heads_BTRE.shape
    turned, v_BTGE = torch.split(heads_BTRE, [n_heads + n_kv_heads, n_kv_heads], dim=2)
    if angles is not None:
        out = torch.empty(turned.shape, dtype=turned.dtype)
        _turn(turned, angles[0][:, None], angles[1][:, None], out)
        turned = out
    q_BTHE, k_BTGE = torch.split(turned, [n_heads, n_kv_heads], dim=2)
    mixed_BHTE = F.scaled_dot_product_attention(
        q_BTHE.transpose(1, 2), k_BTGE.transpose(1, 2), v_BTGE.transpose(1, 2),
        is_causal=causal, enable_gqa=n_kv_heads != n_heads,
    )  # fmt: skip
    return mixed_BHTE.transpose(1, 2).reshape(B, T, n_heads * E)


def gated(both_BTF: Tensor, activate: Callable[[Tensor], Tensor]) -> Tensor:
    """act(first half) · second half, as in GeGLU and SwiGLU.

    Args:
        both_BTF: (…, 2F), the activated half first.
        activate: `F.gelu` (by erf) or `F.silu`.

    Returns:
        A tensor of shape (…, F) and the same type.
    """
    if torch.is_inference_mode_enabled():
        gate, up = both_BTF.chunk(2, dim=-1)
        return activate(gate).mul_(up)
    out_BTF: Tensor = _Gated.apply(both_BTF, activate)  # type: ignore[no-untyped-call]
    return out_BTF


class _Attend(torch.autograd.Function):
    """softmax(Q Kᵀ / sqrt(E)) V with all scores held, which are few where sequences are short."""

    @staticmethod
    def forward(
        ctx: Any, heads_BTRE: Tensor, angles: tuple[Tensor, Tensor] | None, n_heads: int, n_kv_heads: int, causal: bool
    ) -> Tensor:
        B, T, _, E = heads_BTRE.shape
        H, G = n_heads, n_kv_heads
        scale = 1.0 / math.sqrt(E)
        q_BTHE, k_BTGE, v_BTGE = torch.split(heads_BTRE, [H, G, G], dim=2)
        q = _turned(q_BTHE, angles, scale).view(
            B * G, -1, E
        )  # the H / G heads that share a key stand one after another
        k = _turned(k_BTGE, angles, 1.0).view(B * G, T, E)
        v = v_BTGE.transpose(1, 2).contiguous().view(B * G, T, E)
        scores = torch.bmm(q, k.transpose(1, 2))
        if causal:
            later_TT = torch.full((T, T), -math.inf, dtype=scores.dtype).triu(1)
            scores.view(B * H, T, T).add_(later_TT)
        shares = _aten._softmax.out(scores, -1, False, out=scores)
        ctx.save_for_backward(q, k, v, shares)
        ctx.angles, ctx.sizes = angles, (B, T, H, G, E)
        return torch.bmm(shares, v).view(B, H, T, E).transpose(1, 2).reshape(B, T, H * E)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, shares = ctx.saved_tensors
        B, T, H, G, E = ctx.sizes
        mixed = grads[0].reshape(B, T, H, E).transpose(1, 2).reshape(B * G, -1, E)
        heads_BTRE = torch.empty(B, T, H + 2 * G, E, dtype=mixed.dtype)
        q_BTHE, k_BTGE, v_BTGE = torch.split(heads_BTRE, [H, G, G], dim=2)
        v_BTGE.copy_(torch.bmm(shares.transpose(1, 2), mixed).view(B, G, T, E).transpose(1, 2))
        scores = torch.bmm(mixed, v.transpose(1, 2))
        _aten._softmax_backward_data.out(scores, shares, -1, scores.dtype, grad_input=scores)
        _turn_back(torch.bmm(scores, k).view(B, H, T, E), ctx.angles, 1.0 / math.sqrt(E), q_BTHE)
        _turn_back(torch.bmm(scores.transpose(1, 2), q).view(B, G, T, E), ctx.angles, 1.0, k_BTGE)
        return heads_BTRE, None, None, None, None


def _turned(x_BTHE: Tensor, angles: tuple[Tensor, Tensor] | None, scale: float) -> Tensor:
    """Vectors turned by their positions' angles and scaled, in float32, then contiguous as (B, H, T, E) in their own type."""
    x_BHTE = x_BTHE.transpose(1, 2)
    if angles is None:
        return (x_BHTE * scale).contiguous()
    wide = _wide(x_BHTE)
    out_BHTE = torch.empty(x_BHTE.shape, dtype=wide.dtype)
    _turn(wide, angles[0] * scale, angles[1] * scale, out_BHTE)
    return out_BHTE.to(x_BTHE.dtype)


def _turn_back(x_BHTE: Tensor, angles: tuple[Tensor, Tensor] | None, scale: float, out_BTHE: Tensor) -> None:
    """The gradient of `_turned`: the opposite angles."""
    out_BHTE = out_BTHE.transpose(1, 2)
    if angles is None:
        out_BHTE.copy_(x_BHTE * scale)
        return
    wide = _wide(x_BHTE)
    turned = out_BHTE if wide.dtype is out_BHTE.dtype else torch.empty_like(wide)
    _turn(wide, angles[0] * scale, angles[1] * -scale, turned)
    if turned is not out_BHTE:
        out_BHTE.copy_(turned)


def _turn(x: Tensor, cos_TE: Tensor, sin_TE: Tensor, out: Tensor) -> None:
    """Write x · cos + (second half of x, first half) · sin, without making the swapped vector; all are (…, T, E)."""
    half = x.shape[-1] // 2
    torch.mul(x, cos_TE, out=out)
    out[..., :half].addcmul_(x[..., half:], sin_TE[..., :half])
    out[..., half:].addcmul_(x[..., :half], sin_TE[..., half:])


def _wide(x: Tensor) -> Tensor:
    """In float32 at least."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


class _Gated(torch.autograd.Function):
    """Writes both halves' gradients into one matrix; kept apart, they would be joined by another pass."""

    @staticmethod
    def forward(ctx: Any, both: Tensor, activate: Callable[[Tensor], Tensor]) -> Tensor:
        gate, up = both.chunk(2, dim=-1)
        active = activate(gate)
        ctx.save_for_backward(both, active)
        ctx.slope = _ACTIVATION_GRADIENTS[activate]
        return active * up

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        both, active = ctx.saved_tensors
        (grad,) = grads
        gate, up = both.chunk(2, dim=-1)
        out = torch.empty_like(both)
        gate_out, up_out = out.chunk(2, dim=-1)
        torch.mul(grad, active, out=up_out)
        ctx.slope(grad * up, gate, grad_input=gate_out)
        return out, None
