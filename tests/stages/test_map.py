import json
import sys
import types

import numpy as np
import pytest

import wordpipe
from tests.support.map_page import Page
from wordpipe import RunOptions
from wordpipe.artifacts import words_schema
from wordpipe.errors import ConfigError, InputError
from wordpipe.runtime import Progress
from wordpipe.settings import Settings
from wordpipe.stages import open_job
from wordpipe.stages.examine import map as stage
from wordpipe.words import WordVectors

N, DIM = 120, 8


def table_of_words(seed=0):
    """Words w0, w1, …, the commonest first; the vector of w5 is zero."""
    vectors = np.random.default_rng(seed).normal(size=(N, DIM)).astype(np.float32)
    vectors[5] = 0
    return WordVectors([f"w{row}" for row in range(N)], np.arange(N, dtype=np.int64)[::-1] + 3, vectors)


@pytest.fixture
def words(tmp_path):
    table = table_of_words()
    with open_job("words", tmp_path / "words", Settings(), None) as job:
        with job.table("words", words_schema(DIM)) as writer:
            for batch in table.to_batches():
                writer.write(batch)
        job.facts |= {"dim": DIM, "unit": "word", "keep_case": False}
    return tmp_path / "words"


def test_an_index_is_a_map_of_its_texts(records, cli, tmp_path):
    out = tmp_path / "texts.html"
    made = json.loads(cli("map", records, "-o", out, "--layout", "pca", "--json").out)
    assert (made["texts"], made["layout"], made["bytes"]) == (40, "pca", out.stat().st_size)
    data = Page(out.read_bytes()).data
    with wordpipe.open(records) as opened:
        rows = opened.batches(["title", "text"]).read_all().to_pylist()
    assert data["words"] == [one["title"] for one in rows]
    assert [one.split("\n")[1] for one in data["texts"]["beginnings"]] == [one["text"] for one in rows]
    fields = [one["name"] for one in data["texts"]["colourings"]]
    assert fields == ["groups", "lang", "year", "share", "done"]  # not a list, and no source, as there is one
    some = wordpipe.map(records, out, n_words=7, layout="pca")
    assert some["texts"] == 7
    assert "A map of 7 of 40 texts" in out.read_text()


def test_the_work_is_said_at_its_beginning_and_its_end_without_a_terminal(records, words, cli, tmp_path):
    for given, what in ((records, "40 texts"), (words, f"{N - 1} words")):
        *before, last = cli("map", given, "-o", tmp_path / f"{what[0]}.html", "--layout", "pca").err.splitlines()
        assert f"drawing a map of {what} by PCA" in before
        assert last.startswith("PCA map: ")
        assert not cli("map", given, "-o", tmp_path / f"{what[0]}.html", "--layout", "pca", "--force", "-q").err


@pytest.mark.parametrize(
    ("given", "said"),
    [({"near": "salt"}, "cannot have"), ({"n_words": 2}, "3 to 100000"), ({"n_words": 100_001}, "3 to 100000")],
)
def test_what_a_map_of_texts_cannot_have_is_refused(records, tmp_path, given, said):
    with pytest.raises(ConfigError, match=said):
        wordpipe.map(records, tmp_path / "texts.html", **given)


def test_an_index_without_texts_or_vectors_has_no_map(records, built, tmp_path):
    wordpipe.index(built / "words", output=tmp_path / "of_words")
    with pytest.raises(ConfigError, match="an index of words has no texts"):
        wordpipe.map(tmp_path / "of_words", tmp_path / "m.html", layout="pca")
    wordpipe.index(records.parent / "corpus", output=tmp_path / "plain")
    with pytest.raises(ConfigError, match="words alone"):
        wordpipe.map(tmp_path / "plain", tmp_path / "m.html", layout="pca")
    assert not (tmp_path / "m.html").exists()


@pytest.fixture
def no_umap(monkeypatch):
    monkeypatch.setattr(stage, "has_umap", lambda: False)


@pytest.fixture
def false_umap(monkeypatch):
    """A UMAP that puts the points in a row, by a library that warns as the real one does."""
    asked = {}

    class UMAP:
        def __init__(self, **settings):
            import warnings

            warnings.warn("n_jobs value 1 overridden", stacklevel=1)
            asked.update(settings)

        def fit_transform(self, points):
            return np.stack([np.arange(len(points)), np.zeros(len(points))], axis=1).astype(np.float32)

    module = types.ModuleType("umap")
    module.UMAP = UMAP
    monkeypatch.setitem(sys.modules, "umap", module)
    monkeypatch.setattr(stage, "has_umap", lambda: True)
    return asked


def test_the_commonest_words_are_shown_and_what_is_left_out_is_said(words, tmp_path):
    notes = []
    made = wordpipe.map(
        words,
        tmp_path / "map.html",
        n_words=50,
        layout="pca",
        run=RunOptions(report=lambda one: notes.append(one.note)),
    )
    page = (tmp_path / "map.html").read_bytes()
    kept = made.pop("neighbours_kept")
    assert made == {
        "path": str(tmp_path / "map.html"), "words": 49, "layout": "pca", "bytes": len(page), "left_out": {"no_direction": 1},
    }  # fmt: skip
    data = Page(page).data
    assert data["words"] == [f"w{row}" for row in range(50) if row != 5]
    assert data["ranks"] == [row for row in range(50) if row != 5]
    assert data["counts"] == [N + 2 - row for row in range(50) if row != 5]
    assert f"A share of {kept:.2f} of the" in " ".join(Page(page).texts_of("p"))
    assert "words left out: no direction 1" in notes


