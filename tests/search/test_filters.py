import json
from collections.abc import Callable, Iterable, Iterator, Sequence

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from wordpipe.errors import ConfigError
from wordpipe.search import FieldColumns, RowFilter, hints_on_empty, locked_database

SCHEMA = pa.schema([("row", pa.int64()), ("year", pa.int32()), ("lang", pa.string()), ("my column", pa.float64())])
Batches = Callable[[Sequence[str]], Iterable[pa.RecordBatch]]
LANGS = ["de", "en", None, "d'e"]


def made_rows(seed: int, size: int = 40) -> list[dict[str, object]]:
    rng = np.random.default_rng(seed)
    years = [None, *range(1990, 2011)]
    return [
        {
            "row": int(rng.integers(10)),
            "year": years[rng.integers(len(years))],
            "lang": LANGS[rng.integers(len(LANGS))],
            "my column": float(rng.normal()),
        }
        for _ in range(size)
    ]


def rows_where(condition: str, schema: pa.Schema, batches: Batches, rows: int, **options: float) -> np.ndarray:
    found = RowFilter(FieldColumns(schema, batches, rows), **options)
    try:
        return found.rows(condition)
    finally:
        found.close()


def asked(condition: str, table: list[dict[str, object]], read: list[str] | None = None) -> np.ndarray:
    def batches(names: Sequence[str]) -> list[pa.RecordBatch]:
        if read is not None:
            read.extend(names)
        return pa.Table.from_pylist(table, SCHEMA).select(list(names)).to_batches(7) if names else empty(len(table))

    return rows_where(condition, SCHEMA, batches, len(table))


def empty(rows: int) -> list[pa.RecordBatch]:
    return pa.Table.from_pylist([{"row": 0}] * rows, SCHEMA).to_batches(7)


@pytest.mark.parametrize(
    ("condition", "by_hand"),
    [
        ("year > 2000 and lang = 'de'", lambda r: r["year"] is not None and r["year"] > 2000 and r["lang"] == "de"),
        ("LANG IN ('en', 'd''e') OR Year IS NULL", lambda r: r["lang"] in ("en", "d'e") or r["year"] is None),
        ('"my column" >= 0 -- and more', lambda r: r["my column"] >= 0),
        ("not (lang like 'd%')", lambda r: r["lang"] is not None and not r["lang"].startswith("d")),
        ("row < 5", lambda r: r["row"] < 5),
        ("1 = 1", lambda r: True),
        ("rows.row between 2 and 4", lambda r: 2 <= r["row"] <= 4),
        ("lower(lang) ilike 'D%' and length(lang) < 3", lambda r: r["lang"] == "de"),
        (
            'year % 2 = 0 and -"my column" < 0.5 + 1',
            lambda r: (r["year"] or 1) % 2 == 0 and -r["my column"] < 1.5,
        ),
        ("case when lang is null then year > 2000 end", lambda r: r["lang"] is None and (r["year"] or 0) > 2000),
        (
            "lang similar to 'd.*' and year::varchar like '20%'",
            lambda r: (r["lang"] or "")[:1] == "d" and (r["year"] or 0) >= 2000,
        ),
    ],
)
def test_the_rows_are_those_that_one_picks_by_hand(condition, by_hand):
    table = made_rows(seed=len(condition))
    np.testing.assert_array_equal(asked(condition, table), [by_hand(row) for row in table])


def test_only_the_columns_named_are_read():
    read: list[str] = []
    asked("year > 2000 and rows.lang = 'de'", [{"year": 2001, "lang": "de"}], read)
    assert read == ["year", "lang"]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("year >", "not a condition"),
        ("year > 2000 limit 5", "not a condition"),
        ("year > 2000; drop table rows", "not a condition"),
        ("1=1) from rows where (1=1", "more than one expression"),
        ("1=1) where (1=1", "more than one expression"),
        ("1=1), (2=2", "more than one expression"),
        ("1=1) union select (1=1", "more than one expression"),
        ("exists (select 1)", "a subquery"),
        ("exists (from read_csv('/etc/passwd'))", "a subquery"),
        ("columns(*) > 1", "a star"),
        ("year > ?", "a parameter"),
        ("year", "not true or false"),
        ("yeer > 2000", "yeer"),
        ("lang > 2000", "Cannot compare values"),
        ("count(*) > 1", "cannot use this function"),
        ("row_number() over () > 1", "a window"),
        ("#1 > 2000", "the number of a column"),
        ("row_ < 2", "no column row_"),
        ("rows.row_ < 2", r"no column rows\.row_"),
        ("rows is not null", "no column rows"),
        ("rowid < 2", "no column rowid"),
        ("length(repeat('x', 1000000000)) > 1", "cannot use this function.*got repeat"),
        ("len(range(1000000000)) > 1", "got range"),
        ("pg_sleep(60) is null", "got pg_sleep"),
        ("random() < 0.5", "got random"),
        ("current_setting('threads') = 1", "got current_setting"),
        ("getvariable('x') = 1", "got getvariable"),
        ("len([x for x in [1, 2] if year > x]) > 1", "cannot use this function|a lambda"),
        ("cast(lang as int) > 1", "Could not convert string"),
    ],
)
def test_anything_else_is_refused_with_the_reason(condition, message):
    with pytest.raises(ConfigError, match=message) as caught:
        asked(condition, [{"row": 1, "year": 2001, "lang": "de", "my column": 0.5}])
    if message == "yeer":
        assert "year (int32), lang (string)" in caught.value.hint


