"""Conditions on rows such as `year > 2000 and lang = 'de'`: DuckDB's expressions over the rows' own columns, as they are read.

The expression is parsed before anything runs. It is a single one, of comparisons, a few functions and the columns that there
are: a list of what is allowed, as one of what is forbidden is never whole: `repeat('x', 1000000000)`, `range(1000000000)` and
`pg_sleep(60)` are expressions too, and `random()` and `current_setting('threads')` say nothing about a row. The database
may open no file and load no extension, its settings are locked, and its memory has an end.
"""

import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from functools import cache
from itertools import accumulate
from typing import Any

import pyarrow as pa

from wordpipe.artifacts import is_json, type_name
from wordpipe.errors import ConfigError
from wordpipe.runtime import ADDRESS_SPACE, need_address_space
from wordpipe.search.field_columns import Batches, first_values
from wordpipe.wording import is_unicode

_SAFE: dict[str, Any] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "python_enable_replacements": "false",
    "memory_limit": "2GB",
}
_TYPED = 6  # columns that an error names with their types
_DEEPEST = 200  # brackets within each other
_LONGEST = 100_000  # characters of a condition
_MOST = 2_000  # conditions joined in one: 20,000 took 19 s and 435 MB
_SHOWN = 300  # characters of a condition, or of what is wrong with it, in an error

_EXAMPLE = "year > 2000 and lang = 'de'"
_CLAUSES = ("where_clause", "having", "qualify", "sample", "group_expressions", "modifiers")
_CLASSES = {
    "CONJUNCTION", "COMPARISON", "BETWEEN", "OPERATOR", "FUNCTION", "CASE", "CAST", "TYPE", "COLLATE", "COLUMN_REF",
    "CONSTANT",
}  # fmt: skip
_CALLED = {
    "SUBQUERY": "a subquery", "STAR": "a star", "PARAMETER": "a parameter", "POSITIONAL_REFERENCE": "the number of a column",
    "WINDOW": "a window", "LAMBDA": "a lambda",
}  # fmt: skip
_WRITTEN = {
    "abs", "ceil", "contains", "date_part", "date_trunc", "day", "ends_with", "floor", "left", "len", "length",
    "list_contains", "lower", "ltrim", "month", "regexp_full_match", "regexp_matches", "right", "round", "rtrim",
    "starts_with", "strip_accents", "substr", "substring", "trim", "upper", "year",
}  # fmt: skip
_MEANT = {
    "+", "-", "*", "/", "//", "%", "||", "->>", "~~", "!~~", "~~*", "!~~*", "~~~", "like_escape", "not_like_escape",
    "ilike_escape", "not_ilike_escape", "list_value", "to_years", "to_months", "to_weeks", "to_days", "to_hours",
    "to_minutes", "to_seconds", "trunc",
}  # fmt: skip
"""What operators, lists and intervals are to DuckDB. What each makes is no longer than what it is given."""
_SIGNS = {"=>": ">=", "=<": "<=", "&&": "and", "&": "and", "||": "or", "|": "or", "!": "not", "->": "->>"}
_SIGN = re.compile(r"""'[^']*'|"[^"]*"|->>|!=|!~|(=>|=<|&&?|\|\|?|!|->)""")
"""Signs of other languages, beside texts and names, in which they stand for themselves."""
_QUOTED, _JOINS = re.compile(r"""'[^']*'|"[^"]*\""""), re.compile(r"\b(?:and|or)\b", re.IGNORECASE)
_CURLY = re.compile("[‘’‚‛]([^‘’‚‛']*)[‘’‛]|[“”„‟]([^“”„‟]*)[“”‟]")
_GROUPED = re.compile(r"(?:[<>=]|\bbetween|\band)\s*(\d{1,3}(?:[, ]\d{3})+)(?![\d.,])", re.IGNORECASE)
TABLE = "rows"  # what the table is called in a condition: `rows.year` is `year`
_NOT_IN_EXAMPLES = {"row", "doc_id", "title", "text", "source", "line", "id", "record_id", "sentence_id", "anchor",
                    "see_also"}  # fmt: skip
_ORDER = re.compile(r"\border\s+by\b|\blimit\s+\d", re.IGNORECASE)


