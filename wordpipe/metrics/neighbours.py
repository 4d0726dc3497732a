"""Exact nearest neighbours of every point of a set, and which of them another set of the same points keeps.

Shapes: N points, D numbers each, K neighbours each; B rows looked at at a time.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["SCORES_AT_ONCE", "kept_shares", "largest_columns", "nearest_rows"]

SCORES_AT_ONCE = 1 << 24  # of one block of rows against all points: 64 MiB of float32


def nearest_rows(
    unit_ND: npt.NDArray[np.float32], k: int, report: Callable[[int], None] = lambda _: None
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """The `k` other points with the largest cosine to each point, the nearest first.

    Every pair is compared, a block of rows at a time. Of points at equal distance the earlier row comes first, but which
    ones of a tie at the k-th place are in is left to numpy (the same ones each time).

    Args:
        unit_ND: vectors of length 1.
        k: neighbours wanted, less than N.
        report: told the rows done so far.

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
    """Columns of the `k` largest scores of each row, the largest first, a point's own column left out; and the scores.

    The scores of own columns are overwritten.
    """
    assert 0 < k < scores_BN.shape[1], (k, scores_BN.shape)
    scores_BN[np.arange(len(own_B)), own_B] = -np.inf
    columns_BK = np.argpartition(scores_BN, -k, axis=1)[:, -k:]
    best_BK = np.take_along_axis(scores_BN, columns_BK, axis=1)
    order_BK = np.lexsort((columns_BK, -best_BK), axis=1)
    return np.take_along_axis(columns_BK, order_BK, axis=1), np.take_along_axis(best_BK, order_BK, axis=1)


def kept_shares(
    before_NK: npt.NDArray[np.integer[Any]], after_NK: npt.NDArray[np.integer[Any]]
) -> npt.NDArray[np.float64]:
    """The share of each point's neighbours that are among its neighbours elsewhere, (N,) float64, 0 to 1.

    Source: Lee and Verleysen 2009, "Quality assessment of dimensionality reduction", Q_NX at one neighbourhood size; for
    words of two texts Gonen et al. 2020, "Simple, Interpretable and Stable Method for Detecting Words with Usage Change
    across Corpora", section 3.2, divided by K.
    """
    both_N2K = np.sort(np.concatenate([before_NK, after_NK], axis=1), axis=1)
    shares_N: npt.NDArray[np.float64] = (both_N2K[:, 1:] == both_N2K[:, :-1]).sum(axis=1) / before_NK.shape[1]
    return shares_N
