"""Columns of rows in memory: the rows' values, within bounds; conditions on them find what DuckDB finds in Parquet."""

import datetime as dt
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wordpipe.search import FieldColumns, RowFilter, read_question, rows_matching

TEXTS = ["de", "en", "d'e", "Ωmega", "ёлка", "東京", "e\u0301tude", "", "100 %", "a_b", "long " * 40, None]
LABELS = ["urgent", "later", "größer", "", None]


def made_rows(seed: int, size: int) -> pa.Table:
    """Random rows with missing values, lists, dates, numbers that are not finite, and texts of many scripts."""
    rng = np.random.default_rng(seed)

    def some(values: Sequence[Any]) -> list[Any]:
        return [values[number] for number in rng.integers(0, len(values), size).tolist()]

    days = [None, *(dt.date(1960, 1, 1) + dt.timedelta(days=int(one)) for one in rng.integers(0, 30_000, 30))]
    times = [None if day is None else dt.datetime(day.year, day.month, day.day, 23, 59, 59, 5) for day in days]
    lists = [None if kind == 0 else some_of(rng, int(kind) - 1) for kind in rng.integers(0, 5, size)]
    return pa.table(
        {
            "text": pa.array(some(TEXTS), pa.string()),
            "alone": pa.array([f"{row} {row % 7}ß" for row in range(size)]),
            "year": pa.array(some([None, *range(1990, 2011)]), pa.int64()),
            "large": pa.array(some([2**62 + 1, 2**62, -(2**62), 0, None]), pa.int64()),
            "small": pa.array(some([0, 1, 255]), pa.uint8()),
            "score": pa.array(some([0.5, -1.5, float("nan"), float("inf"), None, 0.1]), pa.float64()),
            "half": pa.array(some([0.1, 0.5, None]), pa.float32()),
            "price": pa.array(some([Decimal("1.50"), None]), pa.decimal128(9, 2)),
            "is new": pa.array(some([True, False, None])),
            "open": pa.array(some([True, None])),
            "labels": pa.array(lists, pa.list_(pa.string())),
            "day": pa.array(some(days), pa.date32()),
            "time": pa.array(some(times), pa.timestamp("us")),
            "record": pa.array(some(['{"kind": "pump"}', '{"kind": null}', "no object", None]), pa.string()),
        }
    )


def some_of(rng: np.random.Generator, n: int) -> list[str | None]:
    return [LABELS[number] for number in rng.integers(0, len(LABELS), n)]


CONDITIONS = """
text = 'de'
text <> 'de'
text in ('en', 'd''e', 'ёлка')
text like '%e%'
text ilike 'Ω%'
text not like 'd%'
text is null
not (text = 'de' or year = 2000)
lower(text) = 'ωmega'
text >= 'en'
length(text) = 2
strip_accents(text) like 'etude%'
regexp_matches(text, '^[a-z]+$')
alone like '%3ß'
alone < '2'
alone = '5 5ß'
year between 1995 and 2000
year is null or year > 2005
year % 2 = 0 and text = 'en'
year = 2000 or labels is null
large = 4611686018427387905
large > 0
small = 255
score > 0
score < 0.5
score = 'nan'
score >= 'inf'
not (score > 0)
half = 0.1
price = 1.5
"is new"
not "is new" and small > 0
"is new" is null
'urgent' in labels
not ('urgent' in labels)
list_contains(labels, 'größer')
len(labels) = 2
len(labels) = 0
labels is null
day >= '1990-01-01'
year(day) < 1970
day = time::date
time < '1980-06-01'
month(time) = 4
case when record like '{%' then record->>'kind' end = 'pump'
text || 'x' = 'dex'
1 = 1
1 = 2
text = 'de' and year > 2000 and 'later' in labels and score > 0
""".strip().splitlines()


@pytest.mark.parametrize("most_bytes", [1 << 30, 0])
@pytest.mark.parametrize("seed", range(4))
def test_conditions_find_what_duckdb_finds_in_parquet(seed, most_bytes, tmp_path):
    """With all columns in memory, and with none."""
    table = made_rows(seed, [3, 40, 500, 700][seed])
    pq.write_table(table, tmp_path / "rows.parquet")
    slow = duckdb.connect()
    columns = FieldColumns(table.schema, lambda names: table.select(names).to_batches(97), len(table), most_bytes)
    found, said = RowFilter(columns), dict[str, int]()
    for condition in CONDITIONS:
        query = f"SELECT ({condition}) FROM read_parquet('{tmp_path / 'rows.parquet'}')"
        expected = [one is True for (one,) in slow.execute(query).fetchall()]
        assert found.rows(condition).tolist() == expected, condition
        said[condition] = sum(expected)
    found.close()
    assert seed < 3 or all(said[one] for one in CONDITIONS if one != "1 = 2"), said


def test_values_are_those_of_the_rows_and_texts_that_repeat_are_kept_once():
    table = made_rows(5, 500)
    columns = FieldColumns(table.schema, lambda names: table.select(names).to_batches(97), len(table))
    for name in table.column_names:
        assert str(columns.values(name).to_pylist()) == str(table[name].to_pylist()), name
    dictionaries = {name for name in table.column_names if "dictionary" in str(columns.values(name).type)}
    assert dictionaries == {"text", "labels", "record"}


