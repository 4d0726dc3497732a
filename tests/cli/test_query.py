"""`wordpipe query` over texts, and `wordpipe duplicates`."""

import json

import pytest

import wordpipe


@pytest.fixture(scope="module")
def index(built, tmp_path_factory):
    root = tmp_path_factory.mktemp("asked")
    wordpipe.embed(built / "words", built / "corpus", output=root / "sentences")
    wordpipe.index(root / "sentences", output=root / "index")
    return root / "index"


def test_explained_answers_for_people_and_in_full(cli, index):
    shown = cli("query", index, "salt water", "-k", 2, "--explain", "--mode", "hybrid", "--weight", 0.5)
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines[1].startswith("    vectors ")
    assert "(adds 0." in lines[1]
    assert "salt" in lines[2]
    told = cli("query", index, "salt water", "-k", 1, "--explain", "--mode", "lexical", "--json")
    (hit,) = map(json.loads, told.out.splitlines())
    assert hit["query"] == "salt water"
    assert {term["stem"] for term in hit["explain"]["lexical"]["terms"]} <= {"salt", "water"}


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--where", "yeer > 1"], 2, "yeer"),
        (["--where", "line > 1; drop table rows"], 2, "not a condition"),
        (["--weight", "2"], 2, "weight"),
        (["--weight", "0.5", "--mode", "dense"], 2, "mixes both ways"),
        (["--where", "line < 0"], 3, "nothing was found"),
        (["--mode", "lexical", "--min-score", "1000"], 3, "nothing was found"),
    ],
)
def test_what_does_not_fit_is_told_once(cli, index, options, code, message):
    found = cli("query", index, "salt", *options)
    assert found.code == code
    assert message in found.err
    assert "Traceback" not in found.err


def test_a_file_of_queries_with_hostile_lines(cli, index, tmp_path):
    lines = ["salt water", "", "   ", "蜂は踊る", "qxqxqx", "salt " * 100_000, "\x1b[31m", "k > n; --where"]
    (tmp_path / "queries").write_text("\n".join(lines))
    found = cli("query", index, "--queries", tmp_path / "queries", "-k", 3, "--json", "--mode", "hybrid")
    assert found.code == 0
    asked = [json.loads(line)["query"] for line in found.out.splitlines()]
    assert asked.count("salt water") == 3
    assert asked.count(("salt " * 100_000).strip()) == 3
    assert "Traceback" not in found.err


def test_more_answers_than_rows(cli, index):
    found = cli("query", index, "salt", "-k", 100_000, "--json", "--mode", "dense")
    with wordpipe.open(index) as opened:
        assert len(found.out.splitlines()) == opened.index.ntotal


def test_one_bad_expression_ends_no_batch(cli, built, tmp_path):
    (tmp_path / "queries").write_text("water\n- - +\nsalt\n")
    found = cli("query", built / "words", "--queries", tmp_path / "queries", "-k", 1, "--json")
    assert [json.loads(line)["query"] for line in found.out.splitlines()] == ["water", "salt"]
    assert "skipped:" in found.err


def test_duplicates_are_told_in_groups(cli, built, tmp_path):
    (tmp_path / "notes.txt").write_text("Salt in the sea.\n\nBees can dance.\n\nSalt in a sea!\n\nWater for the wheel.")
    wordpipe.embed(built / "words", tmp_path / "notes.txt", output=tmp_path / "sentences")
    found = cli("duplicates", tmp_path / "sentences", "--threshold", 0.9999)
    assert found.code == 0
    assert "4 rows" in found.err
    told = json.loads(cli("duplicates", tmp_path / "sentences", "--threshold", -1, "--json").out)
    assert told["rows_in_groups"] == told["rows"] == 4
    assert told["pairs"] == 6
    assert told["exact"]
    assert [row["cosine"] <= 1 for row in told["shown"][0]] == [True] * 4
    assert cli("duplicates", tmp_path / "sentences", "--threshold", 3).code == 2
    assert cli("duplicates", built / "words").code == 4
