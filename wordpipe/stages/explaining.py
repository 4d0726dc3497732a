"""Which words of a query and a text carried the score.

A vector that is a sum over words makes the cosine a sum over pairs of words: (Σ q) · (Σ t) = ΣΣ q · t. BM25 is a sum over
terms as it is, and a hybrid score adds the two, each moved and stretched. Of a query that was moved towards its first answers
the cosine is what is left of that sum, and what the answers brought.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wordpipe.search.hits import Hits
from wordpipe.search.hybrid import Found, Moved, Retriever, span, stretched
from wordpipe.sentences.encoder import TextParts

if TYPE_CHECKING:
    from wordpipe.stages.open_index import EncodedTexts, OpenIndex

__all__ = ["Explainer", "explained_cosine"]

_PAIRS = 20  # that are told one by one; the others as one sum


class Explainer:
    """Takes the scores of one retriever apart.

    Args:
        index: what was asked.
        retriever: how.
        asked: the texts that asked.
    """

    def __init__(self, index: "OpenIndex", retriever: Retriever, asked: "EncodedTexts") -> None:
        self._index, self._retriever, self._asked = index, retriever, asked
        self._parts_of_query = lru_cache(maxsize=1)(index.encoder.parts) if retriever.mode != "lexical" else None
        self._moved_last: tuple[Hits, Moved] | None = None

    def __call__(self, query: str, row: int, text: str, found: Found) -> dict[str, Any]:
        """What made the score of a row.

        Returns:
            dense: the cosine, a sum over `pairs`, `others` and, where the query was moved, the score of `answers`, whose rows
            are those that it was moved towards; and, by word of each side, `query` and `text`. lexical: the BM25 score, a sum
            over `terms`. In a hybrid answer each has a `share`: the two add up to the score.
        """
        told: dict[str, Any] = {"mode": self._retriever.mode}
        for name, hits, weight in (
            ("dense", found.dense, self._retriever.weight),
            ("lexical", found.lexical, 1 - self._retriever.weight),
        ):
            if hits is None or not (at := np.flatnonzero(hits.rows == row)).size:
                continue
            told[name] = self._dense(query, text, found.first) if name == "dense" else self._lexical(query, row)
            if self._retriever.mode == "hybrid":
                told[name] |= _share(hits, int(at[0]), weight)
        return told

    def _dense(self, query: str, text: str, first: Hits | None) -> dict[str, Any]:
        assert self._parts_of_query is not None
        parts_q, parts_t = self._parts_of_query(query), self._index.encoder.parts(text)
        if first is None:
            return explained_cosine(query, parts_q, text, parts_t)
        moved = self._moved(query, first)
        left = TextParts(parts_q.spans, parts_q.vectors * moved.kept[0])
        told = explained_cosine(query, left, text, parts_t, moved.pulls[0])
        return told | {"answers": told["answers"] | {"rows": first.rows[: self._asked.take].tolist()}}

    def _moved(self, query: str, first: Hits) -> Moved:
        """The query after a look at its first answers, whose vectors are read once for all of its hits."""
        if self._moved_last is None or self._moved_last[0] is not first:
            self._moved_last = first, self._asked.moved([query], [first])
        return self._moved_last[1]

    def _lexical(self, query: str, row: int) -> dict[str, Any]:
        terms = self._index.lexical.explain(query, row)
        return {
            "score": sum(term.score for term in terms),
            "terms": [
                {"stem": term.stem, "score": term.score, "count": term.count, "texts": term.texts} for term in terms
            ],
        }


def explained_cosine(
    query: str, parts_q: TextParts, text: str, parts_t: TextParts, pull_D: npt.NDArray[np.float32] | None = None
) -> dict[str, Any]:
    """A cosine as a sum over pairs of words, and what a text has of the direction that a query was pulled in.

    Returns:
        score; pairs: the largest, by size; others: the sum of the rest; query, text: every word with what it brought; answers:
        the pull's score, where there was one.
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
    pulled_T = np.zeros(len(words_t)) if pull_D is None else shares_TD.astype(np.float64) @ pull_D
    paired = float(flat.sum())
    told = {
        "score": paired + float(pulled_T.sum()),
        "pairs": pairs,
        "others": paired - sum(float(flat[at]) for at in largest.tolist()),
        "query": _by_word(words_q, pairs_QT.sum(axis=1)),
        "text": _by_word(words_t, pairs_QT.sum(axis=0) + pulled_T),
    }
    return told if pull_D is None else told | {"answers": {"score": float(pulled_T.sum())}}


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
