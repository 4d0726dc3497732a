"""Lists of answers: pages, counts, orders, CSV, and near answers, an empty list; in Python, in a shell, over HTTP."""

import csv
import io
import json
from datetime import date

import numpy as np
import pytest

import wordpipe
from wordpipe.errors import ConfigError, InputError, NothingFound
from wordpipe.web import page as PAGE

ROWS = [
    ("a1", "en", 1999, "Sea", "Salt water of the sea."),
    ("a2", "en", 2005, "Rivers", "Water of the river, sweet water."),
    ("a3", "de", 2010, "Boiler", "Warm water from the boiler."),
    ("a4", "en", 2020, '=SUM(A1) "x"', "Salt, sugar\nand a second line of the sea."),
    ("a5", "fr", None, "-5", "Bread needs no sea."),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lists")
    names = ("id", "lang", "year", "title", "text")
    records = [dict(zip(names, row, strict=True)) | {"tags": ["x", "y"]} for row in ROWS]
    wordpipe.ingest(records, output=folder / "corpus", valid=0)
    wordpipe.index(folder / "corpus", output=folder / "index", unit="document")
    return folder / "index"


@pytest.mark.parametrize("options", [{}, {"mode": "lexical", "feedback": 5}, {"mode": "dense"}, {"mode": "hybrid"}])
@pytest.mark.parametrize("more", [{}, {"per_document": True}, {"where": "line > 20"}])
def test_pages_joined_are_the_list(built, options, more):
    with wordpipe.open(built / "index", "index") as opened:
        whole = opened.query("salt water of the sea and the moon", 150, **options, **more)
        pages = [
            opened.query("salt water of the sea and the moon", 10, offset=n, **options, **more)
            for n in range(0, 150, 10)
        ]
    assert len(whole) > 20
    assert [hit for page in pages for hit in page] == whole


def test_pages_of_an_approximate_index_are_those_of_one_search(built, tmp_path):
    wordpipe.index(built / "words", output=tmp_path / "graph", type="hnsw")
    wordpipe.index(built / "sentences", output=tmp_path / "lists", type="ivf-pq", recall=0.5)
    with wordpipe.open(tmp_path / "lists", "index") as opened:
        whole = opened.query("salt water", 100, mode="dense")
        assert [hit for n in range(0, 100, 7) for hit in opened.query("salt water", 7, offset=n, mode="dense")][
            :100
        ] == whole
    with wordpipe.open(tmp_path / "graph", "index") as opened:
        assert opened.query("water", 3, offset=2) == opened.query("water", 5)[2:]
    with wordpipe.open(built / "words", "words") as opened:
        assert opened.query("water", 3, offset=2) == opened.query("water", 5)[2:]


def test_a_list_without_words_has_pages(index, cli):
    assert [hit["id"] for hit in wordpipe.query(index, "lang:en", 1, offset=1)] == ["a2"]
    assert [hit["rank"] for hit in wordpipe.query(index, "", 2, offset=1, where="year > 2000")] == [2, 3]
    shown = cli("query", index, "--where", "year > 0", "-k", 2, "--offset", 1, piped="")
    assert [line.split("\t")[-1] for line in shown.out.splitlines()] == ["a2", "a3"]
    assert "shown: 2 to 3 of 4 rows" in shown.err
    past = cli("query", index, "water", "--offset", 50)
    assert past.code == 1
    assert "nothing was found after the first 50 answers" in past.err


COUNTED = [
    ("water", {}, 3), ("water -boiler", {}, 2), ("sea", {"where": "year < 2010"}, 1), ("water sea", {}, 5),
    ("lang:en", {}, 3), ('"salt water"', {}, 1), ("sugra", {}, 1), ("wat", {"prefix": True}, 3), ("zzyzx", {}, 0),
    ("", {"where": "lang = 'en'"}, 3), ("", {}, 0), ("the", {}, 0), ("water", {"min_score": 0.5}, None),
]  # fmt: skip


@pytest.mark.parametrize(("query", "options", "n"), COUNTED)
def test_what_is_counted_is_what_a_search_by_words_finds(index, query, options, n):
    with wordpipe.open(index, "index") as opened:
        found = opened.count(query, **options)
        assert found == (len(opened.query(query, 100, **options)) if n is None else n)


def test_a_search_by_vectors_ranks_every_row_and_a_hybrid_one_is_counted_by_words(built, cli, serving):
    with wordpipe.open(built / "index", "index") as opened:
        assert opened.count("salt water", mode="dense") == len(opened)
        words = opened.count("salt water")
        assert (
            opened.count("salt water", mode="hybrid") == words == len(opened.query("salt water", 1000, mode="lexical"))
        )
        assert opened.count("salt water", per_document=True) <= words
        with pytest.raises(ConfigError, match="min_score needs mode = lexical"):
            opened.count("salt water", mode="hybrid", min_score=0.5)
    with wordpipe.open(built / "words") as opened, pytest.raises(ConfigError, match="only in an index over texts"):
        opened.count("water")
    said = cli("query", built / "index", "salt water", "--count", "--mode", "dense")
    assert "all rows that have a vector" in said.err
    found = serving(built / "index").get("/search", params={"q": "salt water", "count": 1, "format": "json"}).json()
    assert found["matches"] == words


def test_the_command_prints_numbers_alone(index, cli, tmp_path):
    assert cli("query", index, "water", "--count").out == "3\n"
    assert cli("query", index, "water", "--count", "--json").out == '{"query": "water", "count": 3}\n'
    (tmp_path / "q").write_text("water\nzzyzx\n\n")
    several = cli("query", index, "--queries", tmp_path / "q", "--count")
    assert (several.code, several.out) == (0, "water\t3\nzzyzx\t0\n\t0\n")
    assert cli("query", index, "--where", "lang = 'en'", "--count", piped="").out == "3\n"
    none = cli("query", index, "zzyzx", "--count")
    assert (none.code, none.out) == (1, "0\n")


def test_csv_has_all_fields_and_no_formula(index, cli, serving):
    told = cli("query", index, "sea", "--format", "csv")
    rows = list(csv.reader(io.StringIO(told.out, newline="")))
    assert rows[0] == ["rank", "score", "id", "title", "text", "place", "lang", "year", "tags"]
    by_id = {row[2]: row for row in rows[1:]}
    assert {*by_id} == {"a1", "a4", "a5"}
    assert by_id["a4"][3] == '\'=SUM(A1) "x"'
    assert by_id["a4"][4] == "Salt, sugar\nand a second line of the sea."
    assert by_id["a5"][3] == "-5"
    assert by_id["a5"][7] == ""
    assert by_id["a1"][6:] == ["en", "1999", '["x", "y"]']
    assert told.out.endswith("\r\n") or "\r" not in told.out  # as the stream writes line ends
    reply = serving(index).get("/search", params={"q": "sea", "format": "csv"})
    assert reply.headers["content-type"].startswith("text/csv")
    assert list(csv.reader(io.StringIO(reply.text, newline=""))) == rows
    several = cli("query", index, "--format", "csv", "--explain", piped="sea\nboiler\n")
    rows = list(csv.reader(io.StringIO(several.out, newline="")))
    assert (rows[0][0], rows[0][-1], len(rows)) == ("query", "explain", 5)
    assert json.loads(rows[-1][-1])["mode"] == "lexical"
    empty = cli("query", index, "zzyzx", "--format", "csv")
    assert (empty.code, len(empty.out.splitlines())) == (1, 1)


def test_fields_with_the_names_of_other_columns_have_columns_of_their_own(built, cli, tmp_path):
    rows = [{"text": "Salt in the sea", "score": 3, "place": "there", "metadata.score": "x"}]
    wordpipe.ingest(rows, output=tmp_path / "corpus", valid=0)
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index", unit="document")
    table = csv.DictReader(io.StringIO(cli("query", tmp_path / "index", "salt", "--format", "csv").out))
    (row,) = table
    assert {row["metadata.score"], row["metadata.metadata.score"]} == {"3", "x"}
    assert row["metadata.place"] == "there"
    words = list(csv.reader(io.StringIO(cli("query", built / "words", "water", "-k", 1, "--format", "csv").out)))
    assert words[0] == ["rank", "score", "word", "count"]


def test_an_empty_answer_is_no_error_of_input(index, cli, client):
    found = cli("query", index, "zzyzx")
    assert found.code == 1
    assert "wordpipe: nothing was found" in found.err
    assert "error" not in found.err
    quiet = cli("query", index, "zzyzx", "-q")
    assert (quiet.code, quiet.out, quiet.err) == (1, "", "")
    told = cli("query", index, "zzyzx", "--json")
    error = json.loads(told.err.splitlines()[-1])["error"]
    assert (error["code"], error["kind"]) == (1, "nothing")
    assert cli("query", index, "--queries", "/nowhere").code == 3
    assert not issubclass(NothingFound, InputError)
    assert wordpipe.query(index, "zzyzx") == []
    for form, said in (("lines", ""), ("csv", None), ("json", None)):
        reply = client.get("/search", params={"q": "zzyzx", "mode": "lexical", "format": form})
        assert reply.status_code == 200
        assert said in (None, reply.text)


SORTED = [
    ("water sea", {"sort": "year"}, ["a1", "a2", "a3", "a4", "a5"]),
    ("water sea", {"sort": "year:desc"}, ["a4", "a3", "a2", "a1", "a5"]),
    ("sea", {"sort": "year:desc"}, ["a4", "a1", "a5"]),
    ("sea", {"sort": "lang:desc"}, ["a5", "a1", "a4"]),
    ("sea -bread", {"sort": "title"}, ["a4", "a1"]),
    ("lang:en", {"sort": "year:desc"}, ["a4", "a2", "a1"]),
    ("", {"where": "year > 2000", "sort": "year:desc"}, ["a4", "a3", "a2"]),
    ("water", {"sort": "year", "offset": 1}, ["a2", "a3"]),
    ("water sea", {"sort": "year:desc", "where": "lang != 'de'", "mode": "lexical"}, ["a4", "a2", "a1", "a5"]),
    ("zzyzx", {"sort": "year"}, []),
]


@pytest.mark.parametrize(("query", "options", "ids"), SORTED)
def test_matching_rows_are_sorted_by_a_field(index, cli, serving, query, options, ids):
    hits = wordpipe.query(index, query, **options)
    assert [hit["id"] for hit in hits] == ids
    if not query:
        return
    flags = [part for name, value in options.items() for part in (f"--{name}", value)]
    told = cli("query", index, query, "--json", *flags)
    assert [json.loads(line)["id"] for line in told.out.splitlines()] == ids
    found = serving(index).get("/search", params={"q": query, "format": "json"} | options).json()
    assert [hit["id"] for hit in found["hits"]] == ids
    scores = {hit["id"]: hit["score"] for hit in wordpipe.query(index, query, mode="lexical")}
    assert {hit["id"]: hit["score"] for hit in hits} == pytest.approx({one: scores[one] for one in ids})


def test_a_sorted_list_has_pages_and_one_row_of_each_document(built):
    with wordpipe.open(built / "index", "index") as opened:
        n = opened.count("salt water of the sea")
        whole = opened.query("salt water of the sea", n + 5, sort="title:desc")
        pages = [opened.query("salt water of the sea", 9, offset=at, sort="title:desc") for at in range(0, n, 9)]
        assert [hit for page in pages for hit in page] == whole
        assert len(whole) == n
        near = [hit["related"] for hit in whole].index(False)
        assert not any(hit["related"] for hit in whole[near:])
        for part in (whole[:near], whole[near:]):  # those that fulfil the question come first
            folded = [hit["title"].casefold() for hit in part]
            assert folded == sorted(folded, reverse=True)
        wanted = {hit["row"]: hit["related"] for hit in opened.query("salt water of the sea", n, mode="lexical")}
        assert {hit["row"]: hit["related"] for hit in whole} == wanted
        one = opened.query("salt water of the sea", n, sort="title:desc", per_document=True, explain=True)
        assert [hit["row"] for hit in one] == [hit["row"] for hit in whole]
        for hit in one[:5]:
            assert sum(term["score"] for term in hit["explain"]["lexical"]["terms"]) == pytest.approx(hit["score"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--sort", "yeer"], "did you mean year"),
        (["--sort", "tags"], "lists or objects"),
        (["--sort", "year", "--mode", "dense"], "sort needs another mode"),
        (["--sort", "year", "--feedback", "3"], "feedback cannot be used with sort"),
    ],
)
def test_an_order_that_cannot_be_is_refused(index, cli, options, said):
    found = cli("query", index, "sea", *options)
    assert found.code == 2
    assert said in found.err


def test_orders_equal_sorting_the_values(tmp_path):
    rng = np.random.default_rng()

    def some(make):
        return [None if one < 0 else make(int(one)) for one in rng.integers(-5, 30, 50)]

    fields = {
        "day": some(lambda n: str(date.fromordinal(730_000 + n))),
        "size": some(lambda n: n / 7),
        "name": some(lambda n: "aÄbBc"[n % 5] * (1 + n % 3)),
        "done": some(lambda n: n % 2 == 0),
    }
    rows = [{"text": f"row {n}"} | {name: values[n] for name, values in fields.items()} for n in range(50)]
    wordpipe.ingest(rows, output=tmp_path / "corpus", metadata=["day:date", "size:float", "name", "done:bool"], valid=0)
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index", unit="document")
    with wordpipe.open(tmp_path / "index", "index") as opened:
        for name, values in fields.items():
            key = (lambda text: (text.lower().replace("ä", "a"), text)) if name == "name" else (lambda value: value)
            real = [n for n in range(50) if values[n] is not None]
            missing = [n for n in range(50) if values[n] is None]
            up = sorted(real, key=lambda n: key(values[n]))
            down = sorted(real, key=lambda n: key(values[n]), reverse=True)
            for sort, expected in ((name, up), (f"{name}:asc", up), (f"{name}:desc", down)):
                hits = opened.query("row", 50, sort=sort)
                shown = [hit["metadata"][name] for hit in hits]
                assert [str(one) for one in shown] == [str(values[n]) for n in [*expected, *missing]], sort


NEAR = [
    ("salt water boiler", {"a1": True, "a2": False, "a3": True, "a4": False}),
    ("water", {"a1": True, "a2": True, "a3": True}),
    ("sea zzyzx", {"a1": True, "a4": True, "a5": True}),
    ("boiler sea", {"a3": True, "a1": False, "a4": False, "a5": False}),
]


@pytest.mark.parametrize(("query", "related"), NEAR)
def test_an_answer_with_less_than_half_of_the_words_is_merely_near(index, query, related):
    assert {hit["id"]: hit["related"] for hit in wordpipe.query(index, query)} == related


def test_a_word_that_is_begun_counts_once(index):
    hits = wordpipe.query(index, "bread s", prefix=True)
    assert {hit["id"]: hit["related"] for hit in hits}["a5"] is True
    assert {hit["id"] for hit in hits} == {"a1", "a2", "a4", "a5"}


def test_related_is_half_of_the_words_by_idf(built):
    """The slow twin, over all hits: the words of each text, by themselves."""
    query = "the salt water of the sea"
    with wordpipe.open(built / "index", "index") as opened:
        lexical = opened.lexical
        words = [stem for stem in lexical.analyser(query) if lexical.knows(stem)]
        total = sum(lexical.weight_of(stem) for stem in words)
        for mode in ("lexical", "hybrid"):
            hits = opened.query(query, 100, mode=mode)
            for hit in hits:
                has = {*lexical.analyser(f"{hit['title']} {hit['text']}")}
                share = sum(lexical.weight_of(stem) for stem in words if stem in has) / total
                assert hit["related"] == (share >= 0.5), (hit["title"], share)
            assert {hit["related"] for hit in hits} == {True, False}
        assert all("related" not in hit for hit in opened.query(query, 5, mode="dense"))
        assert all("related" not in hit for hit in opened.similar(3, 5))
        assert all("related" not in hit for hit in opened.query("", 5, where="line > 3"))


def test_a_quiet_line_parts_near_answers_from_the_others(index, cli, serving):
    line = "— less related: less than half of the question's words (rare ones count more) —"
    shown = cli("query", index, "salt water boiler", "--format", "plain").out.splitlines()
    scores = [one[:6] for one in shown if one[:1].isdigit()]
    at = shown.index(line)
    assert sum(one[:1].isdigit() for one in shown[:at]) == 2
    assert len(scores) == 4
    assert line not in cli("query", index, "water", "--format", "plain").out
    assert line not in cli("query", index, "salt water boiler", "--format", "tsv").out
    client = serving(index, page=PAGE)
    page = client.get("/", params={"q": "salt water boiler"}).text
    assert page.count('<p class="near">') == 1
    above, below = page.split('<p class="near">')
    assert (above.count('class="score"'), below.count('class="score"')) == (2, 2)
    assert '<p class="near">' not in client.get("/", params={"q": "water"}).text


def test_an_explanation_names_words_as_the_text_writes_them(tmp_path):
    rows = [
        {
            "id": 1,
            "title": "Lighthouses",
            "text": "A lighthouse has a Fresnel lens. Of lenses the largest lens is here.",
        },
        {"id": 2, "title": "Augustin-Jean", "text": "Lighthouses of Jupiter, and meters.", "keeper": "Moons"},
    ]
    wordpipe.ingest(rows, output=tmp_path / "corpus", valid=0, metadata=["keeper"])
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index", language="english", endings="remove")
    asked = "lighthouses lens jupiters augustin-jean moon"
    with wordpipe.open(tmp_path / "index") as index:
        hits = index.query(asked, 2, mode="lexical", explain=True, feedback=0)
    words = {str(hit["id"]): {one["stem"]: one["word"] for one in hit["explain"]["lexical"]["terms"]} for hit in hits}
    assert words["1"] == {"lighthous": "Lighthouses", "len": "lens"}
    own = words["2"]
    assert (own["lighthous"], own["jupit"], own["augustinjean"], own["moon"]) == (
        "Lighthouses", "Jupiter", "Augustin-Jean", "Moons",
    )  # fmt: skip
