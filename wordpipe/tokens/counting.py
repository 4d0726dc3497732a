"""Counting: rows cut into pre-tokens or words, how often each distinct string occurs, and counts that do not fit in memory.

Each thread counts in a table of bounded size. A full table goes to disk as a run: a Parquet file of distinct strings and their
counts, in row groups by the top bits of the string's hash. A string is in the same part of every run, so the parts are summed
one after the other and only one of them is in memory: linear time whatever the number of strings (the partitioned aggregation
of Graefe 1993, "Query evaluation techniques for large databases", section 4.2).
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from io import RawIOBase
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tokenizers import Tokenizer

from wordpipe.compiled import kernel, read_only
from wordpipe.tokens.kernels.scan import SCANNERS, code_point_classes
from wordpipe.tokens.kernels.string_table import StringTable, hashes_of
from wordpipe.tokens.normalizers import RowNormalizer
from wordpipe.tokens.pretokenizers import Scheme
from wordpipe.tokens.vocabulary import I32, I64, U8, offsets_of
from wordpipe.wording import INVISIBLE, visible

_INVISIBLE = f"[{INVISIBLE}]"

TABLE_BYTES = 16 << 20  # a full table goes to disk as a run of a few MB, and the common strings are soon known again
_PART_BITS = 5  # of a string's hash: its part
PARTS = 1 << _PART_BITS
_RUNS_KEPT_OPEN = 64
_RUN = pa.schema([pa.field("unit", pa.large_binary(), nullable=False), pa.field("count", pa.int64(), nullable=False)])
_BATCH_ROWS = 65_536
_MAX_PRETOKEN_BYTES = 1024  # longer ones (no word of any language is) are counted in parts


@dataclass(frozen=True)
class Spans:
    """The places of the pre-tokens or words of a batch of rows.

    Attributes:
        data: uint8, the text they lie in.
        starts, ends: int32 [spans], positions in `data`.
        row_ends: int64 [rows], the number of spans up to and including each row.
    """

    data: U8
    starts: I32
    ends: I32
    row_ends: I64


RowCutter = Callable[[pa.Array], Spans]


def cut_pretokens(tokenizer: Tokenizer, scheme: Scheme) -> RowCutter:
    """Return a function that normalises rows and cuts them into pre-tokens as the tokenizer does; threads may share one."""
    normalizer, scan, classes = RowNormalizer(tokenizer, scheme), SCANNERS[scheme.pretokenizer], code_point_classes()
    return lambda rows: _scan(scan, classes, *normalizer.rows(*row_buffers(rows)))


def cut_words(*, as_written: bool = False) -> RowCutter:
    """Return a function that cuts rows into words, `as_written` or without invisible characters; threads may share one."""
    scan, classes = SCANNERS["words"], code_point_classes()
    return lambda rows: _scan(scan, classes, *row_buffers(rows if as_written else _visible_rows(rows)))


def _visible_rows(rows: pa.Array) -> pa.Array:
    """Return the rows to count without invisible characters, which few rows have."""
    data, _ = row_buffers(rows)
    if not (data >= 0x80).any():
        return rows
    hidden = np.flatnonzero(pc.match_substring_regex(rows, _INVISIBLE).to_numpy(zero_copy_only=False))
    if not len(hidden):
        return rows
    texts = rows.to_pylist()
    for row in hidden.tolist():
        texts[row] = visible(texts[row])
    return pa.array(texts, rows.type)


def row_buffers(rows: pa.Array) -> tuple[U8, I64]:
    """Return the bytes of an array of strings to count, and where each row begins and ends: int64."""
    kind = np.int64 if pa.types.is_large_string(rows.type) or pa.types.is_large_binary(rows.type) else np.int32
    _, offsets_buffer, data_buffer = rows.buffers()
    if data_buffer is None or not len(rows):
        return np.zeros(0, np.uint8), np.zeros(len(rows) + 1, np.int64)
    offsets = np.frombuffer(offsets_buffer, kind)[rows.offset : rows.offset + len(rows) + 1].astype(np.int64)
    data = np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]]
    return data, offsets - offsets[0]


def _split_long(spans: Spans, limit: int) -> tuple[Spans, int]:
    """Cut spans to count of more than `limit` bytes into shorter ones, between characters.

    Returns:
        The spans, of which `row_ends` is left empty, and how many were cut.
    """
    long = int(np.count_nonzero(spans.ends - spans.starts > limit))
    if not long:
        return spans, 0
    room = len(spans.starts) + int(np.sum((spans.ends - spans.starts) // (limit - 3)))
    starts, ends = np.empty(room, np.int32), np.empty(room, np.int32)
    count = _split(read_only(spans.data), spans.starts, spans.ends, limit, starts, ends)
    return Spans(spans.data, starts[:count], ends[:count], np.zeros(0, np.int64)), long


def _scan(scan: Callable[..., int], classes: U8, data: U8, offsets: I64) -> Spans:
    """Return the spans that a scanner finds in rows."""
    starts, ends = np.empty(len(data) + 1, np.int32), np.empty(len(data) + 1, np.int32)
    row_ends = np.empty(len(offsets) - 1, np.int64)
    count = scan(read_only(data), offsets, classes, starts, ends, row_ends)
    return Spans(data, starts[:count], ends[:count], row_ends)


@dataclass(frozen=True)
class StringCounts:
    """Distinct pre-tokens or words and their counts in flat arrays; most often in the order of `sorted_by_count`.

    Attributes:
        data: uint8 [bytes], the strings' UTF-8, joined. With byte-level pre-tokenizers this is the text itself, not the byte
            letters of a vocabulary.
        offsets: int64 [n + 1], where each begins and ends in `data`.
        counts: int64 [n], how often each occurs; at least 1.
    """

    data: U8
    offsets: I64
    counts: I64

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def spans(self) -> tuple[I32, I32]:
        """Return int32 [n] twice: where each string begins and ends in `data`."""
        return self.offsets[:-1].astype(np.int32), self.offsets[1:].astype(np.int32)

    @classmethod
    def from_sorted(cls, texts: Iterable[bytes], counts: Iterable[int]) -> "StringCounts":
        """Return counts of strings from rows that are in order already."""
        texts = list(texts)
        offsets = offsets_of([len(text) for text in texts])
        return cls(np.frombuffer(b"".join(texts), np.uint8), offsets, np.fromiter(counts, np.int64, len(texts)))

    @classmethod
    def from_batches(cls, batches: Iterable[pa.RecordBatch]) -> "StringCounts":
        """Return counts of strings from record batches of two columns."""
        texts, counts = [pa.array([], pa.large_string())], [np.zeros(0, np.int64)]
        for batch in batches:
            texts.append(batch.column(0).cast(pa.large_string()))
            counts.append(batch.column(1).to_numpy())
        return cls(*row_buffers(pa.concat_arrays(texts)), np.concatenate(counts))

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield strings and counts as record batches of two columns."""
        for start in range(0, len(self), _BATCH_ROWS):
            stop = min(len(self), start + _BATCH_ROWS)
            offsets = self.offsets[start : stop + 1]
            data = np.ascontiguousarray(self.data[offsets[0] : offsets[-1]])
            buffers = pa.py_buffer((offsets - offsets[0]).astype(np.int32)), pa.py_buffer(data)
            texts = pa.StringArray.from_buffers(stop - start, *buffers)
            yield pa.RecordBatch.from_arrays([texts, pa.array(self.counts[start:stop])], schema=schema)


