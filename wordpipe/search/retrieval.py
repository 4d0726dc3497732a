"""Candidates for queries by vectors, by words, or by both, and what a document has of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from wordpipe.search.hits import Hits
from wordpipe.search.mixing import CANDIDATES, mix

__all__ = ["Again", "Dense", "Found", "Lexical", "Retriever", "folded"]

Dense = Callable[[Sequence[str], int], list[Hits]]
"""The k nearest rows of every text by its vector; none for a text without one."""
Lexical = Callable[[Sequence[str], int], list[Hits]]
"""The k best rows of every text by its words."""
Again = Callable[[Sequence[str], Sequence[Hits], int], list[Hits]]
"""The k nearest rows of every text, its vector moved towards its answers so far."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was found for one query.

    Attributes:
        hits: the answer.
        dense: the candidates by vectors, where they were asked for.
        lexical: those by words.
        first: the answers that the query's vector was moved towards before it asked for `dense`; None where it was not.
    """

    hits: Hits
    dense: Hits | None = None
    lexical: Hits | None = None
    first: Hits | None = None


@dataclass(frozen=True, slots=True)
class Retriever:
    """Asks in one of three ways.

    Attributes:
        mode: dense, lexical or hybrid.
        weight: share of the dense score in a hybrid one.
        dense: asks by vectors.
        lexical: asks by words.
        again: asks by vectors once more after a look at the first hybrid answers; None: does not. Where the weight leaves
            one side out, there is no second opinion to move towards, and nothing is asked again.
    """

    mode: Literal["dense", "lexical", "hybrid"]
    weight: float
    dense: Dense
    lexical: Lexical
    again: Again | None = None

    def find(self, texts: Sequence[str], k: int) -> list[Found]:
        """The k best rows of every text."""
        if self.mode == "dense":
            return [Found(hits, dense=hits) for hits in self.dense(texts, k)]
        if self.mode == "lexical":
            return [Found(hits, lexical=hits) for hits in self.lexical(texts, k)]
        depth = max(k, CANDIDATES)
        near, worded = self.dense(texts, depth), self.lexical(texts, depth)
        if self.again is None or not 0 < self.weight < 1:
            return [Found(hits, *both) for hits, *both in zip(self._mixed(near, worded, k), near, worded, strict=True)]
        first = self._mixed(near, worded, CANDIDATES)
        near = self.again(texts, first, depth)
        return [Found(*found) for found in zip(self._mixed(near, worded, k), near, worded, first, strict=True)]

    def _mixed(self, near: Sequence[Hits], worded: Sequence[Hits], k: int) -> list[Hits]:
        return [mix(one, other, self.weight, k) for one, other in zip(near, worded, strict=True)]

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
                found[number] = replace(answer, hits=best)
                if len(best) < k and len(answer.hits) >= depth and depth < len(documents_N):
                    more.append(number)
            waiting, depth = more, min(4 * depth, len(documents_N))
        return found


def folded(hits: Hits, documents_N: npt.NDArray[np.integer]) -> Hits:
    """The first hit of every document, in their order."""
    _, first = np.unique(documents_N[hits.rows], return_index=True)
    first.sort()
    return Hits(hits.rows[first], hits.scores[first])
