"""What records say, and how it comes through: one field as several things, names that come twice, numbers that are none."""

import json
import math
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wordpipe
from wordpipe.artifacts import Artifact, read_batches
from wordpipe.errors import InputError

ROWS = [{"sku": "hinge-4", "say": "A brass hinge for doors."}, {"sku": "bolt-9", "say": "A bolt of steel, long."}]


def rows_of(path="out"):
    with Artifact(path) as artifact:
        return [row for batch in read_batches(artifact, artifact.kind) for row in batch.to_pylist()]


def counts_of(source, **settings):
    return wordpipe.ingest(source, output="out", **{"valid": 0.0, **settings}).counts


def table(form, rows=ROWS):
    """The rows as a source of some kind."""
    if form == "jsonl":
        Path("in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return "in.jsonl"
    if form in ("csv", "tsv"):
        pd.DataFrame(rows).to_csv(f"in.{form}", index=False, sep="," if form == "csv" else "\t")
        return f"in.{form}"
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), "in.parquet")
        return "in.parquet"
    return {"dicts": list, "pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.Table.from_pylist}[form](rows)


FORMS = ("jsonl", "csv", "tsv", "parquet", "dicts", "pandas", "polars", "arrow")


@pytest.mark.parametrize("form", FORMS)
def test_one_field_is_title_and_id_and_label_and_a_column(here, form):
    counts = counts_of(
        table(form), text_field="say", title_field="sku", id_field="sku", label_field="sku", metadata="sku"
    )
    assert "records_without_id" not in counts
    for row, given in zip(rows_of(), ROWS, strict=True):
        assert [row[name] for name in ("title", "record_id", "label", "sku")] == [given["sku"]] * 4


@pytest.mark.parametrize("form", FORMS)
def test_the_text_is_title_and_id_and_its_own_second_text(here, form):
    counts_of(table(form), text_field="say", title_field="say", id_field="say", text_b="say", tags_field="say")
    for row, given in zip(rows_of(), ROWS, strict=True):
        assert [row[name] for name in ("text", "title", "record_id", "text_b")] == [given["say"]] * 4
        assert (row["tags"], row["sku"]) == ([given["say"]], given["sku"])


def test_a_field_that_is_something_is_no_further_column_unless_it_is_asked_for(here):
    counts_of(ROWS, text_field="say", title_field="sku", id_field="sku")
    assert "sku" not in rows_of()[0]
    counts_of(ROWS, text_field="say", id_field="sku", metadata="sku,say")
    assert [(row["sku"], "say" in row) for row in rows_of()] == [("hinge-4", False), ("bolt-9", False)]


BAD_LINES = (
    '{"text": "One.", "text": "Two."}',
    '{"text": "One.", "of": {"a": 1, "b": [{"k": 1, "k": 2}]}}',
    '{"text": "One.", "": 1, "": 2}',
    '{"text": "One.", "a\\r": 1, "a\\n": 2}',  # as the corpus has strings, one name
)


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_key_that_comes_twice_is_refused_with_its_line_or_counted(here, line):
    (here / "in.jsonl").write_text(f'{{"text": "A first."}}\n{line}\n{{"text": "A last.", "a": {{"k": 1}}, "k": 2}}\n')
    with pytest.raises(InputError, match="a key occurs twice") as caught:
        counts_of("in.jsonl")
    assert caught.value.where == "in.jsonl, line 2"
    with pytest.warns(wordpipe.WordpipeWarning, match="in.jsonl, line 2: a key occurs twice in an object; got "):
        counts = counts_of("in.jsonl", bad_records="skip")
    assert (counts["documents_kept"], counts["records_skipped_repeated_key"]) == (2, 1)


@pytest.mark.parametrize(
    "source",
    [
        pd.DataFrame([["A.", 1, 2]], columns=["text", "n", "n"]),
        pd.DataFrame([["A.", "B."]], columns=["text", "text"]),
        pd.DataFrame([["A.", 1, 2]], columns=["text", "1", 1]),
        pd.DataFrame({"text": ["A."], "n": [1]}, index=pd.Index(["x"], name="n")),
        pa.table([["A."], [1], [2]], names=["text", "n", "n"]),
    ],
)
def test_a_column_that_a_table_has_twice_is_refused(here, source):
    with pytest.raises(InputError, match=r"a field occurs twice; got (n|text|1)"):
        counts_of(source)
    if isinstance(source, pa.Table):
        pq.write_table(source, "in.parquet")
        with pytest.raises(InputError, match=r"in\.parquet: a field occurs twice; got n"):
            counts_of("in.parquet")
        assert counts_of("in.parquet", no_metadata=True)["documents_kept"] == 1  # of which none is read


def test_keys_of_dicts_maps_and_structs_that_are_one_are_refused(here):
    with pytest.raises(InputError, match="memory, line 2: a key occurs twice"):
        counts_of([{"text": "A."}, {"text": "B.", "of": {1: "x", "1": "y"}}])
    assert counts_of([{"text": "A."}, {"text": "B.", 1: "x", "1": "y"}], bad_records="skip")["documents_kept"] == 1
    maps = pa.array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64()))
    structs = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["k", "k"])
    for column in (maps, structs):
        with pytest.raises(InputError, match="a key occurs twice in an object of a column; got 'k'"):
            counts_of(pa.table({"text": ["A."], "of": column}))


