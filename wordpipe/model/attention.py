"""Attention with several heads: every position gathers from those that it sees, weighed by how well they match.

    attention(Q, K, V) = softmax(Q Kᵀ / sqrt(E)) V

Source: Vaswani et al. 2017, equation 1 and section 3.2.2; heads that share keys and values: Ainslie et al. 2023. The other
kinds of matching are in `additive` and `linear_attention`, who sees whom in `masks`.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wordpipe.model.additive import additive_attention
from wordpipe.model.bands import banded_attention
from wordpipe.model.cache import KeysValues, Sums
from wordpipe.model.config import ModelConfig
from wordpipe.model.fused import attend, attends
from wordpipe.model.linear import Linear
from wordpipe.model.linear_attention import linear_attention
from wordpipe.model.positions import rotate
from wordpipe.model.views import PackedView, View

__all__ = ["Attention", "rows_at"]


class Attention(nn.Module):
    """One layer's attention.

    One matrix makes queries, keys and values, stacked in that order: one large product instead of three small ones.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.kind = config.attention
        self.n_heads, self.n_kv_heads, self.head_dim = config.n_heads, config.n_kv_heads, config.head_dim
        self.qkv = Linear(config.dim, (self.n_heads + 2 * self.n_kv_heads) * self.head_dim, bias=config.bias)
        self.score = nn.Parameter(torch.empty(self.n_heads, self.head_dim)) if self.kind == "additive" else None
        self.out = Linear(self.n_heads * self.head_dim, config.dim, bias=config.bias)

    def forward(
        self,
        x_BTD: Tensor,
        view: View | PackedView,
        memory: KeysValues | Sums | None = None,
        first: int = 0,
        at_BK: Tensor | None = None,
    ) -> Tensor:
        """What each position gathers from those that it sees, shape (B, T, D); with `at_BK` (B, K, D).

        Args:
            x_BTD: residual stream; of packed sequences (1, N, D).
            view: angles, and who sees whom.
            memory: this layer's part of a `Cache`, brought up to date, or None.
            first: positions that the memory holds already.
            at_BK: the positions whose result is wanted, int64; None: all, in order.
        """
        B, T, _ = x_BTD.shape
        heads = self.qkv(x_BTD).view(B, T, self.n_heads + 2 * self.n_kv_heads, self.head_dim)
        if isinstance(view, PackedView):
            mixed_BTD = self._packed(heads[0], view)[None]
        else:
            mixed_BTD = self._mixed(heads, view, memory, first)
        out_BTD: Tensor = self.out(rows_at(mixed_BTD, at_BK))
        return out_BTD

    def _packed(self, heads_NRE: Tensor, packed: PackedView) -> Tensor:
        """Every run of sequences of one length by itself, (N, D)."""
        parts = torch.split(heads_NRE, [B * T for B, T in packed.shapes])  # one node for the gradient, not one per run
        mixed = [
            self._mixed(part.view(B, T, *part.shape[1:]), view, None, 0).flatten(0, 1)
            for part, (B, T), view in zip(parts, packed.shapes, packed.views, strict=True)
        ]
        return torch.cat(mixed)

    def _mixed(self, heads: Tensor, view: View, memory: KeysValues | Sums | None, first: int) -> Tensor:
        if self.kind == "linear":
            assert not isinstance(memory, KeysValues)
            mixed_BTHE = self._linear(heads, view, memory)
        else:
            assert not isinstance(memory, Sums)
            mixed_BTHE = self._softmax(heads, view, memory, first)
        return mixed_BTHE.reshape(*heads.shape[:2], self.n_heads * self.head_dim)

    def _softmax(self, heads: Tensor, view: View, memory: KeysValues | None, first: int) -> Tensor:
        is_plain = memory is None and self.score is None and view.mask is None and view.band is None
        if is_plain and attends(heads):
            return attend(heads, view.angles, n_heads=self.n_heads, n_kv_heads=self.n_kv_heads, causal=view.causal)
        turned, v_BTGE = torch.split(heads, [self.n_heads + self.n_kv_heads, self.n_kv_heads], dim=2)
        if view.angles is not None:
            turned = rotate(turned, *view.angles)
        q_BTHE, k_BTGE = torch.split(turned, [self.n_heads, self.n_kv_heads], dim=2)
        q, k, v = (part.transpose(1, 2) for part in (q_BTHE, k_BTGE, v_BTGE))
        if memory is not None:
            k, v = memory.extend(first, k, v)
        if self.score is not None:
            return additive_attention(q, k, v, self.score, view.mask).transpose(1, 2)
        if view.band is not None:
            return banded_attention(q, k, v, view.band).transpose(1, 2)
        mask = view.mask if view.mask is None or view.mask.dtype is torch.bool else view.mask.to(q.dtype)
        mixed_BHTE = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=view.causal, enable_gqa=self.n_kv_heads != self.n_heads
        )
        return mixed_BHTE.transpose(1, 2)

    def _linear(self, heads: Tensor, view: View, memory: Sums | None) -> Tensor:
        q, k, v = torch.split(heads, [self.n_heads, self.n_kv_heads, self.n_kv_heads], dim=2)
        if self.n_kv_heads != self.n_heads:
            shared = self.n_heads // self.n_kv_heads
            k, v = k.repeat_interleave(shared, dim=2), v.repeat_interleave(shared, dim=2)
        mixed_BTHE = linear_attention(q, k, v, angles=view.angles, real_BT=view.real, causal=view.causal, sums=memory)
        return mixed_BTHE.to(heads.dtype)


def rows_at(x_BTD: Tensor, at_BK: Tensor | None) -> Tensor:
    """Some positions of every sequence, (B, K, D); all of them where none are named."""
    if at_BK is None:
        return x_BTD
    B, T, D = x_BTD.shape
    first_B1 = torch.arange(B, device=x_BTD.device)[:, None] * T
    return x_BTD.reshape(B * T, D).index_select(0, (at_BK + first_B1).flatten()).view(B, -1, D)
