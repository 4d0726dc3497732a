"""The words of a table: as many as millions, without a Python string for each."""

import operator
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.words.arrow_words import arrow_words

if TYPE_CHECKING:
    from wordpipe.words.subwords import HashRows

__all__ = ["WordList"]

_AT_ONCE = 16_384  # words made Python strings together
_SCANS = 16  # words looked for one by one, before a table of hashes is worth its time and the import of numba


class WordList(Sequence[str]):
    """V different words, which are kept as UTF-8 in one piece and found by their hashes.

    With five million words of ten bytes that is 70 MB, and 110 MB more once many were asked for. As strings in a list and a
    dict they are 700 MB.

    Args:
        words: an Arrow array, or any strings.

    Attributes:
        array: the words as an Arrow array.
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