@pytest.mark.parametrize(
    ("condition", "hint"),
    [
        ("year => 2000", "write >= instead of =>"),
        ("year =< 2000", "write <= instead of =<"),
        ("year > 2000 && lang = 'de'", "write and instead of &&; for example"),
        ("(year > 2000) && (lang = 'de')", "write and instead of &&"),
        ("year > 2000 || lang = '&&'", "write or instead of ||; for example"),
        ("(year > 2000) || (lang = 'de')", "write or instead of ||; for example"),
        ("! (lang = 'de') and year => 2000", "write not instead of !, write >= instead of =>"),
        ("year = 2000, lang = 'de'", "write and between conditions"),
        ("lang->'a' = 'de'", "write ->> instead of ->; for example"),
        ("json_extract(lang, 'a') = 'de'", "write a field of an object as COLUMN->>'FIELD'"),
        ("lang @> ['de']", "to search in a list, write 'ITEM' in COLUMN"),
        ("lang = 'a && b' and pg_sleep(1)", "compare a column with a value, for example"),
        ("", 'write, for example, --where "year > 2000'),
        (" ", 'write, for example, --where "year > 2000'),
        ("year > 100,000", "write 100000 without a comma; for example"),
        ("year between 1 000 and 2,000,000", "write 1000 without a space"),
        ("not lang", "compare the field: lang = '…'; where it is empty: lang = '' or lang is null; columns: "),
        (
            "year > 2000 and lang",
            "compare the field: lang = '…'; where it is empty: lang = '' or lang is null; columns: ",
        ),
        ("year", "compare the field: year is null, or year = …; for example"),
        ("lang = ‘de’ and", "for example"),
        ('lang = "year2"', "write a text in single quotes: 'year2'; did you mean year?"),
    ],
)
def test_what_other_languages_write_is_told_in_sql(condition, hint):
    with pytest.raises(ConfigError) as caught:
        asked(condition, made_rows(1))
    assert (caught.value.hint or "").startswith(hint)
    assert caught.value.message != ": not a condition"


def test_an_error_has_an_example_of_the_rows_and_their_fields():
    table = [{"row": n, "year": 1900 + n, "lang": "sv" if n % 2 else "da"} for n in range(9)]
    for condition in ("year >", "count(*) > 1", "lang"):
        with pytest.raises(ConfigError) as caught:
            asked(condition, table)
        said = '--where "year > 1903 and lang = \'da\'"; columns: row, year, lang, "my column"'
        assert caught.value.hint.endswith(said)
    with pytest.raises(ConfigError) as caught:
        asked("not SV", table)
    assert caught.value.hint.startswith("did you mean lang = 'sv'?; columns: ")


@pytest.mark.parametrize(
    "condition",
    [
        "lang = ‘de’",
        "lang = “de”",
        "lang = „de“ or lang = “d'e”",
        'lang = "de"',
        'lang in ("de", “d\'e”)',
        'lang in (“x”, "de")',
        " or ".join(['lang = "de"'] * 1_900),
        "'de' = \"lang\"",  # a column
    ],
)
def test_texts_may_stand_in_other_quotes_where_they_can_be_nothing_else(condition):
    table = [{"row": n, "lang": lang} for n, lang in enumerate(("de", "d'e", "en"))]
    assert asked(condition, table).tolist() == [True, "d'e" in condition, False]


def test_a_comparison_with_an_empty_text_says_how_texts_without_a_value_are_found():
    table = pa.Table.from_pylist([{"row": 0, "lang": None, "my column": 1.0}], SCHEMA)
    columns = FieldColumns(SCHEMA, lambda names: table.select(list(names)).to_batches(), 1)
    assert hints_on_empty("year > 1 or LANG=''", columns) == ["lang is null finds texts without a value"]
    assert hints_on_empty("\"my column\" = '' or lang = 'x'", columns) == []
    assert hints_on_empty("lang is null", columns) == []
    empty = pa.Table.from_pylist([{"row": 0, "lang": ""}], SCHEMA)
    columns = FieldColumns(SCHEMA, lambda names: empty.select(list(names)).to_batches(), 1)
    assert hints_on_empty("year > 1 and lang IS NULL", columns) == ["lang = '' finds texts in which it is empty"]