@contextmanager
def locked_database() -> Iterator[Any]:
    """Open a DuckDB in memory that reaches no file, no network, no extension and no variable of Python, and stays so.

    Raises:
        BudgetError: `ulimit -v` leaves too little address space for its threads.
    """
    need_address_space(ADDRESS_SPACE["condition"])
    import duckdb

    with duckdb.connect(":memory:", config=_SAFE) as database:
        database.execute("SET lock_configuration = true").fetchall()
        yield database


def misfit(condition: str, reason: str, schema: pa.Schema, hint: str = "") -> ConfigError:
    """Return the error for a condition that does not fit the columns, with the reason, a hint and the columns."""
    typed = len(schema) <= _TYPED  # of more the types hide the names
    columns = ", ".join(quoted(field.name) + (f" ({type_name(field)})" if typed else "") for field in schema)
    what, listed = "the condition does not fit the columns", f"columns: {columns}"
    return ConfigError(what, where=_short(condition), got=_short(reason), hint=f"{hint}; {listed}" if hint else listed)


def _no_column(condition: str, name: str, tree: Any, schema: pa.Schema, batches: Batches) -> ConfigError:
    """Return the error for a column of a condition that is missing, with similar names."""
    whole, name, last = name.split("."), _short(name), name.rpartition(".")[2]
    listed = re.search(rf'(?<!\w)"?{re.escape(name)}"?\s+(?:not\s+)?in\s+"?(\w+)', condition, re.IGNORECASE)
    is_value = (listed and listed[1] in schema.names) or re.search(rf'[=<>]\s*"?{re.escape(name)}(?!\w)', condition)
    objects = [
        field.name for field in schema if is_json(field) and _is_key(whole[0], first_values(batches, field.name))
    ]
    near = get_close_matches(name, schema.names, n=3, cutoff=0.6)
    near = near or [known for known in schema.names if known.lower() in (name.lower(), last.lower())]
    kind = ":int" if any(constant(part)[:1].isdigit() for part in parts_of(tree)) else ""
    hint = f"to make a field of the records a column, run: wordpipe ingest … --metadata {quoted(name)}{kind}"
    if near:
        hint = f"did you mean {', '.join(map(quoted, near))}? Otherwise, {hint}"
    if is_value:
        hint = f"write a text in single quotes: '{name}'" + (f"; {hint}" if near else "")
    elif not near and (meant := _field_with(name, schema, batches)):
        hint = f"did you mean {meant}?"
    if objects:
        hint = f"write a field of an object as {' or '.join(_reaching([one, *whole]) for one in objects)}"
    return misfit(condition, f"no column {name}", schema, hint)


def _field_with(value: str, schema: pa.Schema, batches: Batches) -> str:
    """Return the comparison of a field with a value that a condition names, if a field has the value; else ""."""
    for field in schema:
        if pa.types.is_string(field.type):
            known = next((one for one in first_values(batches, field.name) if one.lower() == value.lower()), None)
            if known is not None:
                return f"{quoted(field.name)} = {text_of(known)}"
    return ""


def example_of(schema: pa.Schema, batches: Batches) -> str:
    """Return a condition on a number and a text of the rows, as an example."""
    number, text = "", ""
    for field in schema:
        if field.name in _NOT_IN_EXAMPLES or quoted(field.name) != field.name:
            continue
        values = first_values(batches, field.name)
        if not number and (pa.types.is_integer(field.type) or pa.types.is_floating(field.type)) and len({*values}) > 1:
            number = f"{field.name} > {sorted(values)[len(values) // 2]}"
        if not text and pa.types.is_string(field.type):
            often = [one for one, n in Counter(values).most_common(9) if n > 1 and re.fullmatch(r"\w[\w -]{0,30}", one)]
            text = f"{field.name} = {text_of(often[0])}" if often else ""
    return " and ".join(filter(None, [number, text])) or _EXAMPLE


def with_example(error: ConfigError, schema: pa.Schema, batches: Batches) -> ConfigError:
    """Return the error for a condition with an example of these rows, and with their columns."""
    names = ", ".join(quoted(field.name) for field in schema)
    hint = (error.hint or "").replace(_EXAMPLE, example_of(schema, batches))
    error.hint = f"{hint}; columns: {names}" if hint else f"columns: {names}"
    return error


def _is_key(name: str, texts: Iterable[str]) -> bool:
    """True if a field of this name, which a condition names, stands in any of the objects."""
    for text in texts:
        with suppress(ValueError, RecursionError):
            if isinstance(found := json.loads(text), dict) and name in found:
                return True
    return False