class SpillingTable:
    """Counts strings in a table of bounded size; when it is full, it goes to disk as a run and begins again.

    Args:
        max_bytes: memory for the table.
        new_run: opens a new run's file, as a context.
    """

    def __init__(self, max_bytes: int, new_run: Callable[[], AbstractContextManager[IO[bytes] | RawIOBase]]) -> None:
        self._table = StringTable(max_bytes)
        self._numbers = np.empty(0, np.int32)
        self._new_run = new_run

    def add(self, data: U8, starts: I32, ends: I32, weights: I64 | None = None) -> None:
        """Count spans of a text; as often as `weights` says, or once each."""
        if len(self._numbers) < len(starts):
            self._numbers = np.empty(len(starts), np.int32)
        done = 0
        while (done := self._table.look_up(data, starts, ends, self._numbers, done, weights)) < len(starts):
            self.spill()

    def take(self, other: "SpillingTable") -> None:
        """Add what another table holds, which is empty afterwards."""
        strings = table_contents(other._table)
        if len(strings):
            self.add(strings.data, *strings.spans, strings.counts)
        other._table = StringTable()

    def spill(self) -> None:
        """Write the strings of the table as a run, and empty the table."""
        parts = self._table.parts(_PART_BITS)
        order, strings = np.argsort(parts, kind="stable"), table_contents(self._table)
        limits = np.searchsorted(parts[order], np.arange(PARTS + 1))
        with (
            self._new_run() as file,
            pq.ParquetWriter(file, _RUN, compression="LZ4", use_dictionary=False, write_statistics=False) as writer,
        ):
            for part in range(PARTS):
                taken = _chosen(strings, order[limits[part] : limits[part + 1]])
                writer.write_batch(pa.RecordBatch.from_arrays([_binary(taken), pa.array(taken.counts)], schema=_RUN))
        self._table.clear()


