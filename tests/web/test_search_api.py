"""Our own API: what it answers is what `wordpipe query --json` prints, and its errors name the next step."""

import csv
import io
import itertools
import json
import random
from datetime import datetime
from shutil import copytree

import pyarrow as pa
import pytest

import wordpipe
from tests.support.waiting import wait_until
from wordpipe.errors import UnknownWordError

QUERIES = [
    ("records", {"q": "salt water", "k": 3}),
    ("records", {"q": "note 7", "mode": "lexical"}),
    ("records", {"q": "bees", "where": "year > 2000 and lang = 'it''s'"}),
    ("records", {"q": "salt", "mode": "hybrid", "weight": 0.25, "explain": 1, "k": 2}),
    ("index", {"q": "how do bees find their way"}),
    ("index", {"q": "tides", "per_document": 1, "min_score": 0.1, "mode": "dense"}),
    ("words", {"q": "water - salt + bread", "k": 4}),
]


def options_of(params):
    flags = []
    for name, value in params.items():
        if name == "k":
            flags += ["-k", value]
        elif name != "q":
            flags += [f"--{name.replace('_', '-')}"] + ([] if name in ("explain", "per_document") else [value])
    return flags


@pytest.mark.parametrize(("name", "params"), QUERIES)
def test_the_lines_are_those_of_the_command(client, cli, built, records, name, params):
    path = records if name == "records" else built / name
    said = cli("query", path, params["q"], "--json", *options_of(params))
    reply = client.get("/search", params={**params, "index": name})
    assert reply.status_code == 200
    assert reply.text == said.out
    assert said.out
    whole = client.get("/search", params={**params, "index": name, "format": "json"}).json()
    assert [{"query": whole["query"]} | hit for hit in whole["hits"]] == [
        json.loads(one) for one in said.out.splitlines()
    ]


def test_the_first_that_can_answers_where_none_is_named(client):
    assert client.get("/search", params={"q": "salt", "format": "json"}).json()["index"] == "records"


def test_conditions_that_are_repeated_are_all_true(client):
    found = client.get("/search", params={"q": "salt", "where": ["year > 2000", "year < 2004 or year = 2010"], "k": 40})
    years = {json.loads(line)["metadata"]["year"] for line in found.text.splitlines()}
    assert years == {2001, 2002, 2003, 2010}


def test_several_questions_in_one_request_are_answered_as_one_by_one(client):
    questions = ["salt water", "watre", "bees -salt"]
    asked = {"q": questions, "k": 3, "count": True, "passage": 60}
    found = client.post("/search", json={**asked, "format": "json"}).json()["results"]
    each = [client.post("/search", json={**asked, "q": one, "format": "json"}).json() for one in questions]
    assert [one | {"seconds": 0} for one in found] == [one | {"seconds": 0} for one in each]
    lines = client.post("/search", json={"q": questions, "k": 3})
    assert lines.text == "".join(client.get("/search", params={"q": one, "k": 3}).text for one in questions)
    table = csv.DictReader(io.StringIO(client.post("/search", json={"q": questions, "format": "csv"}).text, newline=""))
    assert {row["query"] for row in table} == {*questions}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"q": []}, "number of queries"), ({"q": ["a"] * 257}, "number of queries"), ({"q": ["salt", " "]}, "is empty"),
        ({"q": ["salt", 3]}, "list of texts"), ({"q": 3}, "list of texts"), ({"q": {"a": "b"}}, "list of texts"),
        ({"q": ["salt"] * 20, "k": 1000}, "k times the number of queries"),
        ({"q": ["salt"] * 20, "explain": True}, "k with explain"),
    ],
)  # fmt: skip
def test_lists_of_questions_that_cannot_be_are_refused(client, body, said):
    reply = client.post("/search", json=body)
    assert reply.status_code == 400
    assert said in reply.json()["error"]["message"]


def test_the_last_word_of_a_question_is_completed(client, together):
    found = client.get("/suggest", params={"q": "how do Be", "k": 2, "index": "records"}).json()
    assert (found["query"], found["index"]) == ("how do Be", "records")
    assert found["suggestions"][0] == {"word": "bees", "query": "how do bees"}
    assert client.get("/suggest", params={"q": "qxq"}).json()["suggestions"] == []
    words = [one["word"] for one in together.get("/suggest", params={"q": "sal", "index": "*"}).json()["suggestions"]]
    assert words == ["salt", "salz"]
    assert client.get("/suggest", params={"q": "sal", "index": "words"}).status_code == 400


