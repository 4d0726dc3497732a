"""Texts to the rows of a table, by their words or their tokens, and the sums of these rows.

A few texts are cut and added up in plain Python and NumPy, which needs no import of numba; many go through compiled code,
without the GIL and a hundred times as fast, to the same rows and bits.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import regex

from wordpipe.tokens import WordSplitter, fold_runs, library_errors, offsets_of
from wordpipe.wording import visible

if TYPE_CHECKING:
    import pyarrow as pa
    from tokenizers import Tokenizer

    from wordpipe.tokens import Encoder

TOKENIZER_FILE = "tokenizer.json"
MAX_PLAIN_ROWS = 5_000  # added up without compiled code
_MAX_PLAIN_CHARACTERS = (
    20_000  # characters cut without compiled code; the import of numba takes as long as cutting a million
)
_MAX_UNKNOWN = 1 << 18  # words without a row that a thread remembers
_SURROGATES = regex.compile("[\ud800-\udfff]")
_NO_ROW, _NUMBER, _NO_NUMBER = np.uint32(1 << 31), np.uint32((1 << 31) - 1), np.uint32(0xFFFF_FFFF)

U8: TypeAlias = npt.NDArray[np.uint8]
U32: TypeAlias = npt.NDArray[np.uint32]
I64: TypeAlias = npt.NDArray[np.int64]
WordSplit = Callable[[str], list[str]]
"""Text to words, exactly as the words of the table were made."""
RowsOf = Callable[["pa.Array | Sequence[str]"], npt.NDArray[np.int32]]


@dataclass(frozen=True, slots=True)
class FoundRows:
    """The rows of a table that N texts have.

    Attributes:
        ids: (S,) int32, -1 for what has no row.
        offsets: (N + 1,) int64, which of them are each text's.
        unknown: what has no row, as (text, word), in order.
    """

    ids: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    unknown: list[tuple[int, str]]


class TextRows(ABC):
    """A finder of the rows of a table that a text's words or tokens have."""

    def find(self, texts: Sequence[str], *, compiled: bool | None = None) -> FoundRows:
        """Find the table rows of texts, in order.

        Args:
            texts: any strings.
            compiled: whether compiled code looks them up; None: where it pays. The result is the same.
        """
        if compiled is None:
            compiled = sum(map(len, texts)) > _MAX_PLAIN_CHARACTERS
        return self._find_compiled(texts) if compiled else self._find_plainly(texts)

    @abstractmethod
    def spans(self, text: str) -> tuple[list[tuple[int, int]], npt.NDArray[np.int32]]:
        """Return the place of each word or token of a text, in characters, and its row."""

    @abstractmethod
    def _find_plainly(self, texts: Sequence[str]) -> FoundRows: ...

    @abstractmethod
    def _find_compiled(self, texts: Sequence[str]) -> FoundRows: ...


class WordRows(TextRows):
    """A finder of rows by word.

    Args:
        split: text to words. Compiled code does it where it is a `WordSplitter`.
        rows_of: the row of each of these words, (W,) int32; negative where it has none. Threads may call it.
    """

    def __init__(self, split: WordSplit, rows_of: RowsOf) -> None:
        self._split, self._rows_of = split, rows_of
        self._threads = threading.local()

    @classmethod
    def listed(cls, words: Sequence[str], *, keep_case: bool = False) -> "WordRows":
        """Return a finder for a tokenizer made by `word_tokenizer`, by the word of each row."""
        row_of = {word: row for row, word in enumerate(words)}

        def rows_of(some: "pa.Array | Sequence[str]") -> npt.NDArray[np.int32]:
            asked = some if isinstance(some, Sequence) else some.to_pylist()
            return np.fromiter((row_of.get(word, -1) for word in asked), np.int32, len(asked))

        return cls(WordSplitter(keep_case=keep_case), rows_of)

    def spans(self, text: str) -> tuple[list[tuple[int, int]], npt.NDArray[np.int32]]:
        """Return the place and the row of each word of a text; a run of a script without spaces is one word."""
        split = self._split
        assert isinstance(split, WordSplitter)
        spans = split.runs(text)
        return spans, self._rows_of([split.of_run(visible(text[start:stop]))[0] for start, stop in spans])

    def find(self, texts: Sequence[str], *, compiled: bool | None = None) -> FoundRows:
        """Return the rows of the words of texts, in order."""
        return super().find(texts, compiled=compiled if isinstance(self._split, WordSplitter) else False)

    def _find_plainly(self, texts: Sequence[str]) -> FoundRows:
        words = [self._split(text) for text in texts]
        flat, offsets = [*chain.from_iterable(words)], offsets_of([*map(len, words)])
        ids = self._rows_of(flat)
        return FoundRows(ids, offsets, _unknown(ids, offsets, flat.__getitem__))

    def _find_compiled(self, texts: Sequence[str]) -> FoundRows:
        """Find the table rows of texts by compiled code."""
        known: _KnownRuns | None = getattr(self._threads, "known", None)
        if known is None or len(known.words) > _MAX_UNKNOWN:
            assert isinstance(self._split, WordSplitter)
            self._threads.known = known = _KnownRuns(self._split, self._rows_of)
        return known.find(texts)


