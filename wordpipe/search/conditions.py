"""Which rows meet a condition such as `year > 2000 and lang = 'de'`: DuckDB's expressions over the rows' own columns.

The expression is parsed before anything runs, and may say no more than `expressions` allows. DuckDB is given the columns
alone, may open no file and load no extension, its settings are locked, and its memory and its time have an end.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Timer
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.errors import ConfigError
from wordpipe.search.expressions import TABLE, mentioned, named_columns, not_a_condition, parsed

__all__ = ["locked_database", "rows_where"]

Batches = Callable[[Sequence[str]], Iterable[pa.RecordBatch]]
"""Gives the rows in order with these columns."""

_SAFE: dict[str, Any] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "python_enable_replacements": "false",
    "memory_limit": "2GB",
}
_SECONDS = 120.0  # that a condition may take; a million rows take 0.2 s


def rows_where(
    condition: str, schema: pa.Schema, batches: Batches, rows: int, *, seconds: float = _SECONDS
) -> npt.NDArray[np.bool_]:
    """Which rows meet the condition, (N,); one that it says nothing about (null) does not.

    Args:
        condition: an SQL expression over the columns.
        schema: the columns that there are.
        batches: gives the rows; only the columns that the condition names are asked for.
        rows: how many there are, N.
        seconds: that it may take.

    Raises:
        ConfigError: not an expression, not a condition, of a column or a function that there is not, one that fails on a
            value, or one that takes too long.
    """
    import duckdb

    with locked_database() as database:
        tree = parsed(database, condition)
        named, unknown = named_columns(tree, schema.names)
        if unknown:
            raise _misfit(condition, f"no column {unknown[0]}", schema)
        number = _unused("row", {name.lower() for name in schema.names} | mentioned(tree))
        fields = [*(schema.field(name) for name in named), pa.field(number, pa.int64())]
        database.register(TABLE, pa.schema(fields).empty_table())
        try:
            _check_type(database, condition)
            reader = pa.RecordBatchReader.from_batches(pa.schema(fields), _numbered(batches(named), named, fields))
            database.unregister(TABLE)
            database.register(TABLE, reader)
            with _ended_after(database, seconds):
                found = database.execute(f'SELECT "{number}" FROM {TABLE} WHERE ({condition}\n)').fetchnumpy()[number]  # noqa: S608
        except duckdb.InterruptException:
            raise _misfit(condition, f"more than {seconds:g} s", schema) from None
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            raise _misfit(condition, reason.partition("Error: ")[2] or reason, schema) from None
    allowed = np.zeros(rows, dtype=np.bool_)
    allowed[np.asarray(found, dtype=np.int64)] = True
    return allowed


@contextmanager
def locked_database() -> Iterator[Any]:
    """A DuckDB in memory that reaches no file, no network, no extension and no variable of Python, and stays so."""
    import duckdb

    with duckdb.connect(":memory:", config=_SAFE) as database:
        database.execute("SET lock_configuration = true").fetchall()
        yield database


@contextmanager
def _ended_after(database: Any, seconds: float) -> Iterator[None]:
    timer = Timer(seconds, database.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _check_type(database: Any, condition: str) -> None:
    (kind,) = database.sql(f"SELECT ({condition}\n) FROM {TABLE}").types  # noqa: S608
    if str(kind) != "BOOLEAN":
        raise not_a_condition(condition, f"a {kind}, which is neither true nor false")


def _numbered(
    batches: Iterable[pa.RecordBatch], names: Sequence[str], fields: Sequence[pa.Field]
) -> Iterator[pa.RecordBatch]:
    """The batches' columns with the number of each row."""
    first = 0
    for batch in batches:
        numbers = pa.array(np.arange(first, first + len(batch)))
        yield pa.RecordBatch.from_arrays([*(batch.column(name) for name in names), numbers], schema=pa.schema(fields))
        first += len(batch)


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _misfit(condition: str, reason: str, schema: pa.Schema) -> ConfigError:
    """The reason in a line, and the columns that there are."""
    columns = ", ".join(f"{field.name} ({field.type})" for field in schema)
    return ConfigError(
        "the condition does not fit the columns", where=condition, got=reason, hint=f"columns: {columns}"
    )
