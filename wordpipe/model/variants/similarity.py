"""Queries and keys compared otherwise than by their product: additive and linear attention.

Additive attention compares them by a small network.

    score(q, k) = wᵀ tanh(W_q q + W_k k)        attention = softmax(score) V

Source: Bahdanau et al. 2015, appendix A.1.2. W_q and W_k are rows of the layer's one matrix of projections, so that the
queries and keys that come here have them behind them; every head has a `w` of its own. It costs E numbers per pair of
positions where the product costs one: use it to compare, not to be fast.

Linear attention replaces the softmax by a product of features, so the sum over keys is made once for all queries.

    attention(q) = φ(q)ᵀ Σ φ(k) vᵀ / φ(q)ᵀ Σ φ(k)        φ(x) = elu(x) + 1

The cost grows with T, not with T². A causal layer needs the sums up to each position: within chunks they are made as a
masked product, between chunks the sum so far is carried on. With a cache these sums are all that there is to keep.

Source: Katharopoulos et al. 2020, equations 4 to 7 and 11; rotary positions turn the features above the fraction line alone:
Su et al. 2021, equation 19. Sums are made in float32.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from wordpipe.model.positions import rotate

_NUMBERS_AT_ONCE = 1 << 24  # of the tensor of all pairs: 64 MiB of float32
_CHUNK = 64
_EPS = 1e-6  # a query whose keys are all padding divides by nothing


def additive_attention(q_BHTE: Tensor, k_BHSE: Tensor, v_BHSE: Tensor, score_HE: Tensor, mask: Tensor | None) -> Tensor:
    """Compute the mean that each query gathers by additive similarity, shape (B, H, T, E).

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
    """Compute additive attention of some queries, (B, H, t, E)."""
    pairs_BHtSE = torch.tanh(q_BHtE[:, :, :, None] + k_BHSE[:, :, None])
    scores_BHtS = torch.einsum("bhtse,he->bhts", pairs_BHtSE, score_HE.to(pairs_BHtSE.dtype)).float()
    if mask is not None:
        scores_BHtS = scores_BHtS.masked_fill(~mask, -torch.inf) if mask.dtype is torch.bool else scores_BHtS + mask
    return scores_BHtS.softmax(dim=-1).to(v_BHSE.dtype) @ v_BHSE


def _rows_of(mask: Tensor | None, first: int, step: int, n_queries: int) -> Tensor | None:
    """Return the part of a mask for some queries; a mask of one row is for all queries."""
    if mask is None or mask.shape[-2] != n_queries or n_queries == 1:
        return mask
    return mask[..., first : first + step, :]


@dataclass
class Sums:
    """The sums of one layer of attention by features over all positions so far, float32."""

    weighed: Tensor  # (B, H, M, E), of M features; linear attention has one for each number of a head
    total: Tensor  # (B, H, M)


def empty_sums(batch_size: int, n_heads: int, n_features: int, head_dim: int, device: torch.device) -> Sums:
    """Return the sums before the first position."""
    heads = (batch_size, n_heads, n_features)
    return Sums(torch.zeros(*heads, head_dim, device=device), torch.zeros(heads, device=device))


def linear_attention(
    q_BTHE: Tensor, k_BTGE: Tensor, v_BTGE: Tensor, *, angles: tuple[Tensor, Tensor] | None, real_BT: Tensor | None,
    causal: bool, sums: Sums | None = None,
) -> Tensor:  # fmt: skip
    """Compute the mean that each query gathers by linear attention's similarity, shape (B, T, H, E).

    Args:
        q_BTHE: queries, not rotated.
        k_BTGE: keys, not rotated; query heads that share them have them repeated.
        v_BTGE: values.
        angles: rotary angles of the positions, or None.
        real_BT: true where a key is no padding, or None.
        causal: a query sees its own position and those before it.
        sums: what came before (causal only); brought up to date in place.
    """
    with torch.autocast(q_BTHE.device.type, enabled=False):
        k, v = (x.repeat_interleave(q_BTHE.shape[2] // x.shape[2], dim=2) for x in (k_BTGE, v_BTGE))
        q, k, v = F.elu(q_BTHE.float()) + 1.0, F.elu(k.float()) + 1.0, v.float()
        if real_BT is not None:
            k = k * real_BT.to(k.dtype)[:, :, None, None]
        turned_q, turned_k = (q, k) if angles is None else (rotate(q, *angles), rotate(k, *angles))
        return mean_by_features((turned_q, turned_k), (q, k), v, causal=causal, sums=sums).to(q_BTHE.dtype)


def mean_by_features(
    above: tuple[Tensor, Tensor], below: tuple[Tensor, Tensor], v_BTHE: Tensor, *, causal: bool, sums: Sums | None,
    eps: float = _EPS,
) -> Tensor:  # fmt: skip
    """Compute the values' mean of linear attention, weighed by features of queries and keys, (B, T, H, E), float32.

    Args:
        above: features of queries and keys, (B, T, H, M) each, float32, as they stand above the fraction line.
        below: the same below it; 0 for keys that are padding, in both.
        v_BTHE: values, float32.
        causal: a query sees its own position and those before it.
        sums: what came before (causal only); brought up to date in place.
        eps: added to the divisor.
    """
    if causal:
        return _causal(*above, *below, v_BTHE, sums, eps)
    (turned_q, turned_k), (q, k) = above, below
    weighed_BHME = torch.einsum("bthm,bthe->bhme", turned_k, v_BTHE)
    weights_BTH = torch.einsum("bthm,bhm->bth", q, k.sum(dim=1))
    return torch.einsum("bthm,bhme->bthe", turned_q, weighed_BHME) / (weights_BTH[..., None] + eps)


def _causal(
    turned_q: Tensor, turned_k: Tensor, q: Tensor, k: Tensor, v: Tensor, sums: Sums | None, eps: float
) -> Tensor:
    """Compute linear attention from left to right, in chunks, with the sums of all positions before."""
    B, T, H, M = q.shape
    weighed_BHME = q.new_zeros(B, H, M, v.shape[3]) if sums is None else sums.weighed
    total_BHM = q.new_zeros(B, H, M) if sums is None else sums.total
    before_CC = torch.ones(_CHUNK, _CHUNK, dtype=torch.bool, device=q.device).tril()
    parts = []
    for first in range(0, T, _CHUNK):
        here = slice(first, first + _CHUNK)
        n = min(_CHUNK, T - first)
        products = torch.einsum("bche,bdhe->bhcd", turned_q[:, here], turned_k[:, here]) * before_CC[:n, :n]
        above = torch.einsum("bhcd,bdhf->bchf", products, v[:, here])
        above = above + torch.einsum("bche,bhef->bchf", turned_q[:, here], weighed_BHME)
        totals_BCHM = total_BHM[:, None] + k[:, here].cumsum(dim=1)
        below = torch.einsum("bche,bche->bch", q[:, here], totals_BCHM)
        parts.append(above / (below[..., None] + eps))
        weighed_BHME = weighed_BHME + torch.einsum("bche,bchf->bhef", turned_k[:, here], v[:, here])
        total_BHM = totals_BCHM[:, -1]
    if sums is not None:
        sums.weighed, sums.total = weighed_BHME, total_BHM
    return torch.cat(parts, dim=1)
