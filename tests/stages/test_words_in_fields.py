"""Words of queries that stand in no text but in a field of the records; names of fields as a user knows them."""

import json
from itertools import combinations

import pyarrow as pa
import pytest

import wordpipe
from wordpipe.search import FieldColumns, LexicalIndex, Question, WordsInFields
from wordpipe.search.settings import LexicalSettings, QueryOptions

NAMES = ("ticket", "host", "name", "ship date", "@level", "labels", "summary")
ROWS = [
    ("T-1001", "web01.example.org", "Disk alarm", "2024-03-01", "high", ["disk", "storage"], "The disk is full again."),
    ("T-1002", "db02.example.org", "Access", "2024-03-05", "low", ["login"], "Users may not open the database."),
    ("T-1003", "web01.example.org", "Slow pages", "2023-12-01", "mid", ["network"], "Pages load slowly in the evening."),
    ("T-1004", "mail.müller.example", "Bounced", "2024-01-20", "low", ["spam"], "A block list stops letters to partners."),
]  # fmt: skip
READING = {"text_field": "summary", "title_field": "name"}


def records(*, with_fields: bool = True) -> list[dict]:
    found = [dict(zip(NAMES, row, strict=True)) for row in ROWS]
    return found if with_fields else [{name: one[name] for name in ("name", "summary")} for one in found]


def made(folder, some: list[dict], **options):
    wordpipe.ingest(some, output=folder / "corpus", valid=0, **READING)
    wordpipe.index(folder / "corpus", output=folder / "index", language="english", **options)
    return folder / "index"


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return made(tmp_path_factory.mktemp("fields"), records())


ASKED = [
    ("web01", ["T-1001", "T-1003"]),
    ("web01.example.org", ["T-1001", "T-1003"]),
    ("WEB01?", ["T-1001", "T-1003"]),
    ("t-1003", ["T-1003"]),
    ("T-1003 disk", ["T-1001", "T-1003"]),
    ("web01 disk", ["T-1001", "T-1003"]),
    ("spam", ["T-1004"]),
    ("muller", ["T-1004"]),
    ("web0*", ["T-1001", "T-1003"]),
    ("+web01 pages", ["T-1003", "T-1001"]),
    ("disk -web01", []),
    ('"web01 example"', ["T-1001", "T-1003"]),
    ("name:disk", ["T-1001"]),
    ("summary:evening", ["T-1003"]),
    ('"ship date":2024-03 disk', ["T-1001"]),
    ("ship date:2023-12-01", ["T-1003"]),
    ("@level:low", ["T-1002", "T-1004"]),
    ("-@level:low", ["T-1001", "T-1003"]),
]


def tickets(hits: list[dict]) -> list[str]:
    return [hit["metadata"]["ticket"] for hit in hits]


@pytest.mark.parametrize(("query", "expected"), ASKED)
def test_words_of_fields_are_found(index, query, expected):
    assert tickets(wordpipe.query(index, query)) == expected
    with wordpipe.open(index, "index") as opened:
        assert opened.count(query) == len(expected)


def test_the_server_and_the_shell_find_them_alike_and_say_where(cli, index, serving):
    client = serving(index)
    for query, expected in ASKED:
        found = client.get("/search", params={"q": query, "format": "json"}).json()
        assert tickets(found["hits"]) == expected
    said = "no text contains web01; it was found in the field host (2 rows)"
    assert client.get("/search", params={"q": "web01 disk", "format": "json"}).json()["remarks"] == [said]
    shown = cli("query", index, "web01 disk", "--json")
    assert tickets(map(json.loads, shown.out.splitlines())) == ["T-1001", "T-1003"]
    assert said in shown.err


def test_a_word_of_a_field_is_explained_and_shown_with_its_field(cli, index):
    (first, second) = wordpipe.query(index, "web01 disk", explain=True)
    terms = {term["stem"]: term for term in first["explain"]["lexical"]["terms"]}
    assert terms["web01"]["fields"] == ["host"]
    assert terms["web01"]["texts"] == 2
    assert sum(term["score"] for term in terms.values()) == pytest.approx(first["score"], abs=1e-5)
    assert [term["stem"] for term in second["explain"]["lexical"]["terms"]] == ["web01"]
    assert (first["related"], second["related"]) == (True, True)
    shown = cli("query", index, "web01 disk", "--format", "plain", "--explain").out
    assert "host web01.example.org" in shown
    assert "web01 (in host)" in shown


