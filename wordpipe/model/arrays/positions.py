"""Where tokens stand, and who sees whom: as `positions`, `distances` and `masks`, for sequences without padding."""

import math

import numpy as np
import numpy.typing as npt

from wordpipe.model.arrays.weights import Arrays
from wordpipe.model.config import EMBEDDING_STD, ModelConfig

__all__ = ["angles", "position_table", "rotated", "score_bias"]

Floats = npt.NDArray[np.float32]
_FARTHEST = 128  # distances from here on share the last bucket of T5


def angles(n_positions: int, config: ModelConfig, layer: int) -> tuple[Floats, Floats] | None:
    """Cosines and signed sines (T, E) of a layer's rotary positions; None where nothing is turned."""
    if config.positions != "rope":
        return None
    theta, width = np.float32(config.theta_of(layer)), np.float32(config.head_dim)
    half = np.arange(0, config.head_dim, 2, dtype=np.float32) / width
    turns_TE2 = np.outer(np.arange(n_positions, dtype=np.float32), 1 / theta**half)
    cos, sin = np.cos(turns_TE2), np.sin(turns_TE2)
    return np.concatenate((cos, cos), axis=-1), np.concatenate((-sin, sin), axis=-1)


def rotated(x_BTRE: Floats, turns: tuple[Floats, Floats]) -> Floats:
    """Every head's vector turned by its position's angles: a new array."""
    cos_TE, sin_TE = turns
    half = x_BTRE.shape[-1] // 2
    turned = x_BTRE * cos_TE[:, None]
    turned[..., :half] += x_BTRE[..., half:] * sin_TE[:, None, :half]
    turned[..., half:] += x_BTRE[..., :half] * sin_TE[:, None, half:]
    return turned


def position_table(config: ModelConfig, weights: Arrays) -> Floats | None:
    """What is added to the embeddings, (T, D), or None: the stored table, or the sinusoidal one that is not stored."""
    if config.positions == "learned" or "position_embedding" in weights:
        return weights["position_embedding"]
    if config.positions != "sinusoidal":
        return None
    frequency_D2 = 10_000.0 ** (-np.arange(0, config.dim, 2, dtype=np.float32) / np.float32(config.dim))
    turns_TD2 = np.outer(np.arange(config.max_len, dtype=np.float32), frequency_D2)
    table_TD = np.concatenate((np.sin(turns_TD2), np.cos(turns_TD2)), axis=-1)[:, : config.dim]
    return (table_TD * np.float32(math.sqrt(2) * EMBEDDING_STD)).astype(np.float32)


def score_bias(n_positions: int, config: ModelConfig, window: int, weights: Arrays) -> Floats | None:
    """What is added to the scores of attention, (H or 1, T, T): -inf where a query does not see a key; None for nothing."""
    place_T = np.arange(n_positions)
    distance_TT = place_T - place_T[:, None]
    hidden_TT = _hidden(distance_TT, config, window)
    bias_HTT = _distance_bias(distance_TT, config, weights)
    if hidden_TT is None:
        return bias_HTT
    barred_TT = np.where(hidden_TT, np.float32(-np.inf), np.float32(0))
    return barred_TT[None] if bias_HTT is None else bias_HTT + barred_TT


def _hidden(distance_TT: npt.NDArray[np.int64], config: ModelConfig, window: int) -> npt.NDArray[np.bool_] | None:
    """True where a query does not see a key."""
    hidden_TT = np.abs(distance_TT) > window if window else np.zeros_like(distance_TT, dtype=np.bool_)
    hidden_TT[: config.global_tokens] = False
    hidden_TT[:, : config.global_tokens] = False
    if config.causal:
        hidden_TT |= distance_TT > 0
    return hidden_TT if hidden_TT.any() else None


def _distance_bias(distance_TT: npt.NDArray[np.int64], config: ModelConfig, weights: Arrays) -> Floats | None:
    if config.positions == "alibi":
        return -_alibi_slopes(config.n_heads)[:, None, None] * np.abs(distance_TT).astype(np.float32)
    if config.positions == "t5":
        table_KH = weights["position_bias"]
        return np.moveaxis(table_KH[_t5_buckets(distance_TT, len(table_KH), causal=config.causal)], -1, 0)
    return None


def _alibi_slopes(n_heads: int) -> Floats:
    """(H,). Source: Press et al. 2022, section 3, and the authors' code where H is no power of two."""
    below = 2 ** math.floor(math.log2(n_heads))
    slopes = [2.0 ** (-8.0 * (i + 1) / below) for i in range(below)]
    slopes += [2.0 ** (-4.0 * (2 * i + 1) / below) for i in range(n_heads - below)]
    return np.array(slopes, dtype=np.float32)


def _t5_buckets(distance_TT: npt.NDArray[np.int64], n_buckets: int, *, causal: bool) -> npt.NDArray[np.int64]:
    """Source: Raffel et al. 2020, section 2.1; as `distances.t5_buckets`."""
    n_buckets = n_buckets if causal else n_buckets // 2
    side = 0 if causal else (distance_TT > 0) * n_buckets
    far = np.maximum(-distance_TT, 0) if causal else np.abs(distance_TT)
    exact = n_buckets // 2
    ratio = np.log(np.maximum(far, 1).astype(np.float32) / exact) / np.float32(math.log(_FARTHEST / exact))
    ranged = np.minimum(exact + (ratio * (n_buckets - exact)).astype(np.int64), n_buckets - 1)
    buckets: npt.NDArray[np.int64] = side + np.where(far < exact, far, ranged)
    return buckets