def test_a_name_that_no_column_has_tells_more_than_a_sign():
    with pytest.raises(ConfigError, match="write a text in single quotes: 'mail'"):
        asked('lang = mail and lang = ""', [{"row": 0, "lang": "a"}])


def test_an_empty_condition_says_so():
    with pytest.raises(ConfigError, match=r"^the condition is empty"):
        asked(" ", [])


@pytest.mark.parametrize("sign", ["==", "!=", "<>"])
def test_both_ways_to_write_equal_and_unequal_are_known(sign):
    table = made_rows(3)
    by_hand = [r["year"] is not None and (r["year"] == 2000) == (sign == "==") for r in table]
    np.testing.assert_array_equal(asked(f"year {sign} 2000", table), by_hand)


@pytest.mark.parametrize("path", ["'$.*'", "'$..a'", "'$[*]'", "lang", "lower('A')", "0"])
def test_one_field_of_an_object_is_had_and_no_more(path):
    """A wildcard makes more than it is given."""
    with pytest.raises(ConfigError, match="without one field name after it"):
        asked(f"lang->>{path} = 'x'", [{"row": 1}])


def test_fields_of_objects():
    texts = [json.dumps({"a": "de", "a*b": 1, "n": {"x y": 5}, "z": None}), None, "[]", "NaN"]
    table = [{"row": n, "lang": text} for n, text in enumerate(texts)]
    for condition in (
        "lang->>'a' = 'de'",
        "lang->>'a*b' = '1'",
        """lang->>'$.n."x y"' = '5'""",
        "lower(lang->>'a') = 'de'",
    ):
        assert asked(condition, table).tolist() == [True, False, False, False]
    assert asked("lang->>'z' is null", table).all()


def test_the_number_of_a_row_has_no_name_in_any_condition():
    """Also where the table's name is a column with a field of its name."""
    schema = pa.schema([("rows", pa.struct([("row", pa.int64())]))])
    table = pa.Table.from_pylist([{"rows": {"row": 10 - row}} for row in range(10)], schema)
    found = rows_where("rows.row < 3", schema, lambda names: table.to_batches(4), 10)
    assert np.flatnonzero(found).tolist() == [8, 9]


MANY = pa.schema([
    *SCHEMA, ("opened", pa.string()), ("labels", pa.list_(pa.string())),
    pa.field("machine", pa.string(), metadata={b"wordpipe.json": b"true"}), ("note", pa.string()),
])  # fmt: skip


@pytest.mark.parametrize(
    ("condition", "hint"),
    [
        (
            "opened > 2023",
            "opened contains dates as text, so write opened >= '2023-01-01', or year(",
        ),
        ("opened > 2023-01-01", "opened contains dates as text, so write opened >= '20"),
        ("year(opened) > 2023", "opened contains dates as text, so write opened::date, for example year(opened::date)"),
        ("month(opened) = 4", "opened contains dates as text, so write opened::date"),
        ("opened > date '2023-01-01'", "opened is text, so use TRY_CAST(opened AS DATE)"),
        ("year(opened::date) > 2022", "some values are not dates, so use TRY_CAST(opened AS DATE)"),
        ("note > 2023", "note is text, so use TRY_CAST(note AS DOUBLE)"),
        ("kind = 'pump'", "write a field of an object as machine->>'kind'"),
        ("kind.made > 3", "write a field of an object as machine->>'$.kind.made'"),
        ("urgent in labels", "write a text in single quotes: 'urgent'; columns: "),
        ("urgent not in labels", "write a text in single quotes: 'urgent'; columns: "),
        ("nothing in ('a', 'b')", "to make a field of the records a column"),
    ],
)
def test_hints_know_dates_objects_and_lists_by_the_values(condition, hint):
    rows = [
        {"opened": "2021-04-02", "labels": ["urgent"], "machine": '{"kind": "pump"}', "note": "broken"},
        {"opened": None, "machine": "no object"},
        {"opened": "unknown"},
    ]

    def batches(names: Sequence[str]) -> list[pa.RecordBatch]:
        return pa.Table.from_pylist(rows, MANY).select(list(names)).to_batches()

    with pytest.raises(ConfigError) as caught:
        rows_where(condition, MANY, batches, len(rows))
    assert caught.value.hint.startswith(hint)
    assert caught.value.hint.endswith('columns: row, year, lang, "my column", opened, labels, machine, note')