def test_without_a_query_some_to_begin_with_are_suggested(client, together):
    found = client.get("/suggest", params={"k": 4, "index": "records"}).json()
    assert found["suggestions"] == [{"word": "", "query": f"Title {n}"} for n in (0, 10, 20, 30)]
    assert found == client.get("/suggest", params={"k": 4, "index": "records"}).json()
    pairs = [one["query"] for one in together.get("/suggest", params={"index": "early"}).json()["suggestions"]]
    assert all(together.get("/search", params={"q": f'"{pair}"', "index": "early"}).text for pair in pairs)


def test_what_is_said_over_http_names_parameters_in_place_of_options(client):
    found = client.get("/search", params={"q": "r-5", "format": "json", "index": "records"}).json()
    assert found["remarks"] == ["this is the record with the id r-5; exact=1 searches for the words"]
    header = client.get("/search", params={"q": "r-5", "index": "records"}).headers["Wordpipe-Remarks"]
    assert json.loads(header)["remarks"] == found["remarks"]
    params = {"q": "salt", "where": "lang = 'nothing'", "format": "json", "index": "records"}
    assert "wordpipe" not in client.get("/search", params=params).json()["nothing"]["hint"]


def test_nothing_found_is_an_answer_that_says_why(client):
    params = {"q": "salt", "where": "year = 1"}
    assert client.get("/search", params=params).text == ""
    found = client.get("/search", params=params | {"format": "json"}).json()
    assert found["hits"] == []
    assert "true for 0 of 40 rows" in found["nothing"]["message"]


def test_passages_mark_the_words_of_the_query(client):
    found = client.get(
        "/search", params={"q": "salted bread", "format": "json", "passage": 40, "mode": "lexical"}
    ).json()
    pieces = found["passages"][0]["pieces"]
    assert {text for text, marked in pieces if marked} >= {"Salt", "bread"}
    assert "".join(text for text, _ in pieces) in found["hits"][0]["text"]
    assert found["passages"][0]["after"]
    assert len(found["passages"]) == len(found["hits"])


def test_the_passages_of_like_rows_are_their_beginnings(client):
    found = client.get("/similar", params={"row": 7, "k": 4, "format": "json", "passage": 30}).json()
    assert len(found["passages"]) == len(found["hits"]) == 4
    for passage, hit in zip(found["passages"], found["hits"], strict=True):
        (piece,) = passage["pieces"]
        assert hit["text"].startswith(piece[0])
        assert piece[1] is False
        assert passage["after"] == (len(piece[0]) < len(hit["text"]))
        assert passage["has_vector"]
    assert "passages" not in client.get("/similar", params={"row": 7, "k": 4, "format": "json"}).json()


@pytest.mark.parametrize(
    ("path", "params", "status", "said"),
    [
        ("/search", {"q": "  "}, 400, "the query is empty"),
        ("/search", {"q": "a", "k": "9" * 5000}, 400, "not a number"),
        ("/search", {"q": "a", "weight": "nan"}, 400, "not a number"),
        ("/search", {"q": "a", "explain": 1, "k": 101}, 400, "k with explain"),
        ("/search", {"q": "a", "where": "yeer > 1"}, 400, "did you mean year"),
        ("/search", {"q": "a", "where": "1; drop table rows"}, 400, "not a condition"),
        ("/search", {"q": "a", "where": "(" * 3000 + "1"}, 400, "condition"),
        ("/search", {"q": "a", "index": "nope"}, 404, "choose one of: records, index, words"),
        ("/search", {"q": "a", "index": "sentences"}, 400, "does not support search"),
        ("/search", {"q": "a", "index": "words", "where": "count > 3"}, 400, "works with an index over texts"),
        ("/similar", {}, 400, "the request needs row or id, not both"),
        ("/similar", {"row": 1, "id": "r-1"}, 400, "the request needs row or id, not both"),
        ("/similar", {"row": 4_000}, 404, "the row does not exist"),
        ("/similar", {"id": "r-400"}, 404, "no record has this id"),
        ("/text", {"id": "nope"}, 404, "no record has this id; got nope"),
        ("/text", {"row": 4_000}, 404, "the row does not exist; got 4,000; expected 0 to 39"),
        ("/text", {"row": 3, "start": 9_000}, 400, "the text has no character 9,000"),
        ("/similar", {"id": "r-4", "index": "index"}, 400, "the records of the index have no ids"),
        ("/neighbours", {"word": "watre"}, 404, "water"),
        ("/neighbours", {"word": "water", "words": "records"}, 400, "does not support neighbours"),
        ("/fill", {"text": "no gap"}, 400, "[MASK]"),
        ("/fill", {"text": "a [MASK]", "model": "clm"}, 400, "does not support fill"),
        ("/predict", {"text": "7 is red", "second": "pair"}, 400, "is a pair"),
        ("/about", {"artifact": "nope"}, 404, "there is no artifact named"),
        ("/nope", {}, 404, "unknown path"),
    ],
)
def test_what_cannot_be_asked_is_answered_with_the_reason(client, path, params, status, said):
    reply = client.get(path, params=params)
    assert reply.status_code == status, reply.text
    error = reply.json()["error"]
    assert said in error["message"]
    assert error["type"] == "invalid_request_error"


