"""The page without a browser: it says all without a script, nothing in it is more than text, every URL is answered."""

import csv
import json
import re
from html.parser import HTMLParser
from urllib.parse import parse_qs, parse_qsl, urlsplit

import numpy as np
import pytest

import wordpipe
from tests.support.made_vectors import made_words
from wordpipe.web import page as PAGE

HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\u202egnp.exe",
    "'; drop",
    "\x00\ud800",
]


class Parsed(HTMLParser):
    """The elements of a page, its text, and whether what was opened was closed."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.elements, self.text, self.open = [], "", []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ("input", "meta", "link", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def all(self, tag, **attributes):
        return [given for name, given in self.elements if name == tag and attributes.items() <= given.items()]


@pytest.fixture(scope="module")
def client(serving, records, built, heads):
    return serving(f"records={records}", built / "words", built / "model", heads / "clm", heads / "colours", page=PAGE)


def get(client, **params):
    reply = client.get("/", params=params)
    assert reply.status_code == 200, reply.text
    assert "script-src 'self'" in reply.headers["Content-Security-Policy"]
    assert "unsafe" not in reply.headers["Content-Security-Policy"]
    page = Parsed(reply.text)
    assert [one for one in page.elements if one[0] == "script"] == [
        ("script", {"type": "module", "src": "./static/main.js"})
    ]
    assert not [key for _, given in page.elements for key in given if key.startswith("on") or key == "style"]
    return page


def test_answers_without_a_script(client):
    page = get(client, q="bees find their way home")
    assert "First 10 answers" in page.text
    assert page.all("input", name="q")[0]["value"] == "bees find their way home"
    assert len(page.all("li", **{"class": "hit"})) == 10
    assert page.all("mark")
    assert "more like this" in page.text
    like = next(given["href"] for given in page.all("a") if "similar_id=" in given.get("href", ""))
    again = Parsed(client.get(like).text)
    assert len(again.all("li", **{"class": "hit"})) == 10


@pytest.fixture(scope="module")
def notes(serving, tmp_path_factory):
    """A client of an index of words alone: texts about salt, files of one name, code, a text that stands twice."""
    root = tmp_path_factory.mktemp("notes") / "notes"
    for folder in ("a", "b"):
        (root / folder).mkdir(parents=True)
        lines = "".join(f"Salt of {folder} in barrel {n} of {n * 7}.\n\n" for n in range(12))
        (root / folder / "salt.txt").write_text(lines)
        (root / folder / "note.md").write_text("# A rule\n\nThe kettle sings.\n")
    (root / "a" / "queue.py").write_text("class Queue:\n    def push_item(self):\n        return self.kettle_lid\n")
    sources = [root / "a" / "salt.txt", root / "b" / "salt.txt"]
    wordpipe.ingest(sources, output=root.parent / "salt", valid=0, documents="block")
    wordpipe.ingest(root, output=root.parent / "code", valid=0, include=["*.py", "*.md"])
    for name in ("salt", "code"):
        wordpipe.index(root.parent / name, output=root.parent / f"{name}-index", language="english")
    return serving(*(f"{name}={root.parent / name}-index" for name in ("salt", "code")), page=PAGE)


def test_without_a_script_corrections_are_said_and_further_answers_are_linked(notes):
    page = get(notes, index="salt", q="salt barel xylomorph")
    assert "10 of 24 answers" in page.text
    assert len(page.all("span", **{"class": "score", "aria-label": "strength 4 of 4"})) >= 1
    assert "exportthese 10 answers, as on the page: CSV JSONall 24 answers: CSV JSON" in page.text
    _, link = [one for one in page.all("a") if "format=spreadsheet" in one.get("href", "")]
    assert re.fullmatch(r"salt-barel-xylomorph_all-24_\d{4}-\d\d-\d\d\.csv", link["download"])
    table = link["href"]
    assert len(notes.get(table.removeprefix(".")).text.splitlines()) == 25  # with the header
    assert "searched for barrel instead of barel, which no text contains" in page.text
    assert "xylomorph is in no text." in page.text
    assert "vector" not in page.text
    (more,) = [one["href"] for one in page.all("a") if "#answer-11" in one.get("href", "")]
    again = Parsed(notes.get(more.removeprefix(".")).text)
    assert len(again.all("li", id="answer-11")) == 1
    assert "20 of 24 answers" in again.text
    last = get(notes, index="salt", q="salt barrel", k="30")
    assert "24 answers" in last.text
    assert "more answers" not in last.text
    assert "answers" in get(notes, index="salt", q="salt", docs="1").text
    listed = get(notes, index="salt", f='[["source", "a/salt.txt"]]', where="line > 0")
    assert not listed.all("span", **{"class": "score"})


def test_home_says_what_is_searched_and_offers_queries(client, notes):
    page = get(client, index="records")
    assert re.search(r"From 1 source: .+\. The index is of \d{4}-\d\d-\d\d\.", page.text)
    links = page.all("a", **{"class": "ask"})[:6]  # the template of the script has them again
    assert len({link["href"] for link in links}) == 6
    for link in links:
        assert Parsed(client.get(link["href"].removeprefix(".")).text).all("li", **{"class": "hit"})
    salt = get(notes, index="salt")
    assert "From 2 sources: a/salt.txt, b/salt.txt." in salt.text  # without titles, words of several texts
    assert "barrel" in salt.text


def test_a_range_of_the_address_narrows_and_is_taken_back(client):
    page = get(client, index="records", q="salt", f='[["year", [2000, 2010]], ["lang", "de"]]')
    assert "from 2000 to 2010" in page.text
    assert {"2002"} <= {*re.findall(r"year (\d+)", page.text)} <= {str(year) for year in range(2000, 2011)}
    (back,) = [one["href"] for one in page.all("a", **{"aria-current": "true"}) if "lang" in one["href"]][:1]
    assert "2010" not in Parsed(client.get(back.removeprefix(".")).text).text.partition("Filters")[2]
    page = get(client, index="records", q="salt", f='[["year", [2000, null]], ["lang", "de"]]', where="share > 0")
    chips = [one["href"] for one in page.all("a", **{"class": "chip"})]
    assert len(chips) == 3
    assert [[part in one for one in chips] for part in ("2000", "%22de%22", "where=")] == [
        [False, True, True], [True, False, True], [True, True, False],
    ]  # fmt: skip
    assert "year: from 2000 ×" in page.text
    (every,) = page.all("a", **{"class": "clear"})
    assert "f=" not in every["href"]
    assert "where=" not in every["href"]
    for wrong in ('[["year", [[1], 2]]]', '[["year", [1]]]', '[["year", {}]]'):
        assert get(client, index="records", q="salt", f=wrong).all("li", **{"class": "hit"})


def test_a_remark_offers_what_the_page_has(client):
    page = get(client, index="records", q="r-5")
    assert "this is the record with the id r-5; a plain search searches for the words" in page.text
    (link,) = [one["href"] for one in page.all("a") if "exact=1" in one.get("href", "")]
    again = Parsed(client.get(link.removeprefix(".")).text)
    assert "a plain search" not in again.text
    assert not again.all("input", name="exact")
    assert "10 of 40 answers" in get(client, index="records", where="year > 0").text


def test_files_of_one_name_are_told_apart_in_filters(notes):
    page = get(notes, index="salt", q="salt")
    values = re.findall(r'class="value"[^>]*>([^<]*)<', notes.get("/", params={"index": "salt", "q": "salt"}).text)
    assert {"a/salt.txt", "b/salt.txt"} <= {*values}
    assert page.all("bdi", **{"class": "value"})


def test_code_is_shown_as_code_and_a_text_that_stands_twice_says_where(notes):
    page = get(notes, index="code", q="push item")
    assert page.all("p", **{"class": "text code"})
    assert "def push_item(self):\n    return self.kettle_lid\n\nnames: push item" in page.text
    page = get(notes, index="code", q="kettle sings")
    assert "also innotes/b/note.md" in page.text  # a name and its value
    assert not get(notes, index="salt", q="salt").all("p", **{"class": "text code"})


def links_of(page, **attributes):
    return {one.get("rel", ""): one["href"] for one in page.all("a", **attributes) if "text/" in one.get("href", "")}


def test_a_title_leads_to_the_page_of_its_text(client):
    found = get(client, index="records", q="salt bread")
    href = next(one["href"] for one in found.all("a") if one.get("href", "").startswith("./text/r-"))
    reply = client.get(href.removeprefix("."))
    page = Parsed(reply.text)
    assert "script-src 'self'" in reply.headers["Content-Security-Policy"]
    assert "Salt draws water out of bread." in page.text
    assert page.all("mark")
    assert "<title>Title" in reply.text
    own = links_of(page)["bookmark"]
    assert re.fullmatch(r"\.\./text/r-\d+\?index=records&q=salt\+bread", own)
    again = client.get(own.removeprefix(".."))
    assert again.status_code == 200
    assert Parsed(again.text).all("mark")
    assert "Similar texts" in again.text
    for name, key in (("a", "href"), ("link", "href"), ("script", "src")):
        assert all(one[key].startswith(("../", "#")) for one in page.all(name)), name
    tabs = [one["href"] for one in page.all("a") if one.get("href", "").startswith("../?")]
    assert any("q=salt+bread" in one and "index=records" in one for one in tabs)


def test_a_similar_text_leads_back_to_the_text_before_it(client):
    def to(page, row, path):
        links = [one["href"] for one in page.all("a") if f"row={row}&" in one["href"]]
        return [one.removeprefix("..") for one in links if parse_qs(urlsplit(one).query).get("path") == path]

    first = Parsed(client.get("/text/r-3?index=records&row=3&q=salt&sort=year").text)
    near = next(one["href"] for one in first.all("a") if "path=3" in one["href"])
    row = parse_qs(urlsplit(near).query)["row"][0]
    second = Parsed(client.get(near.removeprefix("..")).text)
    assert "← back to Title 3" in second.text
    (back,) = to(second, 3, None)
    assert "q=salt&sort=year" in back
    further = next(one["href"] for one in second.all("a") if f"path=3%2C{row}" in one["href"])
    third = Parsed(client.get(further.removeprefix("..")).text)
    assert f"← back to Title {row}" in third.text
    assert "← back to Title 3" in Parsed(client.get(to(third, row, ["3"])[0]).text).text
    assert "path" not in links_of(third)["bookmark"]
    assert "back to Title" not in Parsed(client.get("/text/r-3?index=records&path=99999,x").text).text


def test_the_page_of_a_text_leads_on_in_its_document(notes):
    page = Parsed(notes.get("/text/", params={"index": "salt", "row": "1", "q": "salt"}).text)
    assert page.all("mark")
    assert "Similar texts" not in page.text  # no vectors
    links = links_of(page)
    rows = notes.get("/text", params={"index": "salt", "row": 1}).json()
    for name, kind in (("before", "prev"), ("after", "next")):
        there = rows[name] if rows[name] is not None else rows[f"document_{name}"]
        assert (f"row={there}&" in links.get(kind, "")) == (there is not None)
    assert "read" in get(notes, index="salt", q="barrel").text


def test_the_page_of_a_text_keeps_filters_and_order_for_the_way_back_and_says_where_it_leads(serving, tmp_path):
    text = " ".join(f"Salt of the sea fills barrel {n} of the harbour." for n in range(6))
    wordpipe.ingest([{"id": "a", "title": "Barrels", "text": text}], output=tmp_path / "corpus", valid=0)
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "salt", unit="sentence", language="english")
    notes = serving(tmp_path / "salt", page=PAGE)
    kept = {"sort": "row:desc", "where": "row > 1", "f": '[["source", "salt.txt"]]', "docs": "1", "mix": "0"}
    listed = get(notes, index="salt", q="salt", **{**kept, "f": "", "docs": ""})
    href = next(one["href"] for one in listed.all("a") if one.get("href", "").startswith("./text/"))
    assert "sort=row%3Adesc" in href
    assert "where=row+%3E+1" in href
    page = Parsed(notes.get("/text/", params={"index": "salt", "row": "1", "q": "salt", **kept}).text)
    (back,) = page.all("a", **{"class": "back"})
    assert page.all("a", rel="next")
    assert page.all("a", rel="prev")
    for one in [back, *page.all("a", rel="next"), *page.all("a", rel="prev")]:
        given = dict(parse_qsl(one["href"].partition("?")[2]))
        assert given | kept == given
    own, plain = (
        dict(parse_qsl(one["href"].partition("?")[2]))
        for one in [*page.all("a", rel="bookmark"), *page.all("a", **{"class": "plain"})]
    )
    assert (own["q"], {*own} - {*plain}, {*own} & {*kept}) == ("salt", {"q"}, set())  # of the list nothing stays
    led = [page.text.partition(label)[2] for label in ("← previous text", "next text →")]
    assert [one.startswith(f"Salt of the sea fills barrel {n} ") for one, n in zip(led, (0, 2), strict=True)] == [
        True
    ] * 2
    assert "barrel 3" not in page.text
    assert "text 2 of 6 · to the beginning · whole document" in page.text


def test_a_document_leads_to_those_beside_it(serving, tmp_path):
    texts = [f"Salt of the sea fills barrel {n}. Rope of the ship is dry." for n in range(3)]
    rows = [{"title": f"Title {n}", "text": text, "tags": ["salt", "sea"], "n": n} for n, text in enumerate(texts)]
    corpus = wordpipe.ingest(rows, output=tmp_path / "corpus", metadata=["tags", "n"], valid=0)
    wordpipe.index(corpus, output=tmp_path / "sentences", unit="sentence", language="english")
    wordpipe.index(corpus, output=tmp_path / "records", unit="document", language="english")
    client = serving(tmp_path / "sentences", tmp_path / "records", page=PAGE)

    def page(index, row, **more):
        asked = {"index": index, "row": row, "q": "salt", **more}
        return Parsed(client.get("/text/", params=asked).text)

    last = page("sentences", 3)
    assert "text 2 of 2" in last.text
    assert "next document →Title 2" in last.text
    assert "row=4&" in links_of(last)["next"]
    begin = page("sentences", 2)
    assert "← previous documentTitle 0" in begin.text
    assert "row=0&" in links_of(begin)["prev"]
    whole = page("sentences", 3, whole=1)
    assert all("whole=1" in links_of(whole)[kind] for kind in ("prev", "next"))
    assert len(whole.all("a", **{"class": "back"})) == 2
    alone = page("records", 1)
    assert ("row=0&" in links_of(alone)["prev"], "row=2&" in links_of(alone)["next"]) == (True, True)
    assert "prev" not in links_of(page("records", 0))
    # words of the question are marked in fields, too
    assert "2 marked words, 1 in the fields" in alone.text
    assert [mark["id"] for mark in alone.all("mark")] == ["mark-1", "mark-2"]
    assert "n 1" in alone.text
    said = client.get("/text", params={"index": "records", "row": 1, "q": "salt"}).json()
    assert said["field_pieces"] == {"tags": [["salt", True], [", sea", False]]}


def test_a_document_is_shown_as_one_page(serving, tmp_path):
    own = [f"In barrel {n} the {word} of the sea is kept dry by a lid." for n, word in enumerate(["salt", "rope"] * 30)]
    text = " ".join(own)
    wordpipe.ingest([{"id": "a", "title": "Salt", "text": text}], output=tmp_path / "corpus", valid=0)
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index", unit="window", window=40, language="english")
    client = serving(tmp_path / "index", page=PAGE)
    one = client.get("/text", params={"row": 3}).json()
    n = one["last"] + 1
    assert (one["first"], n > 8) == (0, True)
    alone = Parsed(client.get("/text/a?row=3&q=salt&path=2&sort=row").text)
    assert "← back to Salt" in alone.text
    assert f"text 4 of {n} · to the beginning · whole document" in alone.text
    assert {"path=2"} <= {
        part for link in alone.all("a", rel="next") for part in link["href"].split("&")
    }  # the way stays
    (to,) = {link["href"] for link in alone.all("a") if "whole=1" in link.get("href", "")}
    assert to.endswith("#text-3")
    reply = client.get(to.partition("#")[0].removeprefix(".."))
    whole = Parsed(reply.text)
    assert [whole.text.count(sentence) for sentence in own] == [1] * len(own)  # nothing twice
    assert [one["id"] for one in whole.all("div", **{"class": "answering"})] == ["text-3"]
    assert len(whole.all("div", dir="auto")) == n
    assert f"whole document, {n} texts · text 4 alone" in whole.text
    assert "31 marked words, 1 in the title · " in whole.text
    assert whole.all("a", rel="bookmark")[0]["href"].endswith("#text-3")
    said = client.get("/text", params={"row": 3, "whole": 1}).json()["texts"]
    assert [one["row"] for one in said] == [*range(n)]
    assert "texts" not in one


def test_a_long_document_is_shown_in_parts(serving, tmp_path, monkeypatch):
    monkeypatch.setattr("wordpipe.web.endpoints.texts._WHOLE", 300)
    monkeypatch.setattr("wordpipe.web.endpoints.texts._TEXTS", 7)
    text = "\n\n".join(f"Salt of the sea fills barrel {n} of the harbour." for n in range(12))
    wordpipe.ingest([{"id": "a", "text": text}], output=tmp_path / "corpus", valid=0)
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index", unit="sentence", language="english")
    client = serving(tmp_path / "index", page=PAGE)
    parts = {
        tuple(one["row"] for one in client.get("/text", params={"row": row, "whole": 1}).json()["texts"])
        for row in range(12)
    }
    assert sorted(row for part in parts for row in part) == [*range(12)]
    assert len(parts) > 2
    address, seen = "/text/a?row=8&whole=1&part=0", []
    while address:
        page = Parsed(client.get(address).text)
        seen += [
            int(one["id"].removeprefix("text-")) for one in page.all("div") if one.get("id", "").startswith("text-")
        ]
        assert not page.all("div", **{"class": "answering"})  # without a question none answers
        asked = Parsed(client.get(address, params={**dict(parse_qsl(urlsplit(address).query)), "q": "salt"}).text)
        shown = [one["id"] for one in asked.all("div", **{"class": "answering"})]
        assert shown == ["text-8"] * page.text.count("barrel 8 ")
        links = [
            one["href"].removeprefix("..") for one in page.all("a") if f"part={seen[-1] + 1}" in one.get("href", "")
        ]
        address = links[0] if links else ""
    assert seen == [*range(12)]
    assert "← previous part" in page.text


def test_the_facts_of_a_text_have_links_and_no_index_where_there_is_one(serving, tmp_path):
    rows = [
        {
            "id": "a",
            "text": "Salt.",
            "home": "https://x.org/?a=1&b",
            "bad": "javascript:alert(1)",
            "said": "see https://x.org",
        }
    ]
    wordpipe.ingest(rows, output=tmp_path / "corpus", valid=0)
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index", unit="document")
    page = Parsed(serving(tmp_path / "index", page=PAGE).get("/text/a").text)
    assert [one["href"] for one in page.all("a", rel="noreferrer")] == ["https://x.org/?a=1&b"]
    assert "home https://x.org/?a=1&b" in page.text
    assert "bad javascript:alert(1)" in page.text
    assert "index" not in {one.strip() for one in page.text.split("\n")}
    assert "id aindex" not in page.text


def test_answers_of_which_none_has_the_words_are_said_to_be_so(client):
    said = "; no text that fits the filters has words of the question"
    narrowed = '[["year", [1990, 1990]]]'
    assert f"1 answer{said}" in get(client, index="records", q="salt", f=narrowed).text
    for other in ({"q": "tide", "f": narrowed}, {"q": "salt"}, {"q": "", "f": narrowed}):
        assert said not in get(client, index="records", **other).text


def test_what_is_similar_leads_back_to_the_question(client):
    page = get(client, q="bees home", similar_id="r-3", index="records")
    assert re.search(r"Similar to Title 3.*note 3.*← back to the question", page.text), page.text
    back = [parse_qsl(one.get("href", "").partition("?")[2]) for one in page.all("a")]
    assert [("q", "bees home"), ("index", "records")] in back
    files = [one for one in page.all("a") if "download" in one]
    assert files[0]["download"].startswith("like-Title-3_")
    links = [one["href"] for one in files]
    found = client.get(links[1]).json()
    assert found["similar_to"] == {"id": "r-3", "title": "Title 3"}
    like = next(given["href"] for given in get(client, q="salt").all("a") if "similar_id=" in given.get("href", ""))
    assert "q=salt" in like


def test_without_a_question_an_order_lists_all_texts(client):
    page = get(client, index="records")
    looks = next(one["href"] for one in page.all("a") if one.get("href", "").startswith("./?sort=title"))
    assert "Or look through all texts: by title · newest first · from the beginning" in page.text
    assert "docs=1" not in looks
    by_title = Parsed(client.get(looks).text)
    assert "10 of 40 answers" in by_title.text
    assert "order: title, A to Z" in by_title.text
    (more,) = by_title.all("a", **{"class": "more"})
    assert "sort=title" in more["href"]
    assert len(Parsed(client.get(more["href"]).text).all("li", **{"class": "hit"})) >= 15
    newest = next(one["href"] for one in page.all("a") if one.get("href", "").startswith("./?sort=year"))
    years = [*map(int, re.findall(r"year (\d{4})", Parsed(client.get(newest).text).text.partition("Filters")[0]))]
    assert len(years) >= 8
    assert years == sorted(years, reverse=True)
    assert "order: as in the files" in get(client, index="records", sort="row").text
    assert get(client, index="records", sort="nonsense").all("div", role="alert")


def test_of_documents_of_several_texts_an_order_lists_one_of_each(serving, built, tmp_path):
    rows = [
        {"title": f"N {n}", "text": f"The tide rises with moon {n}. It falls. Salt is in the sea."} for n in range(14)
    ]
    wordpipe.ingest(rows, output=tmp_path / "corpus", valid=0)
    wordpipe.embed(built / "words", tmp_path / "corpus", output=tmp_path / "sentences", unit="sentence")
    client = serving(wordpipe.index(tmp_path / "sentences", output=tmp_path / "notes").path, page=PAGE)
    page = get(client)
    assert "Or look through all 14 documents: by title · from the beginning" in page.text
    looks = next(one["href"] for one in page.all("a") if "sort=title" in one.get("href", ""))
    listed = Parsed(client.get(looks).text)
    assert "10 of 14 answers" in listed.text
    asked = {"sort": "title:desc", "per_document": 1, "k": 100, "count": 1, "format": "json"}
    found = client.get("/search", params=asked).json()
    assert [hit["title"] for hit in found["hits"]] == sorted((one["title"] for one in rows), reverse=True)
    assert len({hit["doc_id"] for hit in found["hits"]}) == found["matches"] == 14
    assert client.get("/facets").json()["documents"] == 14
    # the choice of one answer per document is there where a document has several texts
    rows = [{"text": f"Salt {n}"} for n in range(3)]
    wordpipe.index(wordpipe.ingest(rows, output=tmp_path / "c"), output=tmp_path / "each")
    (label,) = re.findall(r"<label[^>]*><input[^>]*name=\"docs\"", serving(tmp_path / "each", page=PAGE).get("/").text)
    assert " hidden" in label
    (label,) = re.findall(r"<label[^>]*><input[^>]*name=\"docs\"", client.get("/").text)
    assert " hidden" not in label


def test_what_is_similar_has_one_text_of_each_document(serving, built, tmp_path):
    rows = [{"text": f"The tide rises with the moon. The tide falls, note {n}. Salt is in the sea."} for n in range(6)]
    wordpipe.ingest(rows, output=tmp_path / "corpus", valid=0)
    wordpipe.embed(built / "words", tmp_path / "corpus", output=tmp_path / "sentences", unit="sentence")
    client = serving(wordpipe.index(tmp_path / "sentences", output=tmp_path / "notes").path, page=PAGE)
    asked = {"row": 0, "k": 10, "format": "json"}
    documents = [hit["doc_id"] for hit in client.get("/similar", params=asked).json()["hits"]]
    assert len(documents) == 10 > len({*documents})
    hits = client.get("/similar", params=asked | {"per_document": 1}).json()["hits"]
    assert [hit["doc_id"] for hit in hits] == [*dict.fromkeys(one for one in documents)][: len(hits)] + [
        hit["doc_id"] for hit in hits[len({*documents}) :]
    ]
    assert len({hit["doc_id"] for hit in hits}) == len(hits) == 6
    page = get(client, q="tide", docs="1")
    link = next(one["href"] for one in page.all("a") if "similar=" in one.get("href", ""))
    assert "docs=1" in link
    assert Parsed(client.get(link).text).all("input", name="docs", checked=None)
    for one in (link, link.replace("docs=1", "docs=")):  # of its own document there are more like it
        like = Parsed(client.get(one).text)
        assert 1 < len(like.all("li", **{"class": "hit"})) <= 6


def test_a_link_skips_to_the_answers_and_one_to_the_filters(client):
    page = get(client, q="salt")
    assert [one["href"] for one in page.all("a", **{"class": "skip"})] == ["#results", "#filters"]
    assert page.all("div", id="results")
    assert page.all("aside", id="filters")
    about = get(client, tab="about")
    assert [one["href"] for one in about.all("a", **{"class": "skip"})] == ["#main"]


def test_numbers_and_the_names_of_files_say_what_filters_do(serving, tmp_path):
    rows = [{"text": f"Salt {n}.", "size": 12_345 * n, "year": 1990 + n} for n in range(1, 4)]
    wordpipe.ingest(rows, output=tmp_path / "corpus", valid=0, metadata=["size:int", "year:int"])
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index", unit="document", language="english")
    client = serving(tmp_path / "index", page=PAGE)
    page = get(client, q="salt", f='[["size", [12345, 24690]]]')
    assert "size 12,345" in page.text
    assert "year 1991" in page.text
    assert "from 12,345 to 24,690" in page.text
    (link,) = [one for one in page.all("a") if "format=spreadsheet" in one.get("href", "")]
    assert re.fullmatch(r"salt_12345-to-24690_all-2_\d{4}-\d\d-\d\d\.csv", link["download"])


@pytest.fixture(scope="module")
def untitled(serving, tmp_path_factory):
    """A client of an index by words over texts without titles, of whose fields some say little."""
    root = tmp_path_factory.mktemp("untitled")
    kinds = ["sea", "sea ", "  sea", "sea\tport", "sea port", "", "\u00a0"]
    rows = [
        {"id": f"t{n}", "text": f"the tide of the note {n}", "kind": kinds[n % 7], "same": 3, "n": n % 20, "none": ""}
        for n in range(70)
    ]
    corpus = wordpipe.ingest(rows, output=root / "corpus", metadata=["kind", "same", "n", "none"])
    return serving(wordpipe.index(corpus, output=root / "notes").path, page=PAGE)


def test_orders_are_offered_of_what_the_texts_have(untitled, client):
    title = {one["name"]: one for one in untitled.get("/facets").json()["columns"]}["title"]
    assert (title["distinct"], title["missing"]) == (0, 70)
    page = get(untitled, q="tide")
    offered = [one["value"] for one in page.all("option") if one["value"] not in (None, "")]
    assert [one for one in offered if not one.isdecimal()] == ["n:desc", "n:asc"]
    assert "same, largest first" not in page.text
    assert "title, A to Z" in get(client, q="tide").text


def test_values_that_differ_in_white_space_look_different(untitled):
    page = get(untitled, q="tide")
    filters = page.text.partition("Filters")[2]
    shown = ["sea␣", "␣␣sea", "sea⇥port", "sea port", "“” (empty)", "\\u00a0"]
    assert [one for one in shown if f"{one}10" not in filters] == []
    link = next(
        one["href"]
        for one in page.all("a")
        if '"sea "' in parse_qs(urlsplit(one.get("href", "")).query).get("f", [""])[0]
    )
    narrowed = Parsed(untitled.get(link).text)
    assert "kind: sea␣ ×" in narrowed.text  # what is chosen has the marks, the address has the value
    assert len(narrowed.all("li", **{"class": "hit"})) > 0


def test_a_line_under_the_field_says_what_can_be_typed(untitled, client):
    page = get(untitled)
    assert page.all("input", id="q")[0]["aria-describedby"] == "typed"
    said = page.text[page.text.index('"two words"') :].partition(" by a field")[0]
    assert said == '"two words" keeps words together, +word must be there, -word must not, kind:sea narrows'
    asked = {"q": "tide kind:sea", "index": "notes", "format": "json", "count": "1"}
    found = untitled.get("/search", params=asked).json()
    assert (found["remarks"], found["matches"] > 0) == ([], True)
    assert "lang:de narrows by a field, -lang:de leaves it out." in get(client).text
    kinds = [
        untitled.get("/search", params=asked | {"q": f"tide {sign}kind:sea"}).json()["matches"] for sign in ("", "-")
    ]
    assert sum(kinds) == untitled.get("/search", params=asked | {"q": "tide"}).json()["matches"]
    assert min(kinds) > 0


def test_an_order_by_a_field_is_kept_where_texts_say_nearly_the_same(serving, tmp_path):
    texts = ["The tide rises with the moon.", "Rust eats iron by the sea.", "The tide rises, with the moon!"]
    rows = [{"text": text, "size": n} for n, text in enumerate(texts)]
    wordpipe.ingest(rows, output=tmp_path / "corpus", valid=0, metadata=["size:int"])
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index", unit="document", language="english")
    client = serving(tmp_path / "index", page=PAGE)
    assert "nearly the same" in get(client, q="tide").text
    sorted_page = get(client, where="size >= 0", sort="size:desc")
    assert "nearly the same" not in sorted_page.text
    assert [*re.findall(r"size (\d)", sorted_page.text.partition("Filters")[0])] == ["2", "1", "0"]


def test_the_map_of_an_index_says_errors_as_the_client_asks(client):
    for accept, media in (
        ("application/json", "application/json"), ("text/html,*/*", "text/html"), ("*/*", "text/html"),
        ("text/html, application/json", "text/html"),
    ):  # fmt: skip
        reply = client.get("/map/nope", headers={"Accept": accept})
        assert (reply.status_code, reply.headers["Content-Type"].partition(";")[0]) == (404, media)
    assert client.get("/map/nope", headers={"Accept": "application/json"}).json()["error"]["what"]
    assert len(Parsed(client.get("/map/nope").text).all("h1")) == 1


def test_the_paragraph_that_answers_is_set_off(serving, tmp_path):
    long = "The kettle sings on the stove, and nobody in the whole house knows for how long it has been singing there."
    text = f"First of all.\nIn lines.\n\n{long}\nSalt draws water out of bread.\n\nThe end of salt."
    wordpipe.ingest([{"id": "a", "text": text}, {"id": "b", "text": "salt"}], output=tmp_path / "corpus", valid=0)
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index", unit="document", language="english")
    client = serving(tmp_path / "index", page=PAGE)
    found = client.get("/text", params={"id": "a", "q": "bread water"}).json()
    assert "draws water out of bread" in text[found["passage"]["start"] : found["passage"]["stop"]]
    html = client.get("/text/a", params={"q": "bread water"}).text
    shown = re.findall(r'<p( class="answering"[^>]*)?>((?:First|The|Salt).*?)</p>', html, re.DOTALL)
    assert [re.sub("<.*?>", "", one) for _, one in shown[:4]] == [
        "First of all.\nIn lines.", long, "Salt draws water out of bread.", "The end of salt.",
    ]  # fmt: skip
    assert [bool(one) for one, _ in shown[:4]] == [False, False, True, False]
    assert re.findall(r'<mark id="(.*?)">(.*?)</mark>', html) == [("mark-1", "water"), ("mark-2", "bread")]
    assert '2 marked words · <a href="#mark-1">go to the first</a>' in html
    assert "answering" not in client.get("/text/a").text
    assert "marked words" not in client.get("/text/a").text + client.get("/text/a", params={"q": "kettle"}).text
    assert "passage" not in client.get("/text", params={"id": "a", "q": "xylomorph"}).json()


@pytest.mark.parametrize("own", ["a/b", "..", ".", "ü ?#&", "<b>", "x" * 300])
def test_every_id_has_a_page(serving, tmp_path, own):
    text = f"{'Salt of the sea, and water. ' * 5_000}\n\n</script><b>end"
    wordpipe.ingest([{"id": own, "title": own, "text": text, "kind": "<i>"}], output=tmp_path / "corpus", valid=0)
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index", unit="document", language="english")
    client = serving(tmp_path / "index", page=PAGE)
    found = get(client, q="salt")
    href = next(one["href"] for one in found.all("a") if one.get("href", "").startswith("./text/"))
    page = Parsed(client.get(href.removeprefix(".")).text)
    assert not page.all("b")
    assert not page.all("i")
    assert "characters 1 to 100,000 of" in page.text
    more = next(one["href"] for one in page.all("a") if "start=100000" in one.get("href", ""))
    last = Parsed(client.get(more.removeprefix("..")).text)
    assert "</script><b>end" in last.text
    assert "previous part" in last.text


def test_a_text_that_there_is_not_says_so(client):
    for path, params, status in (
        ("/text/nope", {"index": "records"}, 404), ("/text/", {"row": "99999"}, 404), ("/text/", {}, 400),
        ("/text/r-2", {"index": "nope"}, 404), ("/text/r-2", {"row": "7", "index": "records"}, 200),
    ):  # fmt: skip
        reply = client.get(path, params=params)
        assert reply.status_code == status, path
        assert Parsed(reply.text).all("div", role="alert") or status == 200
    assert "note 2." in reply.text  # the row of another record: the index was made again


def test_an_error_says_its_next_step_once(client):
    page = get(client, q="sea", where="yeer = 1")
    assert page.text.count("did you mean year? columns: ") == 1
    assert "wordpipe ingest" not in page.text
    assert "lang" in page.text.partition("Filters")[2]  # others can be chosen
    assert page.all("input", name="where")[0]["placeholder"] == "share > 3.0"  # of this index


def test_answers_have_the_order_of_a_field_without_a_script(client):
    page = get(client, q="salt", mix="5", sort="year:desc")
    assert [one["value"] for one in page.all("option") if one["value"].startswith(("year", "title"))] == [
        "year:desc", "year:asc", "title",
    ]  # fmt: skip
    assert page.all("option", value="year:desc", selected=None)
    years = [*map(int, re.findall(r"year (\d{4})", page.text.partition("Filters")[0]))]
    hits = client.get("/search", params={"q": "salt", "sort": "year:desc", "format": "json"}).json()["hits"]
    assert sorted(years, reverse=True) == [hit["metadata"]["year"] for hit in hits]  # nearly equal ones are folded
    assert all("sort=year" in one["href"] for one in page.all("a") if "f=" in one.get("href", ""))
    assert get(client, q="salt", sort="nonsense").all("div", role="alert")


@pytest.mark.parametrize(
    ("q", "is_said"),
    [("salt", False), ("salt water", True), ("salt -water", False), ("salt year>2000 lang:de", False), ("", False)],
)
def test_both_orders_of_a_question_of_several_words_are_said(client, q, is_said):
    before = "first texts with at least half of the question's words (rare ones count more), these by year"
    page = get(client, q=q, sort="year:desc")
    assert page.text.count(before) == (2 if is_said else 0)  # beside the order, and on paper
    assert (f"order: {before}, newest first" in page.text) == is_said
    (note,) = [given for name, given in page.elements if given.get("class") == "hint order-note"]
    assert ("hidden" in note) == (not is_said)


def test_a_file_of_answers_says_where_it_is_cut(serving, records):
    page = get(serving(records, page=PAGE, max_k=20), where="year > 0")
    assert (
        "10 of 40 answers · exportthese 10 answers, as on the page: CSV JSONthe first 20 of 40 answers: CSV JSON"
        in page.text
    )
    assert (
        "exportthe first 20 of 40 answers" in get(serving(records, page=PAGE, max_k=20), where="year > 0", k="20").text
    )


def test_files_of_answers_say_what_is_in_them(serving, client, records):
    page = get(client, q="salt", mix="5")
    n = client.get("/facets", params={"q": "salt", "index": "records"}).json()["rows"]
    by_words, nearest = (
        f"all {n} texts with words of the question, ordered by words alone: CSV JSON",
        "all 40 texts, in the order of the page: CSV JSON",
    )
    assert f"exportthese 10 answers, as on the page: CSV JSON{by_words}{nearest}" in page.text
    _, *links = [one for one in page.all("a") if "format=spreadsheet" in one.get("href", "")]
    names = [re.sub(r"_\d{4}-\d\d-\d\d", "", one["download"]) for one in links]
    assert names == [f"salt_all-{n}-by-words.csv", "salt_all-40.csv"]
    rows = [[*csv.DictReader(client.get(one["href"]).text.splitlines())] for one in links]
    assert [len(some) for some in rows] == [n, 40]
    assert all("salt" in (one["text"] + one["tags"]).lower() for one in rows[0])
    few = get(serving(records, page=PAGE, max_k=5), q="salt", mix="5", k="5").text
    cut = f"the first 5 of {n} texts with words of the question, ordered by words alone: CSV JSON"
    assert f"export{cut}this list and further answers in the order of the page, 5 at most: CSV JSON" in few
    narrow = get(client, f='[["lang", "de"]]', q="salt", mix="10")
    these, onward = "these 10 answers, as on the page", "this list and further answers in the order of the page"
    assert f"export{these}: CSV JSON{onward}, 1,000 at most: CSV JSON" in narrow.text
    assert re.search(r"salt_de_up-to-1000_[-\d]+\.csv", str(narrow.all("a")))


def test_a_file_of_these_answers_is_the_list_that_is_shown_and_says_what_was_asked(client):
    asked = {"q": "salt", "f": '[["year", [1900, null]]]', "sort": "year:desc", "k": "3", "docs": "1"}
    page = get(client, **asked)
    table, whole = [one for one in page.all("a") if "download" in one][:2]
    name = r"salt_1900-to_3-shown_by-year-desc_[-\d]+\.csv"
    assert "exportthese 3 answers, as on the page: CSV JSON" in page.text
    assert re.fullmatch(name, table["download"])
    found = client.get(whole["href"]).json()
    assert (found["query"], found["where"], found["sort"]) == ("salt", '("year" >= 1900)', "year:desc")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found["date"])
    shown = dict(parse_qsl(found["page"].partition("?")[2]))
    assert shown.items() >= (asked | {"f": '[["year", [1900, null]]]'}).items()
    assert found["k"] == 3
    assert "similar_to" not in found
    assert [f"answer-{one['rank']}" for one in found["hits"]] == [
        one["id"] for one in page.all("li", **{"class": "hit"})
    ]
    links = [one["link"] for one in csv.DictReader(client.get(table["href"]).text.removeprefix("\ufeff").splitlines())]
    assert links == [one["link"] for one in found["hits"]]
    assert len(links) == 3


def test_filters_without_a_question_list_texts(client):
    page = get(client, f='[["lang", "de"]]')
    assert len(page.all("li", **{"class": "hit"})) == 10
    assert not get(client).all("li", **{"class": "hit"})


def test_nothing_like_a_text_without_a_vector_is_offered(serving, tmp_path):
    words = made_words(tmp_path / "words", np.eye(4, dtype=np.float32), [5] * 4)
    texts = [*(f"w{number % 4} w{number % 3}" for number in range(30)), "xylomorph"]
    corpus = wordpipe.ingest(
        [{"text": text, "n": n} for n, text in enumerate(texts)], output=tmp_path / "corpus", valid=0.0
    )
    settings = {"unit": "document", "transform": "none", "device": "cpu", "threads": 1}
    index = wordpipe.index(wordpipe.embed(words, corpus, output=tmp_path / "s", **settings), output=tmp_path / "index")
    client = serving(index.path, page=PAGE)
    asked = {"q": "xylomorph w1", "format": "json", "passage": 60, "mode": "lexical"}
    found = client.get("/search", params=asked).json()
    assert [one["has_vector"] for one in found["passages"]] == [hit["row"] != 30 for hit in found["hits"]]
    page = get(client, q="xylomorph", mix="0")
    assert len(page.all("li", **{"class": "hit"})) == 1
    assert "more like this" not in page.text
    assert "more like this" in get(client, q="w1", mix="0").text
    state = client.get("/health").json()["artifacts"][0]
    assert state["without_vector"] == client.get("/about").json()["artifacts"][0]["without_vector"] == 1


def test_filters_without_a_script_are_links_that_narrow(client):
    page = get(client, q="sea")
    link = next(
        one["href"] for one in page.all("a") if "it%27s" in one.get("href", "") or "it's" in one.get("href", "")
    )
    narrowed = Parsed(client.get(link).text)
    assert "lang it's" in narrowed.text
    assert "lang de" not in narrowed.text.split("Filters")[0]
    assert narrowed.all("a", **{"aria-current": "true"})
    said = "To ask for two values of tags at once, type tags:one tags:another."
    assert said in page.text
    both = client.get("/search", params={"q": "note tags:sea tags:salt", "index": "records", "format": "json"}).json()
    assert both["hits"]
    assert all({"sea", "salt"} <= {*hit["metadata"]["tags"]} for hit in both["hits"])
    chosen = json.dumps([["tags", "sea"], ["tags", "salt"], ["done", False], ["lang", 'a "b" c']])
    assert "error" not in get(client, q="sea", f=chosen).text
    page = get(client, q="sea", f=chosen, where="year > 1995")
    assert not page.all("div", **{"class": "problem"})


def test_bars_of_a_range_are_links_without_a_script(client):
    page = get(client, q="salt", mix="0")
    bars = [one for one in page.all("a") if one.get("aria-label", "").startswith("share ")]
    bins = next(
        one["bins"]
        for one in client.get("/facets", params={"q": "salt", "index": "records"}).json()["columns"]
        if one["name"] == "share"
    )
    assert [int(one["aria-label"].rsplit(": ")[-1]) for one in bars] == [one["count"] for one in bins if one["count"]]
    narrowed = Parsed(client.get(bars[1]["href"]).text)
    assert narrowed.all("a", **{"aria-current": "true"})  # which takes it back
    shown = len(narrowed.all("li", **{"class": "hit"}))
    assert 0 < shown <= int(bars[1]["aria-label"].rsplit(": ")[-1]) + 1  # the next bar begins where this one ends
    assert len(narrowed.all("rect", **{"class": "out"})) == len(bars) - 1
    middle = (bins[1]["from"] + bins[1]["to"]) / 2
    halved = get(client, q="salt", mix="0", f=json.dumps([["share", [None, middle]]]))
    assert len(halved.all("rect", **{"class": "part"})) == 1
    assert len(halved.all("rect", **{"class": "out"})) == sum(one["count"] > 0 for one in bins[2:])
    assert page.all("input", name="where")[0]["aria-describedby"] == "where-note"
    assert "joined by and, or, not" in page.text


def test_an_index_without_fields_has_no_condition_to_write(serving, tmp_path):
    rows = [{"text": f"the tide of the note {n}"} for n in range(3)]
    index = wordpipe.index(wordpipe.ingest(rows, output=tmp_path / "corpus"), output=tmp_path / "index").path
    client = serving(index, page=PAGE)
    assert client.get("/").status_code == 200
    for asked, kind in ((None, "hidden"), ("line > 1", "text")):
        page = get(client, q="tide", where=asked)
        assert page.all("input", name="where")[0]["type"] == kind
        assert ("A condition compares" in page.text) is bool(asked)


def test_several_conditions_of_an_address_are_all_true(client):
    reply = client.get("/", params=[("where", "year > 1995"), ("q", "sea & salt"), ("where", ""), ("where", "done")])
    assert str(reply.url.query, "ascii").count("where=") == 1
    assert reply.url.params["q"] == "sea & salt"
    found = Parsed(reply.text)
    assert found.all("input", name="where")[0]["value"] == "(year > 1995) and (done)"
    hits = client.get("/search", params=[("q", "sea & salt"), ("where", "year > 1995"), ("where", "done")])
    assert len(found.all("li", **{"class": "hit"})) == len(hits.text.splitlines()) > 0
    many = client.get("/", params=[("q", "sea"), *[("where", "year > 1995")] * 2_000])
    assert many.status_code == 400


def test_what_cannot_be_is_said_on_the_page(client):
    assert "does not fit the columns" in get(client, q="sea", where="nonsense = 1").text
    assert get(client, q="sea", k="nonsense").all("div", role="alert")
    assert get(client, q="sea", k="0").all("div", role="alert")
    assert get(client, similar="99999999").all("div", role="alert")
    assert "nothing" in get(client, q="sea", where="year > 9999").text


STRANGE = [
    {"f": "["}, {"f": '{"a": 1}'}, {"f": "[[1, 2]]"}, {"f": '[["lang", {}]]'}, {"f": "[" * 10_000}, {"tab": "nonsense"},
    {"mix": "-1"}, {"mix": "²"}, {"index": "nonsense"}, {"words": "nonsense", "tab": "words", "word": "water"}, {"q": " "},
    {"nonsense": "1"}, {"docs": "2"},
]  # fmt: skip


@pytest.mark.parametrize("params", STRANGE)
def test_no_url_is_too_strange(client, params):
    page = get(client, **{"q": "sea", **params})
    assert page.all("main")


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_asked_is_only_text(client, text):
    for params in (
        {"q": text},
        {"tab": "words", "word": text},
        *({"tab": "model", "do": name, name: text} for name in ("fill", "predict", "complete", "attend")),
        {"tab": "model", "do": text},
        {"tab": "model", "attend": "a", "layer": text, "kind": text},
        {"tab": "about", "doctor": text},
        {"q": "a", "where": text},
        {"q": "a", "f": json.dumps([[text, text]])},
        {"tab": text},
        {"similar": text},
    ):
        reply = client.get(
            "/", params={name: value.encode("utf-8", "replace").decode() for name, value in params.items()}
        )
        has_nul = any("\0" in value for value in params.values())  # which is refused by name, in JSON
        assert reply.status_code == (400 if has_nul else 200)
        if reply.status_code == 400:
            assert "\0" not in reply.text
            continue
        page = Parsed(reply.text)
        assert not page.all("img")
        assert len(page.all("script")) == 1
        assert not re.search("[\u202a-\u202e\u2066-\u2069\x00]", reply.text)


def test_words_and_their_neighbours(client):
    page = get(client, tab="words", word="water")
    assert "nearest to water" in page.text
    assert len(page.all("tr")) == 21
    assert "nearest to water - sea" in get(client, tab="words", word="water - sea").text
    assert "Did you mean" in get(client, tab="words", word="watre").text


def test_an_analogy_is_asked_by_three_fields(client):
    page = get(client, tab="words", a="moon", b="sea", c="water", words="words")
    assert "nearest to water - moon + sea" in page.text
    assert [one["value"] for one in page.all("input", type="text")] == ["moon", "sea", "water"]
    assert page.all("input", name="word")[0]["value"] == "water - moon + sea"
    asked = get(client, tab="words", word="water - moon + sea", words="words")
    assert [one for one in page.all("a") if "word=" in one["href"]] == [
        one for one in asked.all("a") if "word=" in one["href"]
    ]
    assert "nearest" not in get(client, tab="words", a="moon", b="sea", c=" ").text  # two words are no analogy


def test_a_passage_of_code_keeps_its_lines_and_its_indent(serving, tmp_path):
    body = "".join(f"    for bee in hive_{n}:\n        bee.fly_home(way_{n})\n" for n in range(60))
    source = f"def fly(hives):\n    flown = 0\n{body}    return flown\n"
    (tmp_path / "bees.py").write_text(source)
    wordpipe.ingest(tmp_path / "bees.py", output=tmp_path / "corpus", format="code")
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index")
    client = serving(tmp_path / "index", page=PAGE)
    rows = [client.get("/text", params={"row": row}).json()["text"] for row in range(3)]
    first = [row.split("\n")[0] for row in rows]
    assert {*first} <= {*source.split("\n")}
    assert all(line.startswith("    ") for line in first[1:])
    read = client.get("/text/", params={"row": 2, "index": "index"}).text
    assert f'<div class="text code" dir="auto"><p>{first[2]}\n' in read
    shown = client.get("/", params={"q": "way_7"}).text
    assert re.search(r'class="text code" dir="auto">…\n    +(bee|for bee)', shown)


def test_models(client):
    page = get(client, tab="model", fill="The [MASK] sea")
    assert "gap 1" in page.text
    assert [one["href"] for one in page.all("a", **{"aria-current": "page"})][1:] == ["./?tab=model&do=fill"]
    page = get(client, tab="model", do="predict", predict="1 is red")
    assert "labels" in page.text
    assert re.search(r"(red|blue) \d+% sure", page.text)
    assert get(client, tab="model", fill="no gap").all("div", role="alert")


def test_a_model_has_an_example_of_the_texts(client, serving, built):
    for do in ("", "fill", "predict", "complete", "attend"):
        page = get(client, tab="model", do=do)
        assert [one["data-ability"] for one in page.all("form")] == [do or "fill"]
        assert "The tide rises with the moon."[:20] in page.text.replace("[MASK]", "rises")
        assert not page.all("div", role="alert")
        assert "sure" not in page.text
    alone = serving(built / "model", page=PAGE)
    assert "[MASK]" in get(alone, tab="model").text


def test_a_text_goes_on_without_a_script(client):
    asked = {"tab": "model", "complete": "The <b>sea", "temperature": "0", "length": "4"}
    page = get(client, **asked)
    body = {"prompt": "The <b>sea", "model": "clm", "max_tokens": 4, "temperature": 0}
    found = client.post("/v1/completions", json=body).json()["choices"][0]["text"]
    assert f"The <b>sea{found}" in page.text
    assert page.all("input", name="length")[0]["value"] == "4"
    assert get(client, **asked | {"length": "99999"}).all("div", role="alert")
    assert not get(client, **asked | {"length": "many"}).all("div", role="alert")


def test_attention_is_a_table_with_numbers(client):
    page = get(client, tab="model", attend="Salt draws water out of bread.", layer="1", head="1", attend_by="model")
    cells = page.all("td", title=None) or [one for name, one in page.elements if name == "td" and "title" in one]
    n = len(page.all("th", scope="row"))
    assert len(cells) == n * n
    assert len(page.all("th", scope="col")) == n
    assert "encoder, layer 1, head 1" in page.text
    page = get(client, tab="model", attend="salt and water " * 20, attend_by="model")
    assert re.search(r"the first 32 of \d+ tokens are shown", page.text)
    assert len(page.all("th", scope="row")) == 32
    assert "mean of all heads" in page.text
    assert get(client, tab="model", attend="salt", layer="99").all("div", role="alert")
    alone, both = (
        get(client, tab="model", attend="Salt draws water.", attend_by="model", second=second)
        for second in (" ", "Bread is salt.")
    )
    assert len(both.all("th", scope="row")) > len(alone.all("th", scope="row")) > 3
    assert both.all("input", name="second")[0]["value"] == "Bread is salt."


def test_words_lead_to_their_map(client):
    def on_map(**params):
        links = [one["href"] for one in get(client, tab="words", **params).all("a") if "./map/words" in one["href"]]
        return links[1:]  # the first is that of the menu

    assert on_map() == ["./map/words"]
    assert on_map(word="water") == ["./map/words#water"]
    assert on_map(word="water - moon + sea") == []  # no word, and no analogy that was asked
    (link,) = on_map(a="moon", b="sea", c="water")
    given = dict(parse_qsl(link.partition("?")[2]))
    first = client.get("/search", params={"q": "water - moon + sea", "index": "words", "k": 1, "format": "json"}).json()
    assert given == {"a": "moon", "b": "sea", "c": "water", "d": first["hits"][0]["word"]}
    for href in ("./map/words", link):
        reply = client.get(href.removeprefix("."), params={**given, "layout": "pca"})
        assert (reply.status_code, reply.headers["Content-Type"]) == (200, "text/html; charset=utf-8")


def test_a_training_that_took_too_long_is_said(client, monkeypatch):
    logs = []
    monkeypatch.setattr("wordpipe.web.endpoints.about.overfit", lambda log: logs.append(log) or "it learned by heart")
    # words, encoder, decoder, classifier: not the index
    assert get(client, tab="about").text.count("it learned by heart") == len(logs) == 4
    assert all({"split", "loss", "tokens"} == {*log[0]} for log in logs)
    assert "it learned by heart" not in client.get("/about").text  # the list is quick


def test_findings_of_doctor(client):
    assert any("doctor=words" in one.get("href", "") for one in get(client, tab="about").all("a"))
    page = get(client, tab="about", doctor="words")
    assert page.all("div", id="doctor")
    assert "wordpipe doctor words" in page.text
    assert "mean cosine of two words" in page.text  # each figure in words, and what is healthy
    assert re.search(r"best is 0; at 1 all vectors are the same; healthy: -0\.1 to 0\.1", page.text)
    assert "next: " in page.text
    assert not get(client, tab="about", doctor="nonsense").all("div", id="doctor")
    assert get(client, tab="about", doctor="colours").all("div", role="alert")


def test_next_steps_are_those_of_the_page(client):
    by_meaning = get(client, index="records", q="zzqx", mix="10").text
    assert "move the slider to exact words, or choose auto" in by_meaning
    none = get(client, index="records", q="salt", where="year > 9999").text
    assert "the filters show the fields and their values" in none
    assert not re.search(r"mode=|/facets", by_meaning + none)


def test_a_place_has_one_spelling(client, notes):
    hit = notes.get("/search", params={"index": "salt", "q": "barrel 3", "format": "json"}).json()["hits"][0]
    assert hit["source"] in ("a/salt.txt", "b/salt.txt")
    reply = notes.get("/text/", params={"index": "salt", "row": hit["row"]})
    assert re.search(r"<title>salt\.txt:\d+ · wordpipe</title>", reply.text)
    assert Parsed(reply.text).all("bdi", **{"class": "place"}) == [{"class": "place", "title": hit["source"]}]
    assert hit["source"] not in Parsed(reply.text).text


def test_near_duplicates_are_folded_without_a_script(client):
    page = get(client, q="bees find their way home", k="20")
    assert page.all("details", **{"class": "others"})
    assert "nearly the same" in page.text
    assert len(page.all("li", **{"class": "hit"})) == 20


def test_what_is_served(client):
    page = get(client, tab="about")
    for name in ("records", "words", "model", "clm", "colours"):
        assert name in page.text
    assert "Counts" in page.text
    assert "Settings" in page.text


def test_about_says_in_sentences_what_is_served_and_folds_the_rest(client):
    page = client.get("/", params={"tab": "about"}).text
    own = page.partition(">records</bdi>")[2].partition("</section>")[0]
    said, details = own.split("<details>")
    said = re.sub("<[^>]+>", "", said)
    rows = client.get("/about", params={"artifact": "records"}).json()["rows"]
    assert f"{rows} texts, which are searched by words and by meaning. From 1 source: " in said
    assert re.search(r"The index is of \d{4}-\d\d-\d\d\. A search by meaning finds", said)
    assert "finds all of the 10 nearest vectors that a comparison with all vectors finds. This is how exactly" in said
    assert "How useful" not in said  # nothing was measured
    for technical in ("digest", "device", "recall", "versions opened", "seed"):
        assert technical not in said
        assert technical in details
    assert "1 is all; at least 0.95 was asked for" in details
    assert "share of the 10 nearest vectors that a search must find" in details  # of a setting
    for one in client.get("/about").json()["artifacts"]:  # the folders of the server are its own
        assert one["path"].startswith("/")
        assert one["path"].rpartition("/")[0] not in page
    assert "<bdi>under 1 s</bdi>" in page
    words = re.sub("<[^>]+>", "", page.partition(">words</bdi>")[2].partition("<details>")[0])
    assert re.search(r"[\d,]+ words; words that are used in similar ways are near each other\. Learned from", words)
    assert "A model that fills gaps in texts" in page


def test_about_says_what_was_measured_with_the_texts_themselves(serving, built):
    client = serving(built / "index", page=PAGE)
    lexical = client.get("/about", params={"artifact": "index"}).json()["manifest"]["facts"]["lexical"]
    measured = lexical["measured"]
    said = Parsed(client.get("/", params={"tab": "about"}).text).text
    assert f"with {measured['queries']} queries out of the texts (each title must find its text): " in said
    assert f"): {measured['ndcg_at_10'][lexical['mode']]:.2f} of 1 (nDCG@10" in said


def test_an_unknown_address_is_a_page_for_a_browser_alone(client):
    for path, root in (("/nothing", "./"), ("/nothing/at/all", "../../")):
        reply = client.get(path, headers={"Accept": "text/html,*/*"})
        assert (reply.status_code, reply.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
        page = Parsed(reply.text)
        assert "There is no page at this address." in page.text
        assert [one["href"] for one in page.all("link", rel="stylesheet")] == [f"{root}static/page.css"]
        assert sum(one["href"] == root for one in page.all("a")) == 3  # the name, the search, and the link below
        assert client.get(path).json()["error"]["message"].startswith("unknown path")
    assert client.post("/nothing", headers={"Accept": "text/html"}).json()["error"]


def test_a_text_that_is_missing_leads_back_to_the_answers(client):
    reply = client.get("/text/nobody", params={"index": "records", "q": "salt", "sort": "year"})
    assert reply.status_code == 404
    (back,) = [one["href"] for one in Parsed(reply.text).all("a") if "sort=year" in one.get("href", "")][-1:]
    assert dict(parse_qsl(urlsplit(back).query)) == {"q": "salt", "index": "records", "sort": "year"}
    assert "← back to the answers" in reply.text


def test_a_name_that_is_the_kind_is_said_once(serving, built):
    client = serving(built / "index", built / "words", page=PAGE)
    assert "index index" not in get(client, tab="about").text
    assert "words words" not in get(client, tab="about").text
    page = Parsed(client.get("/text/", params={"row": 0, "index": "index"}).text)
    assert "index index" not in page.text
    two = serving(*(f"{name}={built / 'index'}" for name in ("notes", "index")), page=PAGE)
    for name, said in (("notes", "index notes"), ("index", "index")):  # of one index it is not said at all
        shown = Parsed(two.get("/text/", params={"row": 0, "index": name}).text)
        assert said in shown.text
        assert "index index" not in shown.text


def test_the_page_of_the_api_keeps_the_question_and_the_filters(client):
    kept = {"q": "salt", "index": "records", "f": '[["year",[2000,null]]]', "sort": "year"}
    address = next(
        one["href"] for one in get(client, tab="about", **kept).all("a") if one.get("href", "").startswith("./api")
    )
    page = Parsed(client.get(address.removeprefix(".")).text)
    links = [urlsplit(one["href"]) for one in page.all("a") if "?" in one.get("href", "")]
    menu = [(link.path, dict(parse_qsl(link.query))) for link in links]
    tabs = [("./", kept | {"tab": tab}) for tab in ("words", "model", "about")]
    assert menu == [("./", kept), ("./map/records", {"q": "salt", "f": kept["f"]}), *tabs, ("./api", kept)]


def test_the_menu_leads_to_the_map_of_what_is_chosen(serving, built, records):
    def to(client, **params):
        return [one["href"] for one in get(client, **params).all("a") if one.get("href", "").startswith("./map/")][:1]

    alone = serving(built / "words", page=PAGE)
    assert to(alone) == to(alone, tab="about") == ["./map/words"]
    assert to(alone, tab="words", word="water") == ["./map/words#water"]
    several = serving(
        f"notes={built / 'index'}", f"records={records}", f"a={built / 'words'}", f"b={built / 'words'}", page=PAGE
    )
    assert to(several) == ["./map/notes"]
    assert to(several, index="records", q="salt") == ["./map/records?q=salt"]
    assert to(several, index="*") == ["./map/notes"]
    assert to(several, tab="words", words="b", word="water") == ["./map/b#water"]
    assert to(several, tab="words", words="b", word="water - sea + moon") == ["./map/b"]
    assert to(several, tab="about", index="records") == ["./map/records"]


def test_a_server_without_texts_or_words_has_fewer_views(serving, built):
    page = get(serving(built / "words", page=PAGE))
    assert [text for text in ("Search", "Words", "About") if f"{text}" in page.text] == ["Words", "About"]
    assert "Words" in get(serving(built / "words", page=PAGE), tab="search").text


def test_the_files_of_the_page(client):
    for name, kind in (("main.js", "text/javascript"), ("page.css", "text/css"), ("icon.svg", "image/svg+xml")):
        reply = client.get(f"/static/{name}")
        assert reply.status_code == 200
        assert reply.headers["Content-Type"].startswith(kind)
        packed = client.get(f"/static/{name}", headers={"Accept-Encoding": "identity"})
        assert (packed.content, packed.headers["ETag"]) == (reply.content, reply.headers["ETag"])
        known = client.get(f"/static/{name}", headers={"If-None-Match": reply.headers["ETag"]})
        assert (known.status_code, known.content) == (304, b"")
    for name in ("nonsense.js", "../__init__.py", "..%2f__init__.py", "", "main.js/x"):
        assert client.get(f"/static/{name}").status_code == 404
    for name in ("main", "results", "filters", "why", "state", "dom", "back"):
        script = PAGE.static(f"{name}.js").data.decode()
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|https?://", script
        )


def test_an_index_is_kept_by_every_tab_and_never_taken_for_another(serving, built, records):
    client = serving(f"notes={built / 'index'}", f"records={records}", built / "words", built / "model", page=PAGE)
    for tab in ({}, {"tab": "words", "word": "water"}, {"tab": "model"}, {"tab": "about", "doctor": "words"}):
        page = get(client, index="records", **tab)
        links = [one["href"] for one in page.all("a") if one.get("href", "").startswith("./?tab=")]
        assert links
        assert all("index=records" in link for link in links), links
        for form in page.all("form"):
            assert page.all("input", name="index", value="records") or page.all("option", value="records"), form
    strange = get(client, index="<nope>", q="salt")
    assert "This server has no index named <nope>." in strange.text
    assert not strange.all("li")
    assert {"./?q=salt&index=notes", "./?q=salt&index=records"} <= {one.get("href") for one in strange.all("a")}


def test_like_a_record_by_its_id(client):
    page = get(client, index="records", q="salt bread")
    links = [one["href"] for one in page.all("a") if "similar_id=" in one.get("href", "")]
    assert links
    assert "similar=" not in "".join(links)
    like = get(client, index="records", similar_id="r-2")
    rows = client.get("/similar", params={"id": "r-2", "index": "records", "format": "json"}).json()["hits"]
    assert len(like.all("li", **{"class": "hit"})) >= 1
    assert str(rows[0]["id"]) in like.text


def test_every_address_of_the_page_is_relative_so_that_a_proxy_may_add_a_prefix(client):
    for tab in (
        {"q": "salt"},
        {"tab": "words", "word": "water"},
        {"tab": "model"},
        {"tab": "about", "doctor": "words"},
    ):
        page = get(client, **tab)
        for name, key in (("a", "href"), ("link", "href"), ("script", "src"), ("form", "action")):
            given = [one[key] for one in page.all(name) if key in one]
            assert all(one.startswith(("./", "#")) for one in given), given
    for name in ("main", "play", "state"):
        code = re.sub(r"//.*", "", PAGE.static(f"{name}.js").data.decode())
        assert not re.search(r'[("\'`]/[a-z?]', code)


def test_tabs_and_title_keep_the_question(client):
    page = get(client, q="salt bread")
    tabs = [one["href"] for one in page.all("a") if one.get("href", "").startswith("./?tab=")]
    assert tabs
    assert all("q=salt+bread" in one for one in tabs)
    assert "<title>salt bread · wordpipe</title>" in client.get("/", params={"q": "salt bread"}).text


def test_a_text_that_goes_on_has_the_direction_of_its_letters(client):
    assert get(client, tab="model", do="complete").all("output", id="completion", dir="auto")
