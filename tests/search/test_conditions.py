from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from wordpipe.errors import ConfigError
from wordpipe.search.conditions import rows_where

SCHEMA = pa.schema([("row", pa.int64()), ("year", pa.int32()), ("lang", pa.string()), ("my column", pa.float64())])
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
        ("1=1) from rows where (1=1", "more than an expression"),
        ("1=1) where (1=1", "more than an expression"),
        ("1=1), (2=2", "more than an expression"),
        ("1=1) union select (1=1", "more than an expression"),
        ("exists (select 1)", "a subquery"),
        ("exists (from read_csv('/etc/passwd'))", "a subquery"),
        ("columns(*) > 1", "a star"),
        ("year > ?", "a parameter"),
        ("year", "neither true nor false"),
        ("", "not a condition"),
        ("yeer > 2000", "yeer"),
        ("lang > 2000", "Cannot compare values"),
        ("count(*) > 1", "WHERE clause cannot contain aggregates"),
        ("row_number() over () > 1", "WHERE clause cannot contain window"),
        ("cast(lang as int) > 1", "Could not convert string"),
    ],
)
def test_anything_else_is_refused_with_the_reason(condition, message):
    with pytest.raises(ConfigError, match=message) as caught:
        asked(condition, [{"row": 1, "year": 2001, "lang": "de", "my column": 0.5}])
    if message == "yeer":
        assert "year (int32), lang (string)" in caught.value.hint


@pytest.mark.parametrize("function", ["read_text('/etc/hostname')", "getenv('HOME')"])
def test_the_outside_is_not_reached(function):
    with pytest.raises(ConfigError):
        asked(f"{function} = 'x'", [{"row": 1, "lang": "de"}])
