"""What a source without a telling name looks like: records where it says so, and prose never."""

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.corpus import looks_like
from wordpipe.corpus.settings import IngestSettings

CELLS = st.text(
    st.characters(exclude_characters="\0\r\n\ufeff\b\x1a\x1b\x9b\x9d", exclude_categories=["Cs"]),
    min_size=1,
    max_size=9,
)
USUAL = IngestSettings()


def look(text: str, **chosen: object) -> str:
    return looks_like(text.encode(), IngestSettings(**chosen))


@given(st.lists(st.dictionaries(CELLS, CELLS), min_size=1, max_size=15))
def test_json_lines(records):
    text = "\n".join(map(json.dumps, records))
    assert look(text) == look("\ufeff" + text + "\n\n") == "jsonl"


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=15), st.sampled_from(",;|"))
def test_csv_of_any_cells(rows, delimiter):
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter).writerows([("id", "text"), *rows])
    assert look(file.getvalue()) in ("csv", "tsv")
    assert look(file.getvalue(), text_field="body") == "txt"


@given(st.text(max_size=400))
def test_text_that_names_no_field_is_text(text):
    assert look(text.replace("text", "").replace("{", "")) == "txt"


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("", "txt"),
        ("text,year\n", "txt"),  # a header alone
        ("text,year\nA.,1,2\n", "txt"),  # rows of other lengths
        ("text\nA.\nB.\n", "txt"),  # one column is a line
        ("some text, and more\nof it, here\n", "txt"),
        ("text\tyear\nA, b.\t3\n", "tsv"),
        ('text,n\n"A, b.",3\n', "csv"),
        ('{"text": "A."}\nprose\n', "txt"),
        ("name,city,unit price\nA,B,3\nC,,4\n", "csv"),  # a clear header of three columns, and rows
        ("name;city;price\nA;B, b;3\nC;D;4\n", "csv"),
        ("name\tcity\tprice\nA\tB\t3\nC\tD\t4\n", "tsv"),
        ("name,city\nA,B\nC,D\n", "txt"),
        ("name,city,price\nA,B,3\n", "txt"),
        ("Anna, Bert, Carl\nthe sun, the moon, the stars\nwe saw, we came, we won\n", "txt"),
        ("{\n", "txt"),
        ("[1, 2]\n", "txt"),
        ('{"text": "A."}\n{"text": "cut off he', "txt"),
    ],
)
def test_what_is_what(text, form):
    assert look(text) == form


def test_bad_lines_may_be_among_records_where_they_are_left_out():
    text = '{"text": "A."}\n{bad\n{"text": "B."}\n'
    assert (look(text), look(text, bad_records="skip")) == ("txt", "jsonl")


def test_a_last_line_that_the_first_block_cuts_is_not_looked_at():
    whole = json.dumps({"text": "word " * 20_000})
    assert look(f'{{"text": "A."}}\n{whole[:80_000]}') == "jsonl"


def test_columns_asked_for_by_number_are_tsv_where_all_lines_have_them():
    lines = "Ein Hund.\tA dog.\nZwei.\tTwo.\n"
    assert look(lines) == look(lines, text_b="en") == "txt"
    assert look(lines, text_b="2") == look(lines, text_field="1", text_b="2") == "tsv"
    assert look(lines, text_b="3") == look(lines + "Drei.\n", text_b="2") == "txt"
