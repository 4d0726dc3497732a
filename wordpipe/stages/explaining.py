"""Which words of a query and a text carried the score.

A vector that is a sum over words makes the cosine a sum over pairs of words: (Σ q) · (Σ t) = ΣΣ q · t. BM25 is a sum over
terms as it is, and a hybrid score adds the two, each moved and stretched.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wordpipe.search.hits import Hits
from wordpipe.search.mixing import span, stretched
from wordpipe.search.retrieval import Found, Retriever
from wordpipe.sentences.encoder import TextParts

if TYPE_CHECKING:
    from wordpipe.stages.open_index import OpenIndex

__all__ = ["Explainer", "explained_cosine"]

_PAIRS = 20  # that are told one by one; the others as one sum


class Explainer:
    """Takes the scores of one retriever apart.

    Args:
        index: what was asked.
        retriever: how.
    """

    def __init__(self, index: "OpenIndex", retriever: Retriever) -> None:
        self._index, self._retriever = index, retriever
        self._parts_of_query = lru_cache(maxsize=1)(index.encoder.parts) if retriever.mode != "lexical" else None

    def __call__(self, query: str, row: int, text: str, found: Found) -> dict[str, Any]:
        """What made the score of a row.

        Returns:
            dense: the cosine, a sum over `pairs` and `others`; and, by word of each side, `query` and `text`. lexical: the
            BM25 score, a sum over `terms`. In a hybrid answer each has a `share`: the two add up to the score.
        """
        told: dict[str, Any] = {"mode": self._retriever.mode}
        for name, hits, weight in (
            ("dense", found.dense, self._retriever.weight),
            ("lexical", found.lexical, 1 - self._retriever.weight),
        ):
            if hits is None or not (at := np.flatnonzero(hits.rows == row)).size:
                continue
            told[name] = self._dense(query, text) if name == "dense" else self._lexical(query, row)
            if self._retriever.mode == "hybrid":
                told[name] |= _share(hits, int(at[0]), weight)
        return told

    def _dense(self, query: str, text: str) -> dict[str, Any]:
        assert self._parts_of_query is not None
        return explained_cosine(query, self._parts_of_query(query), text, self._index.encoder.parts(text))

    def _lexical(self, query: str, row: int) -> dict[str, Any]:
        terms = self._index.lexical.explain(query, row)
        return {
            "score": sum(term.score for term in terms),
            "terms": [
                {"stem": term.stem, "score": term.score, "count": term.count, "texts": term.texts} for term in terms
            ],
        }


def explained_cosine(query: str, parts_q: TextParts, text: str, parts_t: TextParts) -> dict[str, Any]:
    """A cosine as a sum over pairs of words.

    Returns:
        score; pairs: the largest, by size; others: the sum of the rest; query, text: every word with what it brought.
    """
    words_q, shares_QD = _words(query, parts_q)
    words_t, shares_TD = _words(text, parts_t)
    pairs_QT = shares_QD.astype(np.float64) @ shares_TD.astype(np.float64).T
    flat = pairs_QT.ravel()
    largest = np.argsort(-np.abs(flat), kind="stable")[:_PAIRS]
    pairs = []
    for at in largest.tolist():
        one, other = divmod(at, len(words_t))
        pairs.append({"query": words_q[one], "text": words_t[other], "score": float(flat[at])})
    score = float(flat.sum())
    return {
        "score": score,
        "pairs": pairs,
        "others": score - sum(float(flat[at]) for at in largest.tolist()),
        "query": _by_word(words_q, pairs_QT.sum(axis=1)),
        "text": _by_word(words_t, pairs_QT.sum(axis=0)),
    }


def _words(text: str, parts: TextParts) -> tuple[list[str], npt.NDArray[np.float32]]:
    """Pieces that touch are one word: its spelling and the sum of their shares; special tokens are one, without letters."""
    group_P = np.zeros(len(parts.spans), dtype=np.int64)
    words: list[str] = []
    last = -1
    for number, (start, stop) in enumerate(parts.spans):
        letters = text[start:stop]
        if words and start == last and letters.isalnum() and words[-1][-1:].isalnum() and len(letters) < len(text):
            words[-1] += letters
        else:
            words.append(letters)
        group_P[number], last = len(words) - 1, stop
    shares = np.zeros((len(words), parts.vectors.shape[1]), dtype=np.float32)
    np.add.at(shares, group_P, parts.vectors)
    return words, shares


def _by_word(words: list[str], scores: npt.NDArray[np.float64]) -> list[dict[str, Any]]:
    return [{"word": word, "score": score} for word, score in zip(words, scores.tolist(), strict=True)]


def _share(hits: Hits, at: int, weight: float) -> dict[str, Any]:
    """What one side adds to a hybrid score: weight · (score - low) / (high - low)."""
    low, high = span(hits)
    return {
        "weight": weight,
        "low": low,
        "high": high,
        "share": weight * float(stretched(hits)[at]),
    }
