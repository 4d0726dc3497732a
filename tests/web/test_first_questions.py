"""The first things that people type into a search box, in the shell, over HTTP and on the page, without an option."""

import json
from typing import NamedTuple

import pytest

import wordpipe
from tests.support.browsing import look_at, needs_browser, pages  # noqa: F401  (fixtures)

ROWS = {
    "r-1": "A progress bar for the terminal.",
    "r-2": "The bar of the harbour, and no progress there.",
    "r-3": "Controls of a boiler for hot water.",
    "r-4": "Pumps for cold water in gardens.",
    "r-5": "A client for kubernetes clusters.",
    "r-6": "Clients of an office, and their letters.",
    "r-7": "How photosynthesis feeds a leaf.",
    "r-8": "小提琴和钢琴的音乐会在周末举行。",
    "r-9": "钢琴的历史很长。",
    "CVE-2024-1234": "A hole in the lock of a door.",
    "r-12": "A hot kettle ends by a strip of two metals.",
    "r-13": "When it rains, ask how much, and where.",
    "r-11": "The numbers 2024 and 1234 of a door.",
}


class Typed(NamedTuple):
    """What is typed, the records that are found, the best first, and what is said beside them."""

    kind: str
    text: str
    best: str  # the id of the first answer
    others: frozenset[str]  # ids of further answers
    said: str = ""  # part of what is said


TYPED = [
    Typed("question", "how does the kettle know when it is hot", "r-12", frozenset({"r-3"})),
    Typed("phrase", '"progress bar"', "r-1", frozenset()),
    Typed("phrase with the marks of a word processor", "“progress bar”", "r-1", frozenset()),
    Typed("minus", "water -boiler", "r-4", frozenset()),
    Typed("misspelling", "kuberntes clusters", "r-5", frozenset(), "kubernetes"),
    Typed("unfinished", "photosyn", "r-7", frozenset(), "photosyn"),
    Typed("Chinese", "小提琴", "r-8", frozenset({"r-9"})),
    Typed("id", "CVE-2024-1234", "CVE-2024-1234", frozenset()),
    Typed("id in small letters", "r-6", "r-6", frozenset()),
]
each_typed = pytest.mark.parametrize("typed", TYPED, ids=[typed.kind for typed in TYPED])


def fits(typed: Typed, ids: list[str]) -> bool:
    return ids[:1] == [typed.best] and {*ids[1:]} <= typed.others


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("first")
    lines = [json.dumps({"id": own, "text": text}, ensure_ascii=False) for own, text in ROWS.items()]
    (root / "notes.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    corpus = wordpipe.ingest(root / "notes.jsonl", output=root / "corpus", valid=0)
    wordpipe.index(corpus, output=root / "index", unit="document")
    return root


@each_typed
@pytest.mark.parametrize("command", [("query", "index"), ("search", "notes.jsonl")], ids=["query", "search"])
def test_in_the_shell(cli, folder, typed, command):
    verb, source = command
    asked = (folder / source, typed.text) if verb == "query" else (typed.text, folder / source)
    found = cli(verb, *asked, "--json")
    assert found.code == 0
    assert fits(typed, [json.loads(line)["id"] for line in found.out.splitlines()])
    assert typed.said in found.err


@each_typed
def test_over_http(serving, folder, typed):
    reply = serving(folder / "index").get("/search", params={"q": typed.text, "format": "json"})
    found = reply.json()
    assert fits(typed, [hit["id"] for hit in found["hits"]])
    assert typed.said in " ".join([*found["corrected"].values(), *found["remarks"]])
    # beside lines of hits a header says the same
    for form in ("lines", "csv"):
        reply = serving(folder / "index").get("/search", params={"q": typed.text, "format": form})
        said = json.loads(reply.headers.get("Wordpipe-Remarks", "{}"))
        assert said == {name: found[name] for name in ("corrected", "remarks") if found[name]}


@pytest.fixture(scope="module")
def server(folder):
    with wordpipe.serve([folder / "index"], port=0) as server:
        yield server


def test_small_words_of_a_question_are_not_marked_unless_they_are_asked_for_as_typed(serving, folder):
    given = {"q": "how much does a kettle know", "format": "json", "passage": 200}
    marked = {}
    for exact in (0, 1):
        found = serving(folder / "index").get("/search", params={**given, "exact": exact}).json()
        pieces = [piece for one in found["passages"] for piece in one["pieces"]]
        marked[exact] = {text.lower() for text, is_marked in pieces if is_marked}
        assert "how" not in found["unknown"]
    assert marked == {0: {"kettle", "much"}, 1: {"how", "kettle", "much"}}
    # where nothing else stands in the texts, small words are all there is to find
    found = serving(folder / "index").get("/search", params={"q": "how xylomorph does", "format": "json"}).json()
    assert {hit["id"] for hit in found["hits"]} == {"r-7", "r-13"}


def test_titles_of_ordinary_words_are_offered_first(serving, tmp_path):
    titles = ["x32 ABI", "PCI BAR", "Salt water of the sea", "The salt harbour", "Rare xylomorph"]
    texts = ["Salt water of the sea and the harbour."] * 3 + ["xylomorph"] * 2
    rows = [{"title": title, "text": text} for title, text in zip(titles, texts, strict=True)]
    wordpipe.ingest(rows, output=tmp_path / "corpus", valid=0)
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index", unit="document", language="english")
    found = serving(tmp_path / "index").get("/suggest").json()["suggestions"]
    assert {one["query"] for one in found} == {"Salt water of the sea", "The salt harbour"}


@needs_browser
@pytest.mark.oracle
@each_typed
def test_on_the_page(look_at, server, typed):  # noqa: F811
    seen = look_at(server.url)
    page = seen.go("/")
    page.wait_for_selector(".keys")
    page.keyboard.type(typed.text)
    page.keyboard.press("Enter")
    first = page.locator("#results ol.hits > li.hit").first
    first.locator(".copy.id", has_text=typed.best).wait_for(state="attached")
    seen.settle()
    ids = page.locator("#results li.hit .copy.id").all_text_contents()
    assert fits(typed, ids)
    if typed.kind != "unfinished":  # which is what the page expects of the last word
        assert typed.said in page.locator("#results").inner_text()
    assert seen.errors == []
