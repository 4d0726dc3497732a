"""What `wordpipe query` prints: for people, in tables, in pipes."""

import json
import re

import pytest

import wordpipe
from tests.support.terminal import in_terminal
from wordpipe.cli.output import cells_of
from wordpipe.cli.query_answers import answer_lines, fields_of, named_fields, piped_cells, place_of, styled, user_id
from wordpipe.search import Analyser
from wordpipe.stages import PassageFinder

HIT = {
    "rank": 1, "score": 0.75, "row": 3, "id": "T-17", "doc_id": "x", "title": "Tides", "anchor": "#why", "line": 7,
    "source": "sea.html", "text": "The Moon pulls on the ocean. " * 20 + "Two high waters come in a day.",
    "metadata": {"year": 2003, "lang": "en"},
}  # fmt: skip


def lines_of(hit, query, width, shown=()):
    finder = PassageFinder(query, Analyser("english"))
    return ["".join(text for text, _ in line) for line in answer_lines(hit, finder, width, shown)]


def test_an_answer_is_a_title_a_place_and_the_passage():
    assert lines_of(HIT, "high waters", 60, ["year"]) == [
        "0.7500  Tides  sea.html#why:7 · id T-17 · year 2003",
        "        … The Moon pulls on the ocean. The Moon pulls on the",
        "        ocean. The Moon pulls on the ocean. Two high waters",
        "        come in a day.",
    ]


@pytest.mark.parametrize("width", [30, 60, 80])
@pytest.mark.parametrize("title", ["Pump leaks oil", ""])
def test_no_field_of_a_condition_hides_the_place_and_the_id(width, title):
    machine = {"kind": "pump", "serial": "PU-171", "built": {"year": 2011}}
    fields = {"machine": machine, "labels": ["urgent", "warranty"] * 9, "opened": "2023-04-02"}
    hit = HIT | {"title": title, "anchor": None, "metadata": fields, "text": "It leaks."}
    shown = named_fields("machine->>'kind' = 'pump' and 'urgent' in labels and opened >= '2020'")
    lines = lines_of(hit, "leaks", width, shown)
    assert max(map(cells_of, lines)) <= width
    told = " ".join(" ".join(lines).split())
    assert "sea.html:7 · id T-17" in told
    assert "machine.kind pump" in told
    assert "opened 2023-04-02" in told
    assert "PU-171" not in told
    assert told.count("urgent") < 4  # a long value is cut
    assert "built.year" not in told
    assert "machine.built.year 2011" in " ".join(lines_of(hit, "leaks", 80, ["machine", "built", "year"]))


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
@pytest.mark.parametrize(
    "text", ["a word or two " * 80, "蜂は花から花へ飛んで蜜を集める。" * 40, "x" * 3000, "", "\x1b[31m red " * 50]
)
def test_no_line_is_wider_than_the_terminal(text, width):
    explained = {
        "mode": "hybrid",
        "dense": {
            "score": 0.5, "pairs": [{"query": "high", "text": "tall", "score": 0.25}], "others": 0.25, "share": 0.1,
            "text": [{"word": "word", "score": 0.4}],
        },
        "lexical": {"score": 2.0, "terms": [{"stem": "water", "score": 1.0}, {"stem": "high", "score": 1.0}]},
    }  # fmt: skip
    hit = HIT | {
        "text": text,
        "title": "A long title of a text " * 4,
        "source": "a/long/folder" * 9,
        "explain": explained,
    }
    lines = lines_of(hit, "high waters", width, ["year"])
    assert not [
        line for line in lines if cells_of(line) > max(width, 30 if "0.250" in line else 0)
    ]  # a name and a number
    assert "\x1b" not in "".join(lines)
    numbers = re.findall(r"\d\.\d{3}\b", " ".join(lines))
    assert {"0.500", "0.250", "2.000"} <= set(numbers)  # no number is broken
    assert "waters 1.000" in " ".join(" ".join(lines).split())  # as it was asked, not its stem


def test_a_hit_has_the_users_id_where_its_record_had_one():
    bare = {"score": 1.0, "row": 3, "title": None, "text": "salt", "source": "a.txt", "line": 1, "year": 2003}
    assert user_id(bare) == ""
    assert fields_of(bare) == {"year": 2003}
    assert place_of(bare) == "a.txt:1"
    assert piped_cells(bare) == ["1.0000", "salt", "a.txt:1"]
    assert user_id(HIT) == "T-17"
    assert fields_of(HIT) == {"year": 2003, "lang": "en"}
    assert piped_cells({"score": 0.5, "row": 1, "word": "salt"}) == ["0.5000", "salt"]
    assert named_fields("year > 2000 and lang = 'en'")[:3] == ["year", "and", "lang"]