def test_squad_with_a_key_twice_names_its_article(here):
    article = '{"title": "T", "paragraphs": [{"context": "A b.", "qas": [{"id": "1", "question": "Q?"%s}]}]}'
    data = ", ".join(article % more for more in ("", ', "id": "2"'))
    (here / "in.json").write_text(f'{{"data": [{data}]}}')
    with pytest.raises(InputError, match=r"in\.json, article 2: a key occurs twice in an object; got 'id'"):
        counts_of("in.json")
    assert counts_of("in.json", bad_records="skip")["records_skipped_repeated_key"] == 1


def test_names_that_differ_in_capitals_or_blanks_are_columns_of_their_own(here):
    (here / "in.csv").write_text("text,Year,year,year ,YEAR\nA text.,1,2,3,4\n")
    counts_of("in.csv", metadata="Year:int,year:int,YEAR:int")
    assert [rows_of()[0][name] for name in ("Year", "year", "YEAR")] == [1, 2, 4]
    (here / "in.csv").write_text("id, Text\n1,A text.\n")
    with pytest.raises(InputError) as caught:
        counts_of("in.csv", text_field="text")
    assert (
        caught.value.hint
        == "field names must also match in capital letters and spaces; did you mean --text-field ' Text'?"
    )


MIXED = {"odd": ["x", 1, None], "when": [datetime(2020, 1, 1), "soon", pd.NaT], "big": [2**70, 1.5, "z"]}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize(
    "index", [None, pd.Index(["a", "b", "c"], name="shelf"), pd.Index(["a", 2, None], name="shelf")]
)
def test_a_column_that_holds_this_and_that_changes_no_other(here, name, index):
    base = {"id": [1, 2, 3], "text": ["One.", np.nan, "Three."], "title": [np.nan, None, None], "n": [1.0, np.nan, 3.0],
            "kind": pd.Categorical(["a", None, "b"]), "at": pd.to_datetime(["2020-01-01", None, None])}  # fmt: skip
    frame = pd.DataFrame(base, index=index)
    with pytest.warns(
        wordpipe.WordpipeWarning, match="records without the field 'text' were skipped; the first one is at memory:2"
    ):
        alone = counts_of(frame, empty_text="skip", id_field="id")
    before = rows_of()
    with pytest.warns(wordpipe.WordpipeWarning, match="several types|without the field 'text'"):
        beside = counts_of(frame.assign(**{name: MIXED[name]}), empty_text="skip", id_field="id")
    after = rows_of()
    assert alone["documents_dropped_no_text"] == beside["documents_dropped_no_text"] == 1
    assert [{key: row[key] for key in before[0]} for row in after] == before
    assert after[0][name] is not None
    assert after[1][name] == {"odd": None, "when": None, "big": "z"}[name]
    assert [row["title"] for row in before] == [None, None]
    assert ("shelf" in before[0]) == (index is not None)


