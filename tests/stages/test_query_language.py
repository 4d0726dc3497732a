"""Queries in the search language: from Python, in a shell, over HTTP, by words alone and with vectors."""

import json

import numpy as np
import pytest

import wordpipe
from wordpipe.errors import NothingFound
from wordpipe.search.settings import QueryOptions

ROWS = [
    ("a1", "en", 1999, "Progress", "A progress bar for the terminal."),
    ("a2", "en", 2005, "Bars", "The bar made good progress; progress bars followed."),
    ("a3", "de", 2010, "Boiler", "Warm water from the boiler."),
    ("a4", "en", 2020, "Water", "Cold water of the river, without any heating."),
    ("a5", "en", 2021, "Kubernetes", "A client for Kubernetes and its pods."),
    ("a6", "zh", 2022, "学习", "我喜欢机器学习和自然语言。"),
    ("a7", "fr", 2023, "Café", "Un café à Paris; write an e-mail to the café."),
    ("a8", "en", 2024, "Quoting", "To be, or not to be: that is the question about many LLMs."),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("language")
    names = ("id", "lang", "year", "title", "text")
    records = [dict(zip(names, row, strict=True)) for row in ROWS]
    wordpipe.ingest(records, output=folder / "corpus", valid=0)
    wordpipe.index(folder / "corpus", output=folder / "index", unit="document")
    return folder / "index"


ASKED = [
    ('"progress bar"', ["a1"]),
    ("progress bar", ["a1", "a2"]),
    ('-"progress bar" progress', ["a2"]),
    ("water -boiler", ["a4"]),
    ("water +boiler", ["a3"]),
    ("water NOT boiler", ["a4"]),
    ("boiler OR kubernetes", ["a3", "a5"]),
    ("(cold water) OR boiler", ["a3", "a4"]),
    ("cold AND water", ["a4"]),
    ("water lang:de", ["a3"]),
    ("lang:de", ["a3"]),
    ("year:2020..2021", ["a4", "a5"]),
    ("water year:>=2015", ["a4"]),
    ("water -lang:de", ["a4"]),
    ("id:a7", ["a7"]),
    ("a7", ["a7"]),
    ("title:boiler", ["a3"]),
    ("kube*", ["a5"]),
    ("kuberntes client", ["a5"]),
    ("boilr", ["a3"]),
    ("kuber", ["a5"]),
    ("termina bar", ["a1", "a2"]),
    ("机器学习", ["a6"]),
    ('"机器学习"', ["a6"]),
    ("cafe", ["a7"]),
    ("email", ["a7"]),
    ("LLM", ["a8"]),
    ('"to be or not to be"', ["a8"]),
    ('"be to"', []),
    ("-water lang:de", []),
]


@pytest.mark.parametrize(("query", "ids"), ASKED)
def test_a_query_finds_the_rows_that_it_asks_for(index, query, ids):
    assert sorted(hit["id"] for hit in wordpipe.query(index, query)) == ids


def test_the_server_answers_alike_and_says_what_it_did(index, serving):
    client = serving(index)
    for query, ids in ASKED:
        found = client.get("/search", params={"q": query, "format": "json"}).json()
        assert sorted(hit["id"] for hit in found["hits"]) == ids
    found = client.get("/search", params={"q": 'kuberntes "x', "format": "json"}).json()
    assert found["corrected"] == {"kuberntes": "kubernetes"}
    assert found["remarks"] == ["a quotation mark is not closed: the words after it are searched as plain words"]
    begun = client.get("/search", params={"q": "cold wat", "prefix": 1, "format": "json"}).json()
    assert [hit["id"] for hit in begun["hits"]][:1] == ["a4"]
    counted = client.get("/facets", params={"q": "water -boiler"}).json()
    assert counted["rows"] == 1


def test_the_command_line_reads_minus_words_and_says_what_it_corrected(index, cli):
    found = cli("query", index, "water", "-boiler", "--json")
    assert [json.loads(line)["id"] for line in found.out.splitlines()] == ["a4"]
    told = cli("query", index, "kuberntes")
    assert (
        "searched for kubernetes instead of kuberntes, which no text contains; --exact searches for kuberntes"
        in told.err
    )
    exact = cli("query", index, "kuberntes", "--exact")
    assert exact.code == 1
    assert "unknown: kuberntes (did you mean kubernetes?)" in exact.err
    signs = cli("query", index, '"progress bar"', "--exact", "--json")
    assert {json.loads(line)["id"] for line in signs.out.splitlines()} == {"a1", "a2"}
    nothing = cli("query", index, "+water +kubernetes")
    assert "no text has what the quotes and signs of the query ask for" in nothing.err


def test_an_unfinished_word_finds_what_it_may_become(index):
    assert [hit["id"] for hit in wordpipe.query(index, "kub", prefix=True)] == ["a5"]
    assert wordpipe.query(index, "kub") == []
    assert wordpipe.query(index, "water boi", prefix=True)[0]["id"] == "a3"


WHOLE = "searched for {} as a whole; parts of it stand in 1 other row, which --exact finds"
PARTS = "no text contains {} as a whole; it was searched for by its parts"
NO_NUMBER = "cost is no number in 1 row (n/a): left out of the comparison"


@pytest.fixture(scope="module")
def tickets(tmp_path_factory):
    """Tickets with ids, names with signs, amounts and a cell that is no number."""
    folder = tmp_path_factory.mktemp("tickets")
    some = [
        {"id": "OPS-1", "level": "error", "cost": "1,50", "text": "The host 10.0.0.5 is down, says http://10.0.0.5/status/1."},
        {"id": "OPS-2", "level": "warning", "cost": "12,00", "by": "Smith, Zadie",
         "text": "Port 10, and 0 of 5 disks; see OPS-1."},
        {"id": "OPS-3", "level": "error", "cost": "n/a", "text": "Since 2024-05-03T10:00:01 the file /var/log/syslog grows."},
        {"id": "WEB-7", "level": "", "cost": "", "text": "In 05 of 2024, and 03 too, the log of var was empty: COVID19."},
    ]  # fmt: skip
    wordpipe.ingest(some, output=folder / "corpus", valid=0)
    return wordpipe.index(folder / "corpus", output=folder / "index", unit="document", language="english")


@pytest.mark.parametrize(
    ("query", "ids", "remarks"),
    [
        ("10.0.0.5", ["OPS-1"], [WHOLE.format("10.0.0.5")]),
        ("2024-05-03", ["OPS-3"], [WHOLE.format("2024-05-03")]),
        ("10:00:01", ["OPS-3"], [WHOLE.format("10:00:01").replace("1 other row", "2 other rows")]),
        ("/var/log", ["OPS-3"], [WHOLE.format("/var/log")]),
        ("COVID-19", ["WEB-7"], []),
        ("10.0.0.7", ["OPS-1", "OPS-2", "WEB-7"], [PARTS.format("10.0.0.7")]),
        ("OPS-9999", ["OPS-2", "OPS-1", "OPS-3"], [PARTS.format("OPS-9999")]),
        ("disks OPS-9999", ["OPS-2", "OPS-1", "OPS-3"], [PARTS.format("OPS-9999")]),
        ("down/up", ["OPS-1"], []),
        (
            "OPS-1", ["OPS-1", "OPS-2"],
            ["first comes the record with the id OPS-1, then others that contain it; --exact searches for the words"],
        ),
        ("OPS-2", ["OPS-2"], ["this is the record with the id OPS-2; --exact searches for the words"]),
        ("level:eror", [], ["no row has eror in the field level; did you mean error? its values are: error, warning"]),
        ("level:x disks", [], ["no row has x in the field level; its values are: error, warning"]),
        ("-level:x disks", ["OPS-2"], []),
        ("cost:2-20", [], ["no row has 2-20 in the field cost; a range is written cost:2..20"]),
        (
            'by:"Zadie Smith"', [],
            ["no row has Zadie Smith in the field by; did you mean Smith, Zadie? its values are: Smith, Zadie"],
        ),
        ("cost:12 OR nowhere", ["OPS-2"], []),
        ("empty OR cost<=12", ["WEB-7", "OPS-1", "OPS-2"], [NO_NUMBER]),
        ("level:warning OR log", ["WEB-7", "OPS-3", "OPS-2"], []),
        ("disks OR -level:error", ["OPS-2", "WEB-7"], []),
        ('level:""', ["WEB-7"], []),
        ("level != error", ["OPS-2"], []),
        ("cost > 2", ["OPS-2"], [NO_NUMBER]),
        ("cost:1,5", ["OPS-1"], []),
        (
            "cost:10..5", [],
            [NO_NUMBER, "cost: the lower bound 10 is above the upper bound 5"],
        ),
        ("level:2024-13", [], ["level: there is no date 2024-13"]),
        ('"level: warning"', ["OPS-2"], []),
    ],
)  # fmt: skip
def test_names_ids_and_fields_are_read_as_they_are_meant_and_it_is_said(tickets, cli, query, ids, remarks):
    with wordpipe.open(tickets) as opened:
        (found,) = opened.query_all([query], 10, QueryOptions())
        assert ([hit["id"] for hit in found.hits], found.remarks) == (ids, remarks)
        assert not found.unknown or not any("as a whole; parts" in remark for remark in remarks)
        assert opened.count(query) == len(ids)
        assert {hit["id"] for hit in opened.query(query, sort="id")} == {*ids}
        assert [hit["id"] for at in range(len(ids)) for hit in opened.query(query, 1, offset=at)] == ids


def test_cells_that_are_no_numbers_are_left_out_and_counted(tickets, cli):
    for where, ids in (("cost > 1", ["OPS-1", "OPS-2"]), ("cost = 'n/a'", ["OPS-3"])):
        listed = cli("query", tickets, "", "--where", where, "--json")
        assert [json.loads(line)["id"] for line in listed.out.splitlines()] == ids
        assert (NO_NUMBER in listed.err) == (where == "cost > 1")
    by_cost = cli("query", tickets, "", "--where", "id is not null", "--sort", "cost:desc", "--json")
    assert [json.loads(line)["id"] for line in by_cost.out.splitlines()] == ["OPS-2", "OPS-1", "OPS-3", "WEB-7"]
    assert "cost is no number in 1 row (n/a): sorted last" in by_cost.err


def test_a_finished_word_that_is_misspelt_is_corrected_while_typing(index):
    (found,) = index_answers(index, "boilr", prefix=True)
    assert ([hit["id"] for hit in found.hits], found.corrected) == (["a3"], {"boilr": "boiler"})
    (begun,) = index_answers(index, "boil", prefix=True)
    assert ([hit["id"] for hit in begun.hits], begun.corrected) == (["a3"], {})


def index_answers(index, query, **options):
    with wordpipe.open(index) as opened:
        return opened.query_all([query], 10, QueryOptions(**options))


def test_operators_hold_in_every_mode(built):
    with wordpipe.open(built / "index", "index") as opened:
        for mode in ("dense", "lexical", "hybrid"):
            hits = opened.query('sea -moon "the sea"', 20, mode=mode)
            assert hits
            assert not any("moon" in f"{hit['title']} {hit['text']}".lower().split() for hit in hits)
            assert all("the sea" in " ".join(f"{hit['title']}\n{hit['text']}".lower().split()) for hit in hits)
        error = opened.nothing_found(QueryOptions(), "+qxqxqx sea")
        assert isinstance(error, NothingFound)
        assert "no text has what the quotes and signs of the query ask for" in str(error)
        explained = opened.query("sea +water", 3, mode="hybrid", explain=True)
        assert all("lexical" in hit["explain"] or "dense" in hit["explain"] for hit in explained)
        plain, again = opened.query_all(["sea water", "sea -qxqxqx water"], 5)
        assert [hit["row"] for hit in plain.hits] == [hit["row"] for hit in again.hits]
        np.testing.assert_allclose(
            [hit["score"] for hit in plain.hits], [hit["score"] for hit in again.hits], atol=1e-5
        )


def test_an_id_that_is_typed_is_the_record_that_has_it(index, tmp_path):
    with wordpipe.open(index) as opened:
        (found,) = opened.query_all(["a3"], 10, QueryOptions())
        assert ([hit["id"] for hit in found.hits], [*found.remarks]) == (
            ["a3"], ["this is the record with the id a3; --exact searches for the words"],
        )  # fmt: skip
        assert [hit["found_in"] for hit in opened.query("a3", exact=True)] == [["id"]]
    numbered = [
        {"id": 7, "text": "Room 12 is warm."},
        {"id": 12, "text": "The roof is cold."},
        {"id": 31, "text": "A cat."},
    ]
    wordpipe.ingest(numbered, output=tmp_path / "corpus", valid=0)
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index", unit="document")
    with wordpipe.open(tmp_path / "index") as opened:
        assert [hit["id"] for hit in opened.query("12")] == [7]  # a number that the texts have
        assert [hit["id"] for hit in opened.query("31")] == [31]


def test_an_unfinished_id_and_a_field_as_it_is_shown_and_operators_that_leave_all_out(tmp_path, cli):
    some = [
        {"id": "OPS-4711", "host": "db-07", "text": "The disk is full."},
        {"id": "OPS-4712", "host": "web 01", "text": "Pages load slowly."},
        {"id": "WEB-1", "host": "db-08", "text": "Users need a pump.", "price": "20"},
    ]
    wordpipe.ingest(some, output=tmp_path / "corpus", valid=0)
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index", language="english")
    with wordpipe.open(tmp_path / "index") as opened:
        for query, ids in {
            "ops-47": ["OPS-4711", "OPS-4712"], "OPS-4712": ["OPS-4712"], "host: db-07": ["OPS-4711"],
            'host: "web 01" pages': ["OPS-4712"], "host:": [],
        }.items():  # fmt: skip
            assert [hit["id"] for hit in opened.query(query)] == ids, query
        (found,) = opened.query_all(["ops-47"], 10, QueryOptions())
        assert found.remarks == ["no record has the id ops-47; these ids begin so; --exact searches for the words"]
    said = cli("query", tmp_path / "index", "pump -users")
    assert said.code == 1
    assert "the only row with the words of the query does not have what its quotes and signs ask for" in said.err
    shown = cli("query", tmp_path / "index", "pump", "--sort", "price:desc", "--format", "plain").out
    assert "price 20" in shown


@pytest.fixture(scope="module", params=["T", " "], ids=["T before the time", "space before the time"])
def log(request, tmp_path_factory):
    """Lines of a log: their numbers from 1, as ids; day, level, host, address, ticket."""
    folder = tmp_path_factory.mktemp("log")
    said = [
        "INFO db-1 10.0.4.5 OPS-1204",
        "ERROR db-2.internal 10.0.5.7 OPS-13",
        "ERROR web-1.prod.example.com 10.0.5.12 OPS-12",
        "INFO db-2 GET /api/v1/users/7",
    ]
    lines = [
        {"id": f"n{4 * day + at}", "text": f"2026-03-0{day}{request.param}03:04:0{at}Z {what}"}
        for day in range(1, 6)
        for at, what in enumerate(said)
    ]
    wordpipe.ingest(lines, output=folder / "corpus", valid=0)
    return wordpipe.index(folder / "corpus", output=folder / "index", unit="document", language="english")


@pytest.mark.parametrize(
    ("query", "n", "first"),
    [
        ("+ERROR +2026-03-04", 2, "n17 n18"),
        ("+2026-03-04", 4, "n16 n17 n18 n19"),
        ('"2026-03-04"', 4, "n16 n17 n18 n19"),
        ("ERROR AND 2026-03-04", 2, "n17 n18"),
        ("+ERROR -2026-03-04", 8, ""),
        ("+ERROR +db-2", 5, ""),
        ("+ERROR -example.com", 5, ""),
        ("+ERROR -prod.example.com", 5, ""),
        ("INFO OR 2026-03-04", 12, "n16 n19 n17 n18"),
        ("ERROR 2026-03-04", 12, "n17 n18"),
        ("any ERROR on 2026-03-04?", 12, "n17 n18"),
        ('"ERROR web-1" 2026-03-04', 5, "n18"),
        ("+/api/v1/users", 5, ""),
        ("+03:04:01", 5, ""),
        ("OPS-12*", 10, ""),
        ("+OPS-12* +ERROR", 5, ""),
        ("2026-03-04*", 4, "n16 n17 n18 n19"),
        ("2026-03-04* ERROR", 12, "n17 n18"),
        ("+10.0.5.*", 10, ""),
    ],
)
def test_a_name_with_signs_is_found_as_a_whole_beside_other_words_and_operators(log, query, n, first):
    with wordpipe.open(log) as opened:
        hits = [hit["id"] for hit in opened.query(query, 50)]
        assert (opened.count(query), len(hits), {*hits[: len(first.split())]}) == (n, n, {*first.split()})


def test_the_score_of_a_name_with_signs_is_explained(log):
    with wordpipe.open(log) as opened:
        hit = opened.query("ERROR 2026-03-04", 1, explain=True)[0]
        terms = {term["stem"]: term for term in hit["explain"]["lexical"]["terms"]}
        assert {name: (term["count"], term["texts"]) for name, term in terms.items()} == {
            "error": (1, 10), "2026-03-04": (1, 4),
        }  # fmt: skip
        assert hit["score"] == pytest.approx(sum(term["score"] for term in terms.values()), rel=1e-6)


def test_a_name_with_signs_in_a_field_says_the_field(tmp_path):
    some = [
        {"id": "a", "host": "db-2.internal", "text": "The disk is full."},
        {"id": "b", "host": "web-3", "text": "The disk is fast; see db-2.internal here."},
        {"id": "c", "host": "db-1", "text": "The disk of 2 nodes is internal."},
    ]
    wordpipe.ingest(some, output=tmp_path / "corpus", valid=0)
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index", language="english")
    with wordpipe.open(tmp_path / "index") as opened:
        hits = opened.query("disk db-2")
        assert [(hit["id"], hit.get("found_in", [])) for hit in hits] == [("b", []), ("a", ["host"]), ("c", [])]


HOSTS = [
    {"hostname": "db-07", "ram_gb": 128, "city": "Oslo", "text": "Primary database."},
    {"hostname": "web-01", "ram_gb": 32, "city": "Oslo", "text": "Frontend database."},
    {"hostname": "db-08", "ram_gb": 64, "city": "Bergen", "text": "Replica."},
]


@pytest.mark.parametrize(
    ("question", "out", "err"),
    [
        ("ram_gb>=64 city:Oslo", "hostname db-07 · ram_gb 128 · city Oslo", ""),
        ("primary ram_gb>=64", "hostname db-07 · ram_gb 128", ""),
        ("database ram_gb>abc", "", "the field ram_gb needs a number, not 'abc': searched as plain words"),
        ("file:*.md database", "", "no field is called 'file': searched as words"),
        ("primary database rack", "", ""),
    ],
)
def test_an_answer_shows_the_fields_of_its_condition_and_a_condition_that_is_none_is_said(
    question, out, err, cli, tmp_path
):
    wordpipe.ingest(HOSTS, output=tmp_path / "corpus", valid=0)
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index", unit="document", language="english")
    shown = cli("query", tmp_path / "index", question, "--format", "plain")
    assert out in shown.out
    assert err in shown.err
    assert not shown.out.startswith("— less related")


def test_a_count_of_rows_with_any_of_the_words_is_said(index, cli):
    said = "counted: rows with any of the words; to count rows with all of them, put + before each word"
    for query, is_said in (
        ("progress bar", True),
        ("+progress +bar", False),
        ("progress", False),
        ('"progress bar"', False),
    ):
        counted = cli("query", index, query, "--count")
        assert (said in counted.err) is is_said, query
    assert said not in cli("query", index, "progress bar", "--count", "-q").err


def test_a_text_that_is_compared_with_numbers_is_named(tickets):
    with wordpipe.open(tickets) as opened:
        (found,) = opened.query_all(["cost>cheap"], 10, QueryOptions())
        assert found.remarks[0] == "the field cost has numbers, and cheap is no number: compared as texts"


def test_two_words_that_texts_write_as_one_are_said(tmp_path):
    texts = ["The railway to the sea.", "A railway bridge.", "The way to the rail.", "One way."]
    wordpipe.ingest([{"text": text} for text in texts], output=tmp_path / "corpus", valid=0)
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index", language="english")
    with wordpipe.open(tmp_path / "index") as opened:
        (found,) = opened.query_all(["where is a rail way"], 10, QueryOptions())
        assert found.remarks == ["rail way is also written as one word: 2 texts have railway"]
        for options in (QueryOptions(exact=True), QueryOptions(prefix=True)):
            (found,) = opened.query_all(["rail way"], 10, options)
            assert found.remarks == []


def test_a_rare_word_beside_a_frequent_one_is_searched_for_and_the_frequent_one_offered(tmp_path):
    texts = [f"Kabul is a town of Afghanistan, note {n}." for n in range(60)]
    texts += ["He wrote Afganistan.", "A modem.", *(f"A modern house, note {n}." for n in range(30))]
    wordpipe.ingest([{"text": text} for text in texts], output=tmp_path / "corpus", valid=0)
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index", language="english")
    with wordpipe.open(tmp_path / "index") as opened:
        (found,) = opened.query_all(["towns of Afganistan"], 3, QueryOptions())
        assert found.remarks == ["Afganistan is in only 1 text: 60 texts have afghanistan"]
        assert "Afganistan" in opened.query_all(["Afganistan"], 3, QueryOptions())[0].hits[0]["text"]
        # 30 texts are too few beside one, a frequent word has no other, and what is in quotes, exact or unfinished is meant
        for question, options in (
            ("modem", QueryOptions()), ("Afghanistan", QueryOptions()), ('"Afganistan"', QueryOptions()),
            ("Afganistan", QueryOptions(exact=True)), ("Afganistan", QueryOptions(prefix=True)),
        ):  # fmt: skip
            (found,) = opened.query_all([question], 3, options)
            assert found.remarks == [], question
