"""Which words of a query and a text carried the score.

A cosine is a sum over pairs of words (see sentences/explain.py), BM25 a sum over terms, and a hybrid score adds the two, each
moved and stretched. Of a query that was moved towards its first answers the cosine is what is left of that sum, and what the
answers brought.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from wordpipe.search import Found, Hits, Moved, Retriever, span, stretched
from wordpipe.sentences import TextParts, explained_cosine

if TYPE_CHECKING:
    from wordpipe.stages.search.open_index import EncodedTexts, OpenIndex


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
        dense = self._retriever.weight
        for name, hits, weight in (("dense", found.dense, dense), ("lexical", found.lexical, 1 - dense)):
            if hits is None or not (at := np.flatnonzero(hits.rows == row)).size:
                continue
            told[name] = self._dense(query, text, found.first) if name == "dense" else self._lexical(query, row)
            if self._retriever.mode == "hybrid":  # which adds weight · (score - low) / (high - low)
                low, high = span(hits)
                share = weight * float(stretched(hits)[at[0]])
                told[name] |= {"weight": weight, "low": low, "high": high, "share": share}
        return told

    def _dense(self, query: str, text: str, first: Hits | None) -> dict[str, Any]:
        assert self._parts_of_query is not None
        parts_q, parts_t = self._parts_of_query(query), self._index.encoder.parts(text)
        if first is None:
            return explained_cosine(query, parts_q, text, parts_t)
        if (
            self._moved_last is None or self._moved_last[0] is not first
        ):  # its vectors are read once for all of its hits
            self._moved_last = first, self._asked.moved([query], [first])
        moved = self._moved_last[1]
        left = TextParts(parts_q.spans, parts_q.vectors * moved.kept[0])
        told = explained_cosine(query, left, text, parts_t, moved.pulls[0])
        return told | {"answers": told["answers"] | {"rows": first.rows[: self._asked.take].tolist()}}

    def _lexical(self, query: str, row: int) -> dict[str, Any]:
        terms, names = self._index.lexical.explain(query, row), ("stem", "score", "count", "texts")
        told = [{name: getattr(term, name) for name in names} for term in terms]
        return {"score": sum(term.score for term in terms), "terms": told}
