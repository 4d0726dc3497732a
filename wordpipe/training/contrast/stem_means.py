"""Words of one stem help one another: a rare form is near what its commoner forms mean."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["count_stems", "near_their_stems"]

Matrix = npt.NDArray[np.float32]
Counts = npt.NDArray[np.int64]


def count_stems(stems: Sequence[str], counts_V: Counts) -> Counts:
    """How often the stem of each of V words occurs in all its forms, (V,)."""
    _, group_V = np.unique(np.array(stems, dtype=object), return_inverse=True)
    totals: Counts = np.bincount(group_V, weights=counts_V).astype(np.int64)[group_V]
    return totals


def near_their_stems(vectors_VD: Matrix, stems: Sequence[str], counts_V: Counts) -> Matrix:
    """unit(unit(v) + unit(m)), m the mean over the words of the same stem of unit(v), weighted by their counts.

    A word without a vector (a zero row) gets its stem's. On vectors of 100 MB of Wikipedia beside as many random directions
    by stem, the mean of STS-B dev and train, STS 2012 and SICK rose from 63.5 to 63.9 (Spearman x 100), with 512 of them from
    64.0 to 64.3.

    Args:
        vectors_VD: of V words.
        stems: theirs.
        counts_V: how often each word occurs; those that never do count as once.

    Returns:
        (V, D) float32, rows of length 1; zero where no word of the stem has a vector.
    """
    _, group_V = np.unique(np.array(stems, dtype=object), return_inverse=True)
    order_V = np.argsort(group_V, kind="stable")
    firsts_G = np.flatnonzero(np.diff(group_V[order_V], prepend=-1))
    unit_VD = _unit(vectors_VD)
    sums_GD = np.add.reduceat(
        (unit_VD * np.maximum(counts_V, 1)[:, None].astype(np.float32))[order_V], firsts_G, axis=0
    )
    return _unit(unit_VD + _unit(sums_GD)[group_V])


def _unit(vectors_VD: Matrix) -> Matrix:
    lengths_V1 = np.linalg.norm(vectors_VD, axis=1, keepdims=True)
    unit_VD: Matrix = (vectors_VD / np.where(lengths_V1 > 0, lengths_V1, 1)).astype(np.float32)
    return unit_VD
