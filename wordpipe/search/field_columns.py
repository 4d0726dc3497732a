"""The columns of an index's rows in memory, each read when it is first asked for: for conditions, filters and sorting.

Texts that repeat are kept once, with a number for each row (Arrow's dictionary), so that a condition is tested on each
different text alone. Of a million rows a column takes 4 MB so, and 8 MB of numbers.
"""

from collections.abc import Callable, Iterable, Sequence
from threading import RLock

import pyarrow as pa

Batches = Callable[[Sequence[str]], Iterable[pa.RecordBatch]]
"""Gives the rows in order with these columns."""

MOST_BYTES = 1 << 30
_BLOCK = 1 << 17  # rows that are put together: DuckDB reads as many at a time
_REPEATS = 4  # rows for each different text, at least, where a dictionary is kept


class FieldColumns:
    """The columns of N rows: all that are in memory take `most_bytes` at most.

    Beyond it those that were not used for longest are forgotten, and a column that is larger by itself is never kept.

    Args:
        schema: the columns, by the names that a user knows.
        batches: gives the rows; it is called with the column that is to be read.
        rows: how many there are, N.
        most_bytes: that columns may take.
    """

    def __init__(self, schema: pa.Schema, batches: Batches, rows: int, most_bytes: int = MOST_BYTES) -> None:
        self.schema, self.batches, self.rows = schema, batches, rows
        self._most_bytes = most_bytes
        self._kept: dict[str, pa.ChunkedArray] = {}  # the one used last is the last
        self._too_large: set[str] = set()
        self._lock = RLock()

    def values(self, name: str) -> pa.ChunkedArray:
        """Return the values of a column of all rows, (N,); texts that repeat are dictionary-encoded, also within lists."""
        if (found := self.kept(name)) is not None:
            return found
        columns = [batch.column(0) for batch in self.batches([name])]
        return pa.chunked_array(columns, self.schema.field(name).type)

    def kept(self, name: str) -> pa.ChunkedArray | None:
        """Return the values of a column as `values` does, from memory; None if they take too much."""
        with self._lock:
            if name in self._too_large:
                return None
            found = self._kept.pop(name, None)
            if found is None and (found := self._read(name)) is None:
                self._too_large.add(name)
                return None
            self._kept[name] = found
            while sum(map(_bytes_of, self._kept.values())) > self._most_bytes:
                del self._kept[next(iter(self._kept))]
            return found

    def table(self, names: Sequence[str]) -> pa.Table | None:
        """Return columns of all rows from memory; None if they take too much together."""
        with self._lock:
            columns = {name: column for name in names if (column := self.kept(name)) is not None}
            is_small = len(columns) == len(names) and sum(map(_bytes_of, columns.values())) <= self._most_bytes
            return pa.table(columns) if is_small else None

    def close(self) -> None:
        """Forget what was read."""
        with self._lock:
            self._kept.clear()

    def _read(self, name: str) -> pa.ChunkedArray | None:
        """Read a column; None if it takes too much memory."""
        kind = self.schema.field(name).type
        # blocks of many rows, encoded if texts repeat in the first
        blocks: list[pa.Array] = []
        size, encodes = 0, None
        for block in _blocks(batch.column(0) for batch in self.batches([name])):
            if encodes is None:
                encodes = _repeats(block)
            blocks.append(_encoded(block) if encodes else block)
            size += _bytes_of(blocks[-1])
            if size > self._most_bytes:
                return None
        # one dictionary for all
        if not blocks:
            return pa.chunked_array([], kind)
        return pa.chunked_array(blocks).unify_dictionaries() if encodes else pa.chunked_array(blocks)


def _blocks(columns: Iterable[pa.Array]) -> Iterable[pa.Array]:
    """Yield a column's values in blocks of about as many rows."""
    waiting: list[pa.Array] = []
    for column in columns:
        waiting.append(column)
        if sum(map(len, waiting)) >= _BLOCK:
            yield pa.concat_arrays(waiting)
            waiting = []
    if waiting:
        yield pa.concat_arrays(waiting)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _repeats(block: pa.Array) -> bool:
    """True if a block holds texts, or lists of texts, that repeat so that a dictionary is smaller."""
    items = block.values if pa.types.is_list(block.type) else block
    return _is_text(items.type) and bool(_REPEATS * len(items.dictionary_encode().dictionary) <= len(items))


def _encoded(block: pa.Array) -> pa.Array:
    """Return a block of texts, or of lists of texts, with a dictionary."""
    if not pa.types.is_list(block.type):
        return block.dictionary_encode()
    if block.offset:  # a slice, whose buffers are those of the whole
        block = pa.concat_arrays([block, block.slice(0, 0)])
    items = block.values.dictionary_encode()
    return pa.Array.from_buffers(pa.list_(items.type), len(block), block.buffers()[:2], children=[items])


def _bytes_of(column: pa.Array | pa.ChunkedArray) -> int:
    return int(column.get_total_buffer_size())
