"""Measuring without labels: how far vectors and words agree, and what each finds for queries made of the texts.

Where a document is many rows, a row looks for the others of its document. Where it is one, its title looks for the document,
read without its title; and where there are no titles, some words in a row look for what is left of their text when they are
cut out of it. What is left of a row is a row of its own, numbered after the N rows of the index, and stands in for the whole
wherever that was found.

Agreement is the share of the first 20 hits that vectors and words have in common, for cuts of texts, whose own row counts for
neither side.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.metrics import paired_difference
from wordpipe.search.hits import Hits, Rows, Vectors, best_of
from wordpipe.search.hybrid import UNMEASURED, DenseIndex, Retriever
from wordpipe.search.lexical.bm25 import LexicalIndex
from wordpipe.search.lexical.language import words_of
from wordpipe.search.lexical.postings import QueryTerms, TextCounts
from wordpipe.search.loops import CANDIDATES
from wordpipe.search.vectors.knn import ChanceVectors, chance_vectors

MAX_QUERIES = 300  # nDCG@10 is then known to about 0.02
MIN_QUERIES = 30  # fewer say nothing
_MIN_WORDS = 12  # of a text that is looked for
_COMPARED_WORDS = 1000  # of each text, in which the cuts of others are looked for
_SHARED = 20  # first hits that are compared
_QUERIES, _RESTS = 2**40, 2**40 + 1  # streams of vectors drawn by chance, beyond those of rows
_STREAM = 0x3E17  # separates these draws from every other use of a seed


@dataclass(frozen=True, slots=True)
class PseudoQueries:
    """Q queries made of texts, and the rows that each looks for."""

    how: str  # rows, titles or cuts
    texts: list[str]  # the queries
    rows: list[int]  # where they come from
    rests: list[str]  # what is left of those rows without them, which they should find; none where others are wanted
    # the other rows that each should find; none where `rests` are wanted
    others: list[set[int]] = field(default_factory=list)

    def of_rows(self, rows: Sequence[int]) -> "PseudoQueries":
        """Return the queries with row n called rows[n]."""
        return replace(self, rows=[rows[row] for row in self.rows])


def draw_queries(
    titles: Sequence[str], texts: Sequence[str], repeated: Collection[str] | None = None
) -> PseudoQueries | None:
    """Draw at most 300 queries from the documents of a collection, the same each time; None where there are too few.

    Titles are empty where there is none, texts are without them. `repeated` are the titles and texts that other documents have
    too: with these, what stands in two documents is no query, as the other would be found rather than what is left of its own,
    and be as right. None draws such, too.
    """
    rng = np.random.default_rng(_STREAM)
    drawn = rng.permutation(len(texts)).tolist()
    rows = [row for row in drawn if len(_pieces(texts[row])[0]) >= _MIN_WORDS]
    alike = repeated or ()
    titled = [row for row in rows if titles[row].strip() and titles[row] not in alike][:MAX_QUERIES]
    if len(titled) >= MIN_QUERIES:
        return PseudoQueries("titles", [titles[row] for row in titled], titled, [texts[row] for row in titled])
    heads = [_joined(text, _COMPARED_WORDS) for text in texts] if repeated is not None else []
    every, cuts = "\n".join(heads), dict[int, tuple[str, str]]()
    for row in rows:
        if len(cuts) < MAX_QUERIES and texts[row] not in alike:
            part, rest = _cut(*_pieces(texts[row]), rng)
            if not heads or every.count(part) <= heads[row].count(part):
                cuts[row] = part, rest
    if len(cuts) < MIN_QUERIES:
        return None
    return PseudoQueries("cuts", [part for part, _ in cuts.values()], [*cuts], [rest for _, rest in cuts.values()])


def _pieces(text: str) -> tuple[list[str], str]:
    """Return the words of a text for pseudo queries, and the text between the words.

    Of one in a script without spaces, its pairs of characters.
    """
    words = text.split()
    if text.isascii() or len(words) >= _MIN_WORDS or words_of(text)[1] < 2 * _MIN_WORDS:
        return words, " "
    return [text[at : at + 2] for at in range(0, len(text), 2)], ""


def _joined(text: str, most: int) -> str:
    """Return pieces of a text joined again."""
    words, between = _pieces(text)
    return between.join(words[:most])


def _cut(words: Sequence[str], between: str, rng: np.random.Generator) -> tuple[str, str]:
    """Cut six to twelve words in a row out of a text as a query, but at most half of it; and what is left."""
    size = min(int(rng.integers(6, 13)), len(words) // 2)
    start = int(rng.integers(len(words) - size + 1))
    return between.join(words[start : start + size]), between.join([*words[:start], *words[start + size :]])


Figures = npt.NDArray[np.float64]
Encode = Callable[[Sequence[str]], Vectors]
"""Texts to their unit vectors, zero where a text has none."""


def measure(
    drawn: PseudoQueries | None,
    cuts: PseudoQueries | None,
    encode: Encode,
    dense: DenseIndex,
    lexical: LexicalIndex,
    weight: float | None = None,
) -> tuple[float, dict[str, Figures] | None]:
    """Measure by pseudo queries how far vectors and words agree, and the nDCG@10 of each mode.

    Args:
        drawn: queries that look for something; None: too few.
        cuts: queries by which agreement is measured; None: too few.
        encode: as the rows were.
        dense: the N rows as vectors.
        lexical: the index of their words.
        weight: share of the vectors in every query; None: by agreement.

    Returns:
        The agreement, 0 to 1; nDCG@10 of what `measure_modes` names, of every query, None without queries.
    """
    agreement = UNMEASURED
    if cuts is not None:
        agreement = round(measure_agreement(cuts, encode(cuts.texts), dense, lexical), 4)
    if drawn is None:
        return agreement, None
    queries_QD = encode(drawn.texts)
    rests_QD = encode(drawn.rests) if drawn.rests else queries_QD[:0]
    return agreement, measure_modes(drawn, queries_QD, rests_QD, dense, lexical, agreement, weight)


def measure_agreement(cuts: PseudoQueries, queries_QD: Vectors, dense: DenseIndex, lexical: LexicalIndex) -> float:
    """Measure by pseudo queries the share of the first 20 hits of vectors among those of words.

    Args:
        cuts: Q queries.
        queries_QD: their unit vectors, zero where a text has none.
        dense: the N rows as vectors.
        lexical: the index of their words.
    """
    shared, sides = [], (dense.search(queries_QD, _SHARED + 1), lexical.search(cuts.texts, _SHARED + 1))
    most = max(1, min(_SHARED, len(lexical) - 1))
    for own, near, worded in zip(cuts.rows, *sides, strict=True):
        one, other = (hits.where(hits.rows != own).rows[:most] for hits in (near, worded))
        shared.append(len(np.intersect1d(one, other)) / most)
    return float(np.mean(shared))


def measure_modes(
    drawn: PseudoQueries,
    queries_QD: Vectors,
    rests_QD: Vectors,
    dense: DenseIndex,
    lexical: LexicalIndex,
    agreement: float,
    weight: float | None = None,
) -> dict[str, Figures]:
    """Measure by pseudo queries the nDCG@10 of dense, hybrid and lexical search, (Q,) each.

    Beside them stand two controls, so that vectors are not credited with what asking twice brings: lexical_twice, the words
    alone after feedback, and random_vectors, hybrid search as it is, with the same share, but with vectors drawn by chance.

    Args:
        drawn: Q queries.
        queries_QD: their unit vectors, zero where a text has none.
        rests_QD: those of what is left of their rows, (0, D) where the queries look for other rows.
        dense: the N rows as vectors.
        lexical: the index of their words.
        agreement: of both.
        weight: share of the vectors in every query; None: by agreement.
    """
    n = len(lexical)
    wanted = [{n + number} for number in range(len(drawn.rests))] or drawn.others
    rests = [lexical.read_text(rest) for rest in drawn.rests]
    cut = _CutRetriever(dense, lexical, agreement, weight, own=drawn.rows, rests=rests, vectors_of_rests=rests_QD)
    words = [lexical.read(text) for text in drawn.texts]
    near, worded = cut.near(queries_QD, CANDIDATES), cut.worded(words, CANDIDATES)
    results = cut.mixed(words, queries_QD, near, worded, 10)
    # the controls: vectors drawn by chance, and the words asked twice
    dim = queries_QD.shape[1]
    by_chance = replace(cut, dense=ChanceVectors(n, dim), vectors_of_rests=chance_vectors(len(rests), dim, _RESTS))
    drawn_QD = chance_vectors(len(words), dim, _QUERIES) * queries_QD.any(axis=1, keepdims=True)
    control = by_chance.mixed(words, drawn_QD, by_chance.near(drawn_QD, CANDIDATES), worded, 10)
    # what each mode found, measured by the rows that the queries look for
    found = {
        "dense": near,
        "hybrid": [result.hits for result in results],
        "lexical": worded,
        "lexical_twice": [result.hits for result in cut.asked_twice(words, worded)],
        "random_vectors": [result.hits for result in control],
    }
    return {
        mode: np.array([_ndcg(one, some) for one, some in zip(hits, wanted, strict=True)])
        for mode, hits in found.items()
    }


def measured_by(drawn: PseudoQueries | None, ndcg_at_10: Mapping[str, Figures] | None) -> dict[str, Any] | None:
    """Return by what queries the lexical half was measured, and what each mode and control found.

    Returns:
        by, queries; ndcg_at_10 of each; above_words, how far each of the others is above words alone, and the 95 % interval.
    """
    if drawn is None or ndcg_at_10 is None:
        return None
    above = {name: _above(one_Q, ndcg_at_10["lexical"]) for name, one_Q in ndcg_at_10.items() if name != "lexical"}
    means = {name: round(float(one_Q.mean()), 4) for name, one_Q in ndcg_at_10.items()}
    return {"by": drawn.how, "queries": len(drawn.texts), "ndcg_at_10": means, "above_words": above}


def _above(one_Q: Figures, words_Q: Figures) -> list[float]:
    """Return how far figures are above those of words, and the 95 % interval of that."""
    apart = paired_difference(one_Q, words_Q, draws=2_000)
    assert apart is not None
    return [round(float(number), 4) for number in (apart.mean, *apart.interval)]


def found_by_words(drawn: PseudoQueries, lexical: LexicalIndex) -> list[float]:
    """Return the nDCG@10 of each of Q pseudo queries, by words alone, for the rows that it looks for."""
    rests, n = [lexical.read_text(rest) for rest in drawn.rests], len(lexical)
    wanted = [{n + number} for number in range(len(rests))] or drawn.others
    cut = _CutRetriever(None, lexical, own=drawn.rows, rests=rests)
    hits = cut.worded([lexical.read(text) for text in drawn.texts], 10)
    return [_ndcg(found, some) for found, some in zip(hits, wanted, strict=True)]


@dataclass(frozen=True)
class _CutRetriever(Retriever):
    """Search in N rows and the rests of some: query q finds its rest, which is row N + q, and never its own row."""

    own: Sequence[int] = ()  # the row of each query
    rests: Sequence[TextCounts] = ()  # Q, or none
    vectors_of_rests: Vectors | None = None  # (Q, D), or (0, D)

    def near(self, queries_QD: Vectors, k: int, numbers: Sequence[int] | None = None) -> list[Hits]:
        numbers = range(len(queries_QD)) if numbers is None else numbers
        scores: Sequence[float] = []
        if self.rests:
            assert self.vectors_of_rests is not None
            scores = (queries_QD * self.vectors_of_rests[list(numbers)]).sum(axis=1).tolist()
        return self._replaced(numbers, super().near(queries_QD, k + 1), scores, k)

    def worded(self, words: Sequence[QueryTerms], k: int) -> list[Hits]:
        assert self.lexical is not None
        pairs = zip(words, self.rests, strict=False)
        scores = [float(self.lexical.score_texts(own, rest)[0]) for own, rest in pairs]
        return self._replaced(range(len(words)), super().worded(words, k + 1), scores, k)

    def vectors(self, rows_R: Rows) -> Vectors:
        assert self.lexical is not None
        assert self.vectors_of_rests is not None
        whole = rows_R < len(self.lexical)
        rests_RD = self.vectors_of_rests[rows_R[~whole] - len(self.lexical)]
        return np.concatenate([super().vectors(rows_R[whole]), rests_RD]) if whole.any() else rests_RD

    def texts_of(self, rows_R: Rows) -> TextCounts:
        assert self.lexical is not None
        n = len(self.lexical)
        texts = [self.rests[row - n] if row >= n else self.lexical.texts(np.array([row])) for row in rows_R.tolist()]
        return TextCounts.joined(texts) if texts else self.lexical.texts(rows_R)

    def scores(self, number: int, terms: QueryTerms, rows_R: Rows) -> Vectors:
        assert self.lexical is not None
        whole = rows_R < len(self.lexical)
        scores_R = np.zeros(len(rows_R), dtype=np.float32)
        scores_R[whole] = super().scores(number, terms, rows_R[whole])
        if not whole.all():  # only its own rest is found by a query
            scores_R[~whole] = self.lexical.score_texts(terms, self.rests[number])
        return scores_R

    def _replaced(self, numbers: Sequence[int], found: Sequence[Hits], scores: Sequence[float], k: int) -> list[Hits]:
        """Return the hits of pseudo queries without each query's own row; its rest is among them if above 0."""
        assert self.lexical is not None
        result = []
        for at, (number, hits) in enumerate(zip(numbers, found, strict=True)):
            others = hits.where(hits.rows != self.own[number])
            if scores and scores[at] > 0:
                rows = np.append(others.rows, len(self.lexical) + number)
                result.append(best_of(rows, np.append(others.scores, np.float32(scores[at])), k))
            else:
                result.append(others.first(k))
        return result


def _ndcg(hits: Hits, wanted: Collection[int]) -> float:
    """Return nDCG@10 of binary relevance (Järvelin and Kekäläinen 2002): gains fall by 1 / log2(rank + 1)."""
    gains = sum(1 / math.log2(rank + 2) for rank, row in enumerate(hits.rows[:10].tolist()) if row in wanted)
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(10, len(wanted))))
    return gains / ideal if ideal else 0.0