_CASTS = {"INTEGER": "DOUBLE", "BIGINT": "BIGINT", "HUGEINT": "BIGINT", "DECIMAL": "DOUBLE", "DOUBLE": "DOUBLE",
          "BOOLEAN": "BOOLEAN", "DATE": "DATE", "TIMESTAMP": "TIMESTAMP", "TIME": "TIME"}  # fmt: skip
_TYPE_CLASH = re.compile(r"type VARCHAR\b.*\btype (\w+?)(?:_LITERAL)?\b|type (\w+?)(?:_LITERAL)?\b.*\btype VARCHAR\b")


def fit_hint(condition: str, reason: str, tree: Any, schema: pa.Schema, batches: Batches) -> str:
    """Return a hint that would make a condition fit: the form for a list or a field of an object, or a cast of a text."""
    # every part of the condition: a column beside constants may be a list, an object or a text
    known = {field.name.lower(): field for field in schema}
    texts, constants = [], []
    for part in parts_of(tree):
        path, sides = path_of(part, known), [*sides_of(part)]
        beside = [one for side in sides if (one := constant(side))]
        constants += beside
        if len(path) > 1 and pa.types.is_string(known[path[0].lower()].type):
            return f"write a field of an object as {_reaching(path)}"
        # a list or an object that is compared as a whole
        is_compared = beside and part.get("type") != "ARRAY_EXTRACT" and part.get("function_name") not in _TAKE_APART
        for side in sides:
            found = path_of(side, known)
            field = known[found[0].lower()] if len(found) == 1 else None
            name = quoted(field.name) if field else ""
            if field and is_compared and pa.types.is_list(field.type):
                return f"{name} is a list, so write {beside[0].replace('%', '')} in {name}"
            if field and is_compared and is_json(field):
                return f"{name} contains objects, so write a field of an object as {name}->>'FIELD'"
            # a text, or a field of an object, which is text: the cast that it needs
            if side.get("function_name") == "->>":
                name = "->>".join(constant(one) or ".".join(map(quoted, path_of(one, known))) for one in sides_of(side))
            if name and (field is None or pa.types.is_string(field.type)):
                texts.append((bool(beside and beside[0][0] != "'"), name))
    if not texts:
        return _meant(condition)
    text = max(texts, key=lambda one: one[0])[1]  # what stands beside a number, before what stands elsewhere
    return _text_hint(text, reason, constants, schema, batches) or _meant(condition)


_DATE = re.compile(r"\d{4}-\d\d-\d\d(?!\d)")
_OF_DATES = ("year", "month", "day", "date_part", "date_trunc")


def _text_hint(text: str, reason: str, constants: Sequence[str], schema: pa.Schema, batches: Batches) -> str:
    """Return a hint on comparing a column of text, or a field of an object; "" if none is known."""
    plain = next((field.name for field in schema if quoted(field.name) == text), None)
    dates = [] if plain is None else [one for one in first_values(batches, plain) if _DATE.match(str(one))]
    if dates and ("date field" in reason or "timestamp field" in reason):
        return f"some values are not dates, so use TRY_CAST({text} AS DATE), which gives null for these values"
    clash = _TYPE_CLASH.search(reason)
    is_number = clash and (clash[1] or clash[2]) not in ("DATE", "TIMESTAMP")
    if dates and any(f"'{one}(" in reason for one in _OF_DATES):
        return f"{text} contains dates as text, so write {text}::date, for example year({text}::date)"
    if dates and is_number:
        year = next((one for one in constants if re.fullmatch(r"(1[5-9]|20)\d\d", one)), str(dates[0])[:4])
        return f"{text} contains dates as text, so write {text} >= '{year}-01-01', or year({text}::date) for the year"
    if clash:
        kind = _CASTS.get(clash[1] or clash[2], clash[1] or clash[2])
        return f"{text} is text, so use TRY_CAST({text} AS {kind})"
    if "Could not convert string" in reason and not any(f"string {one}" in reason for one in constants):
        return f"some values are not integers, so use TRY_CAST({text} AS BIGINT), which gives null for these values"
    if "Malformed JSON" in reason:
        name = text.partition("->>")[0]
        return f"some values are not objects, so use case when {name} like '{{%' then {text} end"
    return ""