def test_a_method_that_there_is_not(client):
    reply = client.put("/search", params={"q": "a"})
    assert reply.status_code == 405
    assert {*reply.headers["Allow"].split(", ")} == {"GET", "HEAD", "POST"}


def test_a_table_for_people_opens_rightly_and_leads_to_the_texts(serving, tmp_path):
    rows = [
        {
            "id": f"n/{n}",
            "text": f"Salz für den Käse {n}",
            "size": n,
            "none": "",
            "url": f"u{n}",
            "tags": ["käse", "salz"],
        }
        for n in range(3)
    ]
    corpus = wordpipe.ingest(rows, output=tmp_path / "corpus", metadata=["size", "none", "url", "tags"])
    index = wordpipe.index(corpus, output=tmp_path / "notes").path
    asked = {"q": "salz", "format": "spreadsheet"}
    reply = serving(index).get("/search", params=asked)
    assert reply.headers["Content-Type"].startswith("text/csv; charset=utf-8")
    assert reply.content.startswith("\ufeffrank,".encode())
    table = [*csv.DictReader(io.StringIO(reply.content.decode("utf-8-sig")))]
    assert [*table[0]] == [
        "rank",
        "score",
        "id",
        "text",
        "place",
        "link",
        "size",
        "url",
        "tags",
    ]  # no title, and nothing in `none`
    assert {one["text"] for one in table} == {one["text"] for one in rows}
    assert {one["tags"] for one in table} == {"käse, salz"}
    own = {f"http://127.0.0.1:8000/text/n%2F{n}?row={n}&index=notes" for n in range(3)}
    assert {one["link"] for one in table} == own
    # programs get the table as it is
    plain = serving(index).get("/search", params=asked | {"format": "csv"}).content
    assert plain.startswith(b"rank,score,id,title,text,place,size,none,url,tags\r\n")
    # a proxy has another address, which must be of the host that was asked
    client = serving(index)
    for base, root in (
        ("https://127.0.0.1:8000/notes/?q=1", "https://127.0.0.1:8000/notes/"), ("https://evil.example/", "http://127.0.0.1:8000/"),
        ("javascript:1", "http://127.0.0.1:8000/"), ("http://[", "http://127.0.0.1:8000/"),
    ):  # fmt: skip
        text = client.get("/search", params=asked | {"base": base}).text
        assert (root + "text/n%2F0?") in text, base
        assert "evil" not in text
    text = client.get("/search", params=asked | {"base": "http://127.0.0.1:8000/?q=salz&where=size+%3C+9"}).text
    with_list = [*csv.DictReader(io.StringIO(text.removeprefix("\ufeff")))]
    assert [*with_list[0]][-1] == "list"
    assert {one["list"] for one in with_list} == {"http://127.0.0.1:8000/?q=salz&where=size+%3C+9"}
    linked = serving(index, link="https://notes.example.org/{url}").get("/search", params=asked).text
    assert "https://notes.example.org/u1" in linked
    assert "/text/" not in linked
    two = client.post("/search", json={"q": ["salz", "käse"], "format": "spreadsheet"}).text
    assert two.startswith("\ufeffquery,rank,")
    assert client.get("/search", params={"q": "zzz", "format": "spreadsheet"}).text.startswith(
        "\ufeffrank,score,id,title,"
    )


def test_a_question_of_small_words_says_by_what_it_is_ordered(client):
    found = client.get("/search", params={"q": "of the", "format": "json"}).json()
    assert found["remarks"] == ['"of" and "the" are in almost every text, so the order is by meaning alone']
    assert (found["mode"], {hit["related"] for hit in found["hits"]}) == ("dense", {False})
    for q in ("the tide", '"the"', "of -salt", "salt"):
        other = client.get("/search", params={"q": q, "format": "json"}).json()
        assert not [one for one in other["remarks"] if "almost" in one], q
    chosen = client.get("/search", params={"q": "the", "mode": "dense", "format": "json"}).json()
    assert chosen["remarks"] == []


