"""How crowded unit vectors are, told while they stream by: near 1, all texts look alike and no score says anything."""

import numpy as np
import numpy.typing as npt

from wordpipe.sentences.transforms import MIN_TEXTS

__all__ = ["CROWDED", "Crowding"]

CROWDED = (
    0.6  # of the mean cosine: said unasked. `doctor` calls 0.3 sick; 20,000 words of text have 0.5 and answer well
)


class Crowding:
    """The mean cosine of all pairs of vectors that stream by: (|sum|² - N) / (N (N - 1)), of which no pair is formed.

    Args:
        dim: numbers of a vector, D.

    Source: Ethayarajh 2019, "How Contextual are Contextualized Word Representations?", section 4.1 (there by sampling).
    """

    def __init__(self, dim: int) -> None:
        self._count = 0
        self._sum_D = np.zeros(dim)

    def add(self, unit_ND: npt.NDArray[np.float32]) -> None:
        """Take vectors (N, D) of length 1 into account."""
        self._count += len(unit_ND)
        self._sum_D += unit_ND.sum(axis=0, dtype=np.float64)

    @property
    def mean_cosine(self) -> float | None:
        """-1 to 1; None for fewer than 16 vectors, of which it says little."""
        if self._count < MIN_TEXTS:
            return None
        return (float(self._sum_D @ self._sum_D) - self._count) / (self._count * (self._count - 1))
