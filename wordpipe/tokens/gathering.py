"""Ids of rows by dictionary: each distinct pre-token (or word) is given its ids once, then they are copied where it occurs."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from wordpipe.compiled import kernel
from wordpipe.tokens.cutting import Spans
from wordpipe.tokens.units import UnitTable

__all__ = ["EncodeUnits", "Gatherer"]

T = TypeVar("T", bound=np.generic)
EncodeUnits = Callable[
    [NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]], tuple[NDArray[np.uint32], NDArray[np.int64]]
]
"""(data uint8, starts int64 [units], ends int64 [units]) → (ids uint32, offsets int64 [units + 1])"""


class Gatherer:
    """Turns spans into ids and remembers the ids of every distinct span, within a bounded memory. For one thread.

    Args:
        encode_units: gives the ids of units that were not seen before.
        max_bytes: memory for the units remembered; when it is full they are all forgotten.
        ids_per_byte: a unit of n bytes has at most max(1, n * ids_per_byte) ids.
    """

    def __init__(self, encode_units: EncodeUnits, max_bytes: int, ids_per_byte: int = 1) -> None:
        self._encode_units, self._ids_per_byte = encode_units, ids_per_byte
        self._table = UnitTable(max_bytes)
        self._ids = np.empty(1 << 14, np.uint32)
        self._offsets = np.zeros(1 << 12, np.int64)
        self._known = 0

    def gather(self, spans: Spans) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """The ids of rows.

        Returns:
            uint32 [ids] of all rows, and int64 [rows + 1]: where each row's ids begin and end.
        """
        numbers = np.empty(len(spans.starts), np.int32)
        row_offsets = np.zeros(len(spans.row_ends) + 1, np.int64)
        parts, done, row, written = [], 0, 0, 0
        while True:
            upto = self._table.look_up(spans.data, spans.starts, spans.ends, numbers, done)
            self._encode_new()
            most = (
                self._ids_per_byte * int(spans.ends[upto - 1] - spans.starts[done]) + upto - done if upto > done else 0
            )
            ids = np.empty(most, np.uint32)  # memory that is never touched costs nothing
            count, row = _copy(
                numbers, self._ids, self._offsets, done, upto, spans.row_ends, row, written, row_offsets, ids
            )
            parts.append(ids[:count])
            written += count
            if upto == len(spans.starts):
                break
            done = upto
            self._table.clear()
            self._known = 0
        return parts[0] if len(parts) == 1 else np.concatenate(parts), row_offsets

    def _encode_new(self) -> None:
        table, known = self._table, self._known
        if table.size == known:
            return
        limits = np.ascontiguousarray(table.offsets[known:])
        ids, offsets = self._encode_units(table.data, limits[:-1], limits[1:])
        used = int(self._offsets[known]) if known else 0
        self._ids = _with_room(self._ids, used, used + len(ids))
        self._ids[used : used + len(ids)] = ids
        self._offsets = _with_room(self._offsets, known + 1, table.size + 1)
        self._offsets[0] = 0
        self._offsets[known : table.size + 1] = offsets + used
        self._known = table.size


def _with_room(array: NDArray[T], used: int, needed: int) -> NDArray[T]:
    if needed <= len(array):
        return array
    larger: NDArray[T] = np.empty(max(needed, 2 * len(array)), array.dtype)
    larger[:used] = array[:used]
    return larger


@kernel
def _copy(
    numbers: NDArray[np.int32],
    ids: NDArray[np.uint32],
    offsets: NDArray[np.int64],
    first: int,
    last: int,
    row_ends: NDArray[np.int64],
    row: int,
    written: int,
    row_offsets: NDArray[np.int64],
    out: NDArray[np.uint32],
) -> tuple[int, int]:
    """Write the ids of spans `first` to `last - 1`, and where rows end.

    The row to end next is `row`, and `written` ids come from spans before `first`. Gives the number of ids in `out`, and
    the row to end next.
    """
    place = 0
    for span in range(first, last):
        while row_ends[row] <= span:
            row += 1
            row_offsets[row] = written + place
        unit = numbers[span]
        for at in range(offsets[unit], offsets[unit + 1]):
            out[place] = ids[at]
            place += 1
    while row < len(row_ends) and row_ends[row] <= last:
        row += 1
        row_offsets[row] = written + place
    return place, row