_TAKE_APART = ("contains", "list_contains", "->>")
_FIELD, _ITEM = "write a field of an object as COLUMN->>'FIELD'", "to search in a list, write 'ITEM' in COLUMN"
_INSTEAD = {
    "row": "write and between conditions", "@>": _ITEM, "any": _ITEM, "->": _FIELD, "json_extract": _FIELD,
    "json_extract_string": _FIELD, "json_value": _FIELD,
}  # fmt: skip


def _meant(condition: str) -> str:
    """Return what SQL writes for signs of other languages in a condition; "" if there are none."""
    if _ORDER.search(condition):
        return "hits are sorted by score; for another order, sort the output of --json or --format tsv; -k N limits the hits"
    if grouped := _GROUPED.search(_QUOTED.sub("", condition)):
        mark = "comma" if "," in grouped[1] else "space"
        return f"write {re.sub('[, ]', '', grouped[1])} without a {mark}"
    signs = dict.fromkeys(sign[1] for sign in _SIGN.finditer(condition) if sign[1])
    return ", ".join(f"write {_SIGNS[sign]} instead of {sign}" for sign in signs)


def _reaching(path: Sequence[str]) -> str:
    """Return a field of an object as it is written in a condition, by its path."""
    plain = len(path) == 2 and re.fullmatch(r"\w+", path[1])
    steps = [step if re.fullmatch(r"\w+", step) else f'"{step}"' for step in path[1:]]
    return f"{quoted(path[0])}->>" + text_of(path[1] if plain else f"$.{'.'.join(steps)}")


def quoted(name: str) -> str:
    """Return a column as it is written in a condition."""
    is_plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.lower() not in _keywords()
    return name if is_plain else '"' + name.replace('"', '""') + '"'


@cache
def _keywords() -> frozenset[str]:
    """Return the words of SQL that are columns of a condition only in double quotes."""
    kinds = "('reserved', 'type_function')"
    with locked_database() as database:
        found = database.execute(f"SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category IN {kinds}")  # noqa: S608
        return frozenset(name for (name,) in found.fetchall())


