"""`wordpipe query` and `wordpipe duplicates` from the shell."""

import json
import subprocess
import sys
from itertools import cycle
from shutil import copytree, rmtree

import numpy as np
import pytest

import wordpipe
from tests.support.made_vectors import made_sentences, made_words
from tests.support.terminal import in_terminal
from wordpipe.cli.input_lines import batches


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
    assert len(lines) == 2
    score, text, place, own_id, why = lines[0].split("\t")
    assert (float(score) > 0, bool(text), place.partition(":")[0], own_id) == (
        True,
        True,
        "data/sample/handbook.txt",
        "",
    )
    assert "(adds 0." in why
    assert "salt" in why
    assert "early answers 0." in why
    once = cli("query", index, "salt water", "-k", 2, "--explain", "--mode", "hybrid", "--weight", 0.5, "--feedback", 0)
    assert "early answers" not in once.out
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
        (["--weight", "0.5", "--mode", "dense"], 2, "weight needs mode = hybrid"),
        (["--feedback", "2", "--mode", "dense"], 2, "feedback needs mode = hybrid or lexical"),
        (["--where", "line < 0"], 1, "nothing was found: the condition is true for 0 of "),
        (["--mode", "lexical", "--min-score", "1000"], 1, "nothing was found"),
        (["--mode", "dense", "--min-score", "2"], 1, "--mode lexical"),
        (["--limit", "3"], 2, "did you mean -k?"),
        (
            ["--where", "line > 1 order by line"],
            2,
            "hint: hits are sorted by score; for another order, sort the output of --json",
        ),
        (["--where", "line > 1", "--where", "line < 2"], 1, "the condition is true for 0 of "),
        (["--where", "line < 1 or line > 0", "--where", "line < 1"], 1, "the condition is true for 0 of "),
    ],
)
def test_what_does_not_fit_is_told_once(cli, index, options, code, message):
    found = cli("query", index, "salt", *options)
    assert found.code == code
    assert message in found.err
    assert "Traceback" not in found.err


