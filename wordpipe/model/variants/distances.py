"""Positions as a bias on the attention scores: what a key is worth falls, or is learned, with its distance from the query.

ALiBi     bias = -slope_h · |i - j|        Press et al. 2022, section 3; both sides alike in an encoder
T5        bias = table[bucket(j - i), h]   Raffel et al. 2020, section 2.1; one table for all layers
"""

import math

import torch
from torch import Tensor

N_BUCKETS = 32
_FARTHEST = 128  # distances from here on share the last bucket


def alibi_slopes(n_heads: int) -> Tensor:
    """The slope of each head, (H,), float32: 2^(-8/H), its square, its cube and so on.

    For a number of heads that is no power of two, those of the power below, and then every other one of the power above,
    as in the authors' code.

    >>> alibi_slopes(4).tolist()
    [0.25, 0.0625, 0.015625, 0.00390625]
    """
    below = 2 ** math.floor(math.log2(n_heads))
    slopes = [2.0 ** (-8.0 * (i + 1) / below) for i in range(below)]
    slopes += [2.0 ** (-4.0 * (2 * i + 1) / below) for i in range(n_heads - below)]
    return torch.tensor(slopes)


def alibi_bias(slopes_H: Tensor, distance_TS: Tensor) -> Tensor:
    """Bias of each head, (H, T, S), float32.

    Args:
        slopes_H: from `alibi_slopes`.
        distance_TS: position of the key minus position of the query, int64; any number of axes.
    """
    return -slopes_H.view(-1, *[1] * distance_TS.dim()) * distance_TS.abs()


def t5_bias(table_KH: Tensor, distance_TS: Tensor, *, causal: bool) -> Tensor:
    """Bias of each head, (H, T, S), looked up in a learned table of shape (N_BUCKETS, H)."""
    return table_KH[t5_buckets(distance_TS, causal=causal)].movedim(-1, 0)


def t5_buckets(distance_TS: Tensor, *, causal: bool) -> Tensor:
    """The bucket of each distance, int64, from 0 to N_BUCKETS - 1.

    Half of the buckets stand for one distance each, the rest for ranges that grow exponentially up to 128. Without
    causality one half of all is for keys to the right.

    Args:
        distance_TS: position of the key minus position of the query, int64.
        causal: keys to the right are never seen; they fall into the bucket of distance 0.
    """
    n_buckets = N_BUCKETS if causal else N_BUCKETS // 2
    side = torch.zeros_like(distance_TS) if causal else (distance_TS > 0).long() * n_buckets
    far = (-distance_TS).clamp_min(0) if causal else distance_TS.abs()
    exact = n_buckets // 2
    ratio = torch.log(far.clamp_min(1).float() / exact) / math.log(_FARTHEST / exact)
    ranged = (exact + (ratio * (n_buckets - exact)).long()).clamp_max(n_buckets - 1)
    return side + torch.where(far < exact, far, ranged)
