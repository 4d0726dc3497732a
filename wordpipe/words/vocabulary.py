"""Which words get a vector: counting, cutting at `min_count`, and numbering the rest by frequency.

Three numberings meet here. A word (or token) has the *id* under which the tokens artifact stores it, and, once kept, the
*row* of its vector: 0 for the commonest. `row_of_id` leads from one to the other; -1 marks what was dropped.

The words themselves, as many as millions, are kept without a Python string for each.
"""

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.errors import InputError

if TYPE_CHECKING:
    from wordpipe.words.subwords import HashRows

COLUMN_OF_UNIT: dict[Literal["word", "token"], str] = {"word": "word_ids", "token": "ids"}
_AT_ONCE = 16_384  # words made Python strings together
_SCANS = 16  # words looked for one by one, before a table of hashes is worth its time and the import of numba


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words that get vectors, the commonest first; words of equal count in the order of their ids."""

    ids: npt.NDArray[np.int64]  # id of each row's word, (V,) int64
    counts: npt.NDArray[np.int64]  # how often it occurs in the training text, (V,) int64
    row_of_id: npt.NDArray[np.int32]  # row of every id, int32, -1 where the word was dropped
    dropped_kinds: int  # different words dropped for being rare
    dropped_tokens: int  # their occurrences

    def __post_init__(self) -> None:
        assert len(self.ids) == len(self.counts), (len(self.ids), len(self.counts))  # kernels check no bounds

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def tokens(self) -> int:
        """Occurrences of the kept words: the words of one epoch."""
        return int(self.counts.sum())

    @classmethod
    def keep(cls, counts: npt.NDArray[np.int64], min_count: int) -> "Vocabulary":
        """The words that occur at least `min_count` times, given the occurrences of every id.

        Raises:
            InputError: nothing occurs that often.
        """
        kept = np.flatnonzero(counts >= max(min_count, 1))
        if not len(kept):
            raise _nothing_kept(counts, min_count)
        ids_V = kept[np.argsort(-counts[kept], kind="stable")]
        row_of_id = np.full(len(counts), -1, dtype=np.int32)
        row_of_id[ids_V] = np.arange(len(ids_V), dtype=np.int32)
        dropped = (counts > 0) & (row_of_id < 0)
        return cls(ids_V, counts[ids_V], row_of_id, int(dropped.sum()), int(counts[dropped].sum()))


def _nothing_kept(counts: npt.NDArray[np.int64], min_count: int) -> InputError:
    """The error that says how far below the cut the text is."""
    kinds = int((counts > 0).sum())
    if not kinds:
        hint = "give more text; where all of it was held out: wordpipe ingest --valid 0"
        return InputError("the training text has no words", hint=hint)
    what, hint = f"0 of {kinds:,} words occur often enough to get a vector", "lower --min-count or give more text"
    expected = f"at most {int(counts.max())}, the highest count"
    return InputError(what, where="min_count", got=min_count, expected=expected, hint=hint)


def rows_of_split(batch: pa.RecordBatch, split: str) -> pa.RecordBatch:
    """The rows of `batch` that belong to `split`."""
    return batch.filter(pc.equal(batch.column("split"), split))


def count_ids(
    batches: Iterable[pa.RecordBatch], size: int, *, column: str = "word_ids", split: str = "train"
) -> npt.NDArray[np.int64]:
    """Count how often each of `size` ids occurs in a column (`word_ids` or `ids`) of one split of a tokens artifact, int64.

    Raises:
        InputError: an id of `size` or more: the tokens and the vocabulary do not belong together.
    """
    counts = np.zeros(size, dtype=np.int64)
    for batch in batches:
        largest = batch.column(column).flatten().to_numpy(zero_copy_only=False).max(initial=0)
        if largest >= max(size, 1):  # in any split: all are read later
            what, hint = (
                "the tokens hold a number that their list of words has not",
                "make the tokens again with: wordpipe tokenize",
            )
            raise InputError(
                what, where=f"column {column!r}", got=int(largest), expected=f"less than {size}", hint=hint
            )
        np.add.at(counts, rows_of_split(batch, split).column(column).flatten().to_numpy(zero_copy_only=False), 1)
    return counts


class WordList(Sequence[str]):
    """V different words, which are kept as UTF-8 in one piece, an Arrow `array`, and found by their hashes.

    With five million words of ten bytes that is 70 MB, and 110 MB more once many were asked for. As strings in a list and a
    dict they are 700 MB.
    """

    def __init__(self, words: "WordList | pa.Array | Sequence[str]") -> None:
        self.array: pa.StringArray = words.array if isinstance(words, WordList) else arrow_words(words)
        assert self.array.type == pa.string(), "a word is no text"
        self._scans = 0

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> "WordList": ...

    def __getitem__(self, index: int | slice) -> "str | WordList":
        if isinstance(index, slice):
            return WordList(self.array[index])
        word: str = self.array[operator.index(index)].as_py()
        return word

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _AT_ONCE):
            yield from self.array.slice(first, _AT_ONCE).to_pylist()

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self.row_of(word) is not None

    @cached_property
    def _rows(self) -> "HashRows":
        from wordpipe.words.subwords import HashRows, hashes_of

        return HashRows(hashes_of(self.array))

    def row_of(self, word: str) -> int | None:
        """The row of exactly this word; None where it is unknown."""
        if self._scans < _SCANS and "_rows" not in self.__dict__:
            self._scans += 1
            row = self._scan(word)
        else:
            row = self._rows.row_of(word)
        return row if row >= 0 else None

    def _scan(self, word: str) -> int:
        """Look at all words, a few milliseconds per million."""
        try:
            return int(pc.index(self.array, pa.scalar(word, pa.string())).as_py())
        except UnicodeEncodeError:  # a lone surrogate
            return -1

    def rows_of(self, words: "pa.Array | Sequence[str]") -> npt.NDArray[np.int32]:
        """The rows of exactly these words, (N,) int32; -1 for unknown ones."""
        from wordpipe.words.subwords import hashes_of

        return self._rows.rows_of(hashes_of(words))


def arrow_words(words: "pa.Array | Sequence[str]") -> pa.Array:
    """Words as an Arrow array of UTF-8 in one piece. A lone surrogate, which is no character, is kept as it is encoded."""
    if isinstance(words, pa.ChunkedArray):
        words = words.combine_chunks()
    if isinstance(words, pa.Array):
        return words if words.type == pa.string() else words.cast(pa.string())
    some = list(words)
    try:
        return pa.array(some, pa.string())
    except UnicodeEncodeError:
        return pa.array([word.encode("utf-8", "surrogatepass") for word in some], pa.binary())
