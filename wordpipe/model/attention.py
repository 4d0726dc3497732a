"""Scaled dot-product attention with several heads.

    attention(Q, K, V) = softmax(Q Kᵀ / sqrt(E)) V

Source: Vaswani et al. 2017, equation 1; heads that share keys and values: Ainslie et al. 2023.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wordpipe.model.config import ModelConfig
from wordpipe.model.linear import Linear
from wordpipe.model.positions import rotate

__all__ = ["Attention", "attention_mask"]


class Attention(nn.Module):
    """Attention of every position over the positions that it may see.

    One matrix makes queries, keys and values, stacked in that order: one large product instead of three small ones.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.n_heads, self.n_kv_heads, self.head_dim = config.n_heads, config.n_kv_heads, config.head_dim
        self.causal = config.causal
        self.qkv = Linear(config.dim, (self.n_heads + 2 * self.n_kv_heads) * self.head_dim)
        self.out = Linear(config.dim, config.dim)

    def forward(self, x_BTD: Tensor, angles: tuple[Tensor, Tensor], mask: Tensor | None) -> Tensor:
        """What each position gathers from those that it sees.

        Args:
            x_BTD: normed residual stream.
            angles: cosines and sines from `Rotary`.
            mask: from `attention_mask`, true where a query (axis -2) sees a key (axis -1); None: no padding.
        """
        B, T, D = x_BTD.shape
        heads = self.qkv(x_BTD).view(B, T, self.n_heads + 2 * self.n_kv_heads, self.head_dim)
        turned, v_BTGE = torch.split(heads, [self.n_heads + self.n_kv_heads, self.n_kv_heads], dim=2)
        q_BTHE, k_BTGE = torch.split(rotate(turned, *angles), [self.n_heads, self.n_kv_heads], dim=2)
        mixed_BHTE = F.scaled_dot_product_attention(
            q_BTHE.transpose(1, 2),
            k_BTGE.transpose(1, 2),
            v_BTGE.transpose(1, 2),
            attn_mask=mask,
            is_causal=self.causal and mask is None,
            enable_gqa=self.n_kv_heads != self.n_heads,
        )
        out_BTD: Tensor = self.out(mixed_BHTE.transpose(1, 2).reshape(B, T, D))
        return out_BTD


def attention_mask(mask_BT: Tensor | None, *, causal: bool) -> Tensor | None:
    """Who sees whom, for a batch with padding.

    A position that would see nothing (all padding) is let see: its output is never used, but a softmax over nothing is
    NaN, and NaN spreads through the gradient.

    Args:
        mask_BT: true at real tokens; None where there is no padding.
        causal: a position sees only itself and what came before.

    Returns:
        A bool tensor that broadcasts to (B, H, T queries, T keys), or None where the kernel needs no mask.
    """
    if mask_BT is None:
        return None
    keys_B11T = mask_BT.bool()[:, None, None, :]
    if not causal:
        return keys_B11T | ~keys_B11T.any(dim=-1, keepdim=True)
    T = mask_BT.shape[1]
    itself_TT = torch.eye(T, dtype=torch.bool, device=mask_BT.device)
    return keys_B11T & itself_TT.new_ones(T, T).tril() | itself_TT