def test_a_question_without_an_index_names_the_one_in_run(cli, index, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = cli("query", "why tides")
    assert asked.code == 4
    assert (
        "hint: write the index before the question: wordpipe query INDEX 'why tides'; to make an index: wordpipe index"
        in asked.err
    )
    copytree(index, tmp_path / "run" / "found")
    copytree(index.parent / "sentences", tmp_path / "run" / "sentences")
    (tmp_path / "run" / "broken").mkdir()
    (tmp_path / "run" / "broken" / "manifest.json").write_text("{")
    for words in (["why tides"], ["why", "tides"], ["run/fuond", "why tides"]):
        assert cli("query", *words).err.endswith("wordpipe query run/found 'why tides'\n")
    assert "wordpipe query run/found 'salt " in cli("query", "salt " * 1000).err
    assert cli("query", "run/fuond").err.endswith('wordpipe query run/found "your question"\n')
    for name in ("found", "index"):
        assert cli("query", name, "tides").err.endswith("hint: wordpipe query run/found tides\n")
    copytree(index, tmp_path / "run" / "other")
    assert cli("query", "other", "tides").err.endswith("hint: wordpipe query run/other tides\n")
    assert cli("query", "why tides").err.endswith("wordpipe query INDEX 'why tides'\n")
    rmtree(tmp_path / "run")
    (tmp_path / "wordpipe.toml").touch()
    for words in (["query", "run/index"], ["query", "run/index", "why tides"], ["show", "run/index"]):
        assert "the artifact does not exist\n  hint: " in (said := cli(*words).err)
        assert "wordpipe run" in said


def test_a_file_of_queries_with_hostile_lines(cli, index, tmp_path):
    lines = ["salt water", "", "   ", "蜂は踊る", "qxqxqx", "salt " * 100_000, "\x1b[31m", "k > n; --where"]
    (tmp_path / "queries").write_text("\n".join(lines))
    found = cli("query", index, "--queries", tmp_path / "queries", "-k", 3, "--json", "--mode", "hybrid")
    assert found.code == 0
    told = [json.loads(line) for line in found.out.splitlines()]
    asked = [line["query"] for line in told if "rank" in line]
    assert asked.count("salt water") == 3
    assert asked.count(("salt " * 100_000).strip()) == 3
    ends = {line["query"]: line["hits"] for line in told if "rank" not in line}
    assert [*ends] == [*dict.fromkeys(line.strip() for line in lines)]
    assert ends == {query: asked.count(query) for query in ends}
    assert ends["qxqxqx"] == 0
    assert "Traceback" not in found.err


def test_more_answers_than_rows(cli, index):
    found = cli("query", index, "salt", "-k", 100_000, "--json", "--mode", "dense")
    with wordpipe.open(index) as opened:
        assert len(found.out.splitlines()) == opened.index.ntotal


def test_one_bad_expression_ends_no_batch(cli, built, tmp_path):
    (tmp_path / "queries").write_text("water\n- - +\nsalt\n")
    found = cli("query", built / "words", "--queries", tmp_path / "queries", "-k", 1, "--json")
    told = [json.loads(line) for line in found.out.splitlines()]
    assert [line["query"] for line in told if "rank" in line] == ["water", "salt"]
    assert [line for line in told if "rank" not in line] == [
        {"query": "water", "hits": 1}, {"query": "- - +", "hits": 0}, {"query": "salt", "hits": 1},
    ]  # fmt: skip
    assert "skipped:" in found.err


def test_words_without_a_vector_are_looked_up(cli, built, tmp_path):
    texts = [
        "Bees dance.",
        "Salt and water in the sea.",
        "The zyzzyva is a weevil.",
        "Zyzzyvas and vuvuzelas in the sea.",
    ]
    (tmp_path / "notes.txt").write_text("\n\n".join(texts))
    wordpipe.embed(built / "words", tmp_path / "notes.txt", output=tmp_path / "sentences")
    wordpipe.index(tmp_path / "sentences", output=tmp_path / "index")
    found = cli("query", tmp_path / "index", "zyzzyva")
    assert found.code == 0
    assert found.err == "no vector for: zyzzyva; the search was done only by words\n"
    assert found.out == cli("query", tmp_path / "index", "zyzzyva", "--mode", "lexical").out
    mixed = cli("query", tmp_path / "index", "zyzzyva vuvuzela water qxqxq")
    assert mixed.err == (
        "no vector for: zyzzyva, vuvuzela; the search was done by vectors and by words\nunknown: qxqxq\n"
    )
    assert cli("query", tmp_path / "index", "zyzzyva", "-q").err == ""
    dense = cli("query", tmp_path / "index", "zyzzyva water", "--mode", "dense")
    assert dense.err == "no vector for: zyzzyva\n"  # it is not unknown: the texts have it
    mixed = cli("query", tmp_path / "index", "zyzzyva water qxqxq", "--mode", "hybrid", "--min-score", 0)
    assert mixed.err == "unknown: qxqxq\n"
    for mode, why in (
        ("hybrid", "none of these rows contains the words"),
        ("auto", "none of these rows contains the words"),
        ("dense", "the query has no vector"),
    ):
        none = cli("query", tmp_path / "index", "zyzzyva", "--where", "text like 'Bees%'", "--mode", mode)
        assert f"the condition is true for 1 of 4 rows, and {why}" in none.err


def test_an_id_finds_its_row_and_a_condition_alone_lists_its_rows(cli, tmp_path):
    notes = [{"id": f"W-{n}", "text": f"Salt in the sea {'and bread ' * n}", "n": n} for n in range(30)]
    (tmp_path / "notes.jsonl").write_text("".join(json.dumps(note) + "\n" for note in notes))
    wordpipe.ingest(tmp_path / "notes.jsonl", output=tmp_path / "corpus")
    words = made_words(tmp_path / "words", np.eye(5, dtype=np.float32), [9] * 5, ["salt", "sea", "bread", "the", "and"])
    wordpipe.embed(words, tmp_path / "corpus", output=tmp_path / "s", unit="document")
    index = wordpipe.index(tmp_path / "s", output=tmp_path / "index").path
    asked = cli("query", index, "W-21")
    assert (asked.code, asked.out.rstrip().split("\t")[-1]) == (0, "W-21")
    assert asked.err == "this is the record with the id W-21; --exact searches for the words\n"
    asked = cli("query", index, "W-21", "--exact")  # a word of its own
    assert (asked.code, asked.out.rstrip().split("\t")[-1], asked.out.count("\n")) == (0, "W-21", 1)
    asked = cli("query", index, "W-21", "--exact", "--mode", "dense")
    assert asked.code == 1
    assert asked.err.endswith("""hint: a record has this id; to see the record, use --where "id = 'W-21'"\n""")
    assert "it is the id" not in cli("query", index, "W-'99").err
    alone = cli("query", index, "--where", "id = 'W-21'", "--json", piped="")
    assert [json.loads(line)["id"] for line in alone.out.splitlines() if "rank" in line] == ["W-21"]
    some = cli("query", index, "--where", "n > 4", "-k", 3, piped="")
    assert [line.split("\t")[-1] for line in some.out.splitlines()] == ["W-5", "W-6", "W-7"]
    assert some.err == "shown: 3 of 25 rows that match the condition; to see more rows, use a larger -k, or --offset\n"
    assert cli("query", index, "--where", "n > 40", piped="").code == 1
    listed = cli("query", index, "--sort", "n:desc", "-k", 2, piped="")
    assert [line.split("\t")[-1] for line in listed.out.splitlines()] == ["W-29", "W-28"]
    assert listed.err == "shown: 2 of 30 rows; to see more rows, use a larger -k, or --offset\n"
    assert cli("query", index, " ", "--sort", "n:desc", "-k", 2).out == listed.out
    asked = cli("query", index, "--sort", "n:desc", "-k", 2, piped="salt\n").out
    assert [line.split("\t")[0::4] for line in asked.splitlines()] == [["salt", "W-29"], ["salt", "W-28"]]
    seen = in_terminal("query", index, "--where", "n > 28", NO_COLOR="1")
    assert "notes.jsonl:30 · id W-29" in seen.text
    assert cli("query", index, "--where", "n > 4", "-k", 3, piped="sea\n").out.startswith("sea\t")


def test_a_word_that_no_text_has_is_always_told(cli, index):
    found = cli("query", index, "salt watre", "-k", 1, "--mode", "lexical")
    assert found.code == 0
    assert found.err == "searched for water instead of watre, which no text contains; --exact searches for watre\n"
    exact = cli("query", index, "salt watre", "-k", 1, "--mode", "lexical", "--exact")
    assert exact.err.startswith("unknown: watre (did you mean water")
    assert cli("query", index, "salt water", "-k", 1, "--mode", "lexical").err == ""


@pytest.mark.parametrize("options", [["--json"], []])
def test_one_query_has_no_end_line_and_people_get_none(cli, index, tmp_path, options):
    (tmp_path / "queries").write_text("salt\nwater\n")
    alone = cli("query", index, "salt", "-k", 2, "--mode", "dense", *options)
    assert len(alone.out.splitlines()) == 2
    many = cli("query", index, "--queries", tmp_path / "queries", "-k", 2, "--mode", "dense", *options)
    assert ('"hits": 2}' in many.out) == bool(options)
    assert len(many.out.splitlines()) == (6 if options else 4)  # of each query an end for programs
    if not options:
        assert [line.split("\t")[0] for line in many.out.splitlines()] == ["salt", "salt", "water", "water"]
        assert [line.split("\t", 1)[1] for line in many.out.splitlines()[:2]] == alone.out.splitlines()


def test_a_large_group_of_duplicates_is_cut_and_called_what_it_is(cli, tmp_path):
    vectors_ND = np.concatenate([np.tile(np.eye(4, dtype=np.float32)[0], (30, 1)), np.eye(4, dtype=np.float32)[1:]])
    sentences = made_sentences(tmp_path / "sentences", vectors_ND, [f"text {row}" for row in range(33)])
    found = cli("duplicates", sentences)
    assert found.out.splitlines()[0] == "# group 1: 30 texts"
    assert len(found.out.splitlines()) == 12
    assert found.out.splitlines()[-1] == "… 20 more"
    assert (
        "number of groups: 1, with 30 of 33 rows; number of row pairs with a cosine of at least 0.95: 435" in found.err
    )
    assert f"wordpipe doctor {sentences}" in found.err
    told = json.loads(cli("duplicates", sentences, "--json").out)
    assert len(told["shown"][0]) == told["largest"] == 30
    some = made_sentences(tmp_path / "some", vectors_ND[18:], [f"text {row}" for row in range(15)])
    assert "doctor" not in cli("duplicates", some).err


def test_duplicates_are_shown_as_answers_are(cli, tmp_path):
    notes = [
        {"id": f"n-{n}", "title": f"The {n}. note on salt", "text": "Salt in the sea, of which " * 9} for n in range(40)
    ]
    (tmp_path / "notes.jsonl").write_text("".join(json.dumps(note) + "\n" for note in notes))
    wordpipe.ingest(tmp_path / "notes.jsonl", output=tmp_path / "corpus")
    words = made_words(tmp_path / "words", np.eye(5, dtype=np.float32), [9] * 5, ["salt", "sea", "in", "the", "which"])
    sentences = wordpipe.embed(words, tmp_path / "corpus", output=tmp_path / "s", unit="document").path
    piped = cli("duplicates", sentences).out.splitlines()
    assert list(piped[1].split("\t"))[::2] == ["1.0000", "notes.jsonl:1"]
    assert piped[1].split("\t")[1].startswith("The 0. note on salt · Salt in the sea")
    assert piped[1].endswith("\tn-0")
    for columns in (60, 80):
        seen = in_terminal("duplicates", sentences, "-q", columns=columns, NO_COLOR="1").text.splitlines()
        assert max(map(len, seen)) <= columns
        assert "1.0000  The 0. note on salt  notes.jsonl:1 · id n-0" in seen


def test_many_groups_that_chain_are_named(cli, tmp_path):
    vectors_ND = np.repeat(np.eye(20, dtype=np.float32), 2, axis=0)
    made = made_sentences(tmp_path / "pairs", vectors_ND, [f"text {row}" for row in range(40)])
    told = (
        "100% of the rows are in groups. If A is similar to B, and B is similar to C, then A, B and C are in one group. "
        "To get smaller groups, use --threshold 0.99\n"
    )
    assert told in cli("duplicates", made).err


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


@pytest.mark.parametrize("count", [0, 1, 7, 20])
@pytest.mark.parametrize("pattern", [[True], [False], [True, False, True]])
def test_no_line_is_lost_or_moved(count, pattern):
    lines, answers = [f"line {number}" for number in range(count)], cycle(pattern)
    found = list(batches(iter(lines), 3, lambda: next(answers)))
    assert [line for some in found for line in some] == lines
    assert all(0 < len(some) <= 3 for some in found)
    if pattern == [False]:
        assert all(len(some) == 1 for some in found)


def test_a_shell_gets_its_answer_before_it_asks_on(built):
    """The command keeps running as a coprocess."""
    command = [sys.executable, "-m", "wordpipe", "query", str(built / "words"), "-k", "1", "--json", "-q"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as asked:
        assert asked.stdin is not None
        assert asked.stdout is not None
        for word in ("water", "salt"):
            asked.stdin.write(f"{word}\n")
            asked.stdin.flush()
            assert f'"query": "{word}"' in asked.stdout.readline()
            assert asked.stdout.readline() == f'{{"query": "{word}", "hits": 1}}\n'
        asked.stdin.write("qxqxqx\n")
        asked.stdin.flush()
        assert asked.stdout.readline() == '{"query": "qxqxqx", "hits": 0}\n'
        asked.stdin.close()
        assert asked.wait(20) == 0


@pytest.fixture(scope="module")
def words(built, tmp_path_factory):
    folder = tmp_path_factory.mktemp("guesses") / "words"
    settings = {"min_n": 3, "max_n": 4, "min_count": 5, "dim": 8, "epochs": 1, "threads": 1, "backend": "native"}
    wordpipe.train_word2vec(built / "tokens", output=folder, **settings)
    return folder


def test_an_unknown_word_is_answered_and_the_guess_is_named(cli, words):
    found = cli("query", words, "watery", "-k", 3, "--json")
    assert found.code == 0
    assert found.err.strip() == "vectors computed from the letters of unknown words: watery"
    hits = [json.loads(line) for line in found.out.splitlines()]
    with wordpipe.open(words) as table:
        guess_D = table.table.vector_of("watery")
        lengths_V = np.linalg.norm(table.table.vectors, axis=1) * np.linalg.norm(guess_D)
        nearest = np.argsort(-(table.table.vectors @ guess_D) / lengths_V)[:3]
    assert [hit["row"] for hit in hits] == nearest.tolist()


def test_several_guesses_and_a_word_of_no_known_letters(cli, words):
    found = cli("query", words, "watery sandy qxqxq", "-k", 3)
    assert found.code == 0
    assert "vectors computed from the letters of unknown words: watery, sandy" in found.err
    assert "unknown: qxqxq" in found.err
    assert cli("query", words, "qxqxq").code == 1
    assert cli("query", words, "watery", "-q").err == ""


def test_known_words_are_not_guessed(cli, words):
    found = cli("query", words, "water", "-k", 2)
    assert found.code == 0
    assert found.err == ""
