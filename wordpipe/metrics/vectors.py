"""Sets of vectors: their directions, their nearest neighbours and how they fill their space.

Shapes: N vectors, D numbers each, K neighbours each; B rows looked at at a time.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


def has_direction(vectors_ND: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Return True for each vector that is finite and not zero, (N,)."""
    norms_N = np.linalg.norm(vectors_ND, axis=-1)
    found: npt.NDArray[np.bool_] = np.isfinite(norms_N) & (norms_N > 0)
    return found


def unit_rows(
    vectors_ND: npt.NDArray[np.float32], *, least: float = 0.0
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Return a set of vectors at length 1, (N, D) float32, zero where not finite or no longer than `least`.

    Return also which are not.
    """
    norms_N1 = np.linalg.norm(vectors_ND, axis=1, keepdims=True)
    valid_N1 = np.isfinite(norms_N1) & (norms_N1 > least)
    unit_ND = np.zeros_like(vectors_ND, dtype=np.float32)
    np.divide(vectors_ND, norms_N1, out=unit_ND, where=valid_N1)
    return unit_ND, valid_N1[:, 0]


SCORES_AT_ONCE = 1 << 24  # of one block of rows against all points: 64 MiB of float32


def nearest_rows(
    unit_ND: npt.NDArray[np.float32], k: int, report: Callable[[int], None] = lambda _: None
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """Return the `k` nearest neighbours of each vector of a set by cosine, the nearest first.

    Every pair is compared, a block of rows at a time. Of points at equal distance the lower row comes first, but which
    ones of a tie at the k-th place are in is left to numpy (the same ones each time).

    Args:
        unit_ND: vectors of length 1.
        k: neighbours wanted, less than N.
        report: called with the rows done so far.

    Returns:
        rows (N, K) int32, and their cosines (N, K) float32.
    """
    n = len(unit_ND)
    rows_NK, cosines_NK = np.empty((n, k), dtype=np.int32), np.empty((n, k), dtype=np.float32)
    at_once = max(1, SCORES_AT_ONCE // n)
    for first in range(0, n, at_once):
        own_B = np.arange(first, min(first + at_once, n))
        rows_NK[own_B], cosines_NK[own_B] = largest_columns(unit_ND[own_B] @ unit_ND.T, own_B, k)
        report(int(own_B[-1]) + 1)
    return rows_NK, cosines_NK.clip(-1, 1)


def largest_columns(
    scores_BN: npt.NDArray[np.floating[Any]], own_B: npt.NDArray[np.int64], k: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Return the columns of the `k` nearest vectors in each row of scores, its own left out; and the scores.

    The scores of own columns are overwritten.
    """
    assert 0 < k < scores_BN.shape[1], (k, scores_BN.shape)
    scores_BN[np.arange(len(own_B)), own_B] = -np.inf
    columns_BK = np.argpartition(scores_BN, -k, axis=1)[:, -k:]
    best_BK = np.take_along_axis(scores_BN, columns_BK, axis=1)
    order_BK = np.lexsort((columns_BK, -best_BK), axis=1)
    return np.take_along_axis(columns_BK, order_BK, axis=1), np.take_along_axis(best_BK, order_BK, axis=1)


def neighbour_overlap(
    before_NK: npt.NDArray[np.integer[Any]], after_NK: npt.NDArray[np.integer[Any]]
) -> npt.NDArray[np.float64]:
    """Return the share of each point's neighbours that are among its neighbours elsewhere, (N,) float64, 0 to 1.

    Source: Lee and Verleysen 2009, "Quality assessment of dimensionality reduction", Q_NX at one neighbourhood size; for
    words of two texts Gonen et al. 2020, "Simple, Interpretable and Stable Method for Detecting Words with Usage Change
    across Corpora", section 3.2, divided by K.
    """
    both_N2K = np.sort(np.concatenate([before_NK, after_NK], axis=1), axis=1)
    shares_N: npt.NDArray[np.float64] = (both_N2K[:, 1:] == both_N2K[:, :-1]).sum(axis=1) / before_NK.shape[1]
    return shares_N


def recall_at_k(
    found_scores_QK: npt.NDArray[np.float32], exact_scores_QK: npt.NDArray[np.float32], *, tolerance: float = 1e-5
) -> float:
    """Return the share of the k nearest that an approximate search found, averaged over queries.

    An answer counts when its score reaches the exact k-th score, whatever its id, so that equal vectors, of which either
    is a right answer, cost nothing.

    Args:
        found_scores_QK: scores of different items; -inf where fewer than k were found.
        exact_scores_QK: the k best scores of all; -inf where there are fewer than k items.
        tolerance: for scores that were summed in another order.

    Returns:
        From 0 to 1; 1 where there is nothing to find.
    """
    there_QK = np.isfinite(exact_scores_QK)
    least_Q1 = np.where(there_QK, exact_scores_QK, np.inf).min(axis=1, keepdims=True, initial=np.inf)
    hits_Q = np.minimum((found_scores_QK >= least_Q1 - tolerance).sum(axis=1), there_QK.sum(axis=1))
    wanted = int(there_QK.sum())
    return float(hits_Q.sum() / wanted) if wanted else 1.0


def mean_cosine(unit_ND: npt.NDArray[np.float32]) -> float:
    """Return the mean cosine of all pairs of different vectors, exactly, without forming them: (|sum|² - N) / (N (N - 1)).

    0 where directions are spread evenly; near 1 where all vectors say the same.

    Source: Ethayarajh 2019, "How Contextual are Contextualized Word Representations?", section 4.1 (there by sampling).
    """
    n, sum_D = len(unit_ND), unit_ND.sum(axis=0, dtype=np.float64)
    assert n > 1, n
    own = float(np.square(unit_ND, dtype=np.float64).sum())
    return (float(sum_D @ sum_D) - own) / (n * (n - 1))


def effective_rank(vectors_ND: npt.NDArray[np.float32]) -> float:
    """Return in how many directions the vectors' energy lies, 1 to D: the exponential of the entropy of its shares.

    The mean is not taken away first: cosines see it, and where it is most of every vector the rank is near 1.

    Source: Roy and Vetterli 2007, "The Effective Rank", definition 1, of the matrix of second moments.
    """
    wide_ND = vectors_ND.astype(np.float64)
    energy_D = np.linalg.eigvalsh(wide_ND.T @ wide_ND).clip(0)
    shares_D = energy_D[energy_D > 0] / energy_D.sum()
    return float(np.exp(-(shares_D * np.log(shares_D)).sum()))


class Hubs(NamedTuple):
    """Figures of how unevenly vectors are among each other's nearest neighbours."""

    # of the number of vectors that count one among their K nearest; 0 is even, above 2 a few are near everything
    skew: float
    orphans: float  # share of vectors that are nobody's neighbour, so that no search finds them
    twins: float  # share of vectors whose nearest neighbour has a cosine of 0.99 or more


def hubs(unit_ND: npt.NDArray[np.float32], k: int = 10) -> Hubs:
    """Count how often each vector is among the `k` nearest (by cosine) of another.

    Source: Radovanović et al. 2010, "Hubs in Space", section 3 (skewness of the k-occurrences).
    """
    rows_NK, cosines_NK = nearest_rows(unit_ND, min(k, len(unit_ND) - 1))
    found_N = np.bincount(rows_NK.ravel(), minlength=len(unit_ND)).astype(np.float64)
    around_N = found_N - found_N.mean()
    deviation = float(np.sqrt(np.square(around_N).mean()))
    skew = float((around_N**3).mean()) / deviation**3 if deviation else 0.0
    return Hubs(skew, float((found_N == 0).mean()), float((cosines_NK[:, 0] >= 0.99).mean()))
