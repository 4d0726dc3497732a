"""The weight of a hybrid search, measured with pseudo-queries: they are made of the texts themselves.

Where a document is many rows, a row looks for the others of its document. Where it is one, its title looks for the document,
read without its title; and where there are no titles, some words in a row look for what is left of their text when they are
cut out of it. What is left of a row is a row of its own, numbered after the N rows of the index, and stands in for the whole
wherever that was found.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from wordpipe.search.bm25 import LexicalIndex
from wordpipe.search.hybrid import CANDIDATES, FEEDBACK, DenseIndex, fuse, weight_by_merit, with_feedback
from wordpipe.search.knn import Hits, Rows, Vectors, best_of

UNMEASURED = 0.3
"""The dense share that lost least where it cannot be measured: vectors of a small corpus are the weaker half."""

_MIN_SHARE, _MAX_SHARE = 0.05, 0.8  # dense: neither side is left out on the word of a few hundred queries
_MAX_SHARE_TRAINED = 0.5
"""Of vectors that were trained on pairs, most likely out of these very texts: they find their own titles and spans better than
what people ask. On Cranfield they had nDCG@10 of 65 for titles and 51 for the queries of people."""
MAX_QUERIES = 300  # nDCG@10 is then known to about 0.02
MIN_QUERIES = 30  # fewer say nothing
_MIN_WORDS = 12  # of a text that is looked for
_STREAM = 0x3E17  # separates these draws from every other use of a seed


@dataclass(frozen=True, slots=True)
class PseudoQueries:
    """Q queries."""

    how: str  # rows, titles or cuts
    texts: list[str]  # the queries
    rows: list[int]  # where they come from
    rests: list[str]  # what is left of those rows without them, which they should find; none where others are wanted
    # the other rows that each should find; none where `rests` are wanted
    others: list[set[int]] = field(default_factory=list)

    def of_rows(self, rows: Sequence[int]) -> "PseudoQueries":
        """The same queries, whose row n is called rows[n]."""
        return replace(self, rows=[rows[row] for row in self.rows])


def draw_queries(titles: Sequence[str], texts: Sequence[str]) -> PseudoQueries | None:
    """Draw at most 300 queries from the documents of a collection, the same each time; None where there are too few.

    Titles are empty where there is none, texts are without them.
    """
    rng = np.random.default_rng(_STREAM)
    drawn = rng.permutation(len(texts)).tolist()
    rows = [row for row in drawn if len(texts[row].split()) >= _MIN_WORDS]
    titled = [row for row in rows if titles[row].strip()][:MAX_QUERIES]
    if len(titled) >= MIN_QUERIES:
        return PseudoQueries("titles", [titles[row] for row in titled], titled, [texts[row] for row in titled])
    if len(rows) < MIN_QUERIES:
        return None
    cuts = [_cut(texts[row].split(), rng) for row in rows[:MAX_QUERIES]]
    return PseudoQueries("cuts", [part for part, _ in cuts], rows[:MAX_QUERIES], [rest for _, rest in cuts])


def _cut(words: Sequence[str], rng: np.random.Generator) -> tuple[str, str]:
    """Six to twelve words in a row, but at most half of the text; and what is left."""
    size = min(int(rng.integers(6, 13)), len(words) // 2)
    start = int(rng.integers(len(words) - size + 1))
    return " ".join(words[start : start + size]), " ".join([*words[:start], *words[start + size :]])


@dataclass(frozen=True, slots=True)
class MeasuredWeight:
    """What was measured."""

    weight: float  # of the dense score in a hybrid one, 0 to 1
    ndcg_at_10: dict[str, float]  # of dense, hybrid and lexical search for the rows that the queries look for


def measure_weight(
    drawn: PseudoQueries, queries_QD: Vectors, rests_QD: Vectors, dense: DenseIndex, lexical: LexicalIndex, *, trained: bool
) -> MeasuredWeight:  # fmt: skip
    """Search for all queries by vectors and by words, and weigh each side by how well it finds what they look for.

    The vectors are evaluated as they are. Evaluated after feedback, whose hits come from the words too, vectors of another
    text had 0.4 of the score on CISI and CACM instead of 0.23, and a hybrid search lost by it.

    Args:
        drawn: Q queries.
        queries_QD: their unit vectors, zero where a text has none.
        rests_QD: those of what is left of their rows, (0, D) where the queries look for other rows.
        dense: the N rows as vectors.
        lexical: the index of their words.
        trained: whether the encoder learned from pairs of texts; then its vectors get half of the score at most.
    """
    n = len(lexical)
    wanted = [{n + number} for number in range(len(drawn.rests))] or drawn.others
    cut = _CutRows(dense, drawn.rows, rests_QD, n)
    near = cut.search(queries_QD, CANDIDATES)
    scores = [lexical.score_of(text, rest) for text, rest in zip(drawn.texts, drawn.rests, strict=False)]
    worded = cut.replaced(lexical.search(drawn.texts, CANDIDATES + 1), scores, CANDIDATES)
    ndcg = {"dense": _mean_ndcg(near, wanted), "lexical": _mean_ndcg(worded, wanted)}
    merit = weight_by_merit(ndcg["dense"], ndcg["lexical"])
    weight = min(max(round(merit, 2), _MIN_SHARE), _MAX_SHARE_TRAINED if trained else _MAX_SHARE)
    first = [fuse(one, other, weight, FEEDBACK) for one, other in zip(near, worded, strict=True)]
    near = cut.search(with_feedback(queries_QD, first, cut)[0], CANDIDATES)
    hybrid = [fuse(one, other, weight, 10) for one, other in zip(near, worded, strict=True)]
    return MeasuredWeight(weight, ndcg | {"hybrid": _mean_ndcg(hybrid, wanted)})


@dataclass(frozen=True, slots=True)
class _CutRows:
    """N rows and the rests of some: query q finds its rest, which is row N + q, and never its own row."""

    dense: DenseIndex
    own: Sequence[int]  # the row of each query
    rests: Vectors  # (Q, D), or (0, D) where there are none
    n: int  # N

    def search(self, queries_QD: Vectors, k: int) -> list[Hits]:
        """What is nearest to the queries, as they are or with feedback."""
        scores = (queries_QD * self.rests).sum(axis=1).tolist() if len(self.rests) else []
        return self.replaced(self.dense.search(queries_QD, k + 1), scores, k)

    def vectors(self, rows_R: Rows) -> Vectors:
        """The vectors of rows, ascending, and of rests."""
        whole = rows_R < self.n
        rests_RD = self.rests[rows_R[~whole] - self.n]
        return np.concatenate([self.dense.vectors(rows_R[whole]), rests_RD]) if whole.any() else rests_RD

    def replaced(self, found: Sequence[Hits], scores: Sequence[float], k: int) -> list[Hits]:
        """The hits without each query's own row; its rest is among them if it scores above 0."""
        result = []
        for number, (hits, own) in enumerate(zip(found, self.own, strict=True)):
            others = hits.where(hits.rows != own)
            if scores and scores[number] > 0:
                rows = np.append(others.rows, self.n + number)
                result.append(best_of(rows, np.append(others.scores, np.float32(scores[number])), k))
            else:
                result.append(others.first(k))
        return result


def _mean_ndcg(found: Sequence[Hits], wanted: Sequence[Collection[int]]) -> float:
    return float(np.mean([_ndcg(hits, some) for hits, some in zip(found, wanted, strict=True)]))


def _ndcg(hits: Hits, wanted: Collection[int], k: int = 10) -> float:
    """nDCG@k of binary relevance (Järvelin and Kekäläinen 2002): gains fall by 1 / log2(rank + 1)."""
    gains = sum(1 / math.log2(rank + 2) for rank, row in enumerate(hits.rows[:k].tolist()) if row in wanted)
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(k, len(wanted))))
    return gains / ideal if ideal else 0.0
