"""Words of the fields of records are words of their rows; names of fields as a user knows them."""

import csv
import json
import random
import re

import pytest

import wordpipe
from wordpipe.artifacts import Artifact
from wordpipe.search.settings import QueryOptions

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


@pytest.fixture
def made_of(tmp_path):
    """A function from records to an index of their words."""

    def make(some: list[dict], folder=tmp_path / "made"):
        wordpipe.ingest(some, output=folder / "c", valid=0, deduplicate=False)
        wordpipe.index(folder / "c", output=folder / "i", language="english")
        return folder / "i"

    return make


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
    found = client.get("/search", params={"q": "web01 disk", "format": "json", "passage": 100}).json()
    assert [hit["found_in"] for hit in found["hits"]] == [["host"], ["host"]]
    assert [one["fields"] for one in found["passages"]] == [{"host": [["web01", True], [".example.org", False]]}] * 2
    shown = cli("query", index, "web01 disk", "--json")
    assert tickets(map(json.loads, shown.out.splitlines())) == ["T-1001", "T-1003"]
    assert "host: web01.example.org" in cli("query", index, "web01", "--format", "plain").out


def test_a_word_of_a_field_is_explained_and_shown_with_its_field(cli, index):
    (first, second) = wordpipe.query(index, "web01 disk", explain=True)
    terms = {term["stem"]: term for term in first["explain"]["lexical"]["terms"]}
    assert terms["web01"]["fields"] == ["host"]
    assert terms["web01"]["texts"] == 2
    assert terms["web01"]["word"] == "web01"
    assert sum(term["score"] for term in terms.values()) == pytest.approx(first["score"], abs=1e-5)
    assert [term["stem"] for term in second["explain"]["lexical"]["terms"]] == ["web01"]
    assert (first["related"], second["related"]) == (True, False)
    shown = cli("query", index, "web01 disk", "--format", "plain", "--explain").out
    assert "host: web01.example.org" in shown
    assert "web01 (in host)" in shown


def test_sorted_paged_and_single_documents_agree_with_the_list(index):
    whole = tickets(wordpipe.query(index, "org disk"))
    assert len(whole) == 3
    pages = [tickets(wordpipe.query(index, "org disk", k=1, offset=at)) for at in range(3)]
    assert [one for page in pages for one in page] == whole
    assert tickets(wordpipe.query(index, "web01", sort="ship date")) == ["T-1003", "T-1001"]
    assert tickets(wordpipe.query(index, "web01", where="\"@level\" = 'mid'")) == ["T-1003"]
    assert tickets(wordpipe.query(index, "web01 disk", per_document=True)) == ["T-1001", "T-1003"]
    assert tickets(wordpipe.query(index, "web01", exact=True)) == ["T-1001", "T-1003"]


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
        asked = ("travel sea", "travel", "web01 sea", "db02", "sea")
        found = dict(zip(asked, index.query_all(asked, 10, QueryOptions()), strict=True))
    assert found["travel sea"].mode == found["sea"].mode
    assert {one.mode for one in found.values()} <= {"hybrid", "lexical"}
    for query, host in (("travel", "web01"), ("web01 sea", "web01"), ("db02", "db02")):
        first, second = found[query].hits[:2]
        assert {one["metadata"]["host"] for one in (first, second)} == {host}
        assert first["found_in"] == ["topic" if query == "travel" else "host"]


# ---- the naive twin: a record is found by a word if its text, its title or one of its fields has the word

WORDS = ["lamp", "desk", "oak", "steel", "fan", "sock", "chair", "linen", "wool", "keyboard", "silent", "warm"]
PRODUCTS = ("sku", "name", "maker", "city", "tags", "price", "description")
OPERATORS = [
    "{0}",
    "{0} {1}",
    "{0} -{1}",
    "+{0} {1}",
    '"{0} {1}"',
    '"{0} {1}" OR {2}',
    "{0} -{1} -{2}",
    "ste*",
    '-"{0} {1}"',
]


