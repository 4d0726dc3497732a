"""Text, JSON lines, CSV, TSV and Parquet to records: the libraries that write them are the oracle."""

import csv
import gzip
import io
import json
import os
import re
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.corpus import (
    READERS,
    Decoder,
    ExpansionLimit,
    Fields,
    Ledger,
    Opened,
    Source,
    expand,
    first_values,
    function_of,
    parquet_records,
    text_records,
)
from wordpipe.corpus.settings import IngestSettings
from wordpipe.errors import InputError, StorageError

VALUES = st.text(
    st.characters(exclude_characters="\0\r\ufeff\b\x1a\x1b\x9b\x9d", exclude_categories=["Cs"]), max_size=12
)
ROWS = st.lists(
    st.fixed_dictionaries({"text": VALUES, "title": VALUES, "n": st.integers(-(2**63), 2**63 - 1)}), min_size=1
)


class Reader:
    """Reads bytes of one format, and keeps what was counted."""

    def __init__(self, **settings):
        self.settings = IngestSettings(metadata=("n:int",), **settings)
        self.ledger = Ledger()
        self.decoder = Decoder("f", "replace", self.ledger)
        self.fields = Fields(self.settings, self.decoder)

    def read(self, name, data):
        blocks = iter([data] if data else [])
        opened = Opened(Source("f", "file"), self.settings, self.ledger, self.decoder, self.fields, blocks)
        return list(function_of(READERS[name].read)(opened))

    def jsonl(self, data):
        return self.read("jsonl", data)

    def csv(self, data):
        return self.read("csv", data)

    def tsv(self, data):
        return self.read("tsv", data)

    def parquet(self, table, max_expand=200):
        file = io.BytesIO()
        pq.write_table(table, file)
        limit = ExpansionLimit("f", max_expand)
        limit.taken = file.tell()
        return list(parquet_records(file, self.fields, limit))


def plain(records):
    return [{"text": r.text, "title": r.title or "", "n": r.metadata["n"]} for r in records]


def expected(rows):
    return [{**row, "title": row["title"].strip()} for row in rows]


@given(ROWS, st.booleans())
def test_json_lines_come_back(rows, ascii_only):
    data = "\n".join(json.dumps(row, ensure_ascii=ascii_only) for row in rows)
    found = Reader().jsonl(data.encode())
    assert plain(found) == expected(rows)
    assert [r.line for r in found] == list(range(1, len(rows) + 1))


