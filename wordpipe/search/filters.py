"""Conditions on rows such as `year > 2000 and lang = 'de'`: DuckDB's expressions over the rows' own columns.

The expression is parsed before anything runs. It is a single one, of comparisons, a few functions and the columns that there
are: a list of what is allowed, as one of what is forbidden is never whole: `repeat('x', 1000000000)`, `range(1000000000)` and
`pg_sleep(60)` are expressions too, and `random()` and `current_setting('threads')` say nothing about a row. DuckDB is given
the columns alone, may open no file and load no extension, its settings are locked, and its memory and its time have an end.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from threading import Timer
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.errors import ConfigError

Batches = Callable[[Sequence[str]], Iterable[pa.RecordBatch]]
"""Gives the rows in order with these columns."""

_SAFE: dict[str, Any] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "python_enable_replacements": "false",
    "memory_limit": "2GB",
}
_SHOWN = 300  # characters of a condition, or of what is wrong with it, in an error
_SECONDS = 120.0  # that a condition may take; a million rows take 0.2 s

_TABLE = "rows"  # what the table is called in a condition: `rows.year` is `year`
_EXAMPLE = "year > 2000 and lang = 'de'"
_CLAUSES = ("where_clause", "having", "qualify", "sample", "group_expressions", "modifiers")
_CLASSES = {
    "CONJUNCTION", "COMPARISON", "BETWEEN", "OPERATOR", "FUNCTION", "CASE", "CAST", "TYPE", "COLLATE", "COLUMN_REF",
    "CONSTANT",
}  # fmt: skip
_CALLED = {
    "SUBQUERY": "a subquery", "STAR": "a star", "PARAMETER": "a parameter", "POSITIONAL_REFERENCE": "a column by its number",
    "WINDOW": "a window", "LAMBDA": "a lambda",
}  # fmt: skip
_WRITTEN = {
    "abs", "ceil", "contains", "date_part", "date_trunc", "day", "ends_with", "floor", "left", "len", "length",
    "list_contains", "lower", "ltrim", "month", "regexp_full_match", "regexp_matches", "right", "round", "rtrim",
    "starts_with", "strip_accents", "substr", "substring", "trim", "upper", "year",
}  # fmt: skip
_MEANT = {
    "+", "-", "*", "/", "//", "%", "||", "~~", "!~~", "~~*", "!~~*", "~~~", "like_escape", "not_like_escape", "ilike_escape",
    "not_ilike_escape", "list_value", "to_years", "to_months", "to_weeks", "to_days", "to_hours", "to_minutes", "to_seconds",
    "trunc",
}  # fmt: skip
"""What operators, lists and intervals are to DuckDB. What each makes is no longer than what it is given."""


def rows_where(
    condition: str, schema: pa.Schema, batches: Batches, rows: int, *, seconds: float = _SECONDS
) -> npt.NDArray[np.bool_]:
    """Which rows meet the condition, (N,); one that it says nothing about (null) does not.

    Args:
        condition: an SQL expression over the columns.
        schema: the columns that there are.
        batches: gives the rows; it is called with the columns that the condition names.
        rows: how many there are, N.
        seconds: that it may take.

    Raises:
        ConfigError: not an expression, not a condition, of a column or a function that there is not, one that fails on a
            value, or one that takes too long.
    """
    import duckdb

    with locked_database() as database:
        try:
            tree = _parsed(database, condition)
            named, unknown = _named_columns(tree, schema.names)
        except RecursionError:
            raise _not_a_condition(condition, "one that is nested too deep") from None
        if unknown:
            raise _no_column(condition, unknown[0], tree, schema)
        if len({name.lower() for name in named}) < len(named):
            reason = "columns whose names differ only in capitals, which a condition cannot tell apart"
            raise _misfit(condition, reason, schema)
        # longer than every column's name, and than the condition, which so cannot mention it
        number = "row".ljust(1 + max(map(len, [condition, *schema.names])), "_")
        fields = [*(schema.field(name) for name in named), pa.field(number, pa.int64())]
        try:
            database.register(_TABLE, pa.schema(fields).empty_table())
            (kind,) = database.sql(f"SELECT ({condition}\n) FROM {_TABLE}").types  # noqa: S608
            if str(kind) != "BOOLEAN":
                raise _not_a_condition(condition, f"a {kind}, which is neither true nor false")
            reader = pa.RecordBatchReader.from_batches(pa.schema(fields), _numbered(batches(named), named, fields))
            database.unregister(_TABLE)
            database.register(_TABLE, reader)
            with _ended_after(database, seconds):
                found = database.execute(f'SELECT "{number}" FROM {_TABLE} WHERE ({condition}\n)').fetchnumpy()[number]  # noqa: S608
        except duckdb.InterruptException:
            raise _misfit(condition, f"more than {seconds:g} s", schema) from None
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            reason = reason.partition("Error: ")[2] or reason
            raise _misfit(condition, reason, schema, _clash_hint(reason, named, schema)) from None
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


def _numbered(
    batches: Iterable[pa.RecordBatch], names: Sequence[str], fields: Sequence[pa.Field]
) -> Iterator[pa.RecordBatch]:
    """The batches' columns with the number of each row."""
    first = 0
    for batch in batches:
        numbers = pa.array(np.arange(first, first + len(batch)))
        yield pa.RecordBatch.from_arrays([*(batch.column(name) for name in names), numbers], schema=pa.schema(fields))
        first += len(batch)


