"""What a condition may say: a single expression of comparisons, a few functions and the columns that there are.

A list of what is allowed, as one of what is forbidden is never whole: `repeat('x', 1000000000)`, `range(1000000000)` and
`pg_sleep(60)` are expressions too, and `random()` and `current_setting('threads')` say nothing about a row.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from wordpipe.errors import ConfigError

__all__ = ["TABLE", "mentioned", "named_columns", "not_a_condition", "parsed"]

TABLE = "rows"
"""What the table is called in a condition: `rows.year` is `year`."""

_EXAMPLE = "year > 2000 and lang = 'de'"
_CLAUSES = ("where_clause", "having", "qualify", "sample", "group_expressions", "modifiers")
_CLASSES = {
    "CONJUNCTION", "COMPARISON", "BETWEEN", "OPERATOR", "FUNCTION", "CASE", "CAST", "TYPE", "COLLATE", "COLUMN_REF",
    "CONSTANT",
}  # fmt: skip
_CALLED = {
    "SUBQUERY": "a subquery",
    "STAR": "a star",
    "PARAMETER": "a parameter",
    "POSITIONAL_REFERENCE": "a column by its number",
    "WINDOW": "a window",
    "LAMBDA": "a lambda",
}
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


def parsed(database: Any, condition: str) -> Any:
    """The expression's tree.

    Args:
        database: a DuckDB connection, which parses and runs nothing.
        condition: what the user wrote.

    Raises:
        ConfigError: it is not a single expression, or says more than it may.
    """
    if not condition.strip():
        raise not_a_condition(condition, "nothing")
    text = database.execute("SELECT json_serialize_sql(?)", [f"SELECT ({condition}\n)"]).fetchall()[0][0]
    tree = json.loads(text)
    if tree["error"]:
        raise not_a_condition(condition, str(tree["error_message"]).splitlines()[0])
    node = tree["statements"][0]["node"] if len(tree["statements"]) == 1 else {}
    alone = node.get("from_table", {}).get("type") == "EMPTY" and len(node["select_list"]) == 1
    if not alone or any(node.get(clause) for clause in _CLAUSES):
        raise not_a_condition(condition, "more than an expression")
    for part in _parts(node["select_list"]):
        _refuse_part(condition, part)
    return node["select_list"]


def named_columns(tree: Any, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Which columns the expression names, in their order, and what it names that is none.

    DuckDB tells capitals from small letters no more. A column may have the table's name before it and fields after it.

    Args:
        tree: of `parsed`.
        names: the columns that there are.
    """
    known = {name.lower() for name in names}
    asked, unknown = set(), []
    for part in _parts(tree):
        if part.get("class") == "COLUMN_REF":
            path = [name.lower() for name in part["column_names"]]
            path = path[1:] if path[0] == TABLE and len(path) > 1 and TABLE not in known else path
            asked.add(path[0])
            if path[0] not in known:
                unknown.append(".".join(part["column_names"]))
    return [name for name in names if name.lower() in asked], unknown


def mentioned(tree: Any) -> set[str]:
    """Every name in the expression, in small letters: of a table, a column or a field."""
    columns = [part["column_names"] for part in _parts(tree) if part.get("class") == "COLUMN_REF"]
    return {name.lower() for names in columns for name in names}


def not_a_condition(condition: str, got: str) -> ConfigError:
    """The error for what is no condition, with an example of one."""
    return ConfigError(
        "not a condition on columns",
        where=condition,
        got=got,
        expected="one expression",
        hint=f'for example --where "{_EXAMPLE}"',
    )


def _refuse_part(condition: str, part: dict[str, Any]) -> None:
    kind = str(
        part.get("class", "CONSTANT")
    )  # objects without a class are what expressions are made of, such as values
    if kind not in _CLASSES:
        raise not_a_condition(condition, _CALLED.get(kind, kind.lower()))
    function = str(part.get("function_name", ""))
    if kind == "FUNCTION" and function.lower() not in _WRITTEN | _MEANT:
        raise ConfigError(
            "a condition has no such function",
            where=condition,
            got=function,
            expected=", ".join(sorted(_WRITTEN)),
            hint=f'compare columns, for example --where "{_EXAMPLE}"',
        )


def _parts(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object in a JSON tree."""
    if isinstance(tree, dict):
        yield tree
    for child in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _parts(child)