def test_a_condition_that_takes_too_long_is_ended():
    def batches(names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        many = pa.RecordBatch.from_pydict({"row": pa.array(np.arange(100_000))})
        for _ in range(5_000):
            yield many

    with pytest.raises(ConfigError, match=r"no result after 0\.1 s"):
        rows_where("row < 0", SCHEMA, batches, 500_000_000, seconds=0.1)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM '/etc/hostname'",
        "COPY (SELECT 1) TO 'out.csv'",
        "ATTACH 'other.db'",
        "INSTALL httpfs",
        "SET threads = 1",
        "SET enable_external_access = true",
        "SELECT * FROM outside",
    ],
)
def test_the_database_itself_reaches_nothing_outside(statement, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outside = pa.table({"row": [1]})
    with locked_database() as database, pytest.raises(duckdb.Error):
        database.execute(statement).fetchall()
    assert len(outside) == 1
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("enable_external_access", False),
        ("autoload_known_extensions", False),
        ("autoinstall_known_extensions", False),
        ("python_enable_replacements", False),
        ("lock_configuration", True),
    ],
)
def test_every_lock_is_closed(setting, value):
    with locked_database() as database:
        assert database.execute("SELECT current_setting(?)", [setting]).fetchall() == [(value,)]


WORDS_OF_SQL = ("order", "group", "when", "end", "from", "to", "desc", "table", "limit", "user", "ilike", "left")


def of_one(name: str, condition: str) -> list[bool]:
    table = pa.table({"row": [0, 1, 2], name: pa.array([7, 8, None])})
    return rows_where(
        condition.replace("@", name), table.schema, lambda names: table.select(names or ["row"]).to_batches(), 3
    ).tolist()


@pytest.mark.parametrize(
    "name",
    [
        "time (s)",
        "order",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("publication year", "a.b", "first-name", "2nd", "C++", "größe")
        ),
    ],
)
def test_a_column_with_any_name_is_asked_for_without_quotes(name):
    for condition in (
        "@ = 7",
        "7 = @",
        "@ < 8 and @ >= 7",
        "not @ in (8, 9)",
        "@ between 1 and 7",
        "abs(@) = 7",
        "@ + 1 = 8",
    ):
        assert of_one(name, condition) == [True, False, False], condition
    assert of_one(name, "@ is not null") == [True, True, False]
    assert of_one(name, "@ is null or @ = 8") == [False, True, True]
    assert of_one(name, "row = 0 and @ = 7 and '@' = '@'") == [True, False, False]
    quoted = '"' + name.replace('"', '""') + '"'
    assert of_one(name, f"{quoted} = 7 -- @") == [True, False, False]


@pytest.mark.slow
def test_every_word_of_sql_is_a_column():
    for (name,) in duckdb.sql("select distinct keyword_name from duckdb_keywords()").fetchall():
        assert of_one(name, "@ = 7") == [True, False, False], name


def test_words_of_sql_are_columns_or_the_message_says_how():
    for name in WORDS_OF_SQL:
        assert of_one(name, "@ > 6 and @ < 8") == [True, False, False], name
    assert of_one("ORDER", "order=7") == of_one("1", "@ = 7") == of_one("true", "@ = 7") == [True, False, False]
    assert of_one("end", "case when end = 7 then true else false end") == [True, False, False]
    assert of_one("when", "case when when = 7 then row = 0 end") == [True, False, False]
    assert of_one("and", "and = 7 and row = 0") == [True, False, False]
    with pytest.raises(ConfigError) as caught:
        of_one("order", "order by 7")
    assert 'write names with spaces or symbols, and SQL keywords, in double quotes: "order" by 7' in caught.value.hint


def test_names_that_differ_in_capitals_are_told_apart_or_refused():
    table = pa.table({"Year": [1, 2], "year": [3, 4], "größe": [5, 6]})

    def asked(condition):
        return rows_where(condition, table.schema, lambda names: table.select(names).to_batches(), 2).tolist()

    assert asked("Year = 2") == asked("year = 4") == asked("größe > 5") == [False, True]
    for condition, says in (("YEAR = 2", "no column YEAR"), ("Year = 2 and year = 4", "only in upper and lower case")):
        with pytest.raises(ConfigError, match=says) as caught:
            asked(condition)
    assert "Year" in caught.value.hint


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("price > 1400", [1, 4]), ("price + 1 <= 21", [0, 3]), ("price between 20 and 1500 and kind = 'b'", [1, 3]),
        ("price > '2'", [0, 3]), ("price = 20", [0, 3]), ("price like '2%'", [0, 3]), ("price is null", [5]),
    ],
)  # fmt: skip
def test_texts_that_are_all_numbers_are_compared_as_numbers_where_a_number_asks_for_them(condition, expected):
    prices = ["20", "1450.5", "", "20", "1490", None]
    table = pa.table({"row": range(6), "price": pa.array(prices), "kind": pa.array(["a", "b"] * 3)})
    found = rows_where(condition, table.schema, lambda names: table.select([*names]).to_batches(), 6)
    assert np.flatnonzero(found).tolist() == expected
