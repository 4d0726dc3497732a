"""The positions of tokens, and which keys a query sees: rotary angles, tables added to the embeddings, biases, masks.

`rope`        queries and keys are turned by angles that grow with the position; their product then depends on the distance
              alone. Su et al. 2021 (RoFormer), equation 34, with pairs (i, i + E/2) rather than (2i, 2i + 1): the order of
              Hugging Face's Llama and ModernBERT, whose weights would otherwise need a permutation.
`learned`     a table of weights, one row per position. Devlin et al. 2019, figure 2.
`sinusoidal`  a fixed table of sines and cosines. Vaswani et al. 2017, section 3.5.
`alibi`       a bias on the scores, -slope_h · |i - j|. Press et al. 2022, section 3; both sides alike in an encoder.
`t5`          a learned bias, table[bucket(j - i), h]. Raffel et al. 2020, section 2.1; one table for all layers.

Causality, padding, windows and global tokens are brought together in one mask per kind of layer:

                 causal            window of 2       window of 2, 1 global token
    query 0      x . . . . .       x x x . . .       x x x x x x
    query 1      x x . . . .       x x x x . .       x x x x . .
    query 2      x x x . . .       x x x x x .       x x x x x .
    query 3      x x x x . .       . x x x x x       x x x x x x
    query 4      x x x x x .       . . x x x x       x . x x x x

Sources: window and global tokens: Beltagy et al. 2020 (Longformer), section 3.1; local layers between global ones:
Warner et al. 2024 (ModernBERT), section 2.1.2.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from wordpipe.model.config import EMBEDDING_STD

DistanceBias = Callable[[Tensor], Tensor | None]
"""Distances of any shape (…) between key and query → the bias on the scores, (1, H, …), or None without one."""

N_BUCKETS = 32
_MAX_DISTANCE = 128  # distances from here on share the last bucket


class Rotary(nn.Module):
    """Angles for every position, made once in float32 and grown where a longer sequence comes.

    Args:
        head_dim: width E of a head, even.
        max_len: positions prepared for.
        theta: base; pair i turns by position · theta^(-2i/E).
    """

    cos: Tensor  # (T, E), float32
    sin: Tensor

    def __init__(self, *, head_dim: int, max_len: int, theta: float) -> None:
        super().__init__()
        self.head_dim, self.theta = head_dim, theta
        cos_TE, sin_TE = self._table(max_len)
        # not persistent: no weight, and no checkpoint of the field has them
        self.register_buffer("cos", cos_TE, persistent=False)
        self.register_buffer("sin", sin_TE, persistent=False)

    def forward(self, first: int, last: int) -> tuple[Tensor, Tensor]:
        """Return cosines and signed sines of positions `first` to `last` - 1.

        Returns:
            cos_TE, sin_TE: float32. The first half of the sines is negated, which spares the rotation a negation.
        """
        if last > self.cos.shape[0]:
            cos_TE, sin_TE = self._table(last)
            self.cos, self.sin = cos_TE.to(self.cos.device), sin_TE.to(self.sin.device)
        return self.cos[first:last], self.sin[first:last]

    def _table(self, n_positions: int) -> tuple[Tensor, Tensor]:
        """Compute cosines and signed sines of the first positions, (T, E) each."""
        if torch.get_default_device().type == "meta":  # shapes alone; arange loads torch's compiler there, in 2 s
            return torch.empty(n_positions, self.head_dim), torch.empty(n_positions, self.head_dim)
        half = torch.arange(0, self.head_dim, 2, dtype=torch.float32) / self.head_dim
        angles_TE2 = torch.outer(torch.arange(n_positions, dtype=torch.float32), 1.0 / self.theta**half)
        cos, sin = angles_TE2.cos(), angles_TE2.sin()
        return torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)


def rotate(x_BTHE: Tensor, cos_TE: Tensor, sin_TE: Tensor) -> Tensor:
    """Turn every head's vector by its position's rotary angles, in float32 whatever the input's type.

    Args:
        x_BTHE: queries or keys (or both, along H).
        cos_TE: from `Rotary`.
        sin_TE: from `Rotary`, its first half negated.

    Returns:
        A tensor of the input's shape and type.
    """
    x = x_BTHE.float()
    swapped = x.roll(x.shape[-1] // 2, dims=-1)  # (second half, first half)
    return (x * cos_TE[:, None] + swapped * sin_TE[:, None]).to(x_BTHE.dtype)


def sinusoidal_table(max_len: int, dim: int, *, scaled: bool = False) -> Tensor:
    """Return sines of the position in the first half of the columns, cosines in the second, (T, D), float32.

    Vaswani's columns alternate; the halves are the order of Hugging Face's Marian, and no weight can tell the two apart.
    Vaswani multiplies the embeddings by sqrt(D), to bring them to the size of the sines. Where a model does not, the sines
    are brought to the size of fresh embeddings: the same proportion.

    Args:
        max_len: positions.
        dim: width.
        scaled: the embeddings are multiplied by sqrt(D) (`ModelConfig.scale_embedding`), the sines stay as they are.
    """
    frequency_D2 = 10_000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float32) / dim)
    angles_TD2 = torch.outer(torch.arange(max_len, dtype=torch.float32), frequency_D2)
    table_TD = torch.cat((angles_TD2.sin(), angles_TD2.cos()), dim=-1)[:, :dim]
    return table_TD if scaled else table_TD * (math.sqrt(2.0) * EMBEDDING_STD)


def alibi_slopes(n_heads: int) -> Tensor:
    """Return the slope of each head, (H,), float32: 2^(-8/H), its square, its cube and so on.

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
    """Return the bias of each head, (H, T, S), float32.

    Args:
        slopes_H: from `alibi_slopes`.
        distance_TS: position of the key minus position of the query, int64; any number of axes.
    """
    return -slopes_H.view(-1, *[1] * distance_TS.dim()) * distance_TS.abs()