def test_names_of_folders_forge_no_rows(cli, built, tmp_path):
    folder = tmp_path / "x\n0.9999\tFORGED ROW\tfake.txt"
    folder.mkdir()
    (folder / "a\x1b[2J.txt").write_text("Salt in the sea.\n")
    wordpipe.embed(built / "words", tmp_path, output=tmp_path / "sentences")
    wordpipe.index(tmp_path / "sentences", output=tmp_path / "index")
    (line,) = cli("query", tmp_path / "index", "salt", "-k", 1).out.splitlines()
    assert line.count("\t") == 2
    assert r"\n0.9999\tFORGED ROW\tfake.txt/a\x1b[2J.txt:1" in line
    people = cli("query", tmp_path / "index", "salt", "-k", 1, "--format", "plain").out
    assert not [line for line in people.splitlines() if line.startswith("0.9999")]
    assert "\nwordpipe" not in cli("ingest", "no\nwordpipe: error: forged", "-o", tmp_path / "c").err
    groups = cli("duplicates", tmp_path / "sentences", "--threshold", -1).out
    assert "\n0.9999" not in groups


def test_formats(cli, built):
    asked = ("query", built / "index", "high", "waters", "-k", 2, "--mode", "lexical")
    tsv = cli(*asked, "--format", "tsv")
    assert cli(*asked).out == tsv.out
    assert [line.count("\t") for line in tsv.out.splitlines()] == [2, 2]
    told = cli(*asked, "--format", "json").out
    assert told == cli(*asked, "--json").out
    assert [json.loads(line)["rank"] for line in told.splitlines()] == [1, 2]
    plain = cli(*asked, "--format", "plain", "--explain").out
    assert re.search(r"^\d\.\d{4}  \S", plain)
    assert plain.count("words: the BM25 score is a sum") == 1
    assert "the cosine is a sum" not in plain  # only what answered is explained
    assert "early answers" not in plain
    assert "(adds …)" not in plain
    mixed = cli(*asked[:-1], "hybrid", "--format", "plain", "--explain").out
    for part in (
        "vectors: the cosine is a sum",
        "words: the BM25 score is a sum",
        "(adds …): how much the vectors or the words add",
        "early answers: similarity",
    ):
        assert mixed.count(part) == 1
    table = cli(*asked, "--format", "table").out
    assert re.search(r"score +title +text +place", table)
    clash = cli(*asked, "--json", "--format", "tsv")
    assert clash.code == 2
    assert json.loads(clash.err)["error"]["what"] == (
        "--json and --format tsv cannot be used together, because --json means --format json"
    )


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_answers_on_a_terminal(built, columns):
    seen = in_terminal("query", built / "index", "high waters", "-k", 3, "--mode", "lexical", columns=columns)
    assert seen.code == 0
    assert "\x1b[1m" in seen.text
    plain = re.sub(r"\x1b\[\d*m", "", seen.text)
    assert max(map(len, plain.splitlines())) <= columns
    assert re.search(r"\x1b\[1m[Ww]aters?\x1b\[0m", seen.text)


COMMANDS = [
    "query {0}/index water -k 2", "query {0}/index water --format table", "show {0}/words", "plot {0}/model",
    "evaluate tokenizer {0}/tokens --data {0}/corpus", "ingest {0}/../notes.txt -o {1}/corpus", "query {0}/index",
]  # fmt: skip
DUMB = [0, 5]
"""The commands that are also tried on a terminal that knows no colours: one for each way of printing."""

QUICK = [0, 3]
"""Those that are always tried, as each is a process of its own: answers and pictures."""


@pytest.mark.parametrize(
    ("command", "without"),
    [
        *(
            pytest.param(command, {"NO_COLOR": "1"}, marks=[] if number in QUICK else pytest.mark.landing)
            for number, command in enumerate(COMMANDS)
        ),
        *(
            pytest.param(command, {"TERM": "dumb"}, marks=pytest.mark.landing if number in DUMB else pytest.mark.slow)
            for number, command in enumerate(COMMANDS)
        ),
    ],
)
def test_no_escape_is_left_where_none_is_wanted(built, tmp_path, command, without):
    (built.parent / "notes.txt").write_text("Salt in the sea.\n")
    seen = in_terminal(*command.format(built, tmp_path).split(), typed="water\n", **without)
    assert seen.code == 0
    assert "\x1b" not in seen.text


def test_a_line_is_styled_by_what_reaches_the_screen():
    assert styled([("a ", False), ("b", True), ("  ", False)]) == "a b"


def test_a_narrow_table_leaves_out_what_gives_the_text_no_room(built):
    wide, narrow = (
        in_terminal("query", built / "index", "salt water", "-k", "3", "--format", "table", columns=width, NO_COLOR="1")
        for width in (150, 50)
    )
    assert wide.text.split()[:4] == ["score", "title", "text", "place"]
    assert "no room for" not in wide.text
    assert narrow.text.split()[:2] == ["score", "text"]
    assert max(map(cells_of, narrow.text.splitlines())) <= 50
    assert "columns not shown: place; to see all columns, use a wider terminal or --format plain" in " ".join(
        narrow.text.split()
    )
    titles = [hit["title"] for hit in wordpipe.query(built / "index", "salt water", k=3)]
    shown = " ".join(narrow.text.split())
    assert all(f"{title[:12]}" in shown for title in titles)
    assert shown.count(" · ") >= 3
