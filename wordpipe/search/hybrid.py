"""Hybrid search: candidates by vectors and by words, fused by their scores; then both sides ask again with what was found.

The fusion is a convex one of normalised scores, with a weight that is found without labels (see `vector_share`). Reciprocal
ranks lost against it: on SciFact, BM25 at 67.9 and LSI at 57.7 gave 62.7 by ranks and 68.0 by scores (nDCG@10).

Relevance feedback takes the first fused hits for right. The query's vector is moved towards theirs, and searches again; their
weightiest terms are added to its words, by which the candidates alone are compared again: a search of all texts by 50 terms
would cost ten times as much and found nothing more.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise, starmap
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from wordpipe.metrics import unit_rows
from wordpipe.search.hits import Doublings, Hits, Mask, Rows, Vectors, weighed
from wordpipe.search.lexical.bm25 import LexicalIndex
from wordpipe.search.lexical.postings import QueryTerms, TextCounts
from wordpipe.search.loops import CANDIDATES
from wordpipe.search.vectors.knn import COMPILED_FROM

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_COMPARED = 10 * CANDIDATES  # hits by vectors alone that change places where scores are multiplied
FEEDBACK = 10
"""First hits that are looked at. On Cranfield, CISI, NPL and CACM hybrid search was above BM25 by 1.5 points of nDCG@10 with
none, and by 3.6 with five, ten or twenty (`benchmarks/retrieval.py`, which chooses by leave-one-out)."""

UNMEASURED = 0.5  # agreement of vectors and words where it cannot be measured: 0.14 to 0.64 was seen
_HALFWAY = 8
"""Words of a query at which the vectors have half of the share that they have in a long one."""

LEARNED_ELSEWHERE = 0.4
"""Share of the vectors of an encoder that brought its knowledge of language along (`encoders.learned_elsewhere`).

Agreement does not do it justice: it finds what the words do not, and agreed with them on a fifth of the hits only. With this
share hybrid search with all-MiniLM-L6-v2 found more on each of Cranfield, CISI, NPL and CACM, by 3.0 points of nDCG@10, and
the length of the question does not matter to it (`benchmarks/sides.py`, which chooses by leave-one-out).
"""
ELSEWHERE_UNMEASURED = 0.7
"""The same share where the texts are so few that nothing can be measured: rare words are then not known to be rare. On 48
subsets of 30 texts of these collections it found more than 0.4, by 2.2 points in the mean (the same script)."""

_LEAST = 1e-6  # of a length; what is shorter has no direction
SearchMode = Literal["dense", "lexical", "hybrid"]
T = TypeVar("T")


class HasVectors(Protocol):
    """N vectors by their rows."""

    def vectors(self, rows_R: Rows) -> Vectors:
        """Return the (R, D) unit vectors of R rows, ascending."""


class DenseIndex(HasVectors, Protocol):
    """N vectors that are searched: a `VectorIndex`, a `VectorTable` or a `VectorStream`."""

    def search(self, queries_QD: Vectors, k: int) -> list[Hits]:
        """Return the k nearest rows of every query; none of a query that is zero."""


def vector_share(agreement: float, words: float) -> float:
    """Return the dense score's share in a hybrid one: agreement · n / (n + 8) for a query of n words that stand in the texts.

    How far the two sides agree on what they find says, without labels, how far vectors can be trusted: on ten collections the
    share that was best for each followed it, from 0.1 where 4 of 10 hits are the same to 0.6 where 8 are. And the vector of a
    few words says little, while a long query holds many that matter less. All is left to the vectors where no word is known.

    Args:
        agreement: 0 to 1, see `pseudo_queries`.
        words: n.
    """
    return agreement * words / (words + _HALFWAY) if words else 1.0


def _depth(k: int) -> int:
    """Return for how many hits an index of vectors is searched where k are wanted: 100, or 200, or 400.

    An index that is not exact finds other hits for another number, and of equal vectors at the border any may come first:
    pages of one list are taken from one search.
    """
    depth = CANDIDATES
    while depth < k:
        depth *= 2
    return depth


@dataclass(frozen=True, slots=True)
class Feedback:
    """The move of a query's vector by relevance feedback: the new vector is kept · query + pull."""

    rows: Rows  # the hits that it was moved towards, the best first
    kept: np.float32  # how much of its own vector is in it; 1 where it was not moved
    pull: Vectors  # (D,) what the hits brought; zero where it was not moved


