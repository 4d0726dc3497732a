"""Hybrid search: candidates by vectors and by words, mixed by their scores, and asked once more after a look at the first.

The mix is a convex one of normalised scores, with a weight that is found without labels (see `hybrid_weight`). Reciprocal
ranks lost against it: on SciFact, BM25 at 67.9 and LSI at 57.7 gave 62.7 by ranks and 68.0 by scores (nDCG@10).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from wordpipe.metrics import unit_rows
from wordpipe.search.hits import Hits, best_of

CANDIDATES = 200  # of each side that are mixed; between 50 and 1,000 nDCG@10 moved by 0.5 at most on four collections
FEEDBACK = 3
"""First answers that are looked at. On Cranfield, CISI, NPL and CACM, vectors with half of the score, hybrid search was
above BM25 by 0.8 points of nDCG@10 with none, 2.2 with one, 2.3 with three, 2.1 with five; with 0.4 by 1.1, 1.8, 2.1, 2.1."""

_LEAST = 1e-6  # of a length; what is shorter has no direction
Floats = npt.NDArray[np.float32]
VectorsOf = Callable[[npt.NDArray[np.int64]], Floats]
"""Gives the (R, D) unit vectors of R rows, ascending."""
Way = Literal["dense", "lexical", "hybrid"]


def span(hits: Hits, candidates: int = CANDIDATES) -> tuple[float, float]:
    """The lowest and the highest score of the first `candidates`, of one at least."""
    return float(hits.scores[:candidates].min()), float(hits.scores[:candidates].max())


def stretched(hits: Hits, candidates: int = CANDIDATES) -> npt.NDArray[np.float32]:
    """The scores stretched over 0 to 1, (K,); all 1 where they are equal.

    What comes after the first `candidates` has 0: were the line drawn through all, a hit's score would depend on how many
    were asked for.
    """
    if not len(hits):
        return hits.scores
    low, high = (np.float32(end) for end in span(hits, candidates))
    if high > low:
        return ((hits.scores - low) / (high - low)).clip(min=0)
    return (hits.scores >= low).astype(np.float32)


def mix(dense: Hits, lexical: Hits, weight: float, k: int, *, candidates: int = CANDIDATES) -> Hits:
    """The k best by weight · dense + (1 - weight) · lexical, each stretched over 0 to 1; what one did not find has 0 of it.

    More hits to mix, and a larger k, make the answer longer and leave the order and the scores as they are.

    Args:
        dense: candidates by their vectors.
        lexical: candidates by their words.
        weight: share of the dense score; at 0 and 1 the other's candidates are left out.
        k: answers wanted.
        candidates: the first so many of each side are stretched.

    Returns:
        Scores from 0 to 1; those of 0 in the order of their better rank, all others that are equal in the order of rows.
    """
    shares = [(dense, weight), (lexical, 1 - weight)]
    shares = [(hits, share) for hits, share in shares if share > 0]
    rows, at = np.unique(np.concatenate([hits.rows for hits, _ in shares]), return_inverse=True)
    parts = np.concatenate([share * stretched(hits, candidates) for hits, share in shares])
    scores = np.bincount(at, weights=parts, minlength=len(rows)).astype(np.float32)
    best = best_of(rows, scores, k)
    if not len(best) or best.scores[-1] > 0:
        return best
    ranks = np.full(len(rows), len(at))
    np.minimum.at(ranks, at, np.concatenate([np.arange(len(hits)) for hits, _ in shares]))
    order = np.lexsort((rows, np.where(scores > 0, 0, ranks), -scores))[:k]
    return Hits(rows[order], scores[order])


def weight_by_merit(dense: float, lexical: float) -> float:
    """The share of the dense score when each side counts as the square of how well it finds alone; 0.5 where neither does.

    Trying all shares on queries made of the documents was too timid: such queries share words with their documents, and
    asked for 0.05 to 0.2 where those of people were answered best by 0.4 to 0.6. How the two sides compare depends less on it.

    Args:
        dense: nDCG of the vectors.
        lexical: of the words.

    Source: Wu, Bi, Zeng and Han 2009, "Assigning appropriate weights for the linear combination data fusion method in
    information retrieval": a power of the performance, 2 or more.
    """
    total = dense**2 + lexical**2
    return dense**2 / total if total else 0.5


@dataclass(frozen=True, slots=True)
class Moved:
    """Q queries after a look at their first answers: vectors = kept · query + pulls."""

    vectors: Floats  # (Q, D) float32 of length 1; zero where the query is
    kept: Floats  # (Q, 1) how much of its own vector is in it; 1 where it was not moved
    pulls: Floats  # (Q, D) what its answers brought; zero where it was not moved


def towards_answers(queries_QD: Floats, answers: Sequence[Hits], vectors: VectorsOf, take: int = FEEDBACK) -> Moved:
    """Each query and the direction of its first answers, as long as the query, added: unit(q + unit(Σ d_r / r)), r the rank.

    Nobody says which answers are right, so it helps where most of the first ones are: they are to come from a search that
    is good already, words and vectors together. The first counts most, so that it matters less how many are taken: a plain
    mean of ten lost what one of three had gained.

    Args:
        queries_QD: of length 1; one that is zero has no direction to start from, and stays so.
        answers: of each query, the best first; one without answers stays as it is.
        vectors: of the rows that they name.
        take: how many answers of each are looked at.

    Source: Rocchio 1971, "Relevance feedback in information retrieval", with both weights 1 and nothing to move away from.
    """
    takes = np.where(queries_QD.any(axis=1), take, 0).tolist()
    first = [hits.rows[:most] for most, hits in zip(takes, answers, strict=True)]
    sums_QD = np.zeros_like(queries_QD)
    if len(rows := np.unique(np.concatenate([np.zeros(0, np.int64), *first]))):
        vectors_RD = vectors(rows)
        for number, own in enumerate(first):
            # one product per query: the same bits alone and among others
            shares = 1 / np.arange(1, len(own) + 1, dtype=np.float32)
            sums_QD[number] = shares @ vectors_RD[np.searchsorted(rows, own)]
    units_QD = unit_rows(sums_QD, least=_LEAST)[0]
    norms_Q1 = np.linalg.norm(queries_QD + units_QD, axis=1, keepdims=True)
    opposite_Q1 = norms_Q1 < _LEAST  # nowhere to go between a query and its contrary
    kept_Q1 = np.where(opposite_Q1, 1, 1 / np.where(opposite_Q1 | ~units_QD.any(axis=1, keepdims=True), 1, norms_Q1))
    pulls_QD = np.where(opposite_Q1, 0, units_QD * kept_Q1)
    return Moved(queries_QD * kept_Q1 + pulls_QD, kept_Q1.astype(np.float32), pulls_QD.astype(np.float32))


@dataclass(frozen=True, slots=True)
class Found:
    """What was found for one query."""

    hits: Hits  # the answer
    dense: Hits | None = None  # the candidates by vectors, where they were asked for
    lexical: Hits | None = None  # those by words
    # the answers that the query's vector was moved towards before it asked for `dense`; None where it was not
    first: Hits | None = None


class Retriever:
    """Asks in one of three ways; how each side is asked, a subclass says.

    Args:
        mode: dense, lexical or hybrid.
        weight: share of the dense score in a hybrid one.
        take: first hybrid answers that a text's vector is moved towards before it is asked once more; 0: it is asked once.
            Where the weight leaves one side out, there is no second opinion to move towards, and nothing is asked again.
    """

    def __init__(self, mode: Way, weight: float, take: int = FEEDBACK) -> None:
        self.mode: Way = mode
        self.weight, self.take = weight, take

    def dense(self, texts: Sequence[str], k: int) -> list[Hits]:
        """The k nearest rows of every text by its vector; none for a text without one."""
        raise NotImplementedError

    def lexical(self, texts: Sequence[str], k: int) -> list[Hits]:
        """The k best rows of every text by its words."""
        raise NotImplementedError

    def again(self, texts: Sequence[str], first: Sequence[Hits], k: int) -> list[Hits]:
        """The k nearest rows of every text, its vector moved towards its answers so far."""
        raise NotImplementedError

    def find(self, texts: Sequence[str], k: int) -> list[Found]:
        """The k best rows of every text."""
        if self.mode == "dense":
            return [Found(hits, dense=hits) for hits in self.dense(texts, k)]
        if self.mode == "lexical":
            return [Found(hits, lexical=hits) for hits in self.lexical(texts, k)]
        depth = max(k, CANDIDATES)
        near, worded = self.dense(texts, depth), self.lexical(texts, depth)
        if not self.take or not 0 < self.weight < 1:
            return [Found(hits, *both) for hits, *both in zip(self._mixed(near, worded, k), near, worded, strict=True)]
        first = self._mixed(near, worded, CANDIDATES)
        near = self.again(texts, first, depth)
        return [Found(*found) for found in zip(self._mixed(near, worded, k), near, worded, first, strict=True)]

    def _mixed(self, near: Sequence[Hits], worded: Sequence[Hits], k: int) -> list[Hits]:
        return [mix(one, other, self.weight, k) for one, other in zip(near, worded, strict=True)]

    def find_documents(self, texts: Sequence[str], k: int, documents_N: npt.NDArray[np.integer]) -> list[Found]:
        """The k best documents of every text, each by its best row; given is the number of every row's document."""
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
