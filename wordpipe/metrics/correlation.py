"""How alike two measurements order the same things."""

import numpy as np
import numpy.typing as npt

__all__ = ["average_ranks", "pearson", "spearman"]


def average_ranks(values_N: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The rank of every value from 1 up; equal values share the mean of the ranks they take.

    >>> average_ranks(np.array([20.0, 10.0, 20.0, 5.0])).tolist()
    [3.5, 2.0, 3.5, 1.0]
    """
    _, which_N, counts = np.unique(values_N, return_inverse=True, return_counts=True)
    ranks: npt.NDArray[np.float64] = (np.cumsum(counts) - (counts - 1) / 2)[which_N]
    return ranks


def spearman(one_N: npt.NDArray[np.float64], other_N: npt.NDArray[np.float64]) -> float | None:
    """Spearman's rank correlation: Pearson's correlation of the average ranks.

    Args:
        one_N: finite numbers.
        other_N: as many finite numbers, of the same things in the same order.

    Returns:
        From -1 to 1; None where it is not defined: fewer than two things, or all equal in one of the measurements.

    Source: Spearman 1904, "The Proof and Measurement of Association between Two Things"; ties as in Kendall 1945.
    """
    return pearson(average_ranks(one_N), average_ranks(other_N))


def pearson(one_N: npt.NDArray[np.float64], other_N: npt.NDArray[np.float64]) -> float | None:
    """Pearson's correlation: how nearly two measurements lie on a rising line.

    Args:
        one_N: finite numbers.
        other_N: as many finite numbers, of the same things in the same order.

    Returns:
        As `spearman`.

    Source: Pearson 1895, "Notes on regression and inheritance in the case of two parents".
    """
    assert len(one_N) == len(other_N), (len(one_N), len(other_N))
    if not len(one_N):
        return None
    one, other = one_N - one_N.mean(), other_N - other_N.mean()
    spread = float(one @ one) * float(other @ other)
    return max(-1.0, min(1.0, float(one @ other) / spread**0.5)) if spread else None
