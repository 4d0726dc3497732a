"""How words and vectors are best mixed, measured with queries that nobody asked: they are made of the texts themselves.

Where a document is many rows, a row looks for the others of its document. Where it is one, its title looks for the document,
read without its title; and where there are no titles, some words in a row look for what is left of their text when they are
cut out of it. What is left of a row is a row of its own, numbered after the N rows of the index, and stands in for the whole
wherever that was found.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from wordpipe.search.hits import Hits, best_of
from wordpipe.search.hybrid import CANDIDATES, FEEDBACK, VectorsOf, mix, towards_answers, weight_by_merit
from wordpipe.search.lexical import LexicalIndex

UNMEASURED = 0.3
"""The dense share that lost least where it cannot be measured: vectors of a small corpus are the weaker half."""

_LEAST_SHARE, _MOST_SHARE = 0.05, 0.8  # dense: neither side is left out on the word of a few hundred queries
_MOST_OF_TRAINED = 0.5
"""Of vectors that were trained on pairs, most likely out of these very texts: they find their own titles and spans better than
what people ask. On Cranfield they had nDCG@10 of 65 for titles and 51 for the queries of people."""
ENOUGH = 300  # queries: nDCG@10 is then known to about 0.02
LEAST = 30  # fewer say nothing
_LEAST_WORDS = 12  # of a text that is looked for
_STREAM = 0x3E17  # separates these draws from every other use of a seed

Floats = npt.NDArray[np.float32]


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


def draw_queries(
    titles: Sequence[str], texts: Sequence[str], among: Sequence[int] | None = None
) -> PseudoQueries | None:
    """Draw at most 300 queries from the documents of a collection, the same each time; None where there are too few.

    Titles are empty where there is none, texts are without them; `among` names the rows to draw from.
    """
    rng = np.random.default_rng(_STREAM)
    drawn = rng.permutation(len(texts) if among is None else np.array(among, dtype=np.int64)).tolist()
    rows = [row for row in drawn if len(texts[row].split()) >= _LEAST_WORDS]
    titled = [row for row in rows if titles[row].strip()][:ENOUGH]
    if len(titled) >= LEAST:
        return PseudoQueries("titles", [titles[row] for row in titled], titled, [texts[row] for row in titled])
    if len(rows) < LEAST:
        return None
    cuts = [_cut(texts[row].split(), rng) for row in rows[:ENOUGH]]
    return PseudoQueries("cuts", [part for part, _ in cuts], rows[:ENOUGH], [rest for _, rest in cuts])


def _cut(words: Sequence[str], rng: np.random.Generator) -> tuple[str, str]:
    """Six to twelve words in a row, but at most half of the text; and what is left."""
    size = min(int(rng.integers(6, 13)), len(words) // 2)
    start = int(rng.integers(len(words) - size + 1))
    return " ".join(words[start : start + size]), " ".join([*words[:start], *words[start + size :]])


@dataclass(frozen=True, slots=True)
class Space:
    """N rows as vectors, and how texts become some."""

    rows: int  # N
    encode: Callable[[Sequence[str]], Floats]  # texts to (T, D) unit vectors, zero where a text has none
    nearest: Callable[[Floats, int], list[Hits]]  # the k rows nearest to each of (Q, D) vectors
    vectors: VectorsOf  # of some rows


@dataclass(frozen=True, slots=True)
class MeasuredMix:
    """What was measured."""

    weight: float  # of the dense score in a hybrid one, 0 to 1
    ndcg_at_10: dict[str, float]  # of dense, hybrid and lexical search for the rows that the queries look for


def measured_mix(asked: PseudoQueries, space: Space, lexical: LexicalIndex, *, trained: bool) -> MeasuredMix:
    """Ask all queries by vectors and by words, and weigh each side by how well it finds what they look for.

    The vectors are judged as they are asked first. Judged after feedback, whose answers come from the words too, vectors of
    another text had 0.4 of the score on CISI and CACM instead of 0.23, and a hybrid search lost by it.

    Args:
        asked: Q queries.
        space: the rows as vectors.
        lexical: the index of their words.
        trained: whether the encoder learned from pairs of texts; then its vectors get half of the score at most.
    """
    looking = _Looking(asked, space, lexical)
    near, worded = looking.near(looking.queries_QD), looking.worded()
    merit = weight_by_merit(looking.ndcg(near), looking.ndcg(worded))
    weight = min(max(round(merit, 2), _LEAST_SHARE), _MOST_OF_TRAINED if trained else _MOST_SHARE)
    first = [mix(one, other, weight, FEEDBACK) for one, other in zip(near, worded, strict=True)]
    again = looking.near(towards_answers(looking.queries_QD, first, looking.vectors).vectors)
    hybrid = [mix(one, other, weight, 10) for one, other in zip(again, worded, strict=True)]
    figures = {"dense": looking.ndcg(near), "hybrid": looking.ndcg(hybrid), "lexical": looking.ndcg(worded)}
    return MeasuredMix(weight, figures)


class _Looking:
    """The queries, and what they find with the rests in place of the rows that they come from."""

    def __init__(self, asked: PseudoQueries, space: Space, lexical: LexicalIndex) -> None:
        self._asked, self._space, self._lexical = asked, space, lexical
        self.queries_QD = space.encode(asked.texts)
        self._rests_QD = space.encode(asked.rests) if asked.rests else self.queries_QD[:0]
        self._wanted = [{space.rows + number} for number in range(len(asked.rests))] or asked.others

    def near(self, queries_QD: Floats) -> list[Hits]:
        """What is nearest to the queries, as they are or moved."""
        scores = (queries_QD * self._rests_QD).sum(axis=1).tolist() if self._asked.rests else []
        return self._with_rests(self._space.nearest(queries_QD, CANDIDATES + 1), scores)

    def worded(self) -> list[Hits]:
        """What has their words."""
        texts, rests = self._asked.texts, self._asked.rests
        scores = [self._lexical.score_of(text, rest) for text, rest in zip(texts, rests, strict=False)]
        return self._with_rests(self._lexical.search(texts, CANDIDATES + 1), scores)

    def vectors(self, rows_R: npt.NDArray[np.int64]) -> Floats:
        """The vectors of rows, ascending, and of rests."""
        whole = rows_R < self._space.rows
        rests_RD = self._rests_QD[rows_R[~whole] - self._space.rows]
        return np.concatenate([self._space.vectors(rows_R[whole]), rests_RD]) if whole.any() else rests_RD

    def ndcg(self, answers: Sequence[Hits]) -> float:
        """The mean nDCG@10."""
        return float(np.mean([_ndcg(hits, wanted) for hits, wanted in zip(answers, self._wanted, strict=True)]))

    def _with_rests(self, answers: Sequence[Hits], scores: Sequence[float]) -> list[Hits]:
        """The answers without each query's own row; its rest is among them if it scores above 0."""
        result = []
        for number, (hits, own) in enumerate(zip(answers, self._asked.rows, strict=True)):
            others = hits.where(hits.rows != own)
            if scores and scores[number] > 0:
                rows = np.append(others.rows, self._space.rows + number)
                result.append(best_of(rows, np.append(others.scores, np.float32(scores[number])), CANDIDATES))
            else:
                result.append(others.first(CANDIDATES))
        return result


def _ndcg(hits: Hits, wanted: Collection[int], k: int = 10) -> float:
    """nDCG@k of binary relevance (Järvelin and Kekäläinen 2002): gains fall by 1 / log2(rank + 1)."""
    gains = sum(1 / math.log2(rank + 2) for rank, row in enumerate(hits.rows[:k].tolist()) if row in wanted)
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(k, len(wanted))))
    return gains / ideal if ideal else 0.0