@given(ROWS, st.sampled_from(",;|\t"))
def test_csv_comes_back_with_the_line_of_each_row(rows, delimiter):
    file = io.StringIO()
    writer = csv.DictWriter(file, ["title", "text", "n"], delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    starts = []
    for row in rows:
        starts.append(file.getvalue().count("\n") + 1)
        writer.writerow(row)
    found = Reader().csv(file.getvalue().encode())
    assert plain(found) == expected(rows)
    assert [r.line for r in found] == starts


@given(ROWS)
def test_parquet_comes_back_whatever_kind_of_string(rows):
    table = pa.Table.from_pylist(rows)
    kinds = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
    for kind in kinds:
        texts = pa.array([row["text"] for row in rows], pa.string())
        column = texts.dictionary_encode() if pa.types.is_dictionary(kind) else texts.cast(kind)
        found = Reader().parquet(table.set_column(table.schema.names.index("text"), "text", column))
        assert plain(found) == expected(rows)
        assert [r.line for r in found] == list(range(1, len(rows) + 1))


def test_tsv_has_no_quotes():
    found = Reader().tsv(b'text\tn\n"Hi," he said\t5\n\nfive\' "open\t\n')
    assert plain(found) == [
        {"text": '"Hi," he said', "title": "", "n": 5},
        {"text": "five' \"open", "title": "", "n": None},
    ]
    assert [r.line for r in found] == [2, 4]


@pytest.mark.parametrize("read", ["jsonl", "csv", "tsv"])
def test_an_empty_file_has_no_records(read):
    assert getattr(Reader(), read)(b"") == []


@pytest.mark.parametrize(
    ("read", "data", "message"),
    [
        ("jsonl", b'{"text": "a"}\n{"text": \n', "f, line 2: the line is not valid JSON"),
        ("jsonl", b'{"text": "a"}\n["a"]\n', "f, line 2: not a JSON object; got list"),
        ("jsonl", b'{"body": 2, "id": 1}\n', "the text field 'text' does not exist; got body, id"),
        ("jsonl", b'{"text": ["a"]}\n', "f, line 1: the field 'text' is not a string; got list"),
        ("jsonl", b"[" * 100_000, "f, line 1: the line is not valid JSON"),
        ("jsonl", b'{"text": "a", "n": ' + b"9" * 5000 + b"}\n", "f, line 1: the line is not valid JSON"),
        ("csv", b"a,b\n1,2\n", "the text field 'text' does not exist; got a, b"),
        (
            "csv",
            b"text,n\na,1\nb,2,3\n",
            "f, line 3: the row has more cells than the header; got 3; expected at most 2",
        ),
        ("csv", b'text,n\na,1\n"never closed,2\n', "f, line 3: bad CSV"),
        ("csv", b"text,text\na,b\n", "a field occurs twice; got text"),
        ("tsv", b"text\tn\na\tb\tc\n", "f, line 2: the row has more cells than the header"),
        ("tsv", b"nothing\n", "the text field 'text' does not exist"),
    ],
)
def test_malformed_input_is_refused_with_its_place(read, data, message):
    with pytest.raises(InputError) as caught:
        getattr(Reader(), read)(data)
    assert message in str(caught.value)
    assert caught.value.hint or "twice" in message


def test_a_short_row_has_empty_cells_at_its_end():
    reader = Reader()
    assert plain(reader.csv(b"text,n\na\n\nb,2\n")) == [
        {"text": "a", "title": "", "n": None},
        {"text": "b", "title": "", "n": 2},
    ]
    assert reader.ledger["rows_with_missing_cells"] == 1
    told = "some rows have fewer cells than the header (2 cells); missing cells are empty; see f:2"
    assert [*reader.ledger.warned.values()] == [told]
    reader.tsv(b"text\tn\tm\nb\t2\t3\nc\t4\nd\n")
    assert reader.ledger["rows_with_missing_cells"] == 3


def test_records_without_text_are_counted():
    lines = b'{"text": "a"}\n{"n": 5}\n{"text": null}\n'
    reader = Reader(empty_text="skip")
    assert len(reader.jsonl(lines)) == 1
    assert reader.ledger["documents_dropped_no_text"] == 2
    assert [*reader.ledger.warned.values()] == [
        "records without the field 'text' were skipped; the first one is at f:2; to keep them, so that they are found by "
        "their other fields, use --empty-text fields"
    ]
    reader = Reader()
    assert [record.text for record in reader.jsonl(lines)] == ["a", ""]
    assert reader.ledger["documents_dropped_no_text"] == 1
    assert [*reader.ledger.warned.values()] == [
        "records without the field 'text' were skipped; the first one is at f:3"
    ]


def test_names_of_fields_are_remembered_and_do_not_fill_the_memory():
    reader = Reader()
    reader.jsonl(
        b"\n".join(json.dumps({"text": "a", f"field{n}": 1}).encode() for n in range(1500)) + b'\n{"text":"","n":1}'
    )
    seen = [*reader.ledger.fields_seen]
    assert seen == ["text", *(f"field{n}" for n in range(999)), "n"]  # one that a setting names is always seen


@pytest.mark.parametrize(
    ("kind", "values", "found", "missed"),
    [
        (
            "str",
            ["a", 1, 1.5, True, None, [1, "é"], {"b": None}],
            ["a", "1", "1.5", "true", None, '[1, "é"]', '{"b": null}'],
            0,
        ),
        (
            "int",
            ["7", 7, 7.0, True, None, "", "7.5", 7.5, "x", 2**63],
            [7, 7, 7, 1, None, None, None, None, None, None],
            4,
        ),
        ("float", ["7.5", 7, None, "", "x", [1]], [7.5, 7.0, None, None, None, None], 2),
        ("bool", ["true", "No", 1, False, "2", None], [True, False, True, False, None, None], 1),
        (
            "date",
            ["2023-04-02", " 2023-04-03T00:00:00", "2023-04-02T10:30:00", "soon", "", 2023, date(2024, 2, 29)],
            [
                pa.scalar(date(2023, 4, 2)),
                pa.scalar(date(2023, 4, 3)),
                None,
                None,
                None,
                None,
                pa.scalar(date(2024, 2, 29)),
            ],
            3,
        ),
    ],
)
def test_metadata_is_converted_and_misses_are_counted(kind, values, found, missed):
    ledger = Ledger()
    settings = IngestSettings(metadata=(f"x:{kind}",))
    fields = Fields(settings, Decoder("f", "replace", ledger))
    made = [fields.record({"text": "t", "x": value}, 1) for value in values]
    assert [record.metadata["x"] for record in made] == found
    assert ledger["metadata_not_converted.x"] == missed
    assert len([*ledger.warned.values()]) == bool(missed)


def test_other_fields_can_be_named():
    reader = Reader(text_field="body", title_field="head")
    (record,) = reader.jsonl(b'{"body": "b", "head": 7, "text": "no"}')
    assert (record.text, record.title) == ("b", "7")


def test_parquet_text_that_is_not_utf8_is_mended():
    offsets, data = pa.py_buffer(np.array([0, 3, 6], np.int32)), pa.py_buffer(b"ab\xffok!")
    texts = pa.Array.from_buffers(pa.string(), 2, [None, offsets, data])
    reader = Reader()
    found = reader.parquet(pa.table({"text": texts}))
    assert [r.text for r in found] == ["ab\ufffd", "ok!"]
    assert reader.ledger["bytes_replaced"] == 1


def test_parquet_with_numbers_for_text_is_refused():
    with pytest.raises(InputError, match="field 'text' is not a string; got int"):
        Reader().parquet(pa.table({"text": [1, 2]}))


@pytest.mark.parametrize("damage", ["cut", "header", "page"])
def test_damaged_parquet_is_refused(damage):
    file = io.BytesIO()
    pq.write_table(pa.table({"text": ["word " * 50] * 9}), file, compression="NONE", use_dictionary=False)
    data = bytearray(file.getvalue())
    if damage == "cut":
        data = data[:-1]
    else:
        data[4:40] = b"\xff" * 36 if damage == "header" else b"z" * 36
    reader = Reader()
    with pytest.raises(InputError, match="not a valid Parquet file"):
        list(parquet_records(io.BytesIO(data), reader.fields, ExpansionLimit("f", 200)))


def test_a_parquet_file_of_one_text_many_times_is_refused_as_a_bomb():
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2000, np.int32)), ["x" * 100_000])
    with pytest.raises(InputError, match="bomb"):
        Reader().parquet(pa.table({"text": texts}))


