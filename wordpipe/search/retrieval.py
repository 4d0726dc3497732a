"""Candidates for queries by vectors, by words, or by both, and what a document has of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from wordpipe.search.hits import Hits
from wordpipe.search.mixing import CANDIDATES, mix

__all__ = ["Found", "Retriever", "folded"]

Dense = Callable[[Sequence[str], int], list[Hits]]
"""The k nearest rows of every text by its vector; none for a text without one."""
Lexical = Callable[[Sequence[str], int], list[Hits]]
"""The k best rows of every text by its words."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was found for one query.

    Attributes:
        hits: the answer.
        dense: the candidates by vectors, where they were asked for.
        lexical: those by words.
    """

    hits: Hits
    dense: Hits | None = None
    lexical: Hits | None = None


@dataclass(frozen=True, slots=True)
class Retriever:
    """Asks in one of three ways.

    Attributes:
        mode: dense, lexical or hybrid.
        weight: share of the dense score in a hybrid one.
        dense: asks by vectors.
        lexical: asks by words.
    """

    mode: Literal["dense", "lexical", "hybrid"]
    weight: float
    dense: Dense
    lexical: Lexical

    def find(self, texts: Sequence[str], k: int) -> list[Found]:
        """The k best rows of every text."""
        if self.mode == "dense":
            return [Found(hits, dense=hits) for hits in self.dense(texts, k)]
        if self.mode == "lexical":
            return [Found(hits, lexical=hits) for hits in self.lexical(texts, k)]
        depth = max(k, CANDIDATES)
        both = zip(self.dense(texts, depth), self.lexical(texts, depth), strict=True)
        return [Found(mix(near, worded, self.weight, k), near, worded) for near, worded in both]

    def find_documents(self, texts: Sequence[str], k: int, documents_N: npt.NDArray[np.integer]) -> list[Found]:
        """The k best documents of every text, each by its best row.

        Args:
            texts: the queries.
            k: documents wanted.
            documents_N: the number of every row's document.
        """
        found: list[Found] = [Found(Hits.none())] * len(texts)
        waiting, depth = list(range(len(texts))), 4 * k
        while waiting:
            answers = self.find([texts[number] for number in waiting], depth)
            more = []
            for number, answer in zip(waiting, answers, strict=True):
                best = folded(answer.hits, documents_N).first(k)
                found[number] = Found(best, answer.dense, answer.lexical)
                if len(best) < k and len(answer.hits) >= depth and depth < len(documents_N):
                    more.append(number)
            waiting, depth = more, min(4 * depth, len(documents_N))
        return found


def folded(hits: Hits, documents_N: npt.NDArray[np.integer]) -> Hits:
    """The first hit of every document, in their order."""
    _, first = np.unique(documents_N[hits.rows], return_index=True)
    first.sort()
    return Hits(hits.rows[first], hits.scores[first])
