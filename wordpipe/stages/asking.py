"""Texts that were encoded together, and the ways in which they can be asked of an index."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from wordpipe.search.feedback import FEEDBACK, Moved, towards_answers
from wordpipe.search.hits import Hits
from wordpipe.search.retrieval import Retriever
from wordpipe.sentences.encoder import EncodedBatch
from wordpipe.stages.routes import Way

if TYPE_CHECKING:
    from wordpipe.stages.open_index import OpenIndex

__all__ = ["EncodedTexts"]


class EncodedTexts:
    """Q texts that ask an index.

    Args:
        index: what is asked.
        texts: equal ones have equal vectors.
        batch: their vectors; None where they are asked by words alone.
        allowed: (N,) the rows that may be found; None: all.
        take: first answers that a hybrid search looks at before it asks again; 0: it does not; None: as usual.
    """

    def __init__(
        self,
        index: "OpenIndex",
        texts: Sequence[str],
        batch: EncodedBatch | None,
        allowed: npt.NDArray[np.bool_] | None,
        take: int | None = None,
    ) -> None:
        self._index, self._batch, self._allowed = index, batch, allowed
        self.take = FEEDBACK if take is None else take
        self._number_of = {text: number for number, text in enumerate(texts)}

    def retriever(self, way: Way, weight: float) -> Retriever:
        """One way of asking; of both, the vectors have this share."""
        return Retriever(way, weight, self.dense, self.lexical, self.again if self.take else None)

    def dense(self, texts: Sequence[str], k: int) -> list[Hits]:
        """The k nearest rows of each; none for a text without a vector."""
        return self._nearest(self._vectors(texts), k)

    def lexical(self, texts: Sequence[str], k: int) -> list[Hits]:
        """The k best rows of each by its words."""
        return self._index.lexical.search(texts, k, self._allowed)

    def again(self, texts: Sequence[str], first: Sequence[Hits], k: int) -> list[Hits]:
        """The k nearest rows of each, moved towards its first answers."""
        return self._nearest(self.moved(texts, first).vectors, k)

    def moved(self, texts: Sequence[str], first: Sequence[Hits]) -> Moved:
        """The vectors of texts after a look at their first answers."""
        return towards_answers(self._vectors(texts), first, self._index.answer_vectors, self.take)

    def _vectors(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Of texts that were encoded; zero where one has none."""
        assert self._batch is not None
        numbers = [self._number_of[text] for text in texts]
        return np.where(self._batch.empty[numbers, None], 0, self._batch.vectors[numbers])

    def _nearest(self, vectors_QD: npt.NDArray[np.float32], k: int) -> list[Hits]:
        from wordpipe.search.query import search

        there = np.flatnonzero(vectors_QD.any(axis=1))
        found = [Hits.none()] * len(vectors_QD)
        answers = search(self._index.index, vectors_QD[there], k, self._allowed, vectors=self._index.vectors_of)
        for number, hits in zip(there.tolist(), answers, strict=True):
            found[number] = hits
        return found
