"""Judging words artifacts on files and folders of sets."""

import json

import numpy as np
import pytest

import wordpipe
from wordpipe import RunOptions
from wordpipe.artifacts import Artifact, read_batches
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.words import WordVectors, evaluate_analogies, evaluate_similarity, read_set


@pytest.fixture(scope="module")
def table(built):
    with Artifact(built / "words") as artifact:
        return WordVectors.from_batches(read_batches(artifact, "words"))


@pytest.fixture(scope="module")
def sets(table, tmp_path_factory):
    """Sets about words of the table and one that is none, drawn anew; and files that are no sets."""
    folder = tmp_path_factory.mktemp("sets")
    rng = np.random.default_rng()
    words = [*table.words[:60], "xyzzy"]
    for name in ("near.tsv", "more/far.csv"):
        rows = [",".join([*rng.choice(words, 2), str(rng.integers(10))]) for _ in range(50)]
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("xyzzy,xyzzy,5\n" + "\n".join(rows))
    lines = [" ".join(rng.choice(words, 4)) for _ in range(80)]
    (folder / "asked.txt").write_text("\n".join([": family", *lines[:40], ": gram1", "xyzzy is the that", *lines[40:]]))
    (folder / "README.md").write_text("about\n")
    (folder / "LICENSE").write_text("free\n")
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "hidden.txt").write_text("nothing\n")
    return folder


@pytest.mark.parametrize("unknown", ["drop", "zero"])
def test_a_table_is_evaluated_as_its_rows_are(built, table, sets, unknown):
    found = wordpipe.evaluate_words(built / "words", sets, restrict_vocab=50, analogy="cosmul", unknown=unknown)
    (only,) = found["words"]
    assert (only["distinct"], only["dim"], only["unit"]) == (len(table), table.dim, "word")
    asked, far, near = only["sets"]
    for one, path in ((near, sets / "near.tsv"), (far, sets / "more" / "far.csv")):
        expected = evaluate_similarity(table, read_set(path.read_bytes(), ""), unknown=unknown)
        assert one["spearman"] == pytest.approx(expected["spearman"], abs=1e-6)
        assert (one["pairs"], one["known"]) == (51, expected["known"])
        assert one["unknown_words"] == {"count": 1, "first": ["xyzzy"]}
    questions = evaluate_analogies(table, read_set((sets / "asked.txt").read_bytes(), ""), restrict=50, method="cosmul")
    correct, seen = questions["correct"], questions["seen"]
    assert (asked["correct"], asked["seen"], asked["asked"], asked["among"]) == (correct, seen, 81, 50)
    whole = seen if unknown == "drop" else 81
    assert asked["accuracy"] == pytest.approx(correct / whole, abs=1e-6)
    family, grammar = asked["sections"]
    assert ({"name": "family"} | asked["semantic"], {"name": "gram1"} | asked["syntactic"]) == (family, grammar)
    assert family["seen"] + grammar["seen"] == seen
    assert (
        found["metrics"]
        == only["metrics"]
        == {
            "spearman": pytest.approx((near["spearman"] + far["spearman"]) / 2, abs=2e-6),
            "accuracy": asked["accuracy"],
            "spearman/near": near["spearman"],
            "spearman/far": far["spearman"],
            "accuracy/asked": asked["accuracy"],
        }
    )
    assert found["skipped"] == {".md": 1, "LICENSE": 1}
    assert json.loads(json.dumps(found)) == found


def test_all_tables_stand_on_the_same_sets(built, sets, tmp_path):
    wordpipe.train_word2vec(built / "tokens", output=tmp_path / "small", dim=8, min_count=20, epochs=1, threads=1)
    found = wordpipe.evaluate_words([built / "words", tmp_path / "small"], [sets / "near.tsv", sets / "asked.txt"])
    one, other = found["words"]
    assert [part["name"] for part in one["sets"]] == [part["name"] for part in other["sets"]] == ["near", "asked"]
    assert (one["dim"], other["dim"]) == (24, 8)
    assert one["distinct"] > other["distinct"]
    assert found["metrics"] == one["metrics"]
    again = wordpipe.evaluate_words(tmp_path / "small", [sets / "near.tsv", sets / "asked.txt", sets / "near.tsv"])
    assert again["words"] == [other]


def test_files_of_one_name_are_named_by_their_paths(built, sets, tmp_path):
    (tmp_path / "near.txt").write_bytes((sets / "near.tsv").read_bytes())
    found = wordpipe.evaluate_words(built / "words", [sets / "near.tsv", tmp_path / "near.txt"])
    assert [one["name"] for one in found["words"][0]["sets"]] == [str(sets / "near.tsv"), str(tmp_path / "near.txt")]
    figures = [value for name, value in found["metrics"].items() if name.startswith("spearman/")]
    assert len(figures) == 2
    assert figures[0] == figures[1]


def test_nothing_known_has_no_figure(built, tmp_path):
    (tmp_path / "pairs.txt").write_text("xyzzy plugh 1\nplugh xyzzy 2\n")
    (tmp_path / "asked.txt").write_text(": family\nxyzzy plugh the that\n")
    metrics = wordpipe.evaluate_words(built / "words", tmp_path)["metrics"]
    assert set(metrics) == {"spearman", "accuracy", "spearman/pairs", "accuracy/asked"}
    assert set(metrics.values()) == {None}


def test_how_far_it_is_is_reported(built, sets):
    heard = []
    wordpipe.evaluate_words(built / "words", sets / "asked.txt", run=RunOptions(report=heard.append))
    assert heard[-1].done == heard[-1].total > 0
    assert "asked" in heard[-1].phase


def test_what_cannot_be_evaluated(built, sets, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.txt").write_text("one two 3\none two\n")
    cases = [
        (built / "words", tmp_path / "nowhere", InputError, "nowhere"),
        (built / "words", tmp_path / "empty", InputError, "no file of word pairs"),
        (built / "words", tmp_path / "bad.txt", InputError, r"bad\.txt:2"),
        (built / "words", built / "corpus", ArtifactError, "artifact"),
        (built / "tokens", sets, ArtifactError, "wrong kind"),
    ]
    for words, data, error, match in cases:
        with pytest.raises(error, match=match):
            wordpipe.evaluate_words(words, data)
    for wish in ({"restrict_vocab": -1}, {"analogy": "cosine"}, {"unknown": "skip"}):
        with pytest.raises(ConfigError, match=str(*wish.values())):
            wordpipe.evaluate_words(built / "words", sets, **wish)


def test_what_makes_columns_differ_is_said():
    from wordpipe.metrics import System
    from wordpipe.stages.evaluate import words

    def table(known=5, unit="word"):
        some = {"name": "near", "kind": "similarity", "known": known, "unknown_words": {"count": 0, "first": []}}
        return System("words", [], {"unit": unit, "sets": [some]})

    assert "--unknown zero" in [*words._remarks([table(5), table(4)], "drop")][-1]
    assert not [*words._remarks([table(5), table(4)], "zero")]
    (said,) = words._remarks([table(unit="token")], "drop")
    assert "tokens" in said
