"""The columns of an index's rows in memory, each read when it is first asked for: for conditions, filters and sorting.

Texts that repeat are kept once, with a number for each row (Arrow's dictionary), so that a condition is tested on each
different text alone. Of a million rows a column takes 4 MB so, and 8 MB of numbers.

Here is also what a cell of text is beside a text: a number, an amount of money, a date.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from threading import RLock
from typing import Any

import numpy as np
import pyarrow as pa

_NUMBER = re.compile(r"\s*[-+]?(?:[0-9]{1,300}(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,2})?\s*")
_MONEY = r"(?:[$€£¥₹]|EUR|USD|GBP|CHF)?"
_UNIT = re.compile(r"\s+([kmgtKMGT]i?[bB]|[bB]ytes?|km|cm|mm|kg|ms|%)(?![\w:])")  # behind a number
_THOUSANDS = re.compile(r"(?<![\d.,])([1-9]\d{0,2})\.000(?![\d.,])")  # as some languages write them
_AMOUNT = re.compile(
    rf"([-+]?){_MONEY}\s?(?:((?:[1-9]\d{{0,2}}(?:[,’']\d{{3}})+|\d+)(?:\.\d+)?)"  # 1,200.50
    rf"|((?:[1-9]\d{{0,2}}(?:[.\s’']\d{{3}})+|\d+),(?:\d{{1,2}}|\d{{4,}})|0,\d+))\s?{_MONEY}"  # 1.200,50
)
_ZONE = re.compile(r"(?<=\d)(?:Z|([+-])(\d\d):?(\d\d)?)$", re.IGNORECASE)
_DAY = 10  # characters
_DATE = re.compile(r"\d{4}(?:-|$)")  # how a date begins

Batches = Callable[[Sequence[str]], Iterable[pa.RecordBatch]]
"""Gives the rows in order with these columns."""

MOST_BYTES = 1 << 30
_BLOCK = 1 << 17  # rows that are put together: DuckDB reads as many at a time
_LOOKED_AT = 1_000  # values of a column, for what they look like
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


def first_values(batches: Batches, name: str) -> list[Any]:
    """Return the first values of a column that are there."""
    first = next(iter(batches([name])), None)
    values = [] if first is None else first.column(0).slice(0, _LOOKED_AT).to_pylist()
    return [value for value in values if value is not None]


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


# ---- what texts are


def number_in(text: str) -> float | int | None:
    """Return the finite number that a text is, as people write numbers in a table; None if the text is none.

    >>> number_in("10"), number_in(" 2.50 "), number_in("1e3"), number_in("1_0"), number_in("nan"), number_in("")
    (10, 2.5, 1000.0, None, None, None)
    """
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return int(text)  # of a whole number all digits count
    except ValueError:
        return float(text)


def amount_in(text: str) -> float | int | None:
    """Return the number of a text that is a number, also with marks between thousands, and the sign of a currency.

    A comma is a decimal one where it cannot part thousands: 1,200 is 1200, and 1,20 is 1.2.

    >>> amount_in("-$9.00"), amount_in("1,200"), amount_in("3,50 €"), amount_in("1.234,56"), amount_in("May 5")
    (-9.0, 1200, 3.5, 1234.56, None)
    """
    if (number := number_in(text)) is not None:
        return number
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        return None
    plain = re.sub("[,’']", "", found[2]) if found[2] else re.sub(r"[.\s’']", "", found[3]).replace(",", ".")
    return number_in(found[1] + plain)


def doubt_of_number(written: str, after: str) -> str:
    """Return what is said of a number that a query compares with, if another one was perhaps meant; else "".

    Args:
        written: the number or the range, with its sign.
        after: what follows in the query.

    >>> doubt_of_number("<5", " MB of salt"), doubt_of_number("<1.000", "")
    ('compared with 5; MB is searched as a word', '1.000 is read as 1; a thousand is written 1000 or 1,000')
    >>> doubt_of_number("<5", " minutes"), doubt_of_number("<1,000", "")
    ('', '')
    """
    if unit := _UNIT.match(after):
        return f"compared with {written.lstrip('<>=')}; {unit[1]} is searched as a word"
    if thousands := _THOUSANDS.search(written):
        plain = thousands[1]
        return f"{plain}.000 is read as {plain}; a thousand is written 1000 or 1,000"
    return ""


def numbers_of(texts: Sequence[str | None]) -> list[float | int | None] | None:
    """Return the numbers of the different texts of a field of numbers, or of amounts; None if the field is none.

    It is one if at least half of its texts are numbers, and the others, but for empty ones, have no digit: n/a, unknown.
    The number of such a text is None.

    >>> numbers_of(["1.50", "n/a", "20", ""]), numbers_of(["1", "2a", "3"])
    ([1.5, None, 20, None], None)
    """
    numbers = [None if text is None else amount_in(text) for text in texts]
    odd = [text for text, number in zip(texts, numbers, strict=True) if number is None and text and text.strip()]
    n_numbers = sum(number is not None for number in numbers)
    return numbers if n_numbers >= max(len(odd), 1) and not any(map(str.isdigit, "".join(odd))) else None


def without_number(values: pa.ChunkedArray) -> tuple[int, str]:
    """Return the count of cells of a field of numbers that are not empty and no number, and one of the cells.

    It is 0 for a field of texts.
    """
    kind = values.type
    if not _is_text(kind.value_type if pa.types.is_dictionary(kind) else kind):
        return 0, ""
    coded = values.combine_chunks()
    coded = coded if pa.types.is_dictionary(coded.type) else coded.dictionary_encode()
    texts = coded.dictionary.to_pylist()
    if (numbers := numbers_of(texts)) is None:
        return 0, ""
    odd = [at for at, text in enumerate(texts) if text and text.strip() and numbers[at] is None]
    rows = int(np.isin(coded.indices.drop_null().to_numpy(zero_copy_only=False), odd).sum())
    return rows, texts[odd[0]] if odd else ""


def span_of(written: str) -> tuple[np.datetime64, np.datetime64, bool]:
    """Return when a year, a month, a day or a time begins, and when it has ended; and whether this is in UTC, by its zone.

    >>> [str(one)[:16] for one in span_of("2024-02")[:2]], [str(one)[:16] for one in span_of("2024-02-03T08+02:00")[:2]]
    (['2024-02-01T00:00', '2024-03-01T00:00'], ['2024-02-03T06:00', '2024-02-03T07:00'])

    Raises:
        ValueError: there is no such date or time.
    """
    zone = _ZONE.search(written) if len(written) > _DAY else None
    first = np.datetime64(written[: zone.start()] if zone else written)
    last = (first.astype(np.int64) + 1).astype(first.dtype)  # NumPy 2.5 deprecates `first + 1`
    ahead = np.timedelta64(0, "m")
    if zone and zone[1]:
        ahead = np.timedelta64(int(zone[1] + zone[2]) * 60 + int(zone[1] + (zone[3] or "0")), "m")
    return first.astype("datetime64[us]") - ahead, last.astype("datetime64[us]") - ahead, zone is not None


def is_date(text: str) -> bool:
    """True if a text is a year, a month, a day or a time that there is."""
    if not _DATE.match(text):
        return False
    try:
        span_of(text)
    except ValueError:
        return False
    return True
