"""Distinct pre-tokens and how often each occurs, which a tokenizer is trained from; and counts that do not fit in memory.

These are runs on disk, parted by hash, added up one part at a time. A run is a Parquet file of distinct units and their
counts, in row groups by the top bits of the unit's hash. A unit is in the same part of every run, so the parts are added up
one after the other and only one of them is in memory: linear time whatever the number of units (the partitioned aggregation of
Graefe 1993, "Query evaluation techniques for large databases", section 4.2).
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from wordpipe.tokens.kernels.codepoints import code_point_classes
from wordpipe.tokens.kernels.scan import SCANNERS
from wordpipe.tokens.kernels.table import UnitTable, hashes_of
from wordpipe.tokens.normalizers import Normaliser
from wordpipe.tokens.pretokenizers import Scheme
from wordpipe.tokens.vocabulary import I32, I64, U8, offsets_of


@dataclass(frozen=True)
class Pretokens:
    """A table of distinct pre-tokens in flat arrays, the commonest first, equal counts in the order of their bytes.

    Attributes:
        data: uint8 [bytes], the pre-tokens' UTF-8, joined. With byte-level pre-tokenizers this is the text itself, not the
            printable letters that stand for its bytes in a vocabulary.
        offsets: int64 [n + 1], where each begins and ends in `data`.
        counts: int64 [n], how often each occurs; at least 1.
    """

    data: U8
    offsets: I64
    counts: I64

    def __len__(self) -> int:
        return len(self.counts)

    @classmethod
    def from_sorted(cls, texts: Iterable[bytes], counts: Iterable[int]) -> "Pretokens":
        """From rows that are in order already."""
        texts = list(texts)
        offsets = offsets_of([len(text) for text in texts])
        return cls(np.frombuffer(b"".join(texts), np.uint8), offsets, np.fromiter(counts, np.int64, len(texts)))


TABLE_BYTES = 16 << 20  # a full table goes to disk as a run of a few MB, and the common units are soon known again
_BITS = 5  # of a unit's hash: its part
PARTS = 1 << _BITS
_KEPT_OPEN = 64
_RUN = pa.schema([pa.field("unit", pa.large_binary(), nullable=False), pa.field("count", pa.int64(), nullable=False)])


class SpillingTable:
    """Counts units in a table of bounded size; when it is full, it goes to disk as a run and begins again.

    Args:
        max_bytes: memory for the table.
        new_run: opens a new run's file, as a context.
    """

    def __init__(self, max_bytes: int, new_run: Callable[[], AbstractContextManager[IO[bytes] | RawIOBase]]) -> None:
        self._table = UnitTable(max_bytes)
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
        units = contents(other._table)
        if len(units):
            offsets = units.offsets.astype(np.int32)
            self.add(units.data, offsets[:-1], offsets[1:], units.counts)
        other._table = UnitTable()

    def spill(self) -> None:
        """Write what is there as a run, and forget it."""
        with self._new_run() as file:
            _write_run(self._table, file)
        self._table.clear()


def _write_run(table: UnitTable, file: IO[bytes] | RawIOBase) -> None:
    """Write all units of a table and their counts as one run."""
    parts = table.parts(_BITS)
    order, units = np.argsort(parts, kind="stable"), contents(table)
    limits = np.searchsorted(parts[order], np.arange(PARTS + 1))
    with pq.ParquetWriter(file, _RUN, compression="LZ4", use_dictionary=False, write_statistics=False) as writer:
        for part in range(PARTS):
            chosen = order[limits[part] : limits[part + 1]]
            taken = _binary(*take_units(units.data, units.offsets, chosen))
            writer.write_batch(pa.RecordBatch.from_arrays([taken, pa.array(units.counts[chosen])], schema=_RUN))


def added_up(runs: Sequence[Callable[[], Any]]) -> Iterator[Pretokens]:
    """The units of all runs with their counts added up, one part after the other, each unit once, in no order.

    Args:
        runs: opens each run for reading.
    """
    files = [pq.ParquetFile(run(), memory_map=False, pre_buffer=False) for run in runs[:_KEPT_OPEN]]
    try:
        for part in range(PARTS):
            yield _add_up(_tables(files, runs[_KEPT_OPEN:], part))
    finally:
        for file in files:
            file.close(force=True)


def _tables(files: list[pq.ParquetFile], more: Sequence[Callable[[], Any]], part: int) -> Iterator[pa.Table]:
    """One part of every run. So many runs are kept open; the others are opened when they are read."""
    for file in files:
        yield file.read_row_group(part, use_threads=False)
    for run in more:
        with run() as opened:
            yield pq.ParquetFile(opened, memory_map=False, pre_buffer=False).read_row_group(part, use_threads=False)


def contents(table: UnitTable) -> Pretokens:
    """What a table holds, in the order in which it was seen."""
    offsets = table.offsets.copy()
    return Pretokens(table.data[: offsets[-1]], offsets, table.counts.copy())


@dataclass(frozen=True)
class Kept:
    """The commonest units, as many as fit.

    Attributes:
        units: in order.
        left_out: how many distinct units were left out.
        left_out_total: how often they occur together.
        left_out_count: how often the commonest of them occurs; 0 where all were kept.
    """

    units: Pretokens
    left_out: int
    left_out_total: int
    left_out_count: int


def keep_commonest(parts: Iterator[Pretokens], fits: Callable[[int, int], bool]) -> Kept:
    """Keep as many units as fit, the commonest first; of equally common ones those with the lowest hashes, a fair sample.

    The result depends on the units and counts alone, not on how they are parted: the bar only rises, to the least height
    that what has come so far needs.

    Args:
        parts: disjoint tables of units with their whole counts.
        fits: whether units of so many bytes in all, and so many of them, fit; fewer and shorter ones always do.
    """
    kept: list[Pretokens] = []
    bar: tuple[int, int] | None = None  # count and hash of the first unit, by worth, that does not fit
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
        if bar is not None:  # those that are worth more than what did not fit before
            counts = whole.counts[order]
            room = int(np.sum((counts > bar[0]) | ((counts == bar[0]) & (hashes[order] < np.uint64(bar[1])))))
        filled = np.cumsum(sizes[order])
        number = bisect_left(range(1, room + 1), True, key=lambda n: not fits(int(filled[n - 1]), n))
        if number < room or bar is None:
            bar = int(whole.counts[order[number]]), int(hashes[order[number]])
        left_out, total = left_out + len(order) - number, total + int(whole.counts[order[number:]].sum())
        kept = [_chosen(whole, np.sort(order[:number]))]
    return Kept(sorted_units(_joined(kept)), left_out, total, bar[0] if bar is not None else 0)


def _chosen(units: Pretokens, rows: I64) -> Pretokens:
    data, offsets = take_units(units.data, units.offsets, rows)
    return Pretokens(data, offsets, units.counts[rows])


def sorted_units(units: Pretokens) -> Pretokens:
    """The commonest first, equal counts in the order of their bytes."""
    columns = {"count": units.counts, "unit": _binary(units.data, units.offsets)}
    order = pc.sort_indices(pa.table(columns), [("count", "descending"), ("unit", "ascending")])
    return _chosen(units, order.to_numpy().astype(np.int64))


def take_units(data: U8, offsets: I64, chosen: I64) -> tuple[U8, I64]:
    """The bytes and offsets of some units, in the order asked."""
    taken = offsets_of(offsets[chosen + 1] - offsets[chosen])
    out = np.empty(int(taken[-1]), np.uint8)
    _take(read_only(data), read_only(offsets), chosen, taken, out)
    return out, taken


def _add_up(tables: Iterable[pa.Table]) -> Pretokens:
    total = UnitTable()
    for table in tables:
        for batch in table.to_batches():
            units = batch.column("unit")
            _, ends, data = units.buffers()
            if len(units) == 0:
                continue
            offsets = np.frombuffer(ends, np.int64)[units.offset : units.offset + len(units) + 1]
            text = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
            numbers = np.empty(len(units), np.int32)
            total.look_up(
                text, offsets[:-1].astype(np.int32), offsets[1:].astype(np.int32), numbers,
                weights=batch.column("count").to_numpy(),
            )  # fmt: skip
    return contents(total)


def _joined(parts: list[Pretokens]) -> Pretokens:
    if not parts:
        return Pretokens.from_sorted([], [])
    if len(parts) == 1:
        return parts[0]
    shifts = np.cumsum([0, *(len(part.data) for part in parts)])
    ends = [part.offsets[1:] + shift for part, shift in zip(parts, shifts[:-1], strict=True)]
    offsets = np.concatenate([np.zeros(1, np.int64), *ends])
    return Pretokens(
        np.concatenate([part.data for part in parts]), offsets, np.concatenate([part.counts for part in parts])
    )


def _binary(data: U8, offsets: I64) -> pa.Array:
    """Units as an Arrow array."""
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


@kernel
def _take(data: U8, offsets: I64, chosen: I64, taken: I64, out: U8) -> None:
    for row in range(len(chosen)):
        start = offsets[chosen[row]]
        for at in range(taken[row + 1] - taken[row]):
            out[taken[row] + at] = data[start + at]


@dataclass(frozen=True)
class Spans:
    """Where the pre-tokens or words of a batch of rows are.

    Attributes:
        data: uint8, the text they lie in.
        starts, ends: int32 [spans], positions in `data`.
        row_ends: int64 [rows], the number of spans up to and including each row.
    """

    data: U8
    starts: I32
    ends: I32
    row_ends: I64


Cut = Callable[[pa.Array], Spans]


def cut_pretokens(tokenizer: Tokenizer, scheme: Scheme) -> Cut:
    """A function that normalises rows and cuts them into pre-tokens as the tokenizer does. Threads may share it."""
    normalise, scan, classes = Normaliser(tokenizer, scheme).rows, SCANNERS[scheme.pretokenizer], code_point_classes()
    return lambda rows: _scan(scan, classes, *normalise(*row_buffers(rows)))


def cut_words() -> Cut:
    """A function that cuts rows into words, as written. Threads may share it."""
    scan, classes = SCANNERS["words"], code_point_classes()
    return lambda rows: _scan(scan, classes, *row_buffers(rows))


def row_buffers(rows: pa.Array) -> tuple[U8, I64]:
    """The bytes of an array of strings without nulls, and where each row begins and ends: int64 [rows + 1]."""
    kind = np.int64 if pa.types.is_large_string(rows.type) else np.int32
    _, offsets_buffer, data_buffer = rows.buffers()
    if data_buffer is None or not len(rows):
        return np.zeros(0, np.uint8), np.zeros(len(rows) + 1, np.int64)
    offsets = np.frombuffer(offsets_buffer, kind)[rows.offset : rows.offset + len(rows) + 1].astype(np.int64)
    data = np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]]
    return data, offsets - offsets[0]


def split_long(spans: Spans, limit: int) -> tuple[Spans, int]:
    """Cut spans of more than `limit` bytes into pieces, between characters.

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
    starts, ends = np.empty(len(data) + 1, np.int32), np.empty(len(data) + 1, np.int32)
    row_ends = np.empty(len(offsets) - 1, np.int64)
    count = scan(read_only(data), offsets, classes, starts, ends, row_ends)
    return Spans(data, starts[:count], ends[:count], row_ends)


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