def with_feedback(
    queries_QD: Vectors, found: Sequence[Hits], dense: HasVectors, take: int = FEEDBACK
) -> tuple[Vectors, list[Feedback]]:
    """Return each query of a hybrid search plus the direction of its first hits, as long as the query.

    Nobody says which hits are right, so it helps where most of the first ones are: they are to come from a search that is
    good already, words and vectors together. The first counts most, so that it matters less how many are taken: a plain
    mean of ten lost what one of three had gained.

    Args:
        queries_QD: of length 1; one that is zero has no direction to start from, and stays so.
        found: the hits of each query, the best first; a query without any stays as it is.
        dense: has the vectors of their rows.
        take: how many hits of each are looked at.

    Returns:
        The new vectors, (Q, D) float32 of length 1, zero where the query is; and how each came about.

    Source: Rocchio 1971, "Relevance feedback in information retrieval", with both weights 1 and nothing to move away from.
    """
    takes = np.where(queries_QD.any(axis=1), take, 0).tolist()
    first = [hits.rows[:most] for most, hits in zip(takes, found, strict=True)]
    sums_QD = np.zeros_like(queries_QD)
    if len(rows := np.unique(np.concatenate([np.zeros(0, np.int64), *first]))):
        vectors_RD = dense.vectors(rows)
        for number, own in enumerate(first):
            # one product per query: the same bits alone and among others
            shares = 1 / np.arange(1, len(own) + 1, dtype=np.float32)
            sums_QD[number] = shares @ vectors_RD[np.searchsorted(rows, own)]
    units_QD = unit_rows(sums_QD, least=_LEAST)[0]
    norms_Q1 = np.linalg.norm(queries_QD + units_QD, axis=1, keepdims=True)
    opposite_Q1 = norms_Q1 < _LEAST  # nowhere to go between a query and its contrary
    kept_Q1 = np.where(opposite_Q1, 1, 1 / np.where(opposite_Q1 | ~units_QD.any(axis=1, keepdims=True), 1, norms_Q1))
    pulls_QD = np.where(opposite_Q1, 0, units_QD * kept_Q1)
    moves = zip(first, kept_Q1[:, 0].astype(np.float32), pulls_QD.astype(np.float32), strict=True)
    return queries_QD * kept_Q1 + pulls_QD, [Feedback(*move) for move in moves]


@dataclass(frozen=True, slots=True)
class Result:
    """The hits of one query, and how each side of the search took part."""

    hits: Hits  # the best
    dense: Hits | None = None  # the candidates by vectors, where these were searched
    lexical: Hits | None = None  # those by words
    weight: float | None = None  # share of the dense score in a hybrid one
    feedback: Feedback | None = None  # how the query's vector was moved before it found `dense`; None where it was not
    terms: QueryTerms | None = None  # the words that `lexical` was compared by, those of feedback among them


@cache
def _beside() -> "ThreadPoolExecutor":
    """Return the threads that search by vectors beside a search by words."""
    from concurrent.futures import ThreadPoolExecutor  # which loads logging

    return ThreadPoolExecutor(thread_name_prefix="wordpipe-vectors")


os.register_at_fork(after_in_child=_beside.cache_clear)  # threads stay with the process that began them


