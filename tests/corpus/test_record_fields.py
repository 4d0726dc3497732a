"""Which field of records is the text, which the title, where nobody says so."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wordpipe.corpus import Ingest, expand, from_memory
from wordpipe.corpus.settings import IngestSettings
from wordpipe.errors import InputError

ROWS = [
    {"name": "kettle", "summary": "Boils water for tea in four minutes.", "stars": 4, "code": "k-1"},
    {"name": "lamp", "summary": "Gives a warm light for reading in bed.", "stars": 5, "code": "l-2"},
]


def written(form: str) -> bytes:
    """Return the rows in a format."""
    if form == "jsonl":
        return b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)
    if form == "parquet":
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(ROWS), sink)
        return sink.getvalue()
    cells = [[*ROWS[0]], *([str(value) for value in row.values()] for row in ROWS)]
    return "".join(("," if form == "csv" else "\t").join(row) + "\n" for row in cells).encode()


def ingested(sources, **settings):
    """Return the rows of an ingest, and its notes."""
    reader = Ingest(sources, IngestSettings.make(settings))
    rows = [row for batch in reader.batches() for row in batch.to_pylist()]
    return rows, list(reader.notes)


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "parquet"])
def test_the_longest_strings_are_the_text_and_a_name_is_the_title(tmp_path, monkeypatch, form):
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"goods.{form}").write_bytes(written(form))
    rows, notes = ingested(expand([f"goods.{form}"]))
    assert [(row["title"], row["text"]) for row in rows] == [(row["name"], row["summary"]) for row in ROWS]
    assert [row["code"] for row in rows] == ["k-1", "l-2"]
    assert (
        "goods." + form + ": the text is the field 'summary', the title 'name' (see --text-field, --title-field)"
        in notes
    )


def test_rows_of_a_program_too():
    rows, _ = ingested(from_memory(ROWS))
    assert [row["text"] for row in rows] == [row["summary"] for row in ROWS]


@pytest.mark.parametrize(
    ("row", "settings", "text"),
    [
        ({"text": "short", "description": "A description that is longer"}, {}, ["short"]),
        ({"body": "short", "remarks": "Remarks that are longer than the body"}, {}, ["short"]),
        (
            {"Text": "As others write it", "remarks": "Remarks that are longer than the text"},
            {},
            ["As others write it"],
        ),
        ({"name": "kettle", "summary": "Boils water."}, {"text_field": "name"}, ["kettle"]),
    ],
)
def test_a_field_that_is_called_text_or_that_a_setting_names_comes_first(tmp_path, monkeypatch, row, settings, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.jsonl").write_text(json.dumps(row) + "\n")
    rows, _ = ingested(expand(["r.jsonl"]), **settings)
    assert [row["text"] for row in rows] == text


def test_a_text_field_without_values_stays_the_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.jsonl").write_text('{"text": "", "remarks": "Remarks beside a text that is empty"}\n')
    rows, _ = ingested(expand(["r.jsonl"]))
    assert [(row["text"], row["remarks"]) for row in rows] == [("", "Remarks beside a text that is empty")]
    with pytest.raises(InputError, match="no source contains any text"):
        ingested(expand(["r.jsonl"]), empty_text="skip")


def test_files_of_one_folder_have_each_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("year,abstract\n2001,Bees dance to show the way.\n")
    (tmp_path / "b.jsonl").write_text('{"id": 7, "message": "The disk is full.", "host": "n1"}\n')
    rows, _ = ingested(expand(["."]))
    assert [row["text"] for row in rows] == ["Bees dance to show the way.", "The disk is full."]