def test_similar_rows(client, records):
    by_row = client.get("/similar", params={"row": 7, "k": 4, "format": "json"}).json()
    by_id = client.get("/similar", params={"id": "r-7", "k": 4, "format": "json"}).json()
    assert by_row["hits"] == by_id["hits"]
    assert by_id["row"] == 7
    assert 7 not in [hit["row"] for hit in by_row["hits"]]
    assert len(by_row["hits"]) == 4
    with wordpipe.open(records, "index") as index:
        vector = next(index.batches(["vector"])).column(0).to_pylist()[7]
        (hits,) = index.vector_index(None).search(__import__("numpy").array([vector], dtype="float32"), 5)
    assert [hit["row"] for hit in by_row["hits"]] == [row for row in hits.rows.tolist() if row != 7][:4]
    lines = client.get("/similar", params={"row": 7, "k": 4}).text.splitlines()
    assert json.loads(lines[0]) == {"query": "row 7"} | by_row["hits"][0]
    few = client.get("/similar", params={"row": 7, "where": "year > 2025", "format": "json"}).json()
    assert {hit["metadata"]["year"] for hit in few["hits"]} == {2026, 2027, 2028, 2029}


def test_neighbours_are_those_of_the_table(client, built):
    found = client.get("/neighbours", params={"word": "water", "k": 3}).json()
    with wordpipe.open(built / "words", "words") as words:
        near = words.neighbours("water", 3)
        with pytest.raises(UnknownWordError):
            words.neighbours("watre")
    assert [(one["word"], one["score"]) for one in found["neighbours"]] == near
    assert found["words"] == "words"


def test_facets_count_the_values_of_fields(client):
    found = client.get("/facets").json()
    columns = {column["name"]: column for column in found["columns"]}
    assert (found["rows"], found["total"]) == (40, 40)
    assert columns["lang"]["values"] == [
        {"value": value, "count": 10} for value in sorted(('a "b" c', "de", "en", "it's"))
    ]
    assert (columns["year"]["least"], columns["year"]["largest"], columns["year"]["distinct"]) == (1990, 2029, 40)
    assert len(columns["year"]["values"]) == 20
    assert {one["value"]: one["count"] for one in columns["tags"]["values"]} == {"sea": 26, "salt": 13}
    assert columns["done"]["values"] == [{"value": False, "count": 20}, {"value": True, "count": 20}]
    assert (columns["share"]["values"], columns["share"]["distinct"], columns["share"]["least"]) == ([], None, 0)
    assert columns["text"]["values"] == []
    fewer = client.get("/facets", params={"where": "lang = 'de'", "values": 1}).json()
    columns = {column["name"]: column for column in fewer["columns"]}
    assert fewer["rows"] == 10
    assert columns["lang"]["values"] == [{"value": "de", "count": 10}]


def test_chosen_values_of_a_column_are_alternatives_and_columns_must_all_fit(client):
    chosen = [["lang", "de"], ["lang", "en"], ["done", True]]
    found = client.get("/facets", params={"f": json.dumps(chosen)}).json()
    columns = {column["name"]: column for column in found["columns"]}
    assert {one["value"]: one["count"] for one in columns["lang"]["values"]} == {
        "de": 10,
        "it's": 10,
        "en": 0,
    }  # where done, all langs
    assert columns["done"]["values"] == [{"value": False, "count": 10}, {"value": True, "count": 10}]  # of de and en
    hits = client.get(
        "/search", params={"q": "salt tide bees", "k": 50, "format": "json", "f": json.dumps(chosen)}
    ).json()
    assert {(hit["metadata"]["lang"], hit["metadata"]["done"]) for hit in hits["hits"]} == {("de", True)}
    assert found["rows"] == 10
    same = client.get(
        "/search", params={"q": "salt tide bees", "k": 50, "format": "json", "where": "lang in ('de', 'en') and done"}
    )
    assert [hit["row"] for hit in same.json()["hits"]] == [hit["row"] for hit in hits["hits"]]
    near = client.get(
        "/similar", params={"row": 0, "k": 50, "format": "json", "f": json.dumps([["lang", "en"]])}
    ).json()
    assert {hit["metadata"]["lang"] for hit in near["hits"]} == {"en"}


