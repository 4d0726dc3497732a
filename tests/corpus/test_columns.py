"""Fields to columns: the types and values are those that a slow reading of all values at once finds."""

import json
import math
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import wordpipe
from wordpipe.artifacts import CORPUS, is_json, user_name
from wordpipe.corpus import Ingest, expand, kinds_of, recast, text_of, to_array, type_of
from wordpipe.corpus import ingest as reading
from wordpipe.corpus.settings import IngestSettings

TEXT = st.text(st.characters(exclude_characters="\0\r\b\x1a\x1b\x9b\x9d", exclude_categories=["Cs"]), max_size=6)
FINITE = st.floats(allow_nan=False, allow_infinity=False)  # others are left empty, and counted
NUMBERS = st.one_of(st.integers(-9, 9), st.integers(), FINITE, st.sampled_from([2**53 + 1, 2**70, 2.5, 3.0]))
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXT)
FLAT = st.lists(st.one_of(st.none(), st.integers(-5, 5), st.floats(-2, 2), TEXT), max_size=3)
VALUES = st.one_of(
    SCALARS,
    FLAT,
    st.dictionaries(TEXT, SCALARS, max_size=2),
    st.lists(st.lists(st.integers(0, 3), max_size=2), max_size=2),
)
FIELDS = st.sampled_from(["a", "b", "source", "row", "field_source", "a.b", "tags", "x y", ""])
RECORDS = st.lists(st.dictionaries(FIELDS, VALUES, max_size=4), min_size=1, max_size=8)


def is_nested(value) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(item, (list, dict)) for item in value)
    )


def slow_type(values) -> pa.DataType:
    """The type of a column, from all its values that are not null."""
    if values and all(isinstance(v, list) and not is_nested(v) for v in values):
        items = [item for v in values for item in v if item is not None]
        kind = slow_type(items)
        return kind if pa.types.is_string(kind) and not all(isinstance(item, str) for item in items) else pa.list_(kind)
    if values and all(isinstance(v, bool) for v in values):
        return pa.bool_()
    if values and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
        integers = [v for v in values if isinstance(v, int)]
        if all(-(2**63) <= v < 2**63 for v in integers):
            if len(integers) == len(values):
                return pa.int64()
            if all(abs(v) <= 2**53 for v in integers):
                return pa.float64()
    return pa.string()


def slow_text(value) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and not is_nested(value):
        return (
            "["
            + ", ".join(json.dumps(v, ensure_ascii=False) if isinstance(v, str) else slow_text(v) for v in value)
            + "]"
        )
    if isinstance(value, float) and abs(value) < 2**63 and value == math.floor(value):
        return str(int(value))
    return json.dumps(value, ensure_ascii=False)


def slow_value(value, kind: pa.DataType):
    if value is None:
        return None
    if pa.types.is_list(kind):
        return [slow_value(item, kind.value_type) for item in value]
    return slow_text(value) if pa.types.is_string(kind) else float(value) if pa.types.is_float64(kind) else value