_APART = r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/"""
"""Texts, names in double quotes and comments: they stand for themselves."""
_COMPARED = re.compile(r"\s*(?:[=<>!~%*/+|-]|::|(?:not\s+)?(?:in|i?like|between|similar|glob)\b|is\b)", re.IGNORECASE)
_COMPARES = re.compile(r"(?:[=<>!~%*/+|-]|\bin)\s*$", re.IGNORECASE)


_TEXT_FOLLOWS = re.compile(r"(?:[=<>]|\blike|\bin\s*\()\s*$", re.IGNORECASE)
_BESIDE, _NEAR_NAMES = 40, 50  # characters before a text; texts that are compared with names of columns


def _in_quotes(condition: str, names: Iterable[str], *, everywhere: bool = True) -> str:
    """Return the condition with these columns in double quotes; a word of SQL only where it is compared, or everywhere."""
    known = {name.lower(): name for name in names} | {name: name for name in names}
    listed = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))

    def put(found: re.Match[str]) -> str:
        name = found[1]
        if name is None:
            return found[0]
        before = condition[max(0, found.start() - 40) : found.start()]
        is_compared = _COMPARED.match(condition, found.end()) or _COMPARES.search(before)
        is_word = name.lower() in _keywords()
        return quoted(known.get(name) or known[name.lower()]) if everywhere or is_compared or not is_word else name

    return re.sub(rf"{_APART}|(?<!\w)({listed})(?!\w)", put, condition, flags=re.DOTALL | re.IGNORECASE)


def understood(database: Any, condition: str, schema: pa.Schema, batches: Batches) -> tuple[str, Any, list[str]]:
    """Return the condition as DuckDB reads it, its tree, and the columns that it names.

    A column that is called as a word of SQL, or with blanks or signs, may stand without the double quotes that it needs, and
    a text in curly or double quotes, where it can be nothing else.

    Raises:
        ConfigError: it is no condition, or on a column that is not there.
    """
    if not is_unicode(condition):
        raise with_example(not_a_condition(ascii(condition), "bytes that are not UTF-8"), schema, batches)
    try:
        return _first_reading(database, condition, schema, batches)
    except RecursionError:
        deep = not_a_condition(condition, "an expression that is nested too deeply")
        raise with_example(deep, schema, batches) from None


def _first_reading(database: Any, condition: str, schema: pa.Schema, batches: Batches) -> tuple[str, Any, list[str]]:
    """Return what `understood` does, of the first reading of a condition that names columns, and no others."""
    # as it is written, and with the columns in quotes that need these
    special = [name for name in schema.names if name and quoted(name) != name]
    readings = (
        [_in_quotes(condition, special, everywhere=everywhere) for everywhere in (False, True)] if special else []
    )
    straight = _straight(condition, schema.names)
    # the first reading that names columns, and no others
    wrong, other, alone = None, None, None
    for reading in dict.fromkeys([condition, *readings, straight]):
        try:
            tree = _parsed(database, reading)
        except ConfigError as error:
            wrong = wrong or with_example(error, schema, batches)
            continue
        named, unknown = named_columns(tree, schema.names)
        if named and not unknown:
            return reading, tree, named
        if unknown:
            other = other or _no_column(reading, unknown[0], tree, schema, batches)
        alone = alone or (reading, tree, named)  # true or false of all rows
    # none does: true or false of all rows, or an error
    if (wrong := other or wrong) is None and alone is not None:  # a name tells more than a sign
        return alone
    assert wrong is not None
    if readings and readings[-1] != condition:
        hint = f"write names with spaces or symbols, and SQL keywords, in double quotes: {_short(readings[-1])}"
        wrong.hint = f"{hint}; {wrong.hint}" if wrong.hint else hint
    try:
        raise wrong
    finally:  # an error that its own frame names would keep the index in memory until the cycle collector comes
        del wrong, other


def _straight(condition: str, names: Sequence[str]) -> str:
    """Return the condition with texts in straight single quotes that stand in curly ones, or, compared, in double ones."""
    known, near, end = {name.lower() for name in [*names, TABLE]}, dict[str, bool](), -1  # end: of the last such text

    def put(found: re.Match[str]) -> str:
        nonlocal end
        if (curly := next((one for one in found.groups() if one is not None), None)) is not None:
            end = found.end()
            return text_of(curly)
        name, start = found[0][1:-1], found.start()
        follows = _TEXT_FOLLOWS.search(condition[max(0, start - _BESIDE) : start]) or (
            end >= 0 and re.fullmatch(r"\s*,\s*", condition[end:start])  # another one of a list
        )
        end = -1
        if found[0][0] != '"' or name.lower() in known or not follows:
            return found[0]
        if name not in near and len(near) < _NEAR_NAMES:
            near[name] = bool(get_close_matches(name, names, n=1, cutoff=0.6))
        if near.get(name):
            return found[0]
        end = found.end()
        return text_of(name)

    return re.sub(rf"{_CURLY.pattern}|{_APART}", put, condition, flags=re.DOTALL)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _parsed(database: Any, condition: str) -> Any:
    """Return the tree of what the user wrote, which DuckDB parses and does not run.

    Raises:
        ConfigError: it is not a single expression, or says more than it may.
    """
    if not condition.strip():
        raise ConfigError("the condition is empty", hint=f'write, for example, --where "{_EXAMPLE}", or omit --where')
    if len(condition) > _LONGEST:
        raise _too_long(condition, f"{len(condition):,} characters", f"at most {_LONGEST:,}")
    if (joined := 1 + len(_JOINS.findall(_QUOTED.sub("", condition)))) > _MOST:
        raise _too_long(condition, f"{joined:,} conditions joined with and / or", f"at most {_MOST:,}")
    # of brackets that are not closed DuckDB's parser takes the square of their number: of 3,000 it took 23 s
    if max(accumulate({"(": 1, ")": -1}.get(sign, 0) for sign in condition)) > _DEEPEST:
        raise not_a_condition(condition, "an expression that is nested too deeply")
    text = database.execute("SELECT json_serialize_sql(?)", [f"SELECT ({condition}\n)"]).fetchall()[0][0]
    tree = json.loads(text)
    if tree["error"]:
        raise not_a_condition(condition, str(tree["error_message"]).splitlines()[0])
    node = tree["statements"][0]["node"] if len(tree["statements"]) == 1 else {}
    alone = node.get("from_table", {}).get("type") == "EMPTY" and len(node["select_list"]) == 1
    if not alone or any(node.get(clause) for clause in _CLAUSES):
        raise not_a_condition(condition, "more than one expression, or a clause such as ORDER BY")
    for part in parts_of(node["select_list"]):
        _refuse_part(condition, part)
    return node["select_list"]


def _too_long(condition: str, got: str, expected: str) -> ConfigError:
    hint = "to compare a column with many values, write COLUMN in (VALUE, VALUE, …)"
    return ConfigError("the condition is too long", where=_short(condition), got=got, expected=expected, hint=hint)


def not_a_condition(condition: str, got: str, meant: str = "") -> ConfigError:
    """Return the error for what is no condition, with what may be meant, and an example of a condition."""
    what, example = "this is not a condition on columns", f'for example --where "{_EXAMPLE}"'
    meant = meant or _meant(condition)
    hint = f"{meant}; {example}" if meant else example
    return ConfigError(what, where=_short(condition), got=_short(got), expected="one expression", hint=hint)


def _refuse_part(condition: str, part: dict[str, Any]) -> None:
    """Refuse a part of a condition that is not allowed, such as a subquery or an unknown function (ConfigError)."""
    # objects without a class are what expressions are made of, such as values
    kind = str(part.get("class", "CONSTANT"))
    if kind not in _CLASSES:
        raise not_a_condition(condition, _CALLED.get(kind, kind.lower()))
    function = str(part.get("function_name", ""))
    if function == "->>" and not re.match(r"'(?!\$.*(\*|\.\.))", constant([{}, *sides_of(part)][-1])):
        raise not_a_condition(condition, "->> without one field name after it; write, for example, customer->>'city'")
    if function == "row":
        raise not_a_condition(condition, "a comma", _meant(condition) or _INSTEAD["row"])
    if kind == "FUNCTION" and function.lower() not in _WRITTEN | _MEANT:
        example = f'compare a column with a value, for example --where "{_EXAMPLE}"'
        known = _meant(condition) or _INSTEAD.get(function.lower())
        what, hint = "a condition cannot use this function", known or example
        expected = None if known else ", ".join(sorted(_WRITTEN))
        raise ConfigError(what, where=_short(condition), got=_short(function), expected=expected, hint=hint)


def parts_of(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in the JSON tree of a condition."""
    if isinstance(tree, dict):
        yield tree
    for child in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from parts_of(child)