def t5_bias(table_KH: Tensor, distance_TS: Tensor, *, causal: bool) -> Tensor:
    """Look up the bias of each head, (H, T, S), in a learned table of shape (N_BUCKETS, H)."""
    return table_KH[t5_buckets(distance_TS, causal=causal)].movedim(-1, 0)


def t5_buckets(distance_TS: Tensor, *, causal: bool) -> Tensor:
    """Return the bucket of each distance, int64, from 0 to N_BUCKETS - 1.

    Half of the buckets are for one distance each, the rest for ranges that grow exponentially up to 128. Without
    causality one half of all is for keys to the right.

    Args:
        distance_TS: position of the key minus position of the query, int64.
        causal: keys to the right are never seen; they fall into the bucket of distance 0.
    """
    n_buckets = N_BUCKETS if causal else N_BUCKETS // 2
    side = torch.zeros_like(distance_TS) if causal else (distance_TS > 0).long() * n_buckets
    far = (-distance_TS).clamp_min(0) if causal else distance_TS.abs()
    exact = n_buckets // 2
    ratio = torch.log(far.clamp_min(1).float() / exact) / math.log(_MAX_DISTANCE / exact)
    ranged = (exact + (ratio * (n_buckets - exact)).long()).clamp_max(n_buckets - 1)
    return side + torch.where(far < exact, far, ranged)


def with_bias(seen: Tensor | None, bias: Tensor | None) -> Tensor | None:
    """Join a mask of seen keys (bool) and a bias on the scores (float): minus infinity at keys that are not seen."""
    if bias is None or seen is None:
        return seen if bias is None else bias
    return bias.masked_fill(~seen, -torch.inf)


def mask_like(mask: Tensor | None, x: Tensor) -> Tensor | None:
    """Return a bool mask as it is, a float one in the type of the queries."""
    return mask if mask is None or mask.dtype is torch.bool else mask.to(x.dtype)


def visible_keys(
    distance_TS: Tensor, real_BS: Tensor | None, *, causal: bool, window: int = 0, global_tokens: int = 0,
    segment: int = 0,
) -> Tensor | None:  # fmt: skip
    """Return the mask of the keys that each query's position sees.

    A query that would see nothing (all keys are padding) sees all keys that causality and window allow: its output is never
    used, but a softmax over nothing is NaN, and NaN spreads through the gradient.

    Args:
        distance_TS: position of the key minus position of the query, int64.
        real_BS: true at real tokens; None where there is no padding.
        causal: a position sees only itself and what came before.
        window: how far a position sees to either side, 0 = any distance.
        global_tokens: the first positions, which a window does not hold for, as query or as key.
        segment: positions of a segment, where a position sees only its own and the one before; 0 = any.

    Returns:
        A bool tensor that broadcasts to (B, H, T, S), or None where every query sees every key.
    """
    seen_TS, key_S = None, torch.arange(distance_TS.shape[1], device=distance_TS.device)
    query_T = -distance_TS[:, 0]
    if segment:
        seen_TS = key_S >= (query_T // segment - 1)[:, None] * segment
    if window:
        seen_TS = distance_TS.abs() <= window
        if global_tokens:
            seen_TS = seen_TS | (key_S < global_tokens) | (query_T < global_tokens)[:, None]
    if causal:
        before_TS = distance_TS <= 0
        seen_TS = before_TS if seen_TS is None else seen_TS & before_TS
    if real_BS is None:
        return seen_TS
    allowed = torch.ones_like(distance_TS[None, None], dtype=torch.bool) if seen_TS is None else seen_TS[None, None]
    seen = allowed & real_BS.bool()[:, None, None, :]
    return seen | (allowed & ~seen.any(dim=-1, keepdim=True))