@dataclass(frozen=True)
class Retriever:
    """Search of an index by vectors, by words, or by both.

    Where the weight leaves one side out, there is no second opinion to move towards: there is no feedback then. By words alone
    the first hits of the words are asked with, where that is wanted.
    """

    dense: DenseIndex | None  # None: by words alone
    lexical: LexicalIndex | None  # None: by vectors alone
    agreement: float = 1.0  # of the two: see `vector_share`
    weight: float | None = None  # share of the dense score in every hybrid one; None: found for each query
    feedback: int = FEEDBACK  # first hits with which both sides, or the words alone, ask again; 0: they do not
    allowed: Mask | None = None  # (N,) the rows that words may find; None: all
    prefixes: tuple[str, ...] = ()  # beginnings of words that each query contains, too
    doublings: Doublings | None = None  # (N,) see `weighed`; None: scores are as they are

    def find(self, texts: Sequence[str], queries_QD: Vectors | None, k: int) -> list[Result]:
        """Return the k best rows of every query by hybrid, dense or lexical search.

        Where scores are multiplied, by words alone all rows that are found are compared; by vectors the first 1,000; and after
        fusion or feedback all candidates, as what comes after these has score 0.

        Args:
            texts: the queries.
            queries_QD: their unit vectors, zero where a text has none; None by words alone.
            k: hits wanted.
        """
        if self.doublings is None:
            return self._found(texts, queries_QD, k)
        first = _COMPARED if self.lexical is None else 2 * CANDIDATES
        if (self.dense is None or queries_QD is None) and not self.feedback:
            first = len(self.doublings)
        found = self._found(texts, queries_QD, max(k, first))
        return [replace(one, hits=weighed(one.hits, self.doublings, first).first(k)) for one in found]

    def _found(self, texts: Sequence[str], queries_QD: Vectors | None, k: int) -> list[Result]:
        """Return the k best rows of every query by their own scores."""
        if self.dense is None or queries_QD is None:
            assert self.lexical is not None
            words = [self.lexical.read(text, self.prefixes) for text in texts]
            if not self.feedback:
                return [Result(hits, lexical=hits) for hits in self.worded(words, k)]
            found = self.asked_twice(words, self.worded(words, max(k, CANDIDATES)))
            shown = [replace(one, hits=Hits(one.hits.rows, one.hits.scores.clip(min=0)).first(k)) for one in found]
            return [replace(one, lexical=one.hits) for one in shown]
        if self.lexical is None:
            return [Result(hits.first(k), dense=hits.first(k)) for hits in self.dense.search(queries_QD, _depth(k))]
        depth = _depth(k)
        near = cache(self._begun(lambda: self.near(queries_QD, depth)))
        words = [self.lexical.read(text, self.prefixes) for text in texts]
        # of many rows the vectors of the earlier half are searched for again while the words of the later half are
        half, ends = len(texts) // 2 if self._is_large else 0, []
        for part in starmap(slice, pairwise(sorted({0, half, len(texts)}))):
            worded = self.worded(words[part], depth)
            ends.append(self._asking_again(words[part], queries_QD[part], near()[part], worded, k))
        return [result for end in ends for result in end()]

    def mixed(
        self, words: Sequence[QueryTerms], queries_QD: Vectors, near: Sequence[Hits], worded: Sequence[Hits], k: int
    ) -> list[Result]:
        """Return the k best of what a hybrid search found by vectors and by words, after feedback."""
        return self._asking_again(words, queries_QD, near, worded, k)()

    def _asking_again(
        self, words: Sequence[QueryTerms], queries_QD: Vectors, near: Sequence[Hits], worded: Sequence[Hits], k: int
    ) -> Callable[[], list[Result]]:
        """Begin to search by vectors with what a hybrid search found; return a function that gives what `mixed` returns."""
        lexical = self.lexical
        assert lexical is not None
        depth, fuse = _depth(k), lexical.loops.fuse
        weights = [self.share(one.length) if self.weight is None else self.weight for one in words]
        found = list(zip(near, worded, weights, strict=True))
        asked_again = [number for number, weight in enumerate(weights) if self.feedback and 0 < weight < 1]
        looked_at = [fuse(*found[number], self.feedback) for number in asked_again]
        moved_AD, feedback = with_feedback(queries_QD[asked_again], looked_at, self, self.feedback)
        if not asked_again:
            return lambda: [Result(fuse(*one, k), *one) for one in found]
        nearer = self._begun(lambda: self.near(moved_AD, depth, asked_again))

        def ended() -> list[Result]:
            added = [
                lexical.expanded(words[number], self.texts_of(first.rows))
                for number, first in zip(asked_again, looked_at, strict=True)
            ]
            again = {}
            for number, one, hits, terms in zip(asked_again, feedback, nearer(), added, strict=True):
                compared = self.compared(number, terms, [near[number], hits], worded[number])
                fused = fuse(hits, compared, weights[number], k)
                again[number] = Result(fused, hits, compared, weights[number], one, terms)
            return [again.get(number) or Result(fuse(*one, k), *one) for number, one in enumerate(found)]

        return ended

    def asked_twice(self, words: Sequence[QueryTerms], worded: Sequence[Hits]) -> list[Result]:
        """Compare again what the words of a hybrid search found, with the weightiest terms of the first hits.

        It is the feedback of `mixed` without a vector, and so what hybrid search has to beat for its vectors to be worth
        anything. Hits after the first candidates keep their order, with scores below 0.
        """
        assert self.lexical is not None
        found = []
        for number, (own, hits) in enumerate(zip(words, worded, strict=True)):
            terms = self.lexical.expanded(own, self.texts_of(hits.rows[: self.feedback]))
            found.append(Result(self.compared(number, terms, [], hits), terms=terms))
        return found

    def share(self, words: float) -> float:
        """Return the share of the dense score for a query of so many known words, where none is given for all."""
        return vector_share(self.agreement, words)

    @property
    def _is_large(self) -> bool:
        """True if a search takes so long that both sides are to be searched at the same time."""
        return self.lexical is not None and len(self.lexical) >= COMPILED_FROM

    def _begun(self, work: Callable[[], T]) -> Callable[[], T]:
        """Begin a search by vectors; return a function that waits for its end and returns its result, or raises its error.

        Of many rows it works in another thread, as it needs the interpreter for little of its time.
        """
        if not self._is_large:
            return work
        try:
            return _beside().submit(work).result
        except RuntimeError:  # the system has no more threads, or the program ends
            return work

    def near(self, queries_QD: Vectors, k: int, numbers: Sequence[int] | None = None) -> list[Hits]:
        """Return the k nearest rows of queries; `numbers` are theirs among all, None: they are all."""
        del numbers
        assert self.dense is not None
        return self.dense.search(queries_QD, k)

    def worded(self, words: Sequence[QueryTerms], k: int) -> list[Hits]:
        """Return the k best rows of all queries by their words."""
        assert self.lexical is not None
        return self.lexical.best(words, k, self.allowed)

    def vectors(self, rows_R: Rows) -> Vectors:
        """Return the vectors of some rows, ascending."""
        assert self.dense is not None
        return self.dense.vectors(rows_R)

    def texts_of(self, rows_R: Rows) -> TextCounts:
        """Return the terms of some rows."""
        assert self.lexical is not None
        return self.lexical.texts(rows_R)

    def scores(self, number: int, terms: QueryTerms, rows_R: Rows) -> Vectors:
        """Return the scores of some rows by the words of a query."""
        del number
        assert self.lexical is not None
        return self.lexical.score_rows(terms, rows_R)

    def compared(self, number: int, terms: QueryTerms, near: Sequence[Hits], worded: Hits) -> Hits:
        """Return the first candidates of all sides of a hybrid search by these terms, then the others."""
        assert self.lexical is not None
        loops = self.lexical.loops
        rows = loops.distinct(np.concatenate([hits.rows[:CANDIDATES] for hits in (*near, worded)]))
        best: Hits = loops.best_of(rows, self.scores(number, terms, rows), len(rows))
        best = best.first(int(np.count_nonzero(best.scores > 0)))
        others = worded.rows[CANDIDATES:]
        if not len(others):
            return best
        others = others[~np.isin(others, rows)]
        scores = np.concatenate([best.scores, -np.arange(1, len(others) + 1, dtype=np.float32)])
        return Hits(np.concatenate([best.rows, others]), scores)

    def find_documents(
        self, texts: Sequence[str], queries_QD: Vectors | None, k: int, documents_N: npt.NDArray[np.integer]
    ) -> list[Result]:
        """Return the k best documents of every query of a hybrid search, each by its best row.

        Given is the number of every row's document.
        """
        found = [Result(Hits.none())] * len(texts)
        waiting, depth = list(range(len(texts))), 4 * k
        while waiting:
            vectors = None if queries_QD is None else queries_QD[waiting]
            results = self.find([texts[number] for number in waiting], vectors, depth)
            more = []
            for number, result in zip(waiting, results, strict=True):
                own = result.hits.one_of_each(documents_N).first(k)
                found[number] = replace(result, hits=own)
                if len(own) < k and len(result.hits) >= depth and depth < len(documents_N):
                    more.append(number)
            waiting, depth = more, min(4 * depth, len(documents_N))
        return found