def test_filters_without_a_question_list_rows(client):
    """The first rows that fit, as `wordpipe query INDEX --where` lists them; without these and an order it is empty."""
    every = client.get(
        "/search", params={"q": "", "where": "lang is not null", "k": 1000, "format": "json", "passage": 60}
    ).json()
    chosen = {"f": json.dumps([["lang", "de"]]), "k": 1000, "format": "json", "passage": 60}
    found = client.get("/search", params=chosen).json()
    rows = [hit["row"] for hit in found["hits"]]
    assert rows == [hit["row"] for hit in every["hits"] if hit["metadata"]["lang"] == "de"]
    assert rows
    assert len(found["passages"]) == len(rows)
    second = client.get("/search", params={**chosen, "offset": 1, "k": 1, "count": True}).json()
    assert ([hit["row"] for hit in second["hits"]], second["matches"]) == (rows[1:2], len(rows))
    by_year = client.get(
        "/search", params={"q": " ", "sort": "year:desc", "k": 1000, "count": 1, "format": "json"}
    ).json()
    years = [hit["metadata"]["year"] for hit in by_year["hits"]]
    assert (years, by_year["matches"]) == (sorted(years, reverse=True), 40)  # an order alone lists all rows
    assert client.get("/search", params={"sort": "year", "index": "words"}).status_code == 400
    for params in ({}, {"q": " "}, {"f": "[]"}, {"per_document": 1}):
        reply = client.get("/search", params=params)
        assert reply.status_code == 400
        assert reply.json()["error"]["message"].startswith("the query is empty")


def test_facets_count_the_answers_of_a_question(client):
    every = client.get("/facets").json()
    found = client.get("/facets", params={"q": "BEES and iron"}).json()
    columns = {column["name"]: column for column in found["columns"]}
    assert (every["among"], found["among"], found["rows"], found["total"]) == ("rows", "matches", 20, 40)
    assert {one["value"]: one["count"] for one in columns["lang"]["values"]} == {"it's": 10, 'a "b" c': 10}
    for typed in ("ir", "bees and ir"):  # the last word is still typed: the rows that the search finds
        given = {"q": typed, "prefix": 1}
        hits = client.get("/search", params=given | {"mode": "lexical", "k": 100, "format": "json"}).json()["hits"]
        assert client.get("/facets", params=given).json()["rows"] == len(hits) > 0
    unknown = client.get("/facets", params={"q": "xylomorph"}).json()
    assert (unknown["among"], unknown["rows"]) == ("rows", 40)


def test_numbers_and_dates_are_counted_in_bins_and_narrowed_by_ranges(serving, built, tmp_path):
    """Each bin has as many rows as a condition on its ends finds, under the question and the other filters."""
    rng = random.Random()
    rows = [
        {
            "text": rng.choice(["salt water", "rust eats iron"]) + f" {number}",
            "size": rng.choice([None, *range(-7, 60)]),
            "share": round(rng.gauss(0, 3), 3),
            "day": f"20{rng.randrange(10, 25)}-02-{rng.randrange(1, 29):02}",
            "at": datetime(2024, rng.randrange(1, 13), 3, rng.randrange(24)),
            "bytes": int(10 ** (rng.randrange(4, 36) / 4)),
            "far": {30: -1e6, 60: 1e6}.get(number, round(rng.gauss(0, 3), 2)),
            "grade": rng.randrange(5),
            "own": 7 * number,
        }
        for number in range(120)
    ]
    fields = ["size:int", "share:float", "day:date", "at", "bytes:int", "far:float", "grade:int", "own:int"]
    wordpipe.ingest(pa.Table.from_pylist(rows), output=tmp_path / "corpus", metadata=fields)
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index")
    client = serving(tmp_path / "index")

    def columns_of(**params):
        found = client.get("/facets", params=params | ({"f": json.dumps(params["f"])} if "f" in params else {})).json()
        return found["rows"], {column["name"]: column for column in found["columns"]}

    _, columns = columns_of()
    binned = ("size", "share", "day", "at", "bytes", "far")
    assert {name for name, column in columns.items() if "bins" in column} == {*binned}  # no ids
    assert all(5 <= len(columns[name]["bins"]) <= 23 for name in binned)
    for name in ("bytes", "far"):  # few that lie far out do not flatten the others
        assert max(one["count"] for one in columns[name]["bins"]) < 60
    chosen = [["size", [0, 40]], ["size", None], ["day", ["2012-02-01", None]]]
    n, columns = columns_of(q="salt", f=chosen)
    others = {"size": "day >= '2012-02-01'", "day": "(size between 0 and 40 or size is null)"}
    with wordpipe.open(tmp_path / "index") as opened:

        def count(condition):
            return opened.count("salt", where=condition, mode="lexical")

        assert n == count(" and ".join(others.values()))
        for name in binned:
            bins, under = columns[name]["bins"], others.get(name, " and ".join(others.values()))
            assert sum(one["count"] for one in bins) == count(f"{name} is not null and {under}")
            for one in bins:
                below = "<=" if name in ("size", "day", "bytes") or one is bins[-1] else "<"
                said = f"{name} >= '{one['from']}' and {name} {below} '{one['to']}'"
                assert count(f"{said} and {under}") == one["count"], (name, one)
    reply = client.get("/search", params={"f": json.dumps([["at", [None, "2024-06-03"]]]), "k": 200, "format": "json"})
    assert {hit["metadata"]["at"][5:7] for hit in reply.json()["hits"]} == {f"{n:02}" for n in range(1, 7)}


