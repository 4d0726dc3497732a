"""The vector of a word, as the judges look it up."""

import numpy as np
import numpy.typing as npt

from wordpipe.words.table import WordVectors

__all__ = ["row_of", "unit_vectors", "vector_of"]


def vector_of(table: WordVectors, word: str) -> npt.NDArray[np.float32] | None:
    """The vector of `word` as `WordVectors.vector_of` gives it, (D,); None for a word without vector or direction."""
    vector_D = table.vector_of(word)
    if vector_D is None:
        return None
    length = float(np.linalg.norm(vector_D))
    return vector_D if np.isfinite(length) and length > 0 else None


def row_of(table: WordVectors, word: str, among: int | None = None) -> int | None:
    """The row of `word`, or else of its lower-case form, if it is one of the first `among` rows and has a direction."""
    row = table.find(word)
    if row is None or row >= (len(table) if among is None else among):
        return None
    length = float(np.linalg.norm(table.vectors[row]))
    return row if np.isfinite(length) and length > 0 else None


def unit_vectors(vectors_ND: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """The vectors at length 1, float32, and which of them have a direction; the others become zero."""
    lengths_N = np.linalg.norm(vectors_ND, axis=1)
    valid_N = np.isfinite(lengths_N) & (lengths_N > 0)
    units_ND = np.zeros_like(vectors_ND)
    np.divide(vectors_ND, lengths_N[:, None], out=units_ND, where=valid_N[:, None])
    return units_ND, valid_N
