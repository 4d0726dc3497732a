"""Exact nearest neighbours of every point of a set, and how many of them another set of the same points keeps.

Shapes: N points, D numbers each, K neighbours each.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["nearest_by_cosine", "nearest_on_plane", "share_kept"]

_SCORES_AT_ONCE = 1 << 24  # of one block of rows against all points: 64 MiB of float32


def nearest_by_cosine(
    unit_ND: npt.NDArray[np.float32], k: int, tell: Callable[[int], None] = lambda done: None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """The `k` other points with the largest cosine to each point, the nearest first.

    Every pair is compared, a block of rows at a time. Of points at equal distance the earlier row comes first, but which
    ones of a tie at the k-th place are in is left to numpy (the same ones each time).

    Args:
        unit_ND: vectors of length 1.
        k: neighbours wanted, less than N.
        tell: called with the rows done so far.

    Returns:
        rows (N, K), and their cosines (N, K).
    """
    rows, cosines = [], []
    at_once = max(1, _SCORES_AT_ONCE // len(unit_ND))
    for first in range(0, len(unit_ND), at_once):
        own = np.arange(first, min(first + at_once, len(unit_ND)))
        found, scores = _best(unit_ND[own] @ unit_ND.T, own, k)
        rows.append(found)
        cosines.append(scores.clip(-1, 1))
        tell(int(own[-1]) + 1)
    return np.concatenate(rows), np.concatenate(cosines)


def nearest_on_plane(
    points_N2: npt.NDArray[np.integer[Any]], of: npt.NDArray[np.int64], k: int
) -> npt.NDArray[np.int64]:
    """The `k` other points nearest to each of the points `of`, by distance on a grid of whole numbers, (len(of), K).

    The nearest point has the largest 2 a·b - b·b; on a grid below 2²⁵ float64 holds that without rounding.
    """
    points = points_N2.astype(np.float64)
    squares = (points**2).sum(axis=1)
    found = []
    at_once = max(1, _SCORES_AT_ONCE // 2 // len(points))
    for first in range(0, len(of), at_once):
        own = of[first : first + at_once]
        found.append(_best(2 * points[own] @ points.T - squares, own, k)[0])
    return np.concatenate(found)


def share_kept(before_NK: npt.NDArray[np.int64], after_NK: npt.NDArray[np.int64]) -> float:
    """The mean share of each point's K neighbours that are among its K neighbours elsewhere, from 0 to 1.

    Source: Lee and Verleysen 2009, "Quality assessment of dimensionality reduction", Q_NX at one neighbourhood size.
    """
    kept = (before_NK[:, :, None] == after_NK[:, None, :]).any(axis=2)
    return float(kept.mean())


def _best(
    scores_BN: npt.NDArray[np.floating[Any]], own_B: npt.NDArray[np.int64], k: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Columns of the `k` largest scores of each row, the largest first, a point's own column left out; and the scores."""
    assert 0 < k < scores_BN.shape[1], (k, scores_BN.shape)
    scores_BN[np.arange(len(own_B)), own_B] = -np.inf
    columns = np.argpartition(scores_BN, -k, axis=1)[:, -k:]
    best = np.take_along_axis(scores_BN, columns, axis=1)
    order = np.lexsort((columns, -best), axis=1)
    return np.take_along_axis(columns, order, axis=1), np.take_along_axis(best, order, axis=1)
