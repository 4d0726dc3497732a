"""Word similarity: whether cosines order pairs of words as people do."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from wordpipe.metrics.statistics import spearman
from wordpipe.words.judge.lookup import vector_of
from wordpipe.words.judge.sets import Pairs
from wordpipe.words.table import WordVectors

__all__ = ["Similarity", "judge_similarity"]


@dataclass(frozen=True, slots=True)
class Similarity:
    """How well a table did on a set of pairs.

    Attributes:
        spearman: of the cosines and the scores, -1 to 1; None where it is not defined.
        pairs: pairs in the set.
        known: those of which both words have a vector.
        unknown_words: the words that have none, in the order of the set.
        guessed_words: those whose vector is put together from their n-grams, as they are not in the table.
    """

    spearman: float | None
    pairs: int
    known: int
    unknown_words: list[str]
    guessed_words: list[str]


def judge_similarity(table: WordVectors, pairs: Pairs, *, unknown: Literal["drop", "zero"] = "drop") -> Similarity:
    """Compare the cosines of a table with the scores of people.

    Args:
        table: the word vectors.
        pairs: the set.
        unknown: what becomes of pairs with a word that has no vector: left out, or given the cosine 0.

    Source: Finkelstein et al. 2002, "Placing Search in Context"; for the treatment of unknown words, gensim's
    `evaluate_word_pairs` and its `dummy4unknown`.
    """
    vectors = {word: vector_of(table, word) for pair in pairs.words for word in pair}
    found = [(vectors[one], vectors[other]) for one, other in pairs.words]
    known_P = np.array([one is not None and other is not None for one, other in found])
    cosines_P = np.array([0.0 if one is None or other is None else _cosine(one, other) for one, other in found])
    counted_P = known_P | (unknown == "zero")
    return Similarity(
        spearman(cosines_P[counted_P], pairs.scores[counted_P]),
        len(found),
        int(known_P.sum()),
        [word for word, vector in vectors.items() if vector is None],
        [word for word, vector in vectors.items() if vector is not None and table.find(word) is None],
    )


def _cosine(one_D: npt.NDArray[np.float32], other_D: npt.NDArray[np.float32]) -> float:
    """In double precision, and rounded to less, so that pairs that are equally near are equal whatever their lengths."""
    one, other = one_D.astype(np.float64), other_D.astype(np.float64)
    return round(float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other))), 12)
