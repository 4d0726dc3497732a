"""Rows of unequal length in one flat array."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["offsets_of"]


def offsets_of(lengths: Sequence[int] | NDArray[np.int64] | NDArray[np.bool_]) -> NDArray[np.int64]:
    """int64 [rows + 1]: where rows of these lengths begin and end when they lie one after the other."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