NONE = (math.nan, np.float32("nan"), np.float64("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), Decimal("nan"), None)


@pytest.mark.parametrize("value", NONE, ids=repr)
def test_what_is_missing_to_a_program_is_missing_everywhere(here, value):
    record = {
        "text": "A text.",
        "title": value,
        "say": value,
        "label": value,
        "n": value,
        "of": {"n": value},
        "l": ["x", value],
    }
    kept = counts_of([record, record | {"text": "Another.", "n": 2, "l": ["y"]}], label_field="label")
    assert not [name for name in kept if "finite" in name]
    row, _ = rows_of()
    assert (row["title"], row["label"], row["n"], json.loads(row["of"]), row["l"]) == (
        None,
        None,
        None,
        {"n": None},
        ["x", None],
    )
    with pytest.warns(
        wordpipe.WordpipeWarning, match="records without the field 'text' were skipped; the first one is at memory:2"
    ):
        assert counts_of([{"text": "A."}, {"text": value}])["documents_dropped_no_text"] == 1


@pytest.mark.parametrize("form", ["jsonl", "parquet", "arrow", "polars"])
def test_numbers_that_are_none_are_left_empty_and_counted(here, form):
    rows = [
        {"text": f"Text {n}.", "title": "T", "n": n, "few": [1.5, n], "of": {"k": n}, "id": f"i{n}"}
        for n in (1.0, math.nan, math.inf, -math.inf)
    ]
    rows = [row | {"few": np.float32(row["few"]).tolist()} for row in rows]
    with pytest.warns(
        wordpipe.WordpipeWarning,
        match=r"NaN, Infinity\) are stored as empty values; the first one is in the field 'n' at .*:2",
    ):
        counts = counts_of(table(form, rows))
    assert [counts[f"values_not_finite.{name}"] for name in ("n", "few", "of")] == [3, 3, 3]
    first, *others = rows_of()
    assert (first["n"], first["few"]) == (1.0, [1.5, 1.0])
    for row in others:
        assert (row["n"], row["few"], json.loads(row["of"])) == (None, [1.5, None], {"k": None})


def test_ids_and_labels_that_are_nan_are_none(here):
    (here / "in.jsonl").write_text(
        '{"text": "A.", "id": 1.0, "y": 1}\n{"text": "B.", "id": NaN, "y": NaN}\n{"text": NaN}\n'
    )
    with pytest.warns(wordpipe.WordpipeWarning):
        counts = counts_of("in.jsonl", label_field="y")
    assert (counts["records_without_id"], counts["documents_dropped_no_text"]) == (1, 1)
    assert [(row["record_id"], row["label"]) for row in rows_of()] == [("1", 1), (None, None)]


WHOLE = {
    "2001.0": 2001, "2001": 2001, " 7. ": 7, "1e3": 1000, "1.5e1": 15, "+4.00": 4, "-0.0": 0, "007": 7,
    "9007199254740993.0": 9007199254740993, "9223372036854775807": 2**63 - 1, "-9223372036854775808.0": -(2**63),
}  # fmt: skip
NOT_WHOLE = (
    "2001.5",
    "9223372036854775808",
    "1e999999999",
    "1e-999999999",
    "nan",
    "inf",
    "2,001",
    "1.0.0",
    "0x10",
    "n/a",
    "[0]",
)


@pytest.mark.parametrize("form", ["csv", "jsonl", "dicts", "pandas", "polars"])
def test_a_whole_number_is_one_however_it_is_written(here, form):
    values = [*WHOLE, *NOT_WHOLE]
    rows = [{"text": f"Text {n}.", "year": value} for n, value in enumerate(values)]
    with pytest.warns(
        wordpipe.WordpipeWarning,
        match="some values of year are not of type int and are left empty; the first is '2001.5'",
    ):
        counts = counts_of(table(form, rows), metadata="year:int", id_field="none")
    assert counts["metadata_not_converted.year"] == len(NOT_WHOLE)
    assert [row["year"] for row in rows_of()] == [*WHOLE.values(), *[None] * len(NOT_WHOLE)]


def test_numbers_of_programs_are_whole_or_not(here):
    values = [
        2001.0,
        2001.5,
        1e300,
        3,
        True,
        Decimal("9007199254740993"),
        Decimal("2.5"),
        np.float32(4),
        math.inf,
        [0, [1], 0],
    ]
    with pytest.warns(wordpipe.WordpipeWarning):
        counts_of([{"text": f"T{n}.", "year": value} for n, value in enumerate(values)], metadata="year:int")
    assert [row["year"] for row in rows_of()] == [2001, None, None, 3, 1, 9007199254740993, None, 4, None, None]


@pytest.mark.parametrize("text", ["nan", "Infinity", "1e999"])
def test_a_number_by_its_type_is_finite(here, text):
    (here / "in.csv").write_text(f"text,price\nA.,{text}\nB.,2.5\n")
    with pytest.warns(wordpipe.WordpipeWarning, match="some values of price are not of type float"):
        counts_of("in.csv", metadata="price:float")
    assert [row["price"] for row in rows_of()] == [None, 2.5]