def test_values_of_a_column_are_found_by_what_they_contain(client):
    params = {"column": "lang", "find": "E", "index": "records", "f": json.dumps([["lang", "it's"]])}
    (column,) = client.get("/facets", params=params).json()["columns"]
    assert column["values"] == [{"value": one, "count": 10} for one in ("de", "en", "it's")]  # chosen ones in any case
    assert column["distinct"] == 2
    params = {"column": "lang", "find": "e", "index": "records", "where": "lang = 'de'"}
    (column,) = client.get("/facets", params=params).json()["columns"]
    assert column["values"] == [{"value": "de", "count": 10}, {"value": "en", "count": 0}]  # also what no row has now
    reply = client.get("/facets", params={"column": "lung", "index": "records"})
    assert (reply.status_code, "lang" in reply.text) == (400, True)


@pytest.mark.parametrize(
    "chosen",
    [
        '[["year", [null, null]]]',
        '[["year", [1, 2, 3]]]',
        '[["year", [1, [2]]]]',
        '[["year", [true, 2]]]',
        "[",
        "{}",
        "3",
        '"a"',
        "[[1, 2]]",
        '[["lang"]]',
        '[["lang", {}]]',
        '[["lang", "de", 1]]',
        json.dumps([["lang", "de"]] * 65),
        "[" * 2000,
    ],
)
def test_what_is_no_list_of_chosen_values_is_refused(client, chosen):
    for path, params in (("/facets", {}), ("/search", {"q": "salt"}), ("/similar", {"row": 0})):
        reply = client.get(path, params={**params, "f": chosen})
        assert reply.status_code == 400
        assert "pairs of column and value" in reply.json()["error"]["message"]


def test_a_chosen_column_that_is_not_there_is_named(client):
    for path, params in (("/facets", {}), ("/search", {"q": "salt"})):
        reply = client.get(path, params={**params, "f": '[["yeer", 1]]'})
        assert reply.status_code == 400
        assert "yeer" in reply.json()["error"]["message"]


def test_facets_equal_counts_by_conditions(serving, built, tmp_path):
    """On random rows with lists, gaps, long values and dates: as many as a condition on each value finds."""
    rng = random.Random()
    rows = [
        {
            "text": rng.choice(["salt water", "rust eats iron", "bees"]) + f" {number}",
            "kind": rng.choice(["a", "b", "c" * 300, None]),
            "tags": rng.sample(["x", "y", "z"], rng.randrange(3)),
            "day": f"2024-01-{rng.randrange(1, 4):02}",
            "size": rng.choice([1, 2, 10, None]),
            "own": number,
        }
        for number in range(60)
    ]
    wordpipe.ingest(rows, output=tmp_path / "corpus", metadata=["kind", "tags", "day:date", "size:int", "own:int"])
    wordpipe.embed(built / "words", tmp_path / "corpus", output=tmp_path / "sentences", unit="document")
    wordpipe.index(tmp_path / "sentences", output=tmp_path / "index")
    client = serving(tmp_path / "index")
    chosen = [["size", 1], ["size", 10], ["tags", "x"]]
    found = client.get("/facets", params={"f": json.dumps(chosen), "q": "salt rust"}).json()
    columns = {column["name"]: column for column in found["columns"]}
    others = {"size": "'x' in tags", "tags": "(size = 1 or size = 10)"}
    with wordpipe.open(tmp_path / "index") as opened:

        def rows_of(condition):
            return opened.query("salt rust", 60, mode="lexical", where=condition)

        for name, condition in (
            ("kind", "kind = '{}'"),
            ("tags", "'{}' in tags"),
            ("size", "size = {}"),
            ("day", "day = '{}'"),
        ):
            under = others.get(name, "'x' in tags and (size = 1 or size = 10)")
            for one in columns[name]["values"]:
                assert len(rows_of(f"{condition.format(one['value'])} and {under}")) == one["count"], (name, one)
            if name != "tags":
                assert len(rows_of(f"{name} is null and {under}")) == columns[name]["missing"]
    every = {column["name"]: column for column in client.get("/facets").json()["columns"]}
    assert {one["value"] for one in every["kind"]["values"]} == {"a", "b"}  # the long one hides itself alone
    filters = {name: column["filter"] for name, column in columns.items()}
    assert (filters["kind"], filters["tags"], filters["size"], filters["own"], filters["source"]) == (
        True,
        True,
        True,
        False,
        False,
    )


