"""The vector of a word, as the judges look it up."""

import numpy as np
import numpy.typing as npt

from wordpipe.metrics.vectors import has_direction
from wordpipe.words.table import WordVectors

__all__ = ["row_of", "vector_of"]


def vector_of(table: WordVectors, word: str) -> npt.NDArray[np.float32] | None:
    """The vector of `word` as `WordVectors.vector_of` gives it, (D,); None for a word without vector or direction."""
    vector_D = table.vector_of(word)
    return vector_D if vector_D is not None and has_direction(vector_D) else None


def row_of(table: WordVectors, word: str, among: int | None = None) -> int | None:
    """The row of `word`, or else of its lower-case form, if it is one of the first `among` rows and has a direction."""
    row = table.find(word)
    if row is None or row >= (len(table) if among is None else among):
        return None
    return row if has_direction(table.vectors[row]) else None
