"""Conditions on rows such as `year > 2000 and lang = 'de'`: which rows they are true of.

A condition is read first (see conditions.py); DuckDB is then given the columns alone that it names, from memory where they
have room, and its time has an end. The database stays open for the next condition: to start one takes 35 ms.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Lock, Timer
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.search.conditions import (
    TABLE,
    fit_hint,
    locked_database,
    misfit,
    not_a_condition,
    parts_of,
    path_of,
    quoted,
    sides_of,
    understood,
    with_example,
)
from wordpipe.search.field_columns import FieldColumns, numbers_of
from wordpipe.search.hits import Mask

_SECONDS = 120.0  # that a condition may take; a million rows take 0.05 s


class _NoTruthError(Exception):
    """A condition is an expression of another type."""


class RowFilter:
    """A finder of the rows, of N, of which conditions are true; to be closed.

    Args:
        columns: of the rows.
        seconds: that a condition may take.
    """

    def __init__(self, columns: FieldColumns, *, seconds: float = _SECONDS) -> None:
        self._columns, self._seconds = columns, seconds
        self._stack, self._lock = ExitStack(), Lock()
        self._database: Any = None
        self._numbers: pa.Array = None  # of all rows

    def close(self) -> None:
        """Close the database."""
        self._stack.close()
        self._database = None

    def rows(self, condition: str) -> Mask:
        """Return which rows meet the condition, (N,) bool; a row for which the condition is null does not.

        Args:
            condition: an SQL expression over the columns.

        Raises:
            ConfigError: not an expression, not a condition, of a column or a function that there is not, one that fails on a
                value, or one that takes too long.
            BudgetError: too little address space for the database.
        """
        with self._lock:
            if self._database is None:
                self._database = self._stack.enter_context(locked_database())
            found = self._found(condition)
        allowed = np.zeros(self._columns.rows, dtype=np.bool_)
        allowed[found] = True
        return allowed

    def _found(self, condition: str) -> npt.NDArray[np.integer]:
        """Return the numbers of the rows of which a condition is true."""
        import duckdb

        schema, batches = self._columns.schema, self._columns.batches
        condition, tree, named = understood(self._database, condition, schema, batches)
        if len({name.lower() for name in named}) < len(named):
            reason = "the condition uses two columns whose names differ only in upper and lower case"
            raise misfit(condition, reason, schema)
        # longer than every column's name, and than the condition, which so cannot mention it
        number = "row".ljust(1 + max(map(len, [condition, *schema.names])), "_")
        kinds = self._kinds(named, number)
        try:
            try:
                return self._true_of(condition, number, self._rows_of(kinds))
            except _NoTruthError as error:
                wrong = not_a_condition(condition, str(error), _compare_hint(tree, schema))
                raise with_example(wrong, schema, batches) from None
            except (duckdb.BinderException, duckdb.ConversionException):  # which a text beside a number raises
                if (table := self._with_numbers(kinds)) is None:
                    raise
                with suppress(duckdb.Error):
                    return self._true_of(condition, number, table)
                raise
        except duckdb.InterruptException:
            self.close()
            raise misfit(condition, f"no result after {self._seconds:g} seconds", schema) from None
        except duckdb.Error as error:
            self.close()  # a database that failed is not asked again
            reason = str(error).splitlines()[0]
            reason = reason.partition("Error: ")[2] or reason
            hint = "to BOOL" in reason and _compare_hint(tree, schema)
            hint = hint or fit_hint(condition, reason, tree, schema, batches)
            reason = "a field that is not true or false" if "to BOOL" in reason else reason
            raise misfit(condition, reason, schema, hint) from None

    def _true_of(self, condition: str, number: str, rows: pa.Table | pa.RecordBatchReader) -> npt.NDArray[np.integer]:
        """Return the numbers of the rows of which a condition is true, by their column `number`."""
        with _registered(self._database, rows):
            (kind,) = self._database.sql(f"SELECT ({condition}\n) FROM {TABLE}").types  # noqa: S608
            if str(kind) != "BOOLEAN":
                raise _NoTruthError(f"a value of type {kind}, which is not true or false")
            select = f'SELECT "{number}" FROM {TABLE} WHERE ({condition}\n)'  # noqa: S608
            with _ended_after(self._database, self._seconds):
                return np.asarray(self._database.execute(select).fetchnumpy()[number])  # which is masked

    def _with_numbers(self, kinds: pa.Schema) -> pa.Table | None:
        """Return the rows with columns of texts that are numbers, see `numbers_of`, as numbers; None if there are none."""
        table, has_some = self._rows_of(kinds), False
        if isinstance(table, pa.Table):
            for place, name in enumerate(kinds.names[:-1]):
                if (numbers := _as_numbers(table.column(name))) is not None:
                    table, has_some = table.set_column(place, name, numbers), True
        return table if has_some else None

    def _kinds(self, named: list[str], number: str) -> pa.Schema:
        """Return the columns that a condition names, and the number of a row, of 32 bits where these are enough."""
        counted = pa.field(number, pa.int32() if self._columns.rows < 1 << 31 else pa.int64())
        return pa.schema([*(self._columns.schema.field(name) for name in named), counted])

    def _rows_of(self, kinds: pa.Schema) -> pa.Table | pa.RecordBatchReader:
        """Return the rows by these columns, of which the last is their numbers: from memory, or as they are read."""
        (*named, number), kind, n = kinds.names, kinds.types[-1], self._columns.rows
        table = self._columns.table(named)
        if table is None:
            return pa.RecordBatchReader.from_batches(kinds, _numbered(self._columns.batches(named), kinds))
        if self._numbers is None:
            self._numbers = _numbers(0, n, kind)
        return pa.table([*table.columns, self._numbers], names=[*named, number])


def _compare_hint(tree: Any, schema: pa.Schema) -> str:
    """Return how a field is compared that a condition has as if it were true or false; "" if there is none."""
    known = {field.name.lower(): field for field in schema}
    whole = [one for one in parts_of(tree) if one.get("class") == "CONJUNCTION" or one.get("type") == "OPERATOR_NOT"]
    for side in [*tree, *(side for part in whole for side in sides_of(part))]:
        path = path_of(side, known)
        field = known[path[0].lower()] if len(path) == 1 else None
        if field is not None and not pa.types.is_boolean(field.type):
            name = quoted(field.name)
            if pa.types.is_string(field.type):
                return f"compare the field: {name} = '…'; where it is empty: {name} = '' or {name} is null"
            return f"compare the field: {name} is null, or {name} = …"
    return ""


def hints_on_empty(condition: str, columns: FieldColumns) -> list[str]:
    """Return how texts without a value are found, for fields that a condition compares with an empty text, or with null."""
    found = []
    for field in columns.schema:
        name = quoted(field.name)
        if re.search(rf"(?<!\w){re.escape(name)}\s*=\s*''(?!')", condition, re.IGNORECASE):
            is_missing = any(batch.column(0).null_count for batch in columns.batches([field.name]))
            found += [f"{name} is null finds texts without a value"] if is_missing else []
        elif re.search(rf"(?<!\w){re.escape(name)}\s+is\s+null\b", condition, re.IGNORECASE) and pa.types.is_string(
            field.type
        ):
            is_empty = any(
                bool(pc.any(pc.equal(batch.column(0), "")).as_py()) for batch in columns.batches([field.name])
            )
            found += [f"{name} = '' finds texts in which it is empty"] if is_empty else []
    return found


def _as_numbers(values: pa.ChunkedArray) -> pa.Array | None:
    """Return a column of texts as numbers, null where a text is none; None if it is no field of numbers: see `numbers_of`."""
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if not pa.types.is_string(kind):
        return None
    coded = values.combine_chunks()
    coded = coded if pa.types.is_dictionary(coded.type) else coded.dictionary_encode()
    if (numbers := numbers_of(coded.dictionary.to_pylist())) is None:
        return None
    is_whole = all(number is None or (isinstance(number, int) and abs(number) < 1 << 63) for number in numbers)
    return pa.array(numbers, pa.int64() if is_whole else pa.float64()).take(coded.indices)


@contextmanager
def _ended_after(database: Any, seconds: float) -> Iterator[None]:
    """Interrupt a condition in the block after so many seconds."""
    timer = Timer(seconds, database.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


@contextmanager
def _registered(database: Any, table: pa.Table | pa.RecordBatchReader) -> Iterator[None]:
    """Give a condition in the block its table."""
    database.register(TABLE, table)
    try:
        yield
    finally:
        database.unregister(TABLE)


def _numbers(first: int, rows: int, kind: pa.DataType) -> pa.Array:
    """Return the numbers of rows from the first on; `pa.array` would import pandas, which takes 0.3 s."""
    numbers = np.arange(first, first + rows, dtype=kind.to_pandas_dtype())
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(numbers)])


def _numbered(batches: Iterable[pa.RecordBatch], kinds: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield batches by these columns, of which the last is the numbers of their rows."""
    first = 0
    for batch in batches:
        numbers = _numbers(first, len(batch), kinds.types[-1])
        yield pa.RecordBatch.from_arrays([*map(batch.column, kinds.names[:-1]), numbers], schema=kinds)
        first += len(batch)
