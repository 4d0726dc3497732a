"""Attention of short sequences on a CPU, with all scores held: fewer passes over memory than operation by operation.

A small model's step on a CPU spends a third of its time not in matrix products but in moving activations (see `layers`).
`attend` takes the heads as one matrix made them, writes the gradients where they are needed, and leaves longer sequences to
torch's kernel. Its plain twin is in the tests.

Source: Vaswani et al. 2017, equation 1; the bias on the scores: Raffel et al. 2020, section 2.1.
"""

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from wordpipe.model.layers import fuses
from wordpipe.runtime import usual_products

_aten = torch.ops.aten
MAX_KEYS = 256
"""Keys of float32 up to which `attend` is faster than torch's kernel, which holds no scores; of bfloat16 twice as many."""

_FEW = 16  # queries
_MAX_KEYS = {torch.float32: MAX_KEYS, torch.bfloat16: 2 * MAX_KEYS}


def attends(heads: Tensor) -> bool:
    """True if the fused `attend` is faster for these (…, S, heads, E) keys and values: on a CPU, S not too long.

    One core, 4,096 positions, 4 heads of 64, forward and backward, ms, torch's kernel → `attend`: float32 T = 128 36 → 26,
    256 54 → 41, 512 72 → 130; bfloat16 128 80 → 9, 256 50 → 25, 512 72 → 38, 1024 76 → 240 (its backward is slow there).
    """
    return fuses(heads) and heads.shape[-3] <= _MAX_KEYS.get(heads.dtype, 0)


