"""Recall of an approximate search against an exact one."""

import numpy as np
import numpy.typing as npt

__all__ = ["recall_at_k"]


def recall_at_k(
    found_scores_QK: npt.NDArray[np.float32], exact_scores_QK: npt.NDArray[np.float32], *, tolerance: float = 1e-5
) -> float:
    """The share of the k nearest that an approximate search found, averaged over queries.

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
