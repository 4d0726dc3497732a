"""Attention that comes near the softmax for T and not T² products: Performer and Linformer.

Performer (FAVOR+): the exponential of a product is the mean of products of random features, all of them positive, so that
the sum over keys is made once for all queries, as in linear attention (`similarity`), whose sums a decoder keeps.

    exp(q·k / sqrt(E)) = mean over w of φ_w(q) φ_w(k)        φ_w(x) = exp(w·x' - |x'|² / 2),  x' = x / E^¼,  w ~ N(0, 1)

The directions w are orthogonal in blocks of E, which lessens the error; a layer has E log E of them. A query's features are
divided by the largest, which cancels. Keys need no such thing: φ_w(k) is at most exp(|w|² / 2).

Source: Choromanski et al. 2021, lemma 1 (positive features), section 2.4 (orthogonal ones), theorem 4 (how many), and their
code (the small number that is added to each feature, so that what is far from all directions does not vanish).

Linformer: keys and values of the T positions are brought down to k by a matrix with a column for each position.

    attention(Q, K, V) = softmax(Q (P K)ᵀ / sqrt(E)) P V        P: k x T

Every sum runs over all positions, so only an encoder can have it; a shorter sequence uses the first columns.

Source: Wang et al. 2020, equation 7, with one P for keys, values and all heads of a layer (section 4, key-value sharing).
"""

import math

import numpy as np
import torch
from torch import Tensor

from wordpipe.errors import ConfigError
from wordpipe.model.config import seed_of
from wordpipe.model.positions import rotate
from wordpipe.model.variants.similarity import Sums, mean_by_features

_LEAST_FEATURE = 1e-6
_EPS = 1e-12  # a query whose keys are all padding divides by nothing


def n_features(head_dim: int) -> int:
    """Return the number of features of a head of width E: E log E, in whole blocks of E."""
    return head_dim * math.ceil(math.log(head_dim))


def random_directions(head_dim: int, layer: int, n: int = 0) -> Tensor:
    """Draw a Performer's random directions, orthogonal in blocks of E, (M, E), float32.

    They are no weights: a function of the layer and the width, so that a folder need not keep them.

    Args:
        head_dim: E.
        layer: its number.
        n: M, a multiple of E; 0: `n_features`.
    """
    blocks = (n or n_features(head_dim)) // head_dim
    random = np.random.Generator(np.random.Philox(seed_of("performer", layer, head_dim)))
    drawn_NEE = random.standard_normal((blocks, head_dim, head_dim))
    q_NEE, r_NEE = np.linalg.qr(drawn_NEE)
    # makes the factorisation unique, whatever LAPACK does
    q_NEE *= np.sign(np.diagonal(r_NEE, axis1=1, axis2=2))[:, None]
    lengths_NE = np.linalg.norm(random.standard_normal((blocks, head_dim, head_dim)), axis=2)
    directions_ME = (q_NEE.mT * lengths_NE[:, :, None]).reshape(-1, head_dim)
    return torch.tensor(directions_ME, dtype=torch.float32)


def positive_features(x: Tensor, directions_ME: Tensor, *, of_queries: bool) -> Tensor:
    """Compute a Performer's features φ of queries or keys, (…, E) → (…, M), float32.

    Those of a query are divided by its largest.
    """
    scaled = x / x.shape[-1] ** 0.25
    exponents = scaled @ directions_ME.T - scaled.square().sum(dim=-1, keepdim=True) / 2
    if of_queries:
        exponents = exponents - exponents.detach().amax(dim=-1, keepdim=True)
    features: Tensor = exponents.exp() + _LEAST_FEATURE
    return features


def performer_attention(
    q_BTHE: Tensor, k_BTGE: Tensor, v_BTGE: Tensor, directions_ME: Tensor, *, angles: tuple[Tensor, Tensor] | None,
    real_BT: Tensor | None, causal: bool, sums: Sums | None = None,
) -> Tensor:  # fmt: skip
    """Compute the Performer's mean that each query gathers, shape (B, T, H, E).

    Args:
        q_BTHE: queries, not rotated.
        k_BTGE: keys, not rotated; query heads that share them have them repeated.
        v_BTGE: values.
        directions_ME: from `random_directions`.
        angles: rotary angles of the positions, or None.
        real_BT: true where a key is no padding, or None.
        causal: a query sees its own position and those before it.
        sums: what came before (causal only); brought up to date in place.
    """
    with torch.autocast(q_BTHE.device.type, enabled=False):
        q, k, v = q_BTHE.float(), k_BTGE.float(), v_BTGE.float()
        if angles is not None:
            q, k = rotate(q, *angles), rotate(k, *angles)
        directions = directions_ME.float()
        q, k = positive_features(q, directions, of_queries=True), positive_features(k, directions, of_queries=False)
        if real_BT is not None:
            k = k * real_BT.to(k.dtype)[:, :, None, None]
        k, v = (x.repeat_interleave(q.shape[2] // x.shape[2], dim=2) for x in (k, v))
        return mean_by_features((q, k), (q, k), v, causal=causal, sums=sums, eps=_EPS).to(q_BTHE.dtype)


def shortened(x_BTGE: Tensor, shorten_KT: Tensor, real_BT: Tensor | None) -> Tensor:
    """Mix the keys or values of all positions to K, as a Linformer does, (B, K, G, E).

    Args:
        x_BTGE: keys, rotated, or values.
        shorten_KT: P, with a column for each position that the model has.
        real_BT: true where there is no padding, or None.

    Raises:
        ConfigError: more positions than columns.
    """
    n, most = x_BTGE.shape[1], shorten_KT.shape[1]
    if n > most:
        raise ConfigError("the sequence has more tokens than a Linformer layer has positions", got=n, expected=most)
    if real_BT is not None:
        x_BTGE = x_BTGE * real_BT.to(x_BTGE.dtype)[:, :, None, None]
    return torch.einsum("kt,btge->bkge", shorten_KT[:, :n].to(x_BTGE.dtype), x_BTGE)