def _misfit(condition: str, reason: str, schema: pa.Schema, hint: str = "") -> ConfigError:
    """The reason in a line, what to do where that is known, and the columns that there are."""
    columns = ", ".join(f"{_quoted(field.name)} ({field.type})" for field in schema)
    what, listed = "the condition does not fit the columns", f"columns: {columns}"
    return ConfigError(what, where=_short(condition), got=_short(reason), hint=f"{hint}; {listed}" if hint else listed)


def _no_column(condition: str, name: str, tree: Any, schema: pa.Schema) -> ConfigError:
    """The error for a column that is not there: what is spelled like it, or how a field becomes one."""
    name = _short(name)
    near = get_close_matches(name, schema.names, n=3, cutoff=0.6)
    near = near or [known for known in schema.names if known.lower() == name.lower()]
    kind = ":int" if any(_is_number(part) for part in _parts(tree)) else ""
    made = f"for a field that was not carried: wordpipe ingest … --metadata {_quoted(name)}{kind} makes the column"
    if re.search(rf'[=<>]\s*"?{re.escape(name)}(?!\w)', condition):  # it stands where a value does
        made = f"a text stands in single quotes, '{name}'; {made}"
    hint = f"did you mean {', '.join(map(_quoted, near))}? Else {made}" if near else made
    return _misfit(condition, f"no column {name}", schema, hint)


def _is_number(part: dict[str, Any]) -> bool:
    literal = part.get("literal")
    return isinstance(literal, dict) and literal.get("kind") in ("INTEGER", "DECIMAL", "FLOAT")


_CASTS = {"INTEGER": "BIGINT", "BIGINT": "BIGINT", "HUGEINT": "BIGINT", "DECIMAL": "DOUBLE", "DOUBLE": "DOUBLE",
          "BOOLEAN": "BOOLEAN", "DATE": "DATE", "TIMESTAMP": "TIMESTAMP", "TIME": "TIME"}  # fmt: skip
_TYPE_CLASH = re.compile(r"type VARCHAR\b.*\btype (\w+?)(?:_LITERAL)?\b|type (\w+?)(?:_LITERAL)?\b.*\btype VARCHAR\b")


def _clash_hint(reason: str, named: Sequence[str], schema: pa.Schema) -> str:
    """The cast that would make a condition fit, where it compares text with something else, or a value cannot be cast."""
    texts = [name for name in named if pa.types.is_string(schema.field(name).type)]
    if not texts:
        return ""
    if found := _TYPE_CLASH.search(reason):
        kind = _CASTS.get(found[1] or found[2], found[1] or found[2])
        return (
            f"{_quoted(texts[0])} is text: say TRY_CAST({_quoted(texts[0])} AS {kind}), or {_quoted(texts[0])}::{kind}"
        )
    if "Could not convert string" in reason:
        return f"not every value is one: say TRY_CAST({_quoted(texts[0])} AS BIGINT), which is null where it is none"
    return ""


def _quoted(name: str) -> str:
    """A column as it is written in a condition."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else '"' + name.replace('"', '""') + '"'


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _parsed(database: Any, condition: str) -> Any:
    """The tree of what the user wrote, which DuckDB parses and does not run.

    Raises:
        ConfigError: it is not a single expression, or says more than it may.
    """
    if not condition.strip():
        raise _not_a_condition(condition, "nothing")
    text = database.execute("SELECT json_serialize_sql(?)", [f"SELECT ({condition}\n)"]).fetchall()[0][0]
    tree = json.loads(text)
    if tree["error"]:
        raise _not_a_condition(condition, str(tree["error_message"]).splitlines()[0])
    node = tree["statements"][0]["node"] if len(tree["statements"]) == 1 else {}
    alone = node.get("from_table", {}).get("type") == "EMPTY" and len(node["select_list"]) == 1
    if not alone or any(node.get(clause) for clause in _CLAUSES):
        raise _not_a_condition(condition, "more than an expression")
    for part in _parts(node["select_list"]):
        _refuse_part(condition, part)
    return node["select_list"]


def _named_columns(tree: Any, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Which columns the expression names, in their order, and what it names that is none.

    DuckDB tells capitals from small letters no more; a name that is written as a column's is that one. A column may have the
    table's name before it and fields after it.
    """
    known = {name.lower(): name for name in names} | {name: name for name in names}
    named, unknown = set(), []
    for part in _parts(tree):
        if part.get("class") == "COLUMN_REF":
            path = part["column_names"]
            path = path[1:] if path[0].lower() == _TABLE and len(path) > 1 and _TABLE not in known else path
            column = known.get(path[0]) or known.get(path[0].lower())
            if column is None:
                unknown.append(".".join(part["column_names"]))
            else:
                named.add(column)
    return [name for name in names if name in named], unknown


def _not_a_condition(condition: str, got: str) -> ConfigError:
    """The error for what is no condition, with an example of one."""
    what, hint = "not a condition on columns", f'for example --where "{_EXAMPLE}"'
    return ConfigError(what, where=_short(condition), got=_short(got), expected="one expression", hint=hint)


def _refuse_part(condition: str, part: dict[str, Any]) -> None:
    # objects without a class are what expressions are made of, such as values
    kind = str(part.get("class", "CONSTANT"))
    if kind not in _CLASSES:
        raise _not_a_condition(condition, _CALLED.get(kind, kind.lower()))
    function = str(part.get("function_name", ""))
    if kind == "FUNCTION" and function.lower() not in _WRITTEN | _MEANT:
        what, hint = "a condition has no such function", f'compare columns, for example --where "{_EXAMPLE}"'
        raise ConfigError(
            what, where=_short(condition), got=_short(function), expected=", ".join(sorted(_WRITTEN)), hint=hint
        )


def _parts(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object in a JSON tree."""
    if isinstance(tree, dict):
        yield tree
    for child in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _parts(child)