def products(rng: random.Random, count: int, first: int = 0) -> list[dict]:
    """Return records of a shop: half of them have no description, some have no name."""

    def some(most: int) -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(1, most)))

    return [
        {
            "sku": f"SKU-{first + n}", "name": some(2) if rng.random() < 0.8 else "", "maker": some(1).title(),
            "city": rng.choice(["Berlin", "New York", "Köln"]), "tags": [some(2) for _ in range(rng.randint(0, 3))],
            "price": str(rng.randint(5, 90)), "description": some(9) + "." if rng.random() < 0.5 else "",
        }
        for n in range(count)
    ]  # fmt: skip


def written(folder, form: str, some: list[dict]):
    path = folder / f"p.{form}"
    if form == "jsonl":
        path.write_text("".join(f"{json.dumps(one)}\n" for one in some))
        return path
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(PRODUCTS)
        table.writerows(
            [*(one[name] for name in PRODUCTS[:4]), "; ".join(one["tags"]), *list(one.values())[5:]] for one in some
        )
    return path


def parts_of(record: dict, form: str) -> list[list[str]]:
    """Return the words of each part of a record over whose border no phrase runs."""
    parts = [value if isinstance(value, list) else [value] for value in record.values()]
    if form == "csv":
        parts = [["; ".join(one)] for one in parts]
    return [re.findall(r"\w+", text.lower()) for one in parts for text in one]


def fulfils(query: str, parts: list[list[str]]) -> bool:
    """Return whether a record is an answer to a query of words, phrases and excluded ones, by looking at all of it."""
    if " OR " in query:
        return any(fulfils(one, parts) for one in query.split(" OR "))

    def has(item: str) -> bool:
        words = item.strip('"').lower().split()
        if item.endswith("*"):
            return any(word.startswith(words[0][:-1]) for part in parts for word in part)
        return any(part[at : at + len(words)] == words for part in parts for at in range(len(part)))

    items = re.findall(r'[-+]?(?:"[^"]*"|\S+)', query)
    if any(has(one[1:]) for one in items if one[0] == "-") or not all(has(one[1:]) for one in items if one[0] == "+"):
        return False
    if any(one[0] == '"' and not has(one) for one in items):
        return False
    plain = [one.lstrip("+") for one in items if one[0] != "-"]
    return any(has(one) for one in plain) if plain else True


def questions(rng: random.Random, count: int) -> list[str]:
    asked = [rng.choice(OPERATORS).format(*rng.sample(WORDS, 3)) for _ in range(count)]
    return [
        *asked,
        "Berlin",
        "berlin lamp",
        '"new york"',
        "-berlin",
        "SKU-7",
        "sku-7 oak",
        '"berlin lamp"',
        "york -koln",
    ]


@pytest.mark.parametrize(("form", "seed"), [("csv", 1), ("jsonl", 2), ("csv", 3)])
def test_a_record_is_found_by_the_words_of_all_its_fields_however_it_is_asked(tmp_path, form, seed):
    rng = random.Random(seed)
    some = products(rng, 60)
    path = written(tmp_path, form, some)
    wordpipe.ingest(path, output=tmp_path / "c", valid=0)
    wordpipe.index(tmp_path / "c", output=tmp_path / "i")
    with wordpipe.open(tmp_path / "i", "index") as index:
        for query in questions(rng, 40):
            wanted = {one["sku"] for one in some if fulfils(query, parts_of(one, form))}
            if query.lower().startswith("sku-7"):  # a number that stands whole in a field
                wanted = {"SKU-7"} | (
                    {one["sku"] for one in some if "oak" in query and fulfils("oak", parts_of(one, form))}
                )
            found = [hit["metadata"]["sku"] for hit in index.query(query, 100)]
            assert len(found) == len({*found}) == index.count(query), query
            assert {*found} == wanted, query
            if len(query.split()) < 3:
                assert [one["metadata"]["sku"] for one in wordpipe.search_texts(query, path, 100)] == found, query


