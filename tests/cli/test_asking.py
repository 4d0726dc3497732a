"""What `query` and `search` say of questions that cannot be answered as they are written."""

import json

import pytest

import wordpipe
from wordpipe.errors import ArtifactError

ROWS = [
    {"id": "a1", "date": "2024-03-01", "text": "The disk of the server is full."},
    {"id": "a2", "date": "soon", "text": "Less mail was derived from the list."},
    {"id": "a3", "date": "", "text": "A server for the tables of the house."},
]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("asking")
    wordpipe.ingest([dict(row) for row in ROWS], output=folder / "corpus", valid=0)
    wordpipe.index(folder / "corpus", output=folder / "index", language="english")
    return folder / "index"


def ids(shown) -> list[str]:
    return [json.loads(line)["id"] for line in shown.out.splitlines()]


def test_a_doubtful_correction_is_offered_and_not_taken(cli, index):
    for word, offered in (("denied", "derived"), ("bess", "less")):
        shown = cli("query", index, f"{word} server", "--json")
        assert (ids(shown), f"{word} (did you mean {offered}?)" in shown.err) == (["a1", "a3"], True)
    shown = cli("query", index, "servr", "--json")
    assert (ids(shown), "searched for server instead of servr" in shown.err) == (["a1", "a3"], True)


def test_small_words_alone_are_named(cli, index):
    shown = cli("query", index, "the")
    assert (shown.code, "the is so common that it is not searched" in shown.err) == (1, True)
    assert ids(cli("query", index, '"the"', "--json")) == ["a1", "a2", "a3"]


@pytest.mark.parametrize("order", ["-date", "date:desc"])
def test_a_minus_before_a_field_sorts_downwards(cli, index, serving, order):
    assert ids(cli("query", index, "server", "--sort", order, "--json")) == ["a1", "a3"]
    assert [hit["id"] for hit in wordpipe.query(index, "server less", sort=order)] == ["a2", "a1", "a3"]
    found = serving(index).get("/search", params={"q": "server less", "sort": order, "format": "json"}).json()
    assert [hit["id"] for hit in found["hits"]] == ["a2", "a1", "a3"]


def test_excluded_words_alone_list_the_other_rows(cli, index):
    assert ids(cli("query", index, "-server", "--json")) == ["a2"]
    assert ids(cli("query", index, "--json", "--", "-server")) == ["a2"]


def test_how_many_rows_have_a_date_is_said_where_most_have_none(cli, index):
    said = "newer_better: 1 of 3 rows have a date in date"
    assert said in cli("query", index, "server", "--newer-better", "date").err
    shown = cli("query", index, "server", "--newer-better", "text")
    assert (shown.code, "the field has no dates" in shown.err) == (2, True)


def test_a_second_index_that_is_missing_is_named(cli, index, tmp_path):
    missing = tmp_path / "gone"
    shown = cli("query", index, missing, "server")
    assert (shown.code, str(missing) in shown.err, "the artifact does not exist" in shown.err) == (
        ArtifactError.exit_code,
        True,
        True,
    )
    shown = cli("query", index, "in/out", "server", "--json")
    assert (ids(shown), "in/out is no index" in shown.err) == (["a1", "a3"], True)
    assert "is no index" not in cli("query", index, "disk", "server").err


def test_an_index_whose_corpus_has_changed_is_said(cli, tmp_path):
    for rows in (ROWS[:2], ROWS):
        wordpipe.ingest([dict(row) for row in rows], output=tmp_path / "corpus", valid=0)
        if len(rows) == 2:
            wordpipe.index(tmp_path / "corpus", output=tmp_path / "index", language="english")
            assert "has changed" not in cli("query", tmp_path / "index", "server").err
    shown = cli("query", tmp_path / "index", "server", "--json")
    assert (ids(shown), "corpus has changed since the index" in shown.err) == (["a1"], True)
    assert "has changed" not in cli("query", "-q", tmp_path / "index", "server").err
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index", language="english", update=True)
    assert "has changed" not in cli("query", tmp_path / "index", "server").err


def test_windows_of_a_record_are_one_record_by_its_id(tmp_path):
    long = {"id": "L-1", "text": "A sentence about tides. " * 200}
    wordpipe.ingest([long, *(dict(row) for row in ROWS)], output=tmp_path / "corpus", valid=0)
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index", language="english")
    with wordpipe.open(tmp_path / "index", "index") as index:
        assert sum(hit["id"] == "L-1" for hit in index.query("tides", 99)) > 1
        assert [hit["row"] for hit in index.query("L-1", 99)] == [index.row_of("L-1")]
