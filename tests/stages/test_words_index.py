"""`wordpipe index CORPUS`: an index of words alone, and everything that an index does without vectors."""

import subprocess
import sys

import pytest

import wordpipe
from wordpipe.artifacts import Artifact, read_batches
from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.stages import index_in, open_passages

HOW = "wordpipe embed MODEL CORPUS -o SENTENCES, then wordpipe index SENTENCES -o INDEX"


def rows_of(path, table):
    with Artifact(path) as artifact:
        rows = [row for batch in read_batches(artifact, table) for row in batch.to_pylist()]
    return [{name: value for name, value in row.items() if name != "vector"} for row in rows]


@pytest.fixture(scope="module")
def index(built, tmp_path_factory):
    """An index of the words of the handbook."""
    folder = tmp_path_factory.mktemp("words-index")
    wordpipe.index(built / "corpus", output=folder / "words-index", unit="document")
    return folder / "words-index"


@pytest.mark.parametrize(
    "settings",
    [
        {"unit": "sentence"}, {"unit": "document"}, {"unit": "window"}, {"unit": "window", "window": 20, "overlap": 8},
        {"unit": "window", "window": 3, "with_title": False},
    ],
)  # fmt: skip
def test_the_rows_are_those_that_embed_makes(settings, built, tmp_path):
    wordpipe.embed(built / "words", built / "corpus", output=tmp_path / "s", threads=1, **settings)
    made = wordpipe.index(built / "corpus", output=tmp_path / "i", **settings)
    rows = rows_of(tmp_path / "i", "index")
    assert rows == rows_of(tmp_path / "s", "sentences")
    assert made.counts == {"texts": len(rows)}
    assert wordpipe.verify(tmp_path / "i")["ok"]


def test_records_of_one_sentence_and_of_many_are_cut_alike(built, tmp_path):
    texts = ["One.", " ".join(f"This is sentence {n} of a long text." for n in range(60)), "Two. Three.", "Four"]
    wordpipe.ingest([{"id": n, "text": text} for n, text in enumerate(texts)], output=tmp_path / "c", valid=0)
    settings = {"unit": "window", "window": 40, "overlap": 10}
    wordpipe.embed(built / "words", tmp_path / "c", output=tmp_path / "s", threads=1, **settings)
    wordpipe.index(tmp_path / "c", output=tmp_path / "i", **settings)
    rows = rows_of(tmp_path / "i", "index")
    assert rows == rows_of(tmp_path / "s", "sentences")
    assert [row["record_id"] for row in rows if row["record_id"] != 1] == [0, 2, 3]
    assert len(rows) > 10


def test_words_answer_as_the_words_of_an_index_with_vectors_do(index, built):
    with wordpipe.open(index, "index") as alone, wordpipe.open(built / "index") as both:
        assert not alone.has_vectors
        assert repr(alone).endswith("165 rows, words alone>")
        for asked in ({}, {"where": "line > 100"}, {"per_document": True}, {"feedback": 5}, {"explain": True}):
            found = alone.query("why does the sea have tides", 5, **asked)
            assert found == both.query("why does the sea have tides", 5, **{"mode": "lexical", **asked})
            assert found
        assert alone.query("", 2, where="line > 100") == both.query("", 2, where="line > 100")
        assert alone.query_all(["sea", "qxqxqx"])[1].hits == []
        assert alone.query_all(["sea"])[0].mode == "lexical"


@pytest.mark.parametrize("asked", [{"mode": "dense"}, {"mode": "hybrid"}, {"weight": 0.5}])
def test_what_needs_vectors_is_refused_with_the_way_to_some(asked, index):
    with pytest.raises(ConfigError, match="has no vectors: it is searched by words alone") as caught:
        wordpipe.query(index, "sea", **asked)
    assert HOW in str(caught.value.hint)
    with wordpipe.open(index) as opened:
        for call in (lambda: opened.similar(3), lambda: opened.encode(["sea"]), lambda: opened.index):
            with pytest.raises(ConfigError, match="has no vectors"):
                call()


@pytest.mark.parametrize(
    "command",
    [
        ["doctor", "{}"], ["duplicates", "{}"], ["export", "{}", "--to", "npy", "-o", "x.npy"],
        ["export", "{}", "--to", "sentence-transformers", "-o", "x"], ["query", "{}", "sea", "--mode", "dense"],
        ["map", "{}", "-o", "x"],
    ],
)  # fmt: skip
def test_commands_for_vectors_say_that_there_are_none(command, index, cli, here):
    found = cli(*(one.format(index) for one in command))
    assert found.code == 2
    assert "this index has no vectors" in found.err
    assert HOW in found.err
    assert [*here.iterdir()] == []