def test_a_read_error_is_not_taken_for_damage(tmp_path):
    class Failing(io.RawIOBase):
        def readable(self):
            return True

        def seekable(self):
            return True

        def seek(self, offset, whence=os.SEEK_SET):
            raise OSError(5, "Input/output error")

        def tell(self):
            return 0

    reader = Reader()
    with pytest.raises(StorageError, match="reading failed"):
        list(parquet_records(Failing(), reader.fields, ExpansionLimit("f", 200)))


TEXT = st.text(st.sampled_from(list("abc \n\n")), max_size=150)


def records(text, documents, *, title=False, max_bytes=10_000):
    lines = [(n, line) for n, line in enumerate(re.findall(r"[^\n]*\n|[^\n]+", text), 1)]
    return list(
        text_records(
            lines, source="f", documents=documents, first_line_title=title, newline="auto", max_bytes=max_bytes
        )
    )


def slow_blocks(text):
    """Number of the first line, and lines, of each run of lines that are not blank."""
    blocks, open_ = [], False
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            open_ = False
        elif open_:
            blocks[-1][1].append(line)
        else:
            blocks.append((number, [line]))
            open_ = True
    return [(number, "\n".join(lines)) for number, lines in blocks]


@given(TEXT)
def test_blocks_are_those_of_the_slow_twin(text):
    found = [(r.line, r.text.removesuffix("\n")) for r in records(text, "block")]
    assert found == slow_blocks(text)