def test_the_same_words_give_the_same_bytes(words, tmp_path):
    for name in ("a", "b"):
        wordpipe.map(words, tmp_path / name, layout="pca")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_words_around_a_word_are_the_nearest_of_the_table(words, tmp_path):
    made = wordpipe.map(words, tmp_path / "map.html", near="W7", n_words=20, layout="pca")  # found in lower case
    data = Page((tmp_path / "map.html").read_bytes()).data
    near = [one.word for one in table_of_words().neighbours(["w7"], k=19)]
    assert set(data["words"]) == {"w7", *near}
    assert data["ranks"] == sorted(data["ranks"])
    assert data["words"][data["chosen"]] == "w7"
    assert made["words"] == 20


def test_only_the_words_of_a_list(words, tmp_path):
    listed = tmp_path / "list.txt"
    listed.write_text("\ufeffw90\n\n w3 \nw5\nnever\nw3\nw1\nW8\n", encoding="utf-8")
    made = wordpipe.map(words, tmp_path / "map.html", only=listed, layout="pca")
    assert Page((tmp_path / "map.html").read_bytes()).data["words"] == ["w1", "w3", "w8", "w90"]
    assert made["left_out"] == {"unknown": 1, "repeated": 1, "no_direction": 1}
    made = wordpipe.map(words, tmp_path / "map.html", only=listed, layout="pca", n_words=4)
    assert Page((tmp_path / "map.html").read_bytes()).data["words"] == ["w1", "w3", "w8"]
    assert made["left_out"] == {"unknown": 1, "repeated": 1, "beyond_the_limit": 1, "no_direction": 1}


def test_umap_is_given_the_true_neighbours_and_a_seed(words, tmp_path, false_umap):
    made = wordpipe.map(words, tmp_path / "map.html")
    assert made["layout"] == "umap"
    assert false_umap["random_state"] == 0
    rows, distances = false_umap["precomputed_knn"]
    table, known = table_of_words(), [row for row in range(N) if row != 5]
    for own in (0, 40, 118):
        near = table.neighbours([table.words[known[own]]], k=14)
        assert [known[row] for row in rows[own]] == [known[own], *(one.row for one in near)]
        assert distances[own] == pytest.approx([0, *(1 - one.score for one in near)], abs=1e-5)
    assert sorted(Page((tmp_path / "map.html").read_bytes()).data["places"][:, 0].tolist())[-1] == 65_535


def test_without_umap_auto_is_pca_and_says_how_to_get_it(words, tmp_path, no_umap):
    reported: list[Progress] = []
    assert wordpipe.map(words, tmp_path / "map.html", run=RunOptions(report=reported.append))["layout"] == "pca"
    assert any(one.note and "pip install" in one.note for one in reported)
    with pytest.raises(ConfigError, match="not installed") as caught:
        wordpipe.map(words, tmp_path / "other.html", layout="umap")
    assert "pip install" in str(caught.value.hint)
    assert not (tmp_path / "other.html").exists()


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        ({"near": "w7x"}, InputError, "'w7x' has no vector"),
        ({"near": "w5"}, InputError, "is zero, so the word has no neighbours"),
        ({"near": "w7", "only": "list.txt"}, ConfigError, "not both"),
        ({"only": "nowhere.txt"}, InputError, "the file does not exist"),
        ({"only": "unknown.txt"}, InputError, "no word of the list"),
        ({"only": "empty.txt"}, InputError, "no word of the list"),
        ({"only": "two.txt"}, InputError, "too few words"),
        ({"only": "latin.txt"}, InputError, "not UTF-8; got byte 1"),
        ({"n_words": 2}, ConfigError, "got 2; expected 3 to 50000"),
        ({"n_words": 50_001}, ConfigError, "got 50001"),
        ({"groups": 0}, ConfigError, "expected 1 to 12"),
        ({"groups": 13}, ConfigError, "expected 1 to 12"),
        ({"layout": "tsne"}, ConfigError, "expected auto, umap, pca"),
    ],
)
def test_what_cannot_be_drawn_is_refused_and_nothing_is_written(settings, kind, message, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, data in (("unknown", b"x\ny\n"), ("empty", b"\n\n"), ("two", b"w1\nw2\n"), ("latin", b"w\xe9\n")):
        (tmp_path / f"{name}.txt").write_bytes(data)
    with pytest.raises(kind, match=message):
        wordpipe.map(words, tmp_path / "map.html", **{"layout": "pca", **settings})
    assert not list(tmp_path.glob("*map.html*"))


def test_an_unknown_word_is_answered_with_suggestions(words, tmp_path, cli):
    result = cli("map", words, "--near", "ww12", "-o", tmp_path / "map.html", "--layout", "pca")
    assert result.code == 3
    assert "did you mean w12" in result.err


def test_a_map_is_a_file(words, tmp_path, cli):
    result = cli("map", words, "-o", tmp_path)
    assert result.code == 2
    assert "give a file name with -o" in result.err
    assert cli("map", words, "-o", "-").code == 2


def test_the_command_says_what_it_wrote(words, tmp_path, cli):
    target = tmp_path / "maps" / "map.html"
    result = cli("map", words, "-o", target, "--layout", "pca", "--words", "40")
    assert result.code == 0
    assert f"39 words → {target}" in result.err
    assert "PCA map: on average, " in result.err
    result = cli("map", words, "-o", target, "--layout", "pca", "--json", "-q", "--force")
    made = json.loads(result.out)
    assert result.err == ""
    assert made["words"] == N - 1
    assert made["bytes"] == target.stat().st_size