@pytest.mark.parametrize("command", [["cluster", "{}", "-o", "x"], ["tokenize", "{}", "-o", "x"]])
def test_other_commands_refuse_it_by_its_kind(command, index, cli, here):
    found = cli(*(one.format(index) for one in command))
    assert found.code == 4
    assert "got index" in found.err
    assert not (here / "x").exists()


def test_show_report_and_a_reader_take_it(index, cli, here):
    shown = cli("show", index).out
    assert "vector" not in shown
    assert "texts                    165" in shown
    assert cli("report", index.parent, "-o", "report.html").code == 0
    assert "words-index" in (here / "report.html").read_text()
    with open_passages(index=index, passages=None, read=3, verify=True) as passages:
        assert len([*passages("why does the sea have tides")]) == 3


def test_evaluation_asks_it_by_words(index, here):
    title = rows_of(index, "index")[0]["title"]
    (here / "questions.tsv").write_text(f"about {title}\t{title}\n")
    found = wordpipe.evaluate_search(index, "questions.tsv", draws=20)
    assert [system["system"] for system in found["systems"]] == ["words", "words_twice"]
    assert found["auto"] == "lexical"


def test_an_update_is_a_fresh_build(built, tmp_path, cli):
    lines = [{"id": str(n), "text": f"Note {n} says that bread needs salt and time, and {word}."} for n, word in enumerate(
        ["water", "yeast", "flour", "butter"] * 10
    )]  # fmt: skip
    wordpipe.ingest(lines, output=tmp_path / "c", valid=0)
    wordpipe.index(tmp_path / "c", output=tmp_path / "i", language="english")
    later = [*lines[3:], {"id": "new", "text": "A new note about honey."}]
    wordpipe.ingest(later, output=tmp_path / "c", valid=0)
    said = cli("index", tmp_path / "c", "-o", tmp_path / "i", "--update", "--language", "english")
    assert said.code == 0
    assert "a new index is built" not in said.err
    wordpipe.index(tmp_path / "c", output=tmp_path / "j", language="english")
    with Artifact(tmp_path / "i") as one, Artifact(tmp_path / "j") as other:
        assert {name: one.manifest.counts[name] for name in ("kept", "added", "removed")} == {
            "kept": 37, "added": 1, "removed": 3,
        }  # fmt: skip
        assert [*map(one.read, one.names("index-"))] == [*map(other.read, other.names("index-"))]
        for name in ("postings", "texts", "letters", "lengths", "text_terms"):
            assert one.read(f"lexical/{name}.npy") == other.read(f"lexical/{name}.npy")
    assert [hit["id"] for hit in wordpipe.query(tmp_path / "i", "honey")] == ["new"]


def test_an_index_with_vectors_takes_its_place_and_back(built, tmp_path, cli):
    assert cli("index", built / "corpus", "-o", tmp_path / "i").code == 0
    said = cli("index", built / "sentences", "-o", tmp_path / "i", "--update")
    assert "the existing index has no vectors, so a new index is built" in said.err
    with wordpipe.open(tmp_path / "i") as opened:
        assert opened.has_vectors
    said = cli("index", built / "corpus", "-o", tmp_path / "i", "--update")
    assert "the existing index has vectors, but the new index has none, so a new index is built" in said.err
    assert wordpipe.query(tmp_path / "i", "sea")


def test_settings_that_would_do_nothing_are_refused(built, tmp_path, cli):
    found = cli("index", built / "corpus", "-o", tmp_path / "i", "--type", "flat")
    assert found.code == 2
    assert "this setting is for vectors" in found.err
    found = cli("index", built / "sentences", "-o", tmp_path / "i", "--unit", "window")
    assert found.code == 2
    assert "these rows are there already" in found.err
    assert not (tmp_path / "i").exists()