def test_about_says_what_can_be_asked(client, built):
    found = {one["name"]: one for one in client.get("/about").json()["artifacts"]}
    assert found["records"]["can"] == ["search", "similar", "embed", "examine", "rerank"]
    assert found["words"]["can"] == ["search", "neighbours", "embed", "map", "examine", "rerank"]
    assert found["model"]["can"] == ["fill", "embed", "attend", "examine", "rerank"]
    assert found["clm"]["can"] == ["complete", "embed", "attend", "examine", "rerank"]
    assert found["colours"]["can"] == ["predict"]
    assert (found["records"]["rows"], found["clm"]["rows"]) == (40, None)
    whole = client.get("/about", params={"artifact": "index"}).json()
    assert whole["manifest"] == wordpipe.show(built / "index")["manifest"]


def test_models_answer_as_their_commands_do(client, cli, built, heads):
    filled = client.get("/fill", params={"text": "the [MASK] sea", "top_k": 2}).json()
    said = cli("fill", built / "model", "the [MASK] sea", "--top-k", 2, "--json")
    assert [{"text": filled["text"], **one} for one in filled["masks"][0]] == [
        json.loads(one) for one in said.out.splitlines()
    ]
    predicted = client.get("/predict", params={"text": "7 is red"}).json()
    (line,) = cli("predict", heads / "colours", "7 is red", "--json").out.splitlines()
    assert {name: predicted[name] for name in json.loads(line)} == json.loads(line)


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    """Two indexes of words over records, and one in another language."""
    root = tmp_path_factory.mktemp("halves")
    texts = {
        "early": ["Salt draws water out of bread.", "The tide rises with the moon.", "Rust eats iron."],
        "late": ["Bees find salt on a stone.", "A moon of salt and water.", "The kettle sings."],
        "german": ["Das Salz zieht Wasser aus dem Brot.", "Der Mond hebt die Flut."],
    }
    for name, own in texts.items():
        rows = [{"id": f"{name}-{n}", "text": text, "kind": "ab"[n % 2]} for n, text in enumerate(own)]
        wordpipe.ingest(rows, output=root / f"{name}-corpus", valid=0, metadata=["kind"])
        language = "german" if name == "german" else "english"
        wordpipe.index(root / f"{name}-corpus", output=root / name, unit="document", language=language)
    return root


@pytest.fixture(scope="module")
def together(serving, halves):
    return serving(halves / "early", halves / "late", f"other={halves / 'german'}")


def test_several_indexes_are_searched_as_one(together, halves, cli):
    params = {"q": "salt water moon", "index": ["early", "late"], "format": "json", "passage": 80, "count": 1}
    found = together.get("/search", params=params).json()
    with wordpipe.open([halves / "early", halves / "late"], "index") as several:
        expected = several.query("salt water moon")
    assert [(hit["id"], hit["score"]) for hit in found["hits"]] == [(hit["id"], hit["score"]) for hit in expected]
    assert {(hit["index"], hit["id"].partition("-")[0]) for hit in found["hits"]} == {("early",) * 2, ("late",) * 2}
    assert found["index"] == "early + late"
    assert found["matches"] == len(expected)
    assert len(found["passages"]) == len(found["hits"])
    posted = together.post("/search", json={**params, "count": True}).json()
    assert posted["hits"] == found["hits"]
    said = cli("query", halves / "early", halves / "late", "salt water moon", "--json")
    plain = {"q": params["q"], "index": params["index"]}
    lines = [json.loads(line) for line in together.get("/search", params=plain).text.splitlines()]
    assert [line | {"index": str(halves / line["index"])} for line in lines] == [
        json.loads(one) for one in said.out.splitlines()
    ]
    table = csv.DictReader(io.StringIO(together.get("/search", params=plain | {"format": "csv"}).text, newline=""))
    assert [row["index"] for row in table] == [hit["index"] for hit in found["hits"]]