@given(TEXT)
def test_titles_are_the_first_lines_of_blocks(text):
    for record, (number, block) in zip(records(text, "block", title=True), slow_blocks(text), strict=True):
        first, _, rest = block.partition("\n")
        assert (record.title, record.text.removesuffix("\n"), record.line) == (first.strip(), rest, number + 1)


@given(TEXT)
def test_lines_are_the_lines_that_are_not_blank(text):
    twin = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    assert [(r.line, r.text.removesuffix("\n")) for r in records(text, "line")] == twin


@given(TEXT)
def test_a_file_is_one_record_from_its_first_line_that_is_not_blank(text):
    found = records(text, "file")
    assert [r.text.strip() for r in found] == ([text.strip()] if text.strip() else [])
    if found:
        assert text.split("\n")[found[0].line - 1].strip()


@given(TEXT, st.sampled_from(["file", "block"]), st.integers(8, 40))
def test_a_record_that_grows_too_long_is_given_in_parts(text, documents, max_bytes):
    whole, parts = records(text, documents), records(text, documents, max_bytes=max_bytes)
    joined: list[str] = []
    for part in parts:
        assert len(part.text) <= max_bytes
        if part.part == 0:
            joined.append("")
        joined[-1] += part.text
        assert text.split("\n")[part.line - 1 :][0].startswith(part.text.split("\n")[0]) or part.part
    assert joined == [record.text for record in whole]


def test_pieces_of_one_line_are_one_record_in_parts():
    lines = [(1, "aaaa aaaa "), (1, "bbbb bbbb\n"), (2, "c\n")]
    found = list(
        text_records(lines, source="f", documents="line", first_line_title=False, newline="auto", max_bytes=12)
    )
    assert [(r.line, r.part, r.text) for r in found] == [(1, 0, "aaaa aaaa "), (1, 1, "bbbb bbbb\n"), (2, 0, "c\n")]


@pytest.mark.parametrize(("length", "is_title"), [(1000, True), (1001, False)])
def test_a_very_long_first_line_is_no_title(length, is_title):
    record = records("x" * (length - 1) + "\nbody\n", "file", title=True)[0]
    assert (record.title is not None) == is_title
    assert ("x" in record.text) != is_title


def test_columns_of_one_name_are_told_apart():
    reader = Reader()
    reader.fields = Fields(IngestSettings(), reader.decoder)
    (record,) = reader.csv(b"text,a,a,,\nT.,1,2,3,4\n")
    assert record.metadata == {"a": "1", "a_2": "2", "": "3", "_2": "4"}


def test_a_field_that_equals_the_text_is_kept():
    reader = Reader()
    (record,) = reader.jsonl(b'{"text": "a", "n": null, "title": "a\\r"}\n')
    assert (record.text, record.title) == ("a", "a")
    assert [*reader.ledger.fields_seen] == ["text", "n", "title"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", '{"a": "x", "b": "1"}\nno JSON\n[1]\n\n{"a": "y", "b": "2"}\n'),
        ("a.csv", "a;b\nx;1\ny;2;3\n\ny;2\n"),
        ("a.tsv", "a\tb\nx\t1\n\ny\t2\t3\ny\t2\n"),
    ],
)
def test_the_first_values_are_those_of_the_lines_that_can_be_read(tmp_path, name, text):
    for path, data in ((tmp_path / name, text.encode()), (tmp_path / f"{name}.gz", gzip.compress(text.encode()))):
        path.write_bytes(data)
        assert first_values(*expand([str(path)])) == [{"a": "x", "b": "1"}, {"a": "y", "b": "2"}]


def test_the_first_values_are_few_and_of_few_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n' * 5000)
    assert len(first_values(*expand([str(path)]))) == 100
    path.write_text("no JSON\n" * 5000 + '{"a": 1}\n')
    assert first_values(*expand([str(path)])) == []
    path.write_text("")
    assert first_values(*expand([str(path)])) == []
    (tmp_path / "a.csv").write_text("")
    assert first_values(*expand([str(tmp_path / "a.csv")])) == []
