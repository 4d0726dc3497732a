"""What gets a vector: the sentences, documents or windows of a corpus, column by column and a few thousand at a time."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from wordpipe.artifacts import DocumentStarts
from wordpipe.sentences.encoder import TextEncoder
from wordpipe.sentences.settings import EmbedSettings
from wordpipe.sentences.windows import pack_sentences


@dataclass(frozen=True, slots=True)
class UnitBatch:
    """U units that follow one another.

    Attributes:
        text: string (U,), the text without white space around it.
        embedded: string (U,), what the encoder reads: the text, after the title where the settings say so.
        rows: the corpus rows that these units are cut from.
        first: int64 (U,), the row of `rows` in which each begins.
    """

    text: pa.StringArray
    embedded: pa.StringArray
    rows: pa.RecordBatch
    first: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.text)

    def column(self, name: str) -> pa.Array:
        """A column of the corpus, (U,), from the row in which each unit begins."""
        column = self.rows.column(name)  # no two units begin in one row: as many units as rows begin one in each
        return column if len(self.first) == len(column) else column.take(pa.array(self.first))


class UnitCutter:
    """Cuts a corpus into units, as often as it is asked to.

    Where windows begin takes a tokenizer to find out, so that is done once and remembered, in 16 bytes for each.

    Args:
        settings: `unit` and `with_title`.
        encoder: tells how long sentences are, and how long a window is.
    """

    def __init__(self, settings: EmbedSettings, encoder: TextEncoder) -> None:
        self._unit, self._encoder = settings.unit, encoder
        self._with_title = settings.with_title and settings.unit != "sentence"
        self._windows: NDArray[np.int64] | None = None

    @property
    def columns(self) -> list[str]:
        """What it must see of the corpus."""
        return ["text"] if self._unit == "sentence" else ["doc_id", "sentence_id", "title", "text"]

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[UnitBatch]:
        """The units of the whole corpus in order.

        Args:
            batches: corpus rows with `columns` at least, the sentences of a document together and in order. The same
                rows must come each time; how they are cut into batches, and further columns, are free.
        """
        if self._unit == "sentence":
            for rows in batches:
                yield self._batch(rows, np.arange(len(rows)), np.arange(1, len(rows) + 1))
            return
        done, found = 0, list[NDArray[np.int64]]()
        for rows in _whole_documents(batches):
            bounds = np.append(np.flatnonzero(DocumentStarts().of(rows)), len(rows))
            if self._unit == "window" and self._windows is None:
                first, stop = self._cut_windows(rows, bounds)
                found.append(np.stack([first + done, stop + done]))
            elif self._unit == "window":
                first, stop = self._cut_before(done, done + len(rows))
            else:
                first, stop = bounds[:-1], bounds[1:]
            yield self._batch(rows, first, stop)
            done += len(rows)
        if found:
            self._windows = np.concatenate(found, axis=1)

    def _cut_windows(
        self, rows: pa.RecordBatch, bounds: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First and last row (exclusive) of each passage of whole sentences that fits a window; `bounds` part documents."""
        lengths = self._encoder.lengths(rows.column("text").to_pylist())
        spans = [
            (start + first, start + last)
            for start, stop in zip(bounds.tolist(), bounds[1:].tolist(), strict=False)
            for first, last in pack_sentences(lengths[start:stop], self._encoder.window, self._encoder.overlap)
        ]
        first_U, stop_U = np.array(spans, dtype=np.int64).reshape(-1, 2).T
        return first_U, stop_U

    def _cut_before(self, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The windows of the corpus rows start … stop, as they were cut the first time."""
        assert self._windows is not None
        one, end = np.searchsorted(self._windows[0], [start, stop])
        first_U, stop_U = self._windows[:, one:end] - start
        return first_U, stop_U

    def _batch(self, rows: pa.RecordBatch, first: NDArray[np.int64], stop: NDArray[np.int64]) -> UnitBatch:
        texts = rows.column("text")
        text = pc.utf8_trim_whitespace(texts if self._unit == "sentence" else _joined(texts, first, stop))
        embedded = read_after_title(text, rows.column("title").take(pa.array(first))) if self._with_title else text
        return UnitBatch(text, embedded, rows, first)


def read_after_title(text: pa.StringArray, title: pa.StringArray) -> pa.StringArray:
    """Title, line end and text, as a string array (U,); the text alone where there is no title."""
    titled = pc.greater(pc.fill_null(pc.binary_length(title), 0), 0)
    return pc.if_else(titled, pc.binary_join_element_wise(title, text, "\n"), text)


def _joined(texts: pa.StringArray, first: NDArray[np.int64], stop: NDArray[np.int64]) -> pa.StringArray:
    """The texts of rows first … stop, one after the other, as a string array (U,)."""
    _, places, values = texts.buffers()
    offsets = np.frombuffer(places, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    data = memoryview(values if values is not None else b"")
    begins, ends = offsets[first], offsets[stop]
    joined = b"".join([data[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)])
    limits = np.concatenate([[0], np.cumsum(ends - begins)]).astype(np.int64)
    array = pa.LargeStringArray.from_buffers(len(first), pa.py_buffer(limits), pa.py_buffer(joined))
    return array.cast(pa.string())


def _whole_documents(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches that never part a document."""
    waiting: list[pa.RecordBatch] = []  # all of one document but for its first rows' elders
    begins = DocumentStarts()
    for batch in batches:
        if not len(batch):
            continue
        starts = np.flatnonzero(begins.of(batch))
        cut = int(starts[-1]) if len(starts) else -1
        if cut > 0 or (cut == 0 and waiting):
            yield pa.concat_batches([*waiting, batch.slice(0, cut)])
            waiting = []
        waiting.append(batch.slice(max(cut, 0)))
    if waiting:
        yield pa.concat_batches(waiting)
