"""All-but-the-top: what all vectors have in common says nothing about any of them, and is taken away.

Source: Mu and Viswanath 2018, "All-but-the-Top: Simple and Effective Postprocessing for Word Representations", algorithm 1.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["CommonPart"]

_BLOCK = 65_536  # rows treated together


@dataclass(frozen=True, slots=True)
class CommonPart:
    """What vectors have in common.

    Attributes:
        mean: their mean, float32.
        directions: their principal components after it is taken away, orthonormal, the largest first, float32.
    """

    mean: npt.NDArray[np.float32]
    directions: npt.NDArray[np.float32]

    @classmethod
    def of(cls, vectors_VD: npt.NDArray[np.float32], components: int) -> "CommonPart":
        """The mean and the first `components` principal components, at most D of them."""
        dim = vectors_VD.shape[1]
        sum_D, squares_DD = np.zeros(dim), np.zeros((dim, dim))
        for first in range(0, len(vectors_VD), _BLOCK):
            some = vectors_VD[first : first + _BLOCK].astype(np.float64)
            sum_D += some.sum(axis=0)
            squares_DD += some.T @ some
        mean = sum_D / len(vectors_VD)
        covariance_DD = squares_DD / len(vectors_VD) - np.outer(mean, mean)
        _, directions_DD = np.linalg.eigh(covariance_DD)  # ascending
        largest_ND = directions_DD.T[::-1][: min(components, dim)]
        signs_N = np.sign(largest_ND[np.arange(len(largest_ND)), np.abs(largest_ND).argmax(axis=1)])
        return cls(mean.astype(np.float32), (largest_ND * signs_N[:, None]).astype(np.float32))

    def removed_from(self, vectors_VD: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The vectors without it, (V, D). Linear: the mean of some vectors loses the same as each of them."""
        left_VD = np.empty_like(vectors_VD)
        for first in range(0, len(vectors_VD), _BLOCK):
            some = vectors_VD[first : first + _BLOCK] - self.mean
            left_VD[first : first + _BLOCK] = some - (some @ self.directions.T) @ self.directions
        return left_VD