def test_a_word_of_a_text_ranks_above_the_same_word_of_a_field(made_of):
    texts = [
        {"text": "a lamp of steel", "kind": "oak"},
        {"text": "a desk of oak", "kind": "wool"},
        {"text": "a fan", "kind": "oak"},
    ]
    found = wordpipe.query(made_of(texts), "oak")
    assert [hit["metadata"]["kind"] for hit in found] == ["wool", "oak", "oak"]
    assert found[1]["score"] == found[2]["score"]  # however long the text is


def test_an_update_where_fields_alone_changed_is_a_fresh_build(tmp_path):
    rng = random.Random(5)
    some = products(rng, 40)
    later = [one | ({"maker": "Velvet", "tags": ["new tag"]} if n % 7 == 0 else {}) for n, one in enumerate(some)]
    later = [*later[3:], *products(rng, 3, first=40)]
    for records_, name, update in ((some, "i", False), (later, "i", True), (later, "j", False)):
        wordpipe.ingest(
            records_, output=tmp_path / "c", valid=0, id_field="sku", text_field="description", title_field="name"
        )
        made = wordpipe.index(tmp_path / "c", output=tmp_path / name, language="english", update=update)
        if update:
            changed = sum(n % 7 == 0 for n in range(3, 40))
            assert made.counts == {"texts": 40, "kept": 37 - changed, "added": 3 + changed, "removed": 3 + changed}
    with Artifact(tmp_path / "i") as one, Artifact(tmp_path / "j") as other:
        assert one.names("lexical/") == other.names("lexical/")
        for name in one.names("lexical/"):
            assert one.read(name) == other.read(name), name
    assert len(wordpipe.query(tmp_path / "i", "velvet", 100)) == changed


def test_windows_of_a_long_record_have_its_fields_and_several_indexes_find_them(made_of, tmp_path):
    long = {"id": "a", "host": "db-07", "text": " ".join(f"Sentence number {n} says little." for n in range(60))}
    wordpipe.ingest([long], output=tmp_path / "c", valid=0)
    wordpipe.index(tmp_path / "c", output=tmp_path / "i", unit="window", window=40, overlap=0, language="english")
    other = made_of(
        [{"host": "web-01", "text": "Other words."}, {"host": "db-07", "text": "A third."}], tmp_path / "other"
    )
    with wordpipe.open(tmp_path / "i", "index") as index:
        assert index.count("db-07") == len(index) > 3
        assert index.count("db-07", per_document=True) == 1
    with wordpipe.open([tmp_path / "i", other], "index") as both:
        assert [hit["metadata"]["host"] for hit in both.query("web-01")] == ["web-01"]
        assert both.count('"db 07"') == len(both) - 1
        hit = both.query("db-07 third", 1)[0]
        assert (hit["text"], hit["found_in"]) == ("A third.", ["host"])


# ---- the names of files that are documents