def count_batch(
    tables: Mapping[str, SpillingTable], batch: pa.RecordBatch, *, words: RowCutter,
    pretokens: Mapping[str, tuple[str, RowCutter]], sample: float,
) -> tuple[int, int, int]:  # fmt: skip
    """Count the words of the first texts and, where they are wanted, the pre-tokens of a sample of the documents.

    Args:
        tables: "words", and the tables that `pretokens` names.
        batch: with columns doc_id, text, and those of `pretokens`.
        words: cuts rows into runs of words.
        pretokens: column of texts → the table where its pre-tokens are counted, and what cuts rows into them; empty where
            they are not wanted.
        sample: share of the documents whose pre-tokens are counted.

    Returns:
        The number of rows, of rows in the sample, and of pre-tokens that were so long that they were split.
    """
    spans = words(batch.column("text"))
    tables["words"].add(spans.data, spans.starts, spans.ends)
    if not pretokens:
        return len(batch), 0, 0
    taken = None if sample == 1 else _in_sample(batch.column("doc_id"), sample)
    rows = split = 0
    for column, (table, cut) in pretokens.items():
        texts = batch.column(column)
        chosen = texts if taken is None else texts.filter(taken)
        spans, long = _split_long(cut(chosen), _MAX_PRETOKEN_BYTES)
        tables[table].add(spans.data, spans.starts, spans.ends)
        rows, split = len(chosen), split + long
    return len(batch), rows, split


def _in_sample(doc_ids: pa.Array, share: float) -> pa.Array:
    """Return for each row whether its document is in the sample; its id decides, which is a hash of the text."""
    coded = doc_ids.dictionary_encode()
    first = [int(doc_id[:8], 16) < share * 2**32 for doc_id in coded.dictionary.to_pylist()]
    return pc.take(pa.array(first, pa.bool_()), coded.indices)


def sum_runs(runs: Sequence[Callable[[], Any]]) -> Iterator[StringCounts]:
    """Yield the strings of all runs with the sums of their counts, one part after the other, each string once, in no order.

    Args:
        runs: opens each run for reading.
    """
    files = [pq.ParquetFile(run(), memory_map=False, pre_buffer=False) for run in runs[:_RUNS_KEPT_OPEN]]
    try:
        for part in range(PARTS):
            yield _sum_tables(_tables(files, runs[_RUNS_KEPT_OPEN:], part))
    finally:
        for file in files:
            file.close(force=True)


def _tables(files: list[pq.ParquetFile], more: Sequence[Callable[[], Any]], part: int) -> Iterator[pa.Table]:
    """Yield one part of every run of counts. The first runs are kept open; others are opened when read."""
    for file in files:
        yield file.read_row_group(part, use_threads=False)
    for run in more:
        with run() as opened:
            yield pq.ParquetFile(opened, memory_map=False, pre_buffer=False).read_row_group(part, use_threads=False)


def table_contents(table: StringTable) -> StringCounts:
    """Return the strings of a table, in the order in which they were first seen, and their counts."""
    offsets = table.offsets.copy()
    return StringCounts(table.data[: offsets[-1]], offsets, table.counts.copy())


@dataclass(frozen=True)
class MostFrequent:
    """The most frequent strings, as many as fit.

    Attributes:
        strings: in the order of `sorted_by_count`.
        left_out: how many distinct strings were left out.
        left_out_total: how often they occur together.
        left_out_count: how often the most frequent of them occurs; 0 where all were kept.
    """

    strings: StringCounts
    left_out: int
    left_out_total: int
    left_out_count: int