class _KnownRuns:
    """The rows of runs of text, each of which is cut into words and looked up once. For one thread.

    Args:
        split: gives the words of a run.
        rows_of: as of `WordRows`.

    Attributes:
        words: those that have no row, in the order in which they were met.
    """

    def __init__(self, split: WordSplitter, rows_of: RowsOf) -> None:
        from wordpipe.tokens import SpanEncoder, cut_words

        self._new = _NewRuns(split, rows_of)
        self._cut, self._runs = cut_words(), SpanEncoder(self._new)
        self.words = self._new.words

    def find(self, texts: Sequence[str]) -> FoundRows:
        """Find the table rows of texts, run by run; each run is looked up once."""
        found, offsets = self._runs.encode(self._cut(_strings(texts)))
        numbers = found & _NUMBER
        ids = np.where(found < _NO_ROW, found, _NO_NUMBER).astype(np.int32)
        return FoundRows(ids, offsets, _unknown(ids, offsets, lambda at: self.words[numbers[at]]))


class _NewRuns:
    """Cuts runs that come for the first time, and looks their words up.

    It knows nothing of who asks: two that know each other stay in memory until Python's collector comes.
    """

    def __init__(self, split: WordSplitter, rows_of: RowsOf) -> None:
        self._split, self._rows_of = split, rows_of
        self.words: list[str] = []

    def __call__(self, data: U8, starts: I64, ends: I64) -> tuple[U32, I64]:
        """Return the rows of the words of new runs; of those without one, their number among `words`, marked."""
        import pyarrow as pa

        folded = fold_runs(data, np.append(starts, ends[-1:]), self._split)
        offsets = pa.py_buffer(folded.offsets.astype(np.int32))
        words = pa.StringArray.from_buffers(len(folded.offsets) - 1, offsets, pa.py_buffer(folded.data))
        rows = self._rows_of(words)
        absent = np.flatnonzero(rows < 0)
        found = rows.astype(np.uint32)
        found[absent] = _NO_ROW + np.arange(len(self.words), len(self.words) + len(absent), dtype=np.uint32)
        self.words += words.take(pa.array(absent)).to_pylist()
        return found, folded.run_offsets


def _unknown(
    ids: npt.NDArray[np.int32], offsets: npt.NDArray[np.int64], word_at: Callable[[int], str]
) -> list[tuple[int, str]]:
    """Return the words of texts without a table row, as (text, word), in order."""
    missing = np.flatnonzero(ids < 0)
    texts_of = np.searchsorted(offsets, missing, side="right") - 1
    return [(text, word_at(at)) for text, at in zip(texts_of.tolist(), missing.tolist(), strict=True)]


class TokenRows(TextRows):
    """A finder of rows by token.

    Args:
        tokenizer: truncation and padding switched off.
    """

    def __init__(self, tokenizer: "Tokenizer") -> None:
        self._tokenizer = tokenizer

    def spans(self, text: str) -> tuple[list[tuple[int, int]], npt.NDArray[np.int32]]:
        """Return the place and the row of each token of a text."""
        with library_errors("the tokenizer cannot encode the text", TOKENIZER_FILE):
            encoded = self._tokenizer.encode(_without_surrogates(text), add_special_tokens=False)
        return [(int(start), int(stop)) for start, stop in encoded.offsets], np.array(encoded.ids, np.int32)

    def _find_plainly(self, texts: Sequence[str]) -> FoundRows:
        with library_errors("the tokenizer cannot encode the text", TOKENIZER_FILE):
            found = [self._tokenizer.encode(_without_surrogates(text), add_special_tokens=False).ids for text in texts]
        flat = np.array([*chain.from_iterable(found)], np.int32)
        return FoundRows(flat, offsets_of([*map(len, found)]), [])

    def _find_compiled(self, texts: Sequence[str]) -> FoundRows:
        ids, offsets = self._encoder.for_thread().encode(_strings(texts))
        return FoundRows(ids.astype(np.int32), offsets, [])

    @cached_property
    def _encoder(self) -> "Encoder":
        from wordpipe.tokens import Encoder

        return Encoder(self._tokenizer)


def _without_surrogates(text: str) -> str:
    """Return the text without lone surrogates, which no encoding has."""
    clean: str = _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)
    return clean


def _strings(texts: Sequence[str]) -> "pa.Array":
    """Return texts whose table rows are looked for as an Arrow array of strings."""
    import pyarrow as pa

    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        return pa.array([_without_surrogates(text) for text in texts], pa.string())


def few_rows(found: FoundRows) -> tuple[npt.NDArray[np.int32], FoundRows]:
    """Return the table rows that texts have, (R,), each once, and the texts with the numbers of these rows."""
    known_S = found.ids >= 0
    rows_R, places = np.unique(found.ids[known_S], return_inverse=True)
    ids_S = np.full(len(found.ids), -1, np.int32)
    ids_S[known_S] = places
    return rows_R, replace(found, ids=ids_S)


def sum_rows(table_VD: npt.NDArray[np.float32], found: FoundRows) -> npt.NDArray[np.float32]:
    """Return the sums of the table rows of N texts, (N, D) float32; without numba where the rows are few.

    Every addition is made in the order of the words, so that a text has one sum, alone or among thousands. NumPy's own sum
    (reduceat) adds in pairs, and seven numbers of ten were off in the last bits.
    """
    n, sums_ND = len(found.offsets) - 1, np.zeros((len(found.offsets) - 1, table_VD.shape[1]), np.float32)
    if len(found.ids) > MAX_PLAIN_ROWS:
        from wordpipe.encoders.kernels import sum_texts

        sum_texts(table_VD, found.ids, found.offsets, 0, n, sums_ND)
        return sums_ND
    for text, (first, last) in enumerate(pairwise(found.offsets.tolist())):
        ids = found.ids[first:last]
        if len(known := ids[ids >= 0]):
            sums_ND[text] += np.add.accumulate(table_VD[known], axis=0)[-1]  # += makes 0 of -0, as the kernel does
    return sums_ND