def test_the_fields_of_several_indexes_are_counted_and_chosen_together(together):
    found = together.get("/facets", params={"index": ["early", "late"], "q": "salt"}).json()
    (kind,) = [column for column in found["columns"] if column["name"] == "kind"]
    assert sum(one["count"] for one in kind["values"]) == found["rows"] == 3
    hits = together.get(
        "/search", params={"q": "salt", "index": ["early", "late"], "f": '[["kind", "b"]]', "format": "json"}
    ).json()["hits"]
    assert [hit["id"] for hit in hits] == ["late-1"]


def test_indexes_of_several_languages_are_each_asked_and_mixed_by_rank(together, halves):
    params = {"q": "salt salz", "index": "*", "format": "json", "count": 1, "passage": 60}
    found = together.get("/search", params=params).json()
    each = [wordpipe.query(halves / name, "salt salz") for name in ("early", "late", "german")]
    by_rank = [hit["id"] for ranked in itertools.zip_longest(*each) for hit in ranked if hit]
    assert [hit["id"] for hit in found["hits"]] == by_rank
    assert [hit["rank"] for hit in found["hits"]] == [1, 2, 3, 4]
    assert [hit["index"] for hit in found["hits"][:3]] == ["early", "late", "other"]
    assert found["matches"] == 4
    assert (found["corrected"], found["unknown"]) == ({}, {})  # each word stands in one of the indexes
    assert "mixed by rank, because their words are of different languages (english, german)" in found["remarks"][0]
    second = together.get("/search", params=params | {"offset": 1, "k": 2}).json()["hits"]
    assert second == found["hits"][1:3]
    narrowed = together.get("/search", params=params | {"where": "id like 'german%'"}).json()["hits"]
    assert [hit["id"] for hit in narrowed] == ["german-0"]
    in_order = together.get("/search", params=params | {"sort": "id:desc"}).json()
    assert [hit["id"] for hit in in_order["hits"]] == sorted(by_rank, reverse=True)
    assert in_order["remarks"] == []
    facets = together.get("/facets", params={"index": "*", "q": "salz"}).json()
    assert (facets["rows"], facets["among"]) == (1, "matches")
    nothing = together.get("/search", params=params | {"q": "xylomorph"}).json()
    assert (nothing["hits"], nothing["nothing"]["message"]) == ([], "nothing was found")


def test_the_owner_is_told_of_indexes_that_cannot_be_one(halves):
    for names, is_told in ((("early", "late"), False), (("early", "german"), True)):
        said = []
        with wordpipe.serve([halves / name for name in names], port=0, report=said.append):
            assert any("cannot be searched as one index" in line for line in said) == is_told


def test_what_cannot_be_searched_together_says_why(together, client):
    assert together.get("/search", params={"q": "salt", "index": ["early", "nowhere"]}).status_code == 404
    refused = client.get("/search", params={"q": "salt", "index": ["records", "words"]})
    assert (refused.status_code, "words is no index over texts" in refused.json()["error"]["message"]) == (400, True)
    twice = {"q": "salt", "index": ["early", "early"], "format": "json"}
    assert together.get("/search", params=twice).json()["index"] == "early"


def test_a_star_is_all_indexes_over_texts_with_vectors_and_without(client):
    params = {"q": "salt water", "index": "*", "format": "json", "k": 30, "mode": "lexical"}
    found = client.get("/search", params=params).json()
    assert {hit["index"] for hit in found["hits"]} == {"records", "index"}


def test_a_newer_version_of_one_is_searched_with_the_others(serving, halves, tmp_path):
    for name in ("early", "late"):
        copytree(halves / name, tmp_path / name)
    asked = serving(tmp_path / "early", tmp_path / "late")
    params = {"q": "harbour", "index": ["late", "early"], "format": "json"}
    before = asked.get("/search", params=params).json()
    assert before["hits"] == []
    wordpipe.ingest([{"id": "new", "text": "A harbour of stone."}], output=tmp_path / "corpus", valid=0)
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "early", unit="document", language="english")
    wait_until(lambda: asked.get("/health").json()["artifacts"][0]["swaps"] == 1)
    after = asked.get("/search", params=params).json()
    assert [hit["id"] for hit in after["hits"]] == ["new"]
    assert after["digest"] != before["digest"]