def sides_of(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the expressions that an expression of a condition is made of: what it compares, its items, its arguments."""
    for value in part.values():
        for item in value if isinstance(value, list) else [value]:
            one = item.get("expression", item) if isinstance(item, dict) else {}
            if "class" in one:
                yield one


def constant(part: dict[str, Any]) -> str:
    """Return a constant of a condition, a text or a number, as it is written; nothing for all else."""
    if part.get("class") != "CONSTANT":
        return ""
    literal, value = part.get("literal"), part.get("value")  # the second of DuckDB before 2
    if isinstance(literal, dict) and "text" in literal:
        return text_of(literal["text"]) if literal["kind"] == "STRING" else str(literal["text"])
    found = value.get("value") if isinstance(value, dict) else None
    return text_of(found) if isinstance(found, str) else "" if found is None else str(found)


def text_of(text: str) -> str:
    """Return a text as it is written in a condition."""
    return "'" + text.replace("'", "''") + "'"


def path_of(part: dict[str, Any], known: Container[str]) -> list[str]:
    """Return the column that a part of a condition names, as spelled there, and the fields within; nothing if unknown."""
    if part.get("class") == "COLUMN_REF":
        path = part["column_names"]
        path = path[1:] if path[0].lower() == TABLE and len(path) > 1 and TABLE not in known else path
        return path if path[0].lower() in known else []
    if part.get("type") in ("ARRAY_EXTRACT", "STRUCT_EXTRACT"):
        base, key = [*sides_of(part), {}, {}][:2]
        field = constant(key)
        return [*path, field[1:-1]] if (path := path_of(base, known)) and field.startswith("'") else []
    return []


def named_columns(tree: Any, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the columns that the expression of a condition names, and the names that are no columns.

    DuckDB tells capitals from small letters no more; a name that is written as a column's is that one. A column may have the
    table's name before it and fields after it.
    """
    known = {name.lower(): name for name in names} | {name: name for name in names}
    named, unknown = set(), []
    for part in parts_of(tree):
        if part.get("class") == "COLUMN_REF":
            if path := path_of(part, known):
                name, same = path[0], [one for one in names if one.lower() == path[0].lower()]
                if name not in names and len(same) > 1:  # it may be either
                    unknown.append(name)
                named.add(known.get(name) or known[name.lower()])
            else:
                unknown.append(".".join(part["column_names"]))
    return [name for name in names if name in named], unknown