def test_questions_whose_words_stand_in_texts_are_answered_as_without_fields(index, tmp_path):
    bare = made(tmp_path, records(with_fields=False))
    words = sorted({word.strip(".").lower() for row in ROWS for word in (row[2] + " " + row[-1]).split()})
    questions = [" ".join(pair) for pair in combinations(words, 2)]
    with wordpipe.open(index, "index") as rich, wordpipe.open(bare, "index") as plain:
        both = [[(hit["row"], hit["score"]) for hit in one.hits] for one in rich.query_all(questions)]
        assert both == [[(hit["row"], hit["score"]) for hit in one.hits] for one in plain.query_all(questions)]
        assert any(both)


def test_sorted_paged_and_single_documents_agree_with_the_list(index):
    whole = tickets(wordpipe.query(index, "org disk"))
    assert len(whole) == 3
    pages = [tickets(wordpipe.query(index, "org disk", k=1, offset=at)) for at in range(3)]
    assert [one for page in pages for one in page] == whole
    assert tickets(wordpipe.query(index, "web01", sort="ship date")) == ["T-1003", "T-1001"]
    assert tickets(wordpipe.query(index, "web01", where="\"@level\" = 'mid'")) == ["T-1003"]
    assert tickets(wordpipe.query(index, "web01 disk", per_document=True)) == ["T-1001", "T-1003"]
    assert wordpipe.query(index, "web01", exact=True) == []


def test_a_word_that_every_row_has_in_a_field_tells_nothing(tmp_path):
    some = [one | {"shop": "harbour"} for one in records()]
    assert wordpipe.query(made(tmp_path, some), "harbour") == []


@pytest.mark.parametrize("repeats", [1, 8])
def test_columns_of_any_form_are_looked_through(repeats):
    hosts = ["alpha-1", None, "beta", "Ünit 7", "ALPHA-1 beta"] * repeats
    table = pa.table({"host": hosts, "marks": [[], None, ["beta gamma"], ["x", "gamma"], []] * repeats})
    columns = FieldColumns(table.schema, lambda names: table.select(names).to_batches(), len(table))
    lexical = LexicalIndex.build(["nothing of this kind"] * len(table), LexicalSettings(language="none"))
    finder = WordsInFields(columns, lexical, {"host": "text", "marks": "text"}, titled=False)
    expected = {
        "alpha-1": ([0, 4], "host"),
        "unit": ([3], "host"),
        "beta": ([2, 4], "host, marks"),
        "gamma": ([2, 3], "marks"),
    }
    for word, (rows, names) in expected.items():
        (found,) = finder.of_query(Question(f"nothing ({word})"))
        assert found.rows.nonzero()[0].tolist() == [at + 5 * n for n in range(repeats) for at in rows]
        assert ", ".join(found.fields) == names
    assert finder.of_query(Question("kind nothing delta")) == []


def test_vectors_answer_a_plain_word_of_a_field_and_fields_a_name(built, tmp_path):
    some = [
        {"title": "The sea", "text": "Salt water of the sea and its tides.", "topic": "travel", "host": "web01"},
        {"title": "The moon", "text": "The moon pulls the water of the sea.", "topic": "astronomy", "host": "db02"},
        {"title": "A bee", "text": "The bee finds its way by the sun.", "topic": "animals", "host": "web03"},
    ] * 2
    wordpipe.ingest(some, output=tmp_path / "corpus", valid=0, deduplicate=False)
    wordpipe.embed(built / "words", tmp_path / "corpus", output=tmp_path / "sentences", unit="document")
    wordpipe.index(tmp_path / "sentences", output=tmp_path / "index", language="english")
    with wordpipe.open(tmp_path / "index", "index") as index:
        asked = ("travel sea", "travel", "web01 sea", "sea")
        found = dict(zip(asked, index.query_all(asked, 10, QueryOptions()), strict=True))
    assert found["travel sea"].found_in == []
    assert found["travel sea"].mode == found["sea"].mode
    assert found["travel"].found_in == ["topic"]
    assert found["web01 sea"].found_in == ["host"]