def table_of(path: str, **chosen) -> tuple[pa.Table, Ingest]:
    ingest = Ingest(expand([path]), IngestSettings(**{"valid": 0, "id_field": "none", **chosen}))
    batches = list(ingest.batches())
    return pa.Table.from_batches(map(ingest.converted, batches), ingest.schema), ingest


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(RECORDS, st.integers(1, 4))
@example([{"a": [[]]}, {"a": [0]}], 2)  # what one batch holds must not decide
def test_columns_are_what_a_slow_twin_finds(tmp_path, monkeypatch, records, rows_at_once):
    monkeypatch.setattr(reading, "_BATCH_ROWS", rows_at_once)
    records = [{"text": f"Text {number}.", **record} for number, record in enumerate(records)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    table, _ = table_of(str(tmp_path / "a.jsonl"))
    names = [*dict.fromkeys(name for record in records for name in record if name != "text")]
    fields = [*table.schema][len(CORPUS) :]
    assert [user_name(field) for field in fields] == names
    assert len({*table.schema.names}) == len(table.schema.names)
    for field in fields:
        values = [record.get(user_name(field)) for record in records]
        kind = slow_type([value for value in values if value is not None])
        assert field.type == kind
        expected = [json.dumps(v, ensure_ascii=False) if is_nested(v) else slow_value(v, kind) for v in values]
        assert table[field.name].to_pylist() == expected
        given = [value for value in values if value is not None]
        of_nothing = [isinstance(value, list) and all(item is None for item in value) for value in given]
        objects = [is_nested(value) for value in given]
        assert is_json(field) == (any(objects) and all(map(max, objects, of_nothing)))


@given(st.lists(VALUES, max_size=6), st.lists(VALUES, max_size=6))
def test_what_came_before_becomes_what_it_would_have_been(first, second):
    kinds = kinds_of([*first, *second])
    early = to_array(first, kinds_of(first))
    assert recast(early, kinds).equals(to_array(first, kinds))


def test_names_of_ours_are_stored_under_others(tmp_path):
    record = {"text": "A.", "source": 1, "field_source": 2, "a.b": 3, "a_b": 4, "line": 5, "vector": 6}
    (tmp_path / "a.jsonl").write_text(json.dumps(record))
    table, _ = table_of(str(tmp_path / "a.jsonl"))
    assert table.schema.names[len(CORPUS) :] == [
        "field__source",
        "field_source",
        "field_a_b",
        "a_b",
        "field_line",
        "field_vector",
    ]
    assert [user_name(field) for field in table.schema][len(CORPUS) :] == [*record][1:]
    assert table["field__source"].to_pylist() == [1]
    assert table["source"].to_pylist() == ["a.jsonl"]


def test_parquet_types_stay_as_they_are(tmp_path):
    columns = {
        "i8": pa.array([1, None], pa.int8()), "u64": pa.array([2**64 - 1, 0], pa.uint64()),
        "f32": pa.array([0.5, None], pa.float32()),
        "f16": pa.array([0.5, None], pa.float32()).cast(pa.float16()), "when": pa.array([5, None], pa.timestamp("ns")),
        "utc": pa.array([datetime(2020, 1, 2, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
        "day": pa.array([date(2020, 1, 2), None]), "price": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
        "raw": pa.array([b"\xff\0", None]), "took": pa.array([5, None], pa.duration("s")),
        "many": pa.array([[1, None], None], pa.list_(pa.int32())), "words": pa.array([["a"], []], pa.large_list(pa.string())),
        "kind": pa.array(["x", None]).dictionary_encode(), "nest": pa.array([{"a": 1, "b": [b"\x01"]}, None]),
        "pair": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())), "none": pa.nulls(2),
        "fixed": pa.array([[1.0, 2.0], None], pa.list_(pa.float64(), 2)),
    }  # fmt: skip
    pq.write_table(pa.table({"text": ["One.", "Two."], **columns}), tmp_path / "a.parquet")
    table, ingest = table_of(str(tmp_path / "a.parquet"))
    expected = {name: column.type for name, column in columns.items()} | {
        "words": pa.list_(pa.string()), "kind": pa.string(), "nest": pa.string(), "pair": pa.string(), "none": pa.string(),
        "fixed": pa.list_(pa.float64()), "f16": pa.float32(),
    }  # fmt: skip
    for name, kind in expected.items():
        assert table.schema.field(name).type == kind, name
    for name in set(columns) - {"nest", "pair", "none"}:
        assert table[name].combine_chunks().cast(columns[name].type if name != "kind" else pa.string()).to_pylist() == (
            columns[name].to_pylist()
        )
    assert table["nest"].to_pylist() == ['{"a": 1, "b": ["01"]}', None]
    assert table["pair"].to_pylist() == ['{"k": 1}', None]
    assert ingest.warnings == []


def arrow_columns():
    """A column of four values for each type of Arrow, and for each type that holds another one."""
    plain = {f"{unit} {zone}": pa.array([0, None, -1, 1_600_000_000], pa.timestamp(unit, zone))
             for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Europe/Berlin")}  # fmt: skip
    plain |= {f"took {unit}": pa.array([0, None, -1, 5], pa.duration(unit)) for unit in ("s", "ms", "us", "ns")}
    plain |= {f"far {unit}": pa.array([2**62, None, -(2**62), 1], pa.timestamp(unit)) for unit in ("s", "ms", "us")}
    plain |= {f"day {kind}": pa.array([0, None, -86_400_000, 86_400_000], kind()) for kind in (pa.date32, pa.date64)}
    plain |= {f"hour {kind}": pa.array([0, None, 1, 86_399], kind)
              for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))}  # fmt: skip
    numbers = [getattr(pa, f"{sign}int{size}")() for sign in ("", "u") for size in (8, 16, 32, 64)]
    plain |= {f"{kind}": pa.array([0, None, 1, 100], kind) for kind in numbers}
    plain |= {f"{kind}": pa.array([0.5, None, math.nan, math.inf], pa.float32()).cast(kind)
              for kind in (pa.float16(), pa.float32(), pa.float64())}  # fmt: skip
    decimals = (
        pa.decimal32(6, 2),
        pa.decimal64(12, 3),
        pa.decimal128(20, 4),
        pa.decimal256(50, 5),
        pa.decimal128(5, -3),
    )
    plain |= {f"{kind}": pa.array([Decimal(1000), None, Decimal(-2000), Decimal(0)], kind) for kind in decimals}
    plain |= {f"{kind}": pa.array(["a", None, "", "\0x"], kind)
              for kind in (pa.string(), pa.large_string(), pa.string_view())}  # fmt: skip
    plain |= {f"{kind}": pa.array([b"ab", None, b"\xff\xfe", b"cd"], kind)
              for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2))}  # fmt: skip
    plain |= {"bool": pa.array([True, None, False, True]), "null": pa.nulls(4)}
    for name, one in list(plain.items()):
        yield name, one
        yield f"list {name}", pa.ListArray.from_arrays(pa.array([0, 2, 2, 3, 4]), one)
        yield f"fixed {name}", pa.FixedSizeListArray.from_arrays(pa.concat_arrays([one, one]), 2)
        yield f"struct {name}", pa.StructArray.from_arrays([one, one], ["x", "y.z"])
        yield f"map {name}", pa.MapArray.from_arrays(pa.array([0, 1, 1, 2, 4]), pa.array(["k", "l", "m", "n"]), one)
        yield f"view {name}", pa.ListViewArray.from_arrays(pa.array([0, 0, 1, 2]), pa.array([1, 1, 1, 1]), one)
        with suppress(pa.ArrowException):  # of which there are none
            yield f"runs {name}", pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3, 4], pa.int32()), one)
        with suppress(pa.ArrowException):
            yield f"words {name}", one.dictionary_encode()
    which = pa.array([0, 1, 0, 1], pa.int8())
    yield "union", pa.UnionArray.from_sparse(which, [pa.array([1, 2, 3, 4]), pa.array(list("abcd"))])
    yield "interval", pa.array([(1, 2, 3), None, (0, 0, 0), (1, 1, 1)], pa.month_day_nano_interval())