def test_a_slice_of_lists_keeps_its_items():
    table = pa.table({"labels": [["no"], ["a", "b"], None, [], ["a"]] + [["b", None]] * 10})
    part = table.slice(1)
    columns = FieldColumns(table.schema, lambda names: part.select(names).to_batches(), len(part))
    assert columns.values("labels").to_pylist() == part["labels"].to_pylist()


def test_the_columns_used_last_stay_and_one_that_is_too_large_does_not():
    rows, read = 1000, list[str]()
    table = pa.table(
        {
            "a": np.arange(rows),
            "b": np.arange(rows),
            "c": np.arange(rows),
            "d": ["long " * 1000] * 8 + [str(n) for n in range(rows - 8)],
        }
    )

    def batches(names: Sequence[str]) -> list[pa.RecordBatch]:
        read.extend(names)
        return table.select(names).to_batches(100)

    columns = FieldColumns(table.schema, batches, rows, most_bytes=17_000)  # two of 8,000
    for name in ("a", "b", "a", "c", "a", "b"):
        assert columns.values(name).to_pylist() == table[name].to_pylist()
    assert read == ["a", "b", "c", "b"]  # b was used before a when c came
    assert columns.table(["a", "b"]).equals(table.select(["a", "b"]))
    assert columns.table(["a", "b", "c"]) is None
    read.clear()
    for _ in range(2):
        assert columns.values("d").to_pylist() == table["d"].to_pylist()
        assert columns.kept("d") is None
    assert read == ["d"] * 3  # tried once, then read each time
    found = RowFilter(columns)
    assert np.flatnonzero(found.rows("a = 5 and b < 7 and c = 5")).tolist() == [5]
    found.close()


def test_a_database_that_failed_is_opened_anew():
    table = made_rows(6, 50)
    found = RowFilter(FieldColumns(table.schema, lambda names: table.select(names).to_batches(), len(table)))
    expected = found.rows("text = 'de'")
    for _ in range(2):
        with pytest.raises(Exception, match="Could not convert"):
            found.rows("text::int = 4")
        np.testing.assert_array_equal(found.rows("text = 'de'"), expected)
    found.close()
    np.testing.assert_array_equal(found.rows("text = 'de'"), expected)  # a closed one opens, too
    found.close()


# ---- field:value


class Searched:
    """Rows without words."""

    def __init__(self, columns: FieldColumns) -> None:
        self.lexical = range(columns.rows)
        self.field_values = columns.values


def days(value: Any) -> str:
    return "" if value is None else value.isoformat()[:10]


SLOWLY = {
    "text:de": lambda row: re.search(r"(?<!\w)de(?!\w)", row["text"] or "") is not None,
    "text:étude": lambda row: (row["text"] or "").startswith("e\u0301tude"),
    "alone:3ß": lambda row: row["alone"].split()[1] == "3ß",
    "text:東京": lambda row: row["text"] == "東京",
    "text:d..eo": lambda row: row["text"] in ("de", "d'e", "en"),
    "year:2000": lambda row: row["year"] == 2000,
    "year:1995..2000": lambda row: 1995 <= (row["year"] or 0) <= 2000,
    "year:>2005": lambda row: (row["year"] or 0) > 2005,
    "year:<1995": lambda row: (row["year"] or 3000) < 1995,
    "large:4611686018427387905": lambda row: row["large"] == 2**62 + 1,
    "small:>=1": lambda row: row["small"] >= 1,
    "small:<300": lambda row: True,
    "score:>0": lambda row: row["score"] is not None and row["score"] > 0,
    "half:0.1": lambda row: False,  # which no 32-bit number is
    "half:0.5": lambda row: row["half"] == 0.5,
    "price:1.5": lambda row: row["price"] is not None,
    "price:>1.5": lambda row: False,
    "open:yes": lambda row: row["open"] is True,
    "labels:urgent": lambda row: "urgent" in (row["labels"] or ()),
    "labels:GROSSER": lambda row: "größer" in (row["labels"] or ()),
    "labels:größer": lambda row: "größer" in (row["labels"] or ()),
    "day:1970..1990": lambda row: "1970" <= days(row["day"]) < "1991",
    "time:>1990": lambda row: days(row["time"]) >= "1991",
    "time:1960..1970-06": lambda row: "1960" <= days(row["time"]) < "1970-07",
}


@pytest.mark.parametrize("seed", range(3))
def test_fields_of_a_question_find_what_one_finds_row_by_row(seed):
    table = made_rows(seed, [5, 60, 800][seed])
    columns = FieldColumns(table.schema, lambda names: table.select(names).to_batches(50), len(table))
    kinds: dict[str, Any] = {
        "text": "text",
        "alone": "text",
        "year": "number",
        "large": "number",
        "small": "number",
        "score": "number",
        "half": "number",
        "price": "number",
        "open": "flag",
        "labels": "text",
        "day": "date",
        "time": "date",
    }
    for query, holds in SLOWLY.items():
        clause = read_question(query, kinds).clause
        assert clause is not None, query
        found = rows_matching(clause, Searched(columns))  # type: ignore[arg-type]
        assert found.tolist() == [holds(row) for row in table.to_pylist()], query
