"""Two tables of word vectors brought into one space, and how far each word then is from itself.

Legend: N words, row i the same word in both tables; D numbers per vector.
"""

import numpy as np
import numpy.typing as npt

from wordpipe.metrics.vectors import unit_rows

__all__ = ["centred_rows", "distances", "rotation"]


def centred_rows(unit_ND: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Unit vectors less their mean, at length 1 again. (N, D) float32.

    All vectors of a table lean one way, and common words more than rare ones; without the mean, words of different count
    are told apart by what they mean.

    Source: Artetxe et al. 2016, "Learning principled bilingual mappings of word embeddings while preserving monolingual
    invariance", section 2.3.
    """
    return unit_rows(unit_ND - unit_ND.mean(axis=0))[0]


def rotation(from_ND: npt.NDArray[np.float32], to_ND: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The orthogonal matrix R, (D, D) float32, for which the squared differences of `from_ND @ R` and `to_ND` add up to least.

    It may mirror as well as turn.

    Source: Schönemann 1966, "A generalized solution of the orthogonal Procrustes problem"; for tables of two times Hamilton
    et al. 2016, "Diachronic Word Embeddings Reveal Statistical Laws of Semantic Change", section 2.2.
    """
    assert from_ND.shape == to_ND.shape, (from_ND.shape, to_ND.shape)
    left_DD, _, right_DD = np.linalg.svd(from_ND.T.astype(np.float64) @ to_ND.astype(np.float64))
    turn_DD: npt.NDArray[np.float32] = (left_DD @ right_DD).astype(np.float32)
    return turn_DD


def distances(a_ND: npt.NDArray[np.float32], b_ND: npt.NDArray[np.float32], anchors: int) -> npt.NDArray[np.float32]:
    """1 - cosine of every word with itself, once the first table is turned onto the second. (N,) float32, 0 to 2.

    Args:
        a_ND: unit vectors.
        b_ND: unit vectors of the same words, as many numbers each.
        anchors: the first rows, so many, decide how the table is turned.
    """
    turn_DD = rotation(a_ND[:anchors], b_ND[:anchors])
    cosines_N: npt.NDArray[np.float32] = np.einsum("nd,nd->n", a_ND @ turn_DD, b_ND)
    return np.clip(1 - cosines_N, 0, 2)