FILES = {
    "old/Glazing_notes.md": "# Colours\n\nIron makes green.\n\n# Heat\n\nCones melt when the work is done.\n",
    "kiln-2024.txt": "Bricks hold the heat.\n\nA door of iron.\n",
    "other.txt": "The kiln was hot. Green wood smokes.\n",
    "clay.log": "2024-03-01 10:00 fired\n2024-03-01 11:00 cooled\n",
    "clay.csv": "name,text\na,Cups and bowls\nb,Plates\n",
}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shelf")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("kiln", ["other.txt", "kiln-2024.txt", "kiln-2024.txt"]),  # where the text has the word comes first
        ("kiln iron", ["kiln-2024.txt", "Glazing_notes.md", "other.txt", "kiln-2024.txt"]),
        ("kiln-2024.txt", ["kiln-2024.txt"] * 2),
        ("KILN-2024.TXT door", ["kiln-2024.txt"] * 2),
        ("glazing", ["Glazing_notes.md"] * 2),
        ("glazing_notes", ["Glazing_notes.md"] * 2),
        ("+notes heat", ["Glazing_notes.md"] * 2),
        ("heat -notes", ["kiln-2024.txt"]),
        ("old", []),  # the folder's name
        ("clay", []),  # of a log, and of records
        ("md", []),
    ],
)
def test_documents_are_found_by_the_words_of_the_names_of_their_files(shelf, query, expected):
    found = wordpipe.search_texts(query, shelf)
    assert [hit["source"].rpartition("/")[2] for hit in found] == expected
    of_names = [hit["found_in"] for hit in found if query in ("glazing", "+notes heat")]
    assert of_names == [["file"]] * len(of_names)


def test_passages_found_by_the_name_of_their_file_have_one_score_and_say_so(cli, shelf):
    whole, *both = wordpipe.search_texts("kiln", shelf, explain=True)
    assert whole["score"] > both[0]["score"] == both[1]["score"]
    assert both[0]["text"].startswith("Bricks")  # the beginning comes first
    assert both[0]["explain"]["lexical"]["terms"][0]["fields"] == ["file"]
    shown = cli("search", "notes", shelf, "--format", "plain", "--explain").out
    assert "file: Glazing_notes Glazing notes" in shown
    assert "(in file)" in shown


@pytest.mark.parametrize(
    ("reading", "indexing", "count"),
    [({"documents": "block"}, {}, 2), ({"documents": "line"}, {}, 0), ({}, {"unit": "sentence"}, 0), ({}, {}, 1)],
)
def test_lines_and_sentences_are_not_found_by_the_name_of_their_file(shelf, tmp_path, reading, indexing, count):
    wordpipe.ingest(shelf / "kiln-2024.txt", output=tmp_path / "c", valid=0, **reading)
    wordpipe.index(tmp_path / "c", output=tmp_path / "i", **indexing)
    assert len(wordpipe.query(tmp_path / "i", "kiln")) == count


def test_a_file_with_another_name_is_updated_as_a_fresh_build(tmp_path):
    (tmp_path / "t").mkdir()
    for name in ("one", "two"):
        (tmp_path / "t" / f"{name}.txt").write_text(f"What {name} says.\n\nMore.\n")
    for old, new, index, update in (
        ("two", "two", "i", False),
        ("two", "three", "i", True),
        ("three", "three", "j", False),
    ):
        (tmp_path / "t" / f"{old}.txt").rename(tmp_path / "t" / f"{new}.txt")
        wordpipe.ingest(tmp_path / "t", output=tmp_path / "c", valid=0, documents="block")
        wordpipe.index(tmp_path / "c", output=tmp_path / index, language="english", update=update)
    with Artifact(tmp_path / "i") as one, Artifact(tmp_path / "j") as other:
        for name in one.names("lexical/"):
            assert one.read(name) == other.read(name), name
    assert [hit["source"].rpartition("/")[2] for hit in wordpipe.query(tmp_path / "i", "three")] == ["three.txt"]


def test_the_words_that_are_counted_while_reading_are_those_of_the_names_too(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rng = random.Random(7)
    blocks = (" ".join(rng.choices(WORDS, k=30)) for _ in range(8_000))
    (tmp_path / "Glazing_notes.txt").write_text("\n\n".join(blocks))
    assert wordpipe.search_texts("glazing", tmp_path / "Glazing_notes.txt", 1)
    (index,) = (tmp_path / "cache").glob("wordpipe/search/*/index")
    wordpipe.index(index.parent / "corpus", output=tmp_path / "i")
    with Artifact(index) as one, Artifact(tmp_path / "i") as other:
        for name in one.names("lexical/"):
            assert one.read(name) == other.read(name), name
