"""Texts as bags of units, the rows of a table: words and pairs of neighbouring words; of a tagger each word by its spelling.

    a text        Who keeps bees     who, keeps, bees, who keeps, keeps bees
    its words     Who                who, shape Xx, prefix who, suffix who
                  keeps              keeps, shape x, prefix kee, suffix eps
                  …

A unit of two words has a space in it, which no word has. Pairs are strings and not numbers of buckets: what labelled texts
have of them is few, and two pairs of one bucket would share what they learn.

Source: Joulin et al. 2016, "Bag of Tricks for Efficient Text Classification", sections 2 and 2.2 (arXiv 1607.01759); Collobert
et al. 2011, "Natural Language Processing (Almost) from Scratch", sections 3.2 and 6.6 (arXiv 1103.0398).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.heads.tags import words_of
from wordpipe.words import WordList

Split = Callable[[str], list[str]]
"""Text to words (or tokens), as those of the table were made."""

Bag = list[str]

WORD_UNITS = 4
"""Units of a word that is tagged, in this order: the word, its shape, its first and its last three characters."""

_AFFIX = 3
_SHAPE = 6  # runs of a shape that are looked at
_MOST_COUNTED = 2_000_000  # different units that are counted at a time
_FEW = 256  # units looked for without a table of hashes, which would cost the import of numba


def text_units(words: Sequence[str]) -> Bag:
    """The units of a text: its words, then its pairs of neighbours.

    >>> text_units(["who", "keeps", "bees"])
    ['who', 'keeps', 'bees', 'who keeps', 'keeps bees']
    """
    return [*words, *(f"{one} {other}" for one, other in pairwise(words))]


def is_pair(unit: str) -> bool:
    """Whether a unit of a text is a pair of words."""
    return " " in unit


def word_units(word: str, split: Split) -> Bag:
    """The units of a word that is tagged, `WORD_UNITS` of them.

    What white space parts may hold several words of the table (`bees'`, `mid-1990s`), of which the longest stands for it, or
    none (`--`), which then is a word as it is written.

    >>> word_units("Keeps,", str.lower and (lambda text: [text.lower().strip(",")]))
    ['keeps', 'shape Xx-', 'prefix kee', 'suffix ps,']
    """
    known, small = max(split(word), key=len, default=word), word.lower()
    return [known, f"shape {_shape(word)}", f"prefix {small[:_AFFIX]}", f"suffix {small[-_AFFIX:]}"]


def _shape(word: str) -> str:
    kinds = ("X" if one.isupper() else "x" if one.isalpha() else "9" if one.isdigit() else "-" for one in word)
    return "".join(kind for kind, _ in groupby(kinds))[:_SHAPE]


def bags_of(texts: Sequence[str], split: Split, *, words: bool, most: int | None = None) -> tuple[list[Bag], int]:
    """The bags of a record, and how many of its words were left out.

    Args:
        texts: its text, or both of a pair.
        split: text to words.
        words: a bag for each word of the one text, as white space parts them; else one for each text.
        most: words of a text that are read; None: all.
    """
    if words:
        (text,) = texts
        spans = words_of(text)
        return [word_units(text[begin:end], split) for begin, end in spans[:most]], len(spans[most:]) if most else 0
    found = [split(text) for text in texts]
    cut = sum(len(some[most:]) for some in found) if most else 0
    return [text_units(some[:most]) for some in found], cut


class UnitCounts:
    """How often units come in the texts that are learned from.

    Attributes:
        counts: of each.
        dropped: units of one occurrence that were forgotten because there were too many different ones.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.dropped = 0

    def add(self, bags: Iterable[Bag]) -> None:
        """One more record."""
        self.counts.update(chain.from_iterable(bags))
        if len(self.counts) > _MOST_COUNTED:
            before = len(self.counts)
            self.counts = Counter({unit: count for unit, count in self.counts.items() if count > 1})
            self.dropped += before - len(self.counts)

    def new_units(self, known: "UnitRows", *, least: int, most: int) -> tuple[list[str], int]:
        """The units that have no row yet, the most frequent first, of equal ones by name; and how many more there are.

        Args:
            known: those that have.
            least: occurrences that a unit needs.
            most: units that are given a row.
        """
        names = sorted(unit for unit, count in self.counts.items() if count >= least)
        there = known.rows_of(names) >= 0
        new = [unit for unit, has_row in zip(names, there, strict=True) if not has_row]
        new.sort(key=lambda unit: (-self.counts[unit], unit))
        return new[:most], len(new[most:]) + self.dropped


class UnitRows:
    """The row of each of V different units."""

    def __init__(self, units: "pa.Array | Sequence[str]") -> None:
        self.units = WordList(units)
        self._asked = False

    def __len__(self) -> int:
        return len(self.units)

    def rows_of(self, units: Sequence[str]) -> npt.NDArray[np.int32]:
        """Rows of units, (N,) int32; -1 for those without one."""
        if not units:
            return np.zeros(0, np.int32)
        if len(units) <= _FEW and not self._asked:
            self._asked = True  # a second question is likely to be one of many
            wanted = {*units}  # not by Arrow: an array of Python strings makes it import pandas, a quarter of a second
            row_of = {unit: row for row, unit in enumerate(self.units) if unit in wanted}
            return np.array([row_of.get(unit, -1) for unit in units], np.int32)
        return self.units.rows_of(units)

    def flat_rows(self, bags: Sequence[Bag]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """The rows of bags one after the other, and how many are each bag's; units without a row are left out."""
        rows = self.rows_of([*chain.from_iterable(bags)])
        bag_of = np.repeat(np.arange(len(bags)), [len(bag) for bag in bags])
        there = rows >= 0
        return rows[there], np.bincount(bag_of[there], minlength=len(bags)).astype(np.int64)


def extended(rows: UnitRows, units: Sequence[str]) -> UnitRows:
    """With more units behind those that there are."""
    return UnitRows(pa.concat_arrays([rows.units.array, pa.array(units, pa.string())])) if units else rows


def windows_of(lengths: npt.NDArray[np.int64], reach: int) -> npt.NDArray[np.int64]:
    """The places of each word and of its neighbours to both sides, (W, 2 · reach + 1); W where there is none.

    Args:
        lengths: words of each text.
        reach: neighbours to each side.

    >>> windows_of(np.array([2, 1]), 1).tolist()
    [[3, 0, 1], [0, 1, 3], [3, 2, 3]]
    """
    total, ends = int(lengths.sum()), np.cumsum(lengths)
    places = np.arange(total)[:, None] + np.arange(-reach, reach + 1)
    first, end = (np.repeat(bound, lengths)[:, None] for bound in (ends - lengths, ends))
    return np.where((places >= first) & (places < end), places, total)


def counted(units: UnitRows, counts: Mapping[str, int], size: int = 16_384) -> Iterator[pa.RecordBatch]:
    """The units as batches of the `VOCABULARY` schema, with how often the texts that were learned from have each."""
    from wordpipe.artifacts import VOCABULARY

    for first in range(0, len(units), size):
        some = units.units.array.slice(first, size)
        numbers = pa.array([counts.get(unit, 0) for unit in some.to_pylist()], pa.int64())
        yield pa.RecordBatch.from_arrays([some, numbers], schema=VOCABULARY)
