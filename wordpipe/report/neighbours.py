"""Exact nearest neighbours on the plane of a map.

Shapes: N points, D numbers each, K neighbours each.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.metrics.vectors import SCORES_AT_ONCE, largest_columns

__all__ = ["nearest_on_plane"]


def nearest_on_plane(
    points_N2: npt.NDArray[np.integer[Any]], of: npt.NDArray[np.int64], k: int
) -> npt.NDArray[np.int64]:
    """The `k` other points nearest to each of the points `of`, by distance on a grid of whole numbers, (len(of), K).

    The nearest point has the largest 2 a·b - b·b; on a grid below 2²⁵ float64 holds that without rounding.
    """
    points = points_N2.astype(np.float64)
    squares = (points**2).sum(axis=1)
    found = []
    at_once = max(1, SCORES_AT_ONCE // 2 // len(points))
    for first in range(0, len(of), at_once):
        own = of[first : first + at_once]
        found.append(largest_columns(2 * points[own] @ points.T - squares, own, k)[0])
    return np.concatenate(found)