@pytest.mark.landing
def test_columns_of_every_type_of_arrow_are_read_kept_and_asked(tmp_path):
    columns, texts = dict(arrow_columns()), ["Spring tides.", "Neap tides.", "High tides.", "Low tides."]
    assert len(columns) > 300
    table = pa.table({"text": texts, **columns})
    files = pa.table({"text": texts, **{name: one for name, one in columns.items() if can_be_parquet(one)}})
    pq.write_table(files, tmp_path / "a.parquet")
    for source, n_columns in ((table, table.num_columns), (str(tmp_path / "a.parquet"), files.num_columns)):
        made = wordpipe.ingest(source, output=tmp_path / "corpus")
        assert made.counts["documents_kept"] == 4
        with wordpipe.open(made) as corpus:
            assert corpus.batches().read_all().num_columns >= n_columns
    hits = wordpipe.query(wordpipe.index(made, output=tmp_path / "index"), "tides", k=9)
    assert len(hits) == 4
    assert json.loads(json.dumps(hits, default=str))


def can_be_parquet(column):
    """True if Parquet has a type for a column."""
    try:
        pq.write_table(pa.table({"it": column}), pa.BufferOutputStream())
    except (pa.ArrowException, OSError):
        return False
    return True


def test_of_mixed_types_the_first_other_value_is_named(tmp_path):
    rows = [{"text": f"T{n}.", "year": n, "fine": n if n % 2 else n / 2} for n in range(9)]
    rows[6]["year"] = "MCM"
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    table, ingest = table_of(str(tmp_path / "a.jsonl"))
    assert table["year"].to_pylist() == ["0", "1", "2", "3", "4", "5", "MCM", "7", "8"]
    assert table.schema.field("fine").type == pa.float64()
    assert ingest.warnings == [
        "the values of 'year' have different types, so all of them are kept as text; the first value with a different "
        "type is in a.jsonl, line 7"
    ]


