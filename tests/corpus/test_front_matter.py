"""Front matter: only what reads as such is cut off, and its fields are the document's columns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.corpus import Ingest, Ledger, expand
from wordpipe.corpus.readers import markdown
from wordpipe.corpus.settings import IngestSettings


def fields_of(text):
    return markdown.read_front_matter(text, Ledger())


@pytest.mark.parametrize(
    ("block", "fields"),
    [
        ("title: Rye\ntags: [a, b]\ndate: 2024-03-01\n", {"title": "Rye", "tags": ["a", "b"], "date": "2024-03-01"}),
        ("tags:\n  - a\n  - b\nn: 3\nx: 0.5\ny: true\n", {"tags": ["a", "b"], "n": 3, "x": 0.5, "y": True}),
        ("tags:\n- a\n- 'b: c'\n# a comment\nz:\n", {"tags": ["a", "b: c"], "z": None}),
        ("a:\n  b: 1\n  c: [x]\n", {"a": {"b": 1, "c": ["x"]}}),
        ('text: >\n  one\n  two\nq: "x: y"\n', {"text": "one two\n", "q": "x: y"}),
        ("title: Rye: a history\nby: @me\n", {"title": "Rye: a history", "by": "@me"}),
        ("country: no\nversion: 007\nmy key: 1\n", {"country": "no", "version": "007", "my key": 1}),
        ("tags: [\n  a,\n  b\n]\n", {"tags": ["a", "b"]}),
        ("a: &x 1\nb: *x\n", {"a": 1, "b": "*x"}),
        ("a: !!python/object/apply:os.system [x]\n", {"a": ["x"]}),
        ("", {}),
    ],
)
@pytest.mark.parametrize("end", ["---", "..."])
def test_fields_in_yaml(block, fields, end):
    text = f"---\n{block}{end}\nText.\n"
    assert fields_of(text) == (fields, len(text) - len("Text.\n"))


def test_fields_in_toml():
    text = '+++\ntitle = "Rye"\ndate = 2024-03-01\ntags = ["a"]\n[x]\ny = 1\n+++\nText.\n'
    assert fields_of(text) == ({"title": "Rye", "date": "2024-03-01", "tags": ["a"], "x": {"y": 1}}, len(text) - 6)


@pytest.mark.parametrize(
    "text",
    [
        "---\n\n## Votes\n\nAll for it.\n\n---\n\nMore.\n", "---\nThe roof leaks.\n---\nMore.\n", "---\n# Votes\n---\nMore.\n",
        "---\n- one\n- two\n---\nMore.\n", "---\n12:30 the bell\n---\nx\n", "---\ntitle: never closed\n\nText.\n",
        "---\n\ntitle: x\n\n---\n", "text\n---\na: b\n---\n", "+++\nno toml\n+++\n", "---\nhttp://a.example\n---\n",
        "--- \ntext",
        "---\na: 1\nA sentence that is no field.\n---\n",
    ],
)  # fmt: skip
def test_what_does_not_read_as_front_matter_is_text(text):
    assert fields_of(text) == ({}, 0)


TAGS = "field_tags"  # the column of a field that is called as one of ours
PIECES = [
    "---\n",
    "...\n",
    "a: 1\n",
    "- b\n",
    "[",
    "{",
    "&a ",
    "*a\n",
    "'",
    '"',
    "x\n",
    "  ",
    "+++\n",
    ": ",
    "|\n",
    "!",
]


@given(st.lists(st.sampled_from(PIECES)))
def test_any_head_is_read(pieces):
    text = "---\n" + "".join(pieces)
    fields, end = fields_of(text)
    assert 0 <= end <= len(text)
    assert isinstance(fields, dict)


def test_depth_is_bounded():
    assert fields_of("---\na: " + "[" * 5000 + "\n---\n")[0]["a"].startswith("[[")


def read(here, **settings):
    ingest = Ingest(expand([str(here)]), IngestSettings(**settings))
    rows = [row for batch in [*ingest.batches()] for row in ingest.converted(batch).to_pylist()]
    return rows, ingest


def test_fields_are_columns_of_every_section_and_files_may_differ(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.md").write_bytes(
        b"\xef\xbb\xbf---\r\ntitle: Rye\r\ntags: [a, b]\r\nyear: 2024\r\n---\r\nFirst.\r\n\r\n# More\r\n\r\nSecond.\r\n"
    )
    (tmp_path / "b.md").write_text("---\nyear: late\n---\nThird.\n")
    (tmp_path / "c.md").write_text("---\n\nFourth.\n\n---\n\nFifth.\n")
    rows, ingest = read(".")
    found = {row["text"].strip(): (row["title"], row[TAGS], row["year"]) for row in rows}
    assert found["First."] == ("Rye", ["a", "b"], "2024")
    assert found["Second."] == ("Rye › More", ["a", "b"], "2024")
    assert found["Third."] == (None, None, "late")
    assert found["Fourth."] == found["Fifth."] == (None, None, None)
    assert any("'year'" in warning for warning in ingest.warnings)
    rows, ingest = read(".", metadata=("year:int",))
    assert [row["year"] for row in rows][:2] == [2024, 2024]
    assert TAGS not in ingest.schema.names
    rows, ingest = read(".", no_metadata=True)
    assert "year" not in ingest.schema.names
    assert rows[0]["title"] == "Rye"


def test_front_matter_alone_is_counted(tmp_path):
    for name, text in (
        ("a", "---\ntitle: Rye\n---\n \n"),
        ("b", "+++\ntitle = 'Oats'\n+++"),
        ("c", "---\nn: 1\n---\nText.\n"),
    ):
        (tmp_path / f"{name}.md").write_text(text)
    ingest = Ingest(expand([str(tmp_path)]), IngestSettings())
    assert sum(len(batch) for batch in ingest.batches()) == 1
    assert ingest.counts["front_matter_without_text"] == 2