def test_it_is_served(index, serving):
    client = serving(index)
    about = client.get("/about").json()["artifacts"][0]
    assert (about["dim"], about["rows"]) == (0, 165)
    assert about["can"] == ["search", "rerank"]
    found = client.get("/search", params={"q": "tides of the sea", "format": "json", "passage": 200}).json()
    assert found["mode"] == "lexical"
    assert found["hits"]
    assert {passage["has_vector"] for passage in found["passages"]} == {False}
    assert client.get("/facets", params={"q": "sea"}).json()["rows"] > 0
    for path, asked in (("/similar", {"row": 3}), ("/doctor", {})):
        refused = client.get(path, params=asked)
        assert refused.status_code == 404
        assert "no artifact of this server supports" in refused.text
    dense = client.get("/search", params={"q": "sea", "mode": "dense"})
    assert dense.status_code == 400
    assert "has no vectors" in dense.text


def test_nothing_of_vectors_is_imported(built, tmp_path):
    code = (
        "import sys, wordpipe; wordpipe.index(sys.argv[1], output=sys.argv[2]); "
        "wordpipe.query(sys.argv[2], 'sea'); "
        "print([name for name in ('faiss', 'torch', 'gensim', 'numba') if name in sys.modules])"
    )
    made = subprocess.run(
        [sys.executable, "-c", code, built / "corpus", tmp_path / "i"], capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert made.stdout == "[]\n"


def test_a_command_does_without_pandas_which_can_still_be_imported(built, tmp_path):
    code = (
        "import sys; from wordpipe.cli import run; sys.argv[0] = 'wordpipe'; code = run(); "
        "found = 'pandas' in sys.modules; import pandas; print(code, found, pandas.DataFrame.__name__)"
    )
    command = [sys.executable, "-c", code, "index", built / "corpus", "-o", tmp_path / "i", "-q"]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    assert made.stdout.splitlines()[-1] == "0 False DataFrame"


def test_a_folder_is_asked_by_the_best_index_in_it(index, built, tmp_path, cli, monkeypatch):
    run = tmp_path / "run"
    run.mkdir()
    (run / "words-index").symlink_to(index)
    assert index_in(run) == run / "words-index"
    asked = cli("query", run, "sea", "--json")
    assert f"index: {run / 'words-index'}" in asked.err
    assert len(wordpipe.query(run, "sea")) == len(asked.out.splitlines())
    (run / "found").symlink_to(built / "index")
    (run / "other-words").symlink_to(index)
    assert index_in(run) == run / "found"
    (run / "another").symlink_to(built / "index")
    with pytest.raises(ArtifactError, match="several indexes") as caught:
        wordpipe.query(run, "sea")
    assert f"name one of them: {run / 'another'}" in str(caught.value.hint)
    (run / "index").symlink_to(built / "index")
    assert index_in(run) == run / "index"
    # a project, whose config says where its artifacts are
    (tmp_path / "wordpipe.toml").write_text("")
    assert index_in(tmp_path) == run / "index"
    run.rename(tmp_path / "made")
    (tmp_path / "wordpipe.toml").write_text('workdir = "made"')
    monkeypatch.chdir(tmp_path)
    assert cli("query", ".", "sea", "-q").err == ""
    # what is no folder of indexes stays what it is
    assert index_in(index) == index
    assert cli("query", built.parent, "sea").code == 4


def test_whether_vectors_help_is_one_sentence(built, tmp_path, cli):
    said = cli("index", built / "sentences", "-o", tmp_path / "index").err
    with wordpipe.open(tmp_path / "index") as opened:
        lexical = opened.artifact.manifest.facts["lexical"]
    figures = lexical["measured"]["ndcg_at_10"]
    (line,) = [line for line in said.splitlines() if "vectors help" in line or "vectors do not help" in line]
    assert ("do not help" in line) == (lexical["mode"] == "lexical")
    assert f"nDCG@10 {figures['hybrid']:.2f} by words and vectors" in line
    assert line.endswith(f"({lexical['measured']['queries']} queries: each title must find its text); query uses both")
    # before it a table of the parts, with what each costs
    lines = said.splitlines()
    at = next(number for number, one in enumerate(lines) if one.startswith("search by "))
    assert lines[at].endswith("ms a query")
    seconds = lexical["seconds"]
    for mode, row, parts in (
        ("lexical", lines[at + 1], ["words"]), ("lexical_twice", lines[at + 2], ["words", "feedback"]),
        ("dense", lines[at + 3], ["encoding", "search"]), ("hybrid", lines[at + 4], [*seconds, "search"]),
    ):  # fmt: skip
        assert f" {figures[mode]:.3f} " in row
        assert float(row.split()[-1]) == pytest.approx(1e3 * sum(seconds[part] for part in parts), abs=0.006)
    assert "random vectors" in lines[at + 5]
