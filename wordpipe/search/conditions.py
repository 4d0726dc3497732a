"""Which rows meet a condition such as `year > 2000 and lang = 'de'`: DuckDB's expressions over the rows' own columns.

The expression is parsed before anything runs and has to be one: no statement, no subquery, nothing after it. DuckDB is
given the columns alone, may open no file and load no extension, and its settings are locked.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.errors import ConfigError

__all__ = ["rows_where"]

Batches = Callable[[Sequence[str]], Iterable[pa.RecordBatch]]
"""Gives the rows in order with these columns."""

_EXAMPLE = "year > 2000 and lang = 'de'"
_SAFE: dict[str, Any] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}
_REFUSED = {"SUBQUERY": "a subquery", "STAR": "a star", "PARAMETER": "a parameter"}
_CLAUSES = ("where_clause", "having", "qualify", "sample", "group_expressions", "modifiers")


def rows_where(condition: str, schema: pa.Schema, batches: Batches, rows: int) -> npt.NDArray[np.bool_]:
    """Which rows meet the condition, (N,); one that it says nothing about (null) does not.

    Args:
        condition: an SQL expression over the columns.
        schema: the columns that there are.
        batches: gives the rows; only the columns that the condition names are asked for.
        rows: how many there are, N.

    Raises:
        ConfigError: not an expression, not a condition, of a column that there is not, or one that fails on a value.
    """
    import duckdb

    with duckdb.connect(":memory:", config=_SAFE) as database:
        database.execute("SET lock_configuration = true").fetchall()
        named = _columns_of(_parsed(database, condition), schema)
        number = _unused("row", schema.names)
        fields = [*(schema.field(name) for name in named), pa.field(number, pa.int64())]
        database.register("rows", pa.schema(fields).empty_table())
        try:
            _check_type(database, condition, schema)
            reader = pa.RecordBatchReader.from_batches(pa.schema(fields), _numbered(batches(named), named, fields))
            database.unregister("rows")
            database.register("rows", reader)
            found = database.execute(f'SELECT "{number}" FROM rows WHERE ({condition}\n)').fetchnumpy()[number]  # noqa: S608
        except duckdb.Error as error:
            raise _explained(error, condition, schema) from None
    allowed = np.zeros(rows, dtype=np.bool_)
    allowed[np.asarray(found, dtype=np.int64)] = True
    return allowed


def _parsed(database: Any, condition: str) -> Any:
    """The expression's tree.

    Raises:
        ConfigError: it is not a single expression over columns.
    """
    text = database.execute("SELECT json_serialize_sql(?)", [f"SELECT ({condition}\n)"]).fetchall()[0][0]
    tree = json.loads(text)
    if tree["error"]:
        raise _refused(condition, str(tree["error_message"]).splitlines()[0])
    node = tree["statements"][0]["node"] if len(tree["statements"]) == 1 else {}
    alone = node.get("from_table", {}).get("type") == "EMPTY" and len(node["select_list"]) == 1
    if not alone or any(node.get(clause) for clause in _CLAUSES):
        raise _refused(condition, "more than an expression")
    for part in _parts(node["select_list"]):
        if what := _REFUSED.get(str(part.get("class"))):
            raise _refused(condition, what)
    return node["select_list"]


def _parts(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object in a JSON tree."""
    if isinstance(tree, dict):
        yield tree
    for child in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _parts(child)


def _columns_of(tree: Any, schema: pa.Schema) -> list[str]:
    """The columns that the expression names, in the schema's order; DuckDB tells capitals from small letters no more."""
    asked = {
        name.lower() for part in _parts(tree) if part.get("class") == "COLUMN_REF" for name in part["column_names"]
    }
    return [name for name in schema.names if name.lower() in asked]


def _check_type(database: Any, condition: str, schema: pa.Schema) -> None:
    (kind,) = database.sql(f"SELECT ({condition}\n) FROM rows").types  # noqa: S608
    if str(kind) != "BOOLEAN":
        raise _refused(condition, f"a {kind}, which is neither true nor false")


def _numbered(
    batches: Iterable[pa.RecordBatch], names: Sequence[str], fields: Sequence[pa.Field]
) -> Iterator[pa.RecordBatch]:
    """The batches' columns with the number of each row."""
    first = 0
    for batch in batches:
        numbers = pa.array(np.arange(first, first + len(batch)))
        yield pa.RecordBatch.from_arrays([*(batch.column(name) for name in names), numbers], schema=pa.schema(fields))
        first += len(batch)


def _unused(name: str, taken: Sequence[str]) -> str:
    while name in {other.lower() for other in taken}:
        name += "_"
    return name


def _refused(condition: str, got: str) -> ConfigError:
    hint = f"for example --where {_EXAMPLE!r}" if "'" not in _EXAMPLE else f'for example --where "{_EXAMPLE}"'
    return ConfigError("not a condition on columns", where=condition, got=got, expected="one expression", hint=hint)


def _explained(error: Exception, condition: str, schema: pa.Schema) -> ConfigError:
    """DuckDB's reason in a line, and the columns that there are."""
    reason = str(error).splitlines()[0].partition("Error: ")[2] or str(error).splitlines()[0]
    columns = ", ".join(f"{field.name} ({field.type})" for field in schema)
    return ConfigError(
        "the condition does not fit the columns", where=condition, got=reason, hint=f"columns: {columns}"
    )
