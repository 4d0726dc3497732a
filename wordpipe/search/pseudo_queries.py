"""Queries that nobody asked, for finding without labels how words and vectors are best mixed.

Where a document is many rows, a row looks for the others of its document. Where it is one, its title looks for the document,
read without its title; and where there are no titles, some words in a row look for what is left of their text when they are
cut out of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

__all__ = ["ENOUGH", "LEAST", "PseudoQueries", "draw_queries"]

ENOUGH = 300  # queries: nDCG@10 is then known to about 0.02
LEAST = 30  # fewer say nothing
_LEAST_WORDS = 12  # of a text that is looked for
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

    def of_rows(self, rows: Sequence[int]) -> "PseudoQueries":
        """The same queries, whose row n is called rows[n]."""
        return replace(self, rows=[rows[row] for row in self.rows])


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


def _cut(words: Sequence[str], rng: np.random.Generator) -> tuple[str, str]:
    """Six to twelve words in a row, but at most half of the text; and what is left."""
    size = min(int(rng.integers(6, 13)), len(words) // 2)
    start = int(rng.integers(len(words) - size + 1))
    return " ".join(words[start : start + size]), " ".join([*words[:start], *words[start + size :]])
