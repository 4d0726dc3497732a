"""Queries that nobody asked, for finding without labels how words and vectors are best mixed.

Where a document is many rows, a row looks for the others of its document. Where it is one, its title looks for the document,
read without its title; and where there are no titles, some words in a row look for what is left of their text when they are
cut out of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from wordpipe.search.hits import Hits, best_of
from wordpipe.search.lexical import LexicalIndex
from wordpipe.search.mixing import tune_weight

__all__ = ["ENOUGH", "LEAST", "UNMEASURED", "PseudoQueries", "TunedMix", "draw_queries", "tuned_mix"]

UNMEASURED = 0.3
"""The dense share that lost least where it cannot be measured: vectors of a small corpus are the weaker half."""

ENOUGH = 300  # queries: nDCG@10 is then known to about 0.02
LEAST = 30  # fewer say nothing
_LEAST_WORDS = 12  # of a text that is looked for
_MOST_LEXICAL, _MOST_DENSE = 0.05, 0.8
_STREAM = 0x3E17  # separates these draws from every other use of a seed


@dataclass(frozen=True, slots=True)
class PseudoQueries:
    """Q queries.

    Attributes:
        how: rows, titles or cuts.
        texts: the queries.
        rows: where they come from.
        rests: what is left of those rows without them, which they should find; none where others are wanted.
        others: the other rows that each should find; none where `rests` are wanted.
    """

    how: str
    texts: list[str]
    rows: list[int]
    rests: list[str]
    others: list[set[int]] = field(default_factory=list)

    @property
    def wanted(self) -> list[set[int]]:
        """The rows that each query should find."""
        return self.others or [{row} for row in self.rows]

    def of_rows(self, rows: Sequence[int]) -> "PseudoQueries":
        """The same queries, whose row n is called rows[n]."""
        return replace(self, rows=[rows[row] for row in self.rows])


@dataclass(frozen=True, slots=True)
class TunedMix:
    """The weight of the dense score in a hybrid one.

    Attributes:
        weight: 0 to 1.
        ndcg_at_10: of dense, hybrid and lexical search for them.
    """

    weight: float
    ndcg_at_10: dict[str, float]


def draw_queries(
    titles: Sequence[str], texts: Sequence[str], among: Sequence[int] | None = None
) -> PseudoQueries | None:
    """Draw at most 300 queries from the documents of a collection, the same each time; None where there are too few.

    Args:
        titles: of N documents, empty where there is none.
        texts: without the titles.
        among: rows to draw from; None: all.
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


def tuned_mix(
    asked: PseudoQueries,
    dense: Sequence[Hits],
    dense_rests_Q: npt.NDArray[np.float32],
    lexical: LexicalIndex,
    candidates: int,
) -> TunedMix:
    """The mix under which the queries find their rows best.

    Args:
        asked: Q queries.
        dense: their answers by vectors.
        dense_rests_Q: (Q,) the score of each query and what is left of its own row; (0,) where there are no rests.
        lexical: the index of all texts.
        candidates: rows of each side that are mixed.
    """
    worded = lexical.search(asked.texts, candidates + 1)
    scores = [lexical.score_of(text, rest) for text, rest in zip(asked.texts, asked.rests, strict=False)]
    tuned = tune_weight(
        _with_rests(dense, asked, dense_rests_Q, candidates),
        _with_rests(worded, asked, scores, candidates),
        asked.wanted,
        candidates=candidates,
    )
    # a cut is in the words of its own text, and vectors that were trained on the text know them: on CACM cuts asked for 0.45
    # where queries of people asked for 0; at 0.8 a mix lost 0.3 on the one collection where vectors alone were best
    weight = tuned.weight / 2 if asked.how == "cuts" else tuned.weight
    weight = min(max(round(weight * 20) / 20, _MOST_LEXICAL), _MOST_DENSE)
    figures = {"dense": tuned.ndcg_at_10[1.0], "hybrid": tuned.ndcg_at_10[weight], "lexical": tuned.ndcg_at_10[0.0]}
    return TunedMix(weight, figures)


def _cut(words: Sequence[str], rng: np.random.Generator) -> tuple[str, str]:
    """Six to twelve words in a row, but at most half of the text; and what is left."""
    size = min(int(rng.integers(6, 13)), len(words) // 2)
    start = int(rng.integers(len(words) - size + 1))
    return " ".join(words[start : start + size]), " ".join([*words[:start], *words[start + size :]])


def _with_rests(
    answers: Sequence[Hits], asked: PseudoQueries, rests: Sequence[float] | npt.NDArray[np.float32], candidates: int
) -> list[Hits]:
    """The answers without each query's own row, or with it at the score of what is left of it."""
    result = []
    for hits, own, rest in zip(answers, asked.rows, rests if len(rests) else [0.0] * len(answers), strict=True):
        others = hits.where(hits.rows != own)
        rows = np.append(others.rows, own) if rest > 0 else others.rows
        scores = np.append(others.scores, np.float32(rest)) if rest > 0 else others.scores
        result.append(best_of(rows, scores, candidates))
    return result