def keep_most_frequent(parts: Iterator[StringCounts], fits: Callable[[int, int], bool]) -> MostFrequent:
    """Keep as many strings as fit, the most frequent first; of equally frequent ones the lowest hashes, a fair sample.

    The result depends on the strings and counts alone, not on how they are parted: the bar only rises, to the least height
    that what has come so far needs.

    Args:
        parts: disjoint tables of strings with their whole counts.
        fits: whether strings of so many bytes in all, and so many of them, fit; fewer and shorter ones always do.
    """
    kept: list[StringCounts] = []
    bar: tuple[int, int] | None = None  # count and hash of the most frequent string that does not fit
    left_out = total = 0
    for part in parts:
        kept.append(part)
        if bar is None and fits(sum(len(one.data) for one in kept), sum(len(one) for one in kept)):
            continue
        whole = _joined(kept)
        if not len(whole):
            continue
        hashes, sizes = hashes_of(whole.data, whole.offsets), np.diff(whole.offsets)
        order = np.lexsort((hashes, -whole.counts))
        room = len(order)
        if bar is not None:  # those that come before what did not fit
            counts = whole.counts[order]
            room = int(np.sum((counts > bar[0]) | ((counts == bar[0]) & (hashes[order] < np.uint64(bar[1])))))
        filled = np.cumsum(sizes[order])
        number = bisect_left(range(1, room + 1), True, key=lambda n: not fits(int(filled[n - 1]), n))
        if number < room or bar is None:
            bar = int(whole.counts[order[number]]), int(hashes[order[number]])
        left_out, total = left_out + len(order) - number, total + int(whole.counts[order[number:]].sum())
        kept = [_chosen(whole, np.sort(order[:number]))]
    return MostFrequent(sorted_by_count(_joined(kept)), left_out, total, bar[0] if bar is not None else 0)


def sorted_by_count(strings: StringCounts) -> StringCounts:
    """Return the strings in order: the most frequent first, equal counts in the order of their bytes."""
    columns = {"count": strings.counts, "string": _binary(strings)}
    order = pc.sort_indices(pa.table(columns), [("count", "descending"), ("string", "ascending")])
    return _chosen(strings, order.to_numpy().astype(np.int64))


def _chosen(strings: StringCounts, rows: I64) -> StringCounts:
    """Return some of the counted strings, in the order of `rows`."""
    offsets = offsets_of(strings.offsets[rows + 1] - strings.offsets[rows])
    data = np.empty(int(offsets[-1]), np.uint8)
    _take(read_only(strings.data), read_only(strings.offsets), rows, offsets, data)
    return StringCounts(data, offsets, strings.counts[rows])


def _sum_tables(tables: Iterable[pa.Table]) -> StringCounts:
    """Return the sums of the counts of several tables of strings."""
    total = StringTable()
    for table in tables:
        for batch in filter(len, table.to_batches()):
            strings = StringCounts(*row_buffers(batch.column("unit")), batch.column("count").to_numpy())
            total.look_up(strings.data, *strings.spans, np.empty(len(batch), np.int32), weights=strings.counts)
    return table_contents(total)


def _joined(parts: list[StringCounts]) -> StringCounts:
    """Return several counts of strings one after the other."""
    if not parts:
        return StringCounts.from_sorted([], [])
    if len(parts) == 1:
        return parts[0]
    shifts = np.cumsum([0, *(len(part.data) for part in parts)])
    ends = [part.offsets[1:] + shift for part, shift in zip(parts, shifts[:-1], strict=True)]
    offsets = np.concatenate([np.zeros(1, np.int64), *ends])
    return StringCounts(
        np.concatenate([part.data for part in parts]), offsets, np.concatenate([part.counts for part in parts])
    )


def _binary(strings: StringCounts) -> pa.Array:
    """Return the strings as an Arrow array."""
    buffers = [None, pa.py_buffer(strings.offsets), pa.py_buffer(strings.data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(strings), buffers)


@kernel
def _take(data: U8, offsets: I64, chosen: I64, taken: I64, out: U8) -> None:
    for row in range(len(chosen)):
        start = offsets[chosen[row]]
        for at in range(taken[row + 1] - taken[row]):
            out[taken[row] + at] = data[start + at]


@kernel
def _split(data: U8, starts: I32, ends: I32, limit: int, new_starts: I32, new_ends: I32) -> int:
    count = 0
    for span in range(len(starts)):
        start = starts[span]
        while ends[span] - start > limit:
            end = start + limit
            while data[end] & 0xC0 == 0x80:
                end -= 1
            new_starts[count], new_ends[count] = start, end
            count += 1
            start = end
        new_starts[count], new_ends[count] = start, ends[span]
        count += 1
    return count