def attend(
    heads_BTRE: Tensor, angles: tuple[Tensor, Tensor] | None, *, n_heads: int, n_kv_heads: int, causal: bool,
    bias: Tensor | None = None, keys_values_BSRE: Tensor | None = None, hidden_BS: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Compute rotary positions and scaled dot-product attention of whole sequences, fused.

    Args:
        heads_BTRE: R = H queries, G keys and G values of every position, in that order; the queries alone where they look at
            another text.
        angles: cosines and signed sines (T, E) of `Rotary`, float32; None: nothing is turned.
        n_heads: H.
        n_kv_heads: G, a divisor of H.
        causal: a position sees only itself and what came before.
        bias: added to the scores, (1, H or 1, T, S); it may want a gradient.
        keys_values_BSRE: G keys and G values of every position of another text, in that order.
        hidden_BS: true at keys that are padding, while training; None: there is none.

    Returns:
        mixed_BTD: what every head gathered, D = H · E, of the type of `heads_BTRE`.
    """
    if not torch.is_inference_mode_enabled() or heads_BTRE.dtype is not torch.float32:
        mixed_BTD: Tensor = _Attend.apply(  # type: ignore[no-untyped-call]
            heads_BTRE, keys_values_BSRE, bias, angles, n_heads, n_kv_heads, causal, hidden_BS
        )
        return mixed_BTD
    # without a gradient to prepare for, torch's kernel takes the heads where they are, and nothing is copied. One core,
    # 2,048 positions, 4 heads of 64, float32, ms, `_Attend` → this: T = 8 6.2 → 5.5, 32 6.1 → 4.0, 128 7.7 → 6.5,
    # 256 14.4 → 10.3
    turned, k_BSGE, v_BSGE = _split(heads_BTRE, keys_values_BSRE, n_heads, n_kv_heads)
    if angles is not None:
        turned, v_BSGE = torch.split(heads_BTRE, [n_heads + n_kv_heads, n_kv_heads], dim=2)
        out = torch.empty(turned.shape, dtype=turned.dtype)
        _turn(turned, angles[0][:, None], angles[1][:, None], out)
        turned, k_BSGE = torch.split(out, [n_heads, n_kv_heads], dim=2)
    mixed_BHTE = kernel(turned.transpose(1, 2), k_BSGE.transpose(1, 2), v_BSGE.transpose(1, 2), bias, causal=causal)
    return mixed_BHTE.transpose(1, 2).flatten(2)


def kernel(
    q_BHTE: Tensor, k_BGSE: Tensor, v_BGSE: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Tensor:
    """Compute scaled dot-product attention by torch where the fused one is not faster, (B, H, T, E).

    Its small products on a CPU are MKL's: by oneDNN (`runtime.torch_threads`) those of 24 keys take 5 times as long, of 256
    as long, of 1,024 0.6 times.
    """
    short = fuses(q_BHTE) and k_BGSE.shape[2] <= MAX_KEYS
    here: AbstractContextManager[object] = usual_products() if short else nullcontext()
    with here:
        return F.scaled_dot_product_attention(
            q_BHTE, k_BGSE, v_BGSE, attn_mask=mask, is_causal=causal, enable_gqa=k_BGSE.shape[1] != q_BHTE.shape[1]
        )


def is_step(q_BHTE: Tensor) -> bool:
    """True if `attend_step` is faster: a few queries, as one token of each beam, on a CPU, and no gradient is wanted."""
    return fuses(q_BHTE) and q_BHTE.shape[2] <= _FEW and not torch.is_grad_enabled()


def attend_step(q_BHTE: Tensor, k_BGSE: Tensor, v_BGSE: Tensor, mask: Tensor | None = None) -> Tensor:
    """Compute scaled dot-product attention of a few queries, (B, H, T, E), by products of whole batches.

    Two cores, 8 heads of 32, ms, torch's kernel → this: 2,000 sequences, 1 query, 16 keys 8.0 → 1.9; 400 sources, 5
    queries, 20 keys 5.9 → 1.1.

    Args:
        q_BHTE: queries.
        k_BGSE: keys; G divides H.
        v_BGSE: values.
        mask: true where a query sees a key, or added to the scores; broadcasts to (B, H, T, S).
    """
    B, H, T, E = q_BHTE.shape
    G, S = k_BGSE.shape[1:3]
    q = (q_BHTE * (1.0 / math.sqrt(E))).reshape(B * G, -1, E)
    with usual_products():  # the shapes are others in each step
        scores = torch.bmm(q, k_BGSE.flatten(0, 1).transpose(1, 2)).view(B, H, T, S)
    if mask is not None and mask.dtype is torch.bool:
        scores.masked_fill_(~mask, -math.inf)
    elif mask is not None:
        scores += mask
    shares = _aten._softmax.out(scores, -1, False, out=scores)
    with usual_products():
        return torch.bmm(shares.view(B * G, -1, S), v_BGSE.flatten(0, 1)).view(B, H, T, E)


def _split(heads_BTRE: Tensor, keys_values_BSRE: Tensor | None, H: int, G: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values for fused attention."""
    if keys_values_BSRE is None:
        q, k, v = torch.split(heads_BTRE, [H, G, G], dim=2)
        return q, k, v
    k, v = torch.split(keys_values_BSRE, [G, G], dim=2)
    return heads_BTRE, k, v


class _Attend(torch.autograd.Function):
    """softmax(Q Kᵀ / sqrt(E) + bias) V with all scores held, which are few where sequences are short."""

    @staticmethod
    def forward(
        ctx: Any, heads_BTRE: Tensor, keys_values_BSRE: Tensor | None, bias: Tensor | None,
        angles: tuple[Tensor, Tensor] | None, n_heads: int, n_kv_heads: int, causal: bool, hidden_BS: Tensor | None,
    ) -> Tensor:  # fmt: skip
        H, G = n_heads, n_kv_heads
        q_BTHE, k_BSGE, v_BSGE = _split(heads_BTRE, keys_values_BSRE, H, G)
        B, T, _, E = q_BTHE.shape
        S = k_BSGE.shape[1]
        # the H / G heads that share a key stand one after another
        q = _turned(q_BTHE, angles, 1.0 / math.sqrt(E)).view(B * G, -1, E)
        k = _turned(k_BSGE, angles, 1.0).view(B * G, S, E)
        v = v_BSGE.transpose(1, 2).contiguous().view(B * G, S, E)
        # scores, with minus infinity at keys that a query does not see
        scores = torch.bmm(q, k.transpose(1, 2))
        if bias is not None:
            scores.view(B, H, T, S).add_(bias)
        if causal:
            later_TS = torch.full((T, S), -math.inf, dtype=scores.dtype).triu(1)
            scores.view(B * H, T, S).add_(later_TS)
        if hidden_BS is not None:
            scores.view(B, H, T, S).masked_fill_(hidden_BS[:, None, None], -math.inf)
        # the shares take the memory of the scores
        shares = _aten._softmax.out(scores, -1, False, out=scores)
        ctx.save_for_backward(q, k, v, shares)
        ctx.angles, ctx.sizes, ctx.reads = angles, (B, T, S, H, G, E), keys_values_BSRE is not None
        ctx.bias = (bias.shape, bias.dtype) if bias is not None and ctx.needs_input_grad[2] else None
        return torch.bmm(shares, v).view(B, H, T, E).transpose(1, 2).reshape(B, T, H * E)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, shares = ctx.saved_tensors
        B, T, S, H, G, E = ctx.sizes
        mixed = grads[0].reshape(B, T, H, E).transpose(1, 2).reshape(B * G, -1, E)
        heads_BTRE = torch.empty(B, T, H if ctx.reads else H + 2 * G, E, dtype=mixed.dtype)
        keys_values_BSRE = torch.empty(B, S, 2 * G, E, dtype=mixed.dtype) if ctx.reads else None
        q_BTHE, k_BSGE, v_BSGE = _split(heads_BTRE, keys_values_BSRE, H, G)
        v_BSGE.copy_(torch.bmm(shares.transpose(1, 2), mixed).view(B, G, S, E).transpose(1, 2))
        scores = torch.bmm(mixed, v.transpose(1, 2))
        _aten._softmax_backward_data.out(scores, shares, -1, scores.dtype, grad_input=scores)
        bias = None
        if ctx.bias is not None:
            shape, dtype = ctx.bias
            bias = scores.view(B, H, T, S).sum(dim=0, keepdim=True, dtype=dtype).sum_to_size(shape)
        _turn_back(torch.bmm(scores, k).view(B, H, T, E), ctx.angles, 1.0 / math.sqrt(E), q_BTHE)
        _turn_back(torch.bmm(scores.transpose(1, 2), q).view(B, G, S, E), ctx.angles, 1.0, k_BSGE)
        return heads_BTRE, keys_values_BSRE, bias, None, None, None, None, None


def _turned(x_BTHE: Tensor, angles: tuple[Tensor, Tensor] | None, scale: float) -> Tensor:
    """Turn vectors by their positions' angles in the fused attention, in float32; contiguous as (B, H, T, E)."""
    x_BHTE = x_BTHE.transpose(1, 2)
    if angles is None:
        return x_BHTE.contiguous() if scale == 1.0 else torch.mul(x_BHTE, scale, out=x_BHTE.new_empty(x_BHTE.shape))
    wide = _wide(x_BHTE)
    out_BHTE = torch.empty(x_BHTE.shape, dtype=wide.dtype)
    _turn(wide, angles[0] * scale, angles[1] * scale, out_BHTE)
    return out_BHTE.to(x_BTHE.dtype)


def _turn_back(x_BHTE: Tensor, angles: tuple[Tensor, Tensor] | None, scale: float, out_BTHE: Tensor) -> None:
    """Write the gradient of `_turned`: the opposite angles."""
    out_BHTE = out_BTHE.transpose(1, 2)
    if angles is None:
        torch.mul(x_BHTE, scale, out=out_BHTE)
        return
    wide = _wide(x_BHTE)
    turned = out_BHTE if wide.dtype is out_BHTE.dtype else torch.empty_like(wide)
    _turn(wide, angles[0] * scale, angles[1] * -scale, turned)
    if turned is not out_BHTE:
        out_BHTE.copy_(turned)


def _turn(x: Tensor, cos_TE: Tensor, sin_TE: Tensor, out: Tensor) -> None:
    """Write x · cos + (second half of x, first half) · sin for fused attention, without the swapped vector.

    All are (…, T, E).
    """
    half = x.shape[-1] // 2
    torch.mul(x, cos_TE, out=out)
    out[..., :half].addcmul_(x[..., half:], sin_TE[..., :half])
    out[..., half:].addcmul_(x[..., :half], sin_TE[..., half:])


def _wide(x: Tensor) -> Tensor:
    """Return numbers in float32 at least."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
