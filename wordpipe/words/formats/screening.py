"""What of a file of word vectors becomes a table: every word once, spelled in Unicode, and no more than asked for."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from wordpipe.errors import InputError
from wordpipe.words.formats.rows import WordFile, WordRows
from wordpipe.words.table import WordVectors

__all__ = ["Screen"]


class Screen:
    """Reads a file of word vectors piece by piece and counts what is left out.

    Only the words stay in memory, to know those that come again.

    Args:
        file: the open file.
        limit: take the first so many words of the file, 0 = all.
        skip_bad_bytes: leave out words that are not UTF-8; otherwise they are an error.
        name: the file, for errors.

    Attributes:
        kept: words given so far.
        repeated: words left out as they had come before.
        bad_bytes: words left out as they are not UTF-8.
        zero: words left out as their vector is zero, which has no direction: no neighbours, and no place in an index.
        capitals: words given that have an upper-case letter.
        counts_known: whether the file says how often its words occur.
        falls: whether no word so far was commoner than one before it.
    """

    def __init__(self, file: WordFile, *, limit: int = 0, skip_bad_bytes: bool = False, name: str) -> None:
        self.kept = self.repeated = self.bad_bytes = self.zero = 0
        self.capitals, self.counts_known, self.falls = 0, False, True
        self._file, self._limit, self._skip, self._name = file, limit, skip_bad_bytes, name
        self._seen: set[str] = set()
        self._least: int | None = None  # the smallest count so far

    @property
    def keep_case(self) -> bool:
        """Whether the words keep their case: one in a hundred has a capital. A few odd ones do not tell of the others."""
        return 100 * self.capitals >= max(self.kept, 1)

    def tables(self) -> Iterator[WordVectors]:
        """The words kept, in the file's order, some thousand at a time; their counts are 0 where the file has none.

        Raises:
            InputError: malformed, a word is empty or is not UTF-8, or there is no word; names the place.
        """
        left = self._limit
        for rows in self._file.rows:
            table = self._table(rows.first(left) if self._limit else rows)
            if len(table):
                yield table
            left -= len(rows.words)
            if self._limit and left <= 0:
                break
        if not self.kept:
            raise InputError("there is no word in the file", where=self._name)

    def _table(self, rows: WordRows) -> WordVectors:
        words: list[str] = []
        kept: list[int] = []
        directed: list[bool] = np.any(rows.vectors, axis=1).tolist()
        for row, data in enumerate(rows.words):
            word = self._decoded(data, int(rows.places[row]))
            if word is None or word in self._seen:
                self.repeated += word is not None
                continue
            if not directed[row]:
                self.zero += 1
                continue
            self._seen.add(word)
            self.capitals += word != word.lower()
            words.append(word)
            kept.append(row)
        self.kept += len(words)
        vectors_KD = rows.vectors if len(kept) == len(rows.words) else rows.vectors[kept]
        return WordVectors(words, self._counts(rows, kept), vectors_KD)

    def _decoded(self, data: bytes, place: int) -> str | None:
        """The word, or None where it is to be left out."""
        where = f"{self._name}, {self._file.place} {place}"
        if not data:
            raise InputError("a word is empty", where=where)
        try:
            return data.decode()
        except UnicodeDecodeError:
            if not self._skip:
                got = data[:60].decode(errors="backslashreplace")
                hint = "--bad-bytes skip leaves such words out"
                raise InputError("the word is not UTF-8", where=where, got=repr(got), hint=hint) from None
            self.bad_bytes += 1
            return None

    def _counts(self, rows: WordRows, kept: list[int]) -> NDArray[np.int64]:
        if rows.counts is None:
            return np.zeros(len(kept), np.int64)
        counts = rows.counts[kept]
        self.counts_known = self.counts_known or bool(counts.any())
        line = counts if self._least is None else np.concatenate([[self._least], counts])
        self.falls = self.falls and not (np.diff(line) > 0).any()
        if len(counts):
            self._least = int(line.min())
        return counts
