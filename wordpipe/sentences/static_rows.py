"""Texts to rows of a static table: by its words, or by a tokenizer's tokens.

A few texts are cut in plain Python, which needs no import of numba; many go through the compiled scanner, a hundred times as
fast, to the same rows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import regex

from wordpipe.tokens.words import WordSplitter

if TYPE_CHECKING:
    import pyarrow as pa
    from tokenizers import Tokenizer

    from wordpipe.tokens.cutting import Cut
    from wordpipe.tokens.encoding import Encoder
    from wordpipe.tokens.units import UnitTable

__all__ = ["FoundRows", "TextRows", "TokenRows", "WordRows"]

_FEW = 20_000  # characters; the import of numba takes as long as cutting a million
_NO_TEXT = regex.compile("[\ud800-\udfff]")
_LOWER = np.arange(256, dtype=np.uint8)
_LOWER[ord("A") : ord("Z") + 1] += 32


@dataclass(frozen=True, slots=True)
class FoundRows:
    """The rows of N texts.

    Attributes:
        ids: (S,) int32, -1 for what has no row.
        offsets: (N + 1,) int64, which of them are each text's.
        unknown: what has no row, as (text, word), in order.
    """

    ids: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    unknown: list[tuple[int, str]]


class TextRows(Protocol):
    """Texts to rows."""

    def find(self, texts: Sequence[str], *, compiled: bool | None = None) -> FoundRows:
        """The rows of texts, in order.

        Args:
            texts: any strings.
            compiled: whether compiled code looks them up; None: where it pays. The result is the same.
        """
        ...

    def spans(self, text: str) -> tuple[list[tuple[int, int]], npt.NDArray[np.int32]]:
        """Where each piece of a text is, in characters, and its row."""
        ...


class WordRows:
    """Rows by word, for a tokenizer made by `static_tokenizer.word_tokenizer`.

    Args:
        words: the word of each row.
        keep_case: words are as written.
    """

    def __init__(self, words: Sequence[str], *, keep_case: bool = False) -> None:
        self._row_of = {word: row for row, word in enumerate(words)}
        self._split = WordSplitter(keep_case=keep_case)
        self._keep_case = keep_case

    def find(self, texts: Sequence[str], *, compiled: bool | None = None) -> FoundRows:
        """See `TextRows.find`."""
        if compiled is None:
            compiled = sum(map(len, texts)) > _FEW
        return self._find_compiled(texts) if compiled else self._find_plainly(texts)

    def spans(self, text: str) -> tuple[list[tuple[int, int]], npt.NDArray[np.int32]]:
        """See `TextRows.spans`."""
        spans = self._split.runs(text)
        words = [self._split.of_run(text[start:stop])[0] for start, stop in spans]
        return spans, np.array([self._row_of.get(word, -1) for word in words], np.int32)

    def _find_plainly(self, texts: Sequence[str]) -> FoundRows:
        words = [self._split(text) for text in texts]
        row_of = self._row_of
        ids = np.array([row_of.get(word, -1) for word in chain.from_iterable(words)], np.int32)
        unknown = [(text, word) for text, some in enumerate(words) for word in some if word not in row_of]
        return FoundRows(ids, _offsets(map(len, words), len(texts)), unknown)

    def _find_compiled(self, texts: Sequence[str]) -> FoundRows:
        spans = self._cut(_strings(texts))
        data = spans.data if self._keep_case else _LOWER[spans.data]
        ids = np.empty(len(spans.starts), np.int32)
        self._table.find(data, spans.starts, spans.ends, ids)
        offsets = np.concatenate([np.zeros(1, np.int64), spans.row_ends])
        missing = np.flatnonzero(ids < 0)
        texts_of = np.searchsorted(offsets, missing, side="right") - 1
        raw, starts, ends = data.tobytes(), spans.starts[missing].tolist(), spans.ends[missing].tolist()
        unknown = []
        for place, text, start, end in zip(missing.tolist(), texts_of.tolist(), starts, ends, strict=True):
            word = raw[start:end].decode()
            if not word.isascii():  # only A to Z are in lower case yet, so it may be listed after all
                word = self._split.of_run(word)[0]
                ids[place] = self._row_of.get(word, -1)
            if ids[place] < 0:
                unknown.append((text, word))
        return FoundRows(ids, offsets, unknown)

    @cached_property
    def _cut(self) -> "Cut":
        from wordpipe.tokens.cutting import cut_words

        return cut_words()

    @cached_property
    def _table(self) -> "UnitTable":
        from wordpipe.tokens.ragged import offsets_of
        from wordpipe.tokens.units import UnitTable

        encoded = [word.encode() for word in self._row_of]
        offsets = offsets_of([len(word) for word in encoded]).astype(np.int32)
        table = UnitTable()
        data = np.frombuffer(b"".join(encoded), np.uint8)
        table.look_up(data, offsets[:-1], offsets[1:], np.empty(len(encoded), np.int32))
        return table


class TokenRows:
    """Rows by token.

    Args:
        tokenizer: truncation and padding switched off.
    """

    def __init__(self, tokenizer: "Tokenizer") -> None:
        self._tokenizer = tokenizer

    def find(self, texts: Sequence[str], *, compiled: bool | None = None) -> FoundRows:
        """See `TextRows.find`."""
        if compiled is None:
            compiled = sum(map(len, texts)) > _FEW
        if compiled:
            ids, offsets = self._encoder.for_thread().encode(_strings(texts))
            return FoundRows(ids.astype(np.int32), offsets, [])
        found = [self._ids(text) for text in texts]
        flat = np.array([*chain.from_iterable(found)], np.int32)
        return FoundRows(flat, _offsets(map(len, found), len(texts)), [])

    def spans(self, text: str) -> tuple[list[tuple[int, int]], npt.NDArray[np.int32]]:
        """See `TextRows.spans`."""
        encoded = self._tokenizer.encode(_sayable(text), add_special_tokens=False)
        return [(int(start), int(stop)) for start, stop in encoded.offsets], np.array(encoded.ids, np.int32)

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(_sayable(text), add_special_tokens=False).ids
        return ids

    @cached_property
    def _encoder(self) -> "Encoder":
        from wordpipe.tokens.encoding import Encoder

        return Encoder(self._tokenizer)


def _sayable(text: str) -> str:
    """The text without lone surrogates, which no encoding has."""
    said: str = _NO_TEXT.sub("\N{REPLACEMENT CHARACTER}", text)
    return said


def _strings(texts: Sequence[str]) -> "pa.Array":
    import pyarrow as pa

    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        return pa.array([_sayable(text) for text in texts], pa.string())


def _offsets(lengths: Iterable[int], n: int) -> npt.NDArray[np.int64]:
    offsets = np.zeros(n + 1, np.int64)
    np.cumsum(np.fromiter(lengths, np.int64, n), out=offsets[1:])
    return offsets
