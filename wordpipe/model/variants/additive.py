"""Additive attention: query and key are compared by a small network instead of a product.

    score(q, k) = wᵀ tanh(W_q q + W_k k)        attention = softmax(score) V

Source: Bahdanau et al. 2015, appendix A.1.2. W_q and W_k are rows of the layer's one matrix of projections, so that the
queries and keys that come here have them behind them; every head has a `w` of its own.

It costs E numbers per pair of positions where the product costs one: use it to compare, not to be fast.
"""

import torch
from torch import Tensor

_NUMBERS_AT_ONCE = 1 << 24  # of the tensor of all pairs: 64 MiB of float32


def additive_attention(q_BHTE: Tensor, k_BHSE: Tensor, v_BHSE: Tensor, score_HE: Tensor, mask: Tensor | None) -> Tensor:
    """What each query gathers, shape (B, H, T, E), in the queries' type.

    Args:
        q_BHTE: queries.
        k_BHSE: keys.
        v_BHSE: values.
        score_HE: w of each head.
        mask: as in `View`; None: every query sees every key.
    """
    B, H, T, E = q_BHTE.shape
    step = max(1, _NUMBERS_AT_ONCE // (B * H * k_BHSE.shape[2] * E))
    parts = [
        _rows(q_BHTE[:, :, first : first + step], k_BHSE, v_BHSE, score_HE, _rows_of(mask, first, step, T))
        for first in range(0, T, step)
    ]
    return torch.cat(parts, dim=2)


def _rows(q_BHtE: Tensor, k_BHSE: Tensor, v_BHSE: Tensor, score_HE: Tensor, mask: Tensor | None) -> Tensor:
    pairs_BHtSE = torch.tanh(q_BHtE[:, :, :, None] + k_BHSE[:, :, None])
    scores_BHtS = torch.einsum("bhtse,he->bhts", pairs_BHtSE, score_HE.to(pairs_BHtSE.dtype)).float()
    if mask is not None:
        scores_BHtS = scores_BHtS.masked_fill(~mask, -torch.inf) if mask.dtype is torch.bool else scores_BHtS + mask
    return scores_BHtS.softmax(dim=-1).to(v_BHSE.dtype) @ v_BHSE


def _rows_of(mask: Tensor | None, first: int, step: int, n_queries: int) -> Tensor | None:
    """The part of a mask for some queries; one row may stand for all of them."""
    if mask is None or mask.shape[-2] != n_queries or n_queries == 1:
        return mask
    return mask[..., first : first + step, :]