def test_long_values_are_left_out_and_counted(tmp_path):
    rows = [
        {"text": "A.", "s": "é" * 32_768, "l": ["x" * 40_000] * 2, "d": {"k": "y" * 70_000}},
        {"text": "B.", "s": "é" * 32_769},
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    table, ingest = table_of(str(tmp_path / "a.jsonl"))
    assert [value and len(value) for value in table["s"].to_pylist()] == [32_768, None]
    assert (table["l"].to_pylist(), table["d"].to_pylist()) == ([None, None], [None, None])
    assert {name: n for name, n in ingest.counts.items() if name.startswith("values_left_out")} == {
        "values_left_out.d": 1, "values_left_out.l": 1, "values_left_out.s": 1,
    }  # fmt: skip
    assert "values of more than 64 kB were skipped; their number in each field: d (1), l (1), s (1)" in ingest.warnings


def test_json_that_is_nested_deep_is_left_out_not_a_crash(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "A.", "deep": ' + "[" * 900 + "]" * 900 + ', "k": "\\r"}')
    table, ingest = table_of(str(tmp_path / "a.jsonl"))
    assert table["text"].to_pylist() == ["A."]
    assert len(table) == ingest.counts["documents_kept"] == 1


def test_a_thousand_fields_are_carried_and_the_rest_is_counted(tmp_path):
    rows = [{"text": f"T{n}.", **{f"f{n}_{k}": k for k in range(100)}} for n in range(12)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    table, ingest = table_of(str(tmp_path / "a.jsonl"))
    assert len(table.schema) == len(CORPUS) + 1000
    assert sum(n for name, n in ingest.counts.items() if name.startswith("fields_not_carried.")) == 200
    assert ingest.warnings == ["only the first 1,000 fields are kept; for example, 'f10_0' is not kept"]


@pytest.mark.parametrize(
    ("kinds", "kind"),
    [
        ({"int8", "int"}, pa.int64()), ({"int32", "float32"}, pa.float64()), ({"uint64", "int"}, pa.string()),
        ({"timestamp[us, tz=UTC]"}, pa.timestamp("us", "UTC")), ({"decimal128(9, 2)"}, pa.decimal128(9, 2)),
        ({"fixed_size_binary[4]"}, pa.binary(4)), ({"list date32[day]"}, pa.list_(pa.date32())), (set(), pa.string()),
        ({"list "}, pa.list_(pa.string())), ({"int", "inexact", "float"}, pa.string()), ({"int", "inexact"}, pa.int64()),
    ],
)  # fmt: skip
def test_types_of_kinds(kinds, kind):
    assert type_of(kinds) == kind


def test_texts_of_values():
    values = [
        3.0,
        2.5,
        True,
        None,
        [1.0, "a"],
        {"a": [1.0]},
        pa.scalar(b"\x01"),
        pa.scalar(5, pa.timestamp("s")),
        np.float64(4),
    ]
    assert [text_of(value) for value in values] == [
        "3", "2.5", "true", "null", '[1, "a"]', '{"a": [1.0]}', "01", "1970-01-01 00:00:05", "4.0",
    ]  # fmt: skip
