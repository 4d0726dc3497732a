"""`wordpipe index` over artifacts: what it says, what it bundles, and how it is brought up to date, also when it is killed."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wordpipe
from tests.support.word_artifacts import DIM, changed, notes_of, texts, words
from wordpipe.artifacts import Artifact, matrix_of, read_batches
from wordpipe.errors import ArtifactError, BudgetError, DivergedError
from wordpipe.search import VectorIndex, read_held_out
from wordpipe.search.settings import IndexSettings
from wordpipe.stages.search import index_vectors as stage


def test_an_update_answers_as_a_rebuild_does(tmp_path):
    rows = texts(1_600, 1)
    settings = {"type": "ivf-pq", "threads": 1}
    wordpipe.index(words(tmp_path / "s", rows), output=tmp_path / "i", **settings)
    later = changed(rows, texts(30, 2, "new"), 20)
    words(tmp_path / "s", later)
    made, notes = notes_of(tmp_path / "s", output=tmp_path / "i", update=True, **settings)
    assert {name: made.counts[name] for name in ("vectors", "kept", "added", "removed")} == {
        "vectors": 1_610, "kept": 1_580, "added": 30, "removed": 20,
    }  # fmt: skip
    assert not any("a new index is built" in note for note in notes)
    assert wordpipe.verify(tmp_path / "i")["ok"]
    with Artifact(tmp_path / "i") as found, Artifact(tmp_path / "s") as source:
        assert found.manifest.facts["changed_since_built"] == 50
        assert found.manifest.facts["built_for"] == 1_600
        assert found.manifest.recipe
        rows_there = [row for batch in read_batches(found, "index") for row in batch.to_pylist()]
        assert rows_there == [row for batch in read_batches(source, "words") for row in batch.to_pylist()]
    anew = wordpipe.index(tmp_path / "s", output=tmp_path / "j", **settings)
    assert made.recipe == anew.recipe
    assert made.metrics["recall_at_10"] >= 0.95
    assert made.metrics["recall_at_10"] == pytest.approx(anew.metrics["recall_at_10"], abs=0.05)


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_an_update_of_what_is_built_anew_has_the_bytes_of_a_rebuild(kind, tmp_path):
    rows, settings = texts(300, 1), {"type": kind, "threads": 1}
    wordpipe.index(words(tmp_path / "s", rows), output=tmp_path / "i", **settings)
    words(tmp_path / "s", changed(rows, texts(5, 2, "new"), 3))
    made, notes = notes_of(tmp_path / "s", output=tmp_path / "i", update=True, **settings)
    assert ("a hnsw index cannot be updated, so a new index is built" in notes) == (kind == "hnsw")
    anew = wordpipe.index(tmp_path / "s", output=tmp_path / "j", **settings)
    assert (made.counts["added"], made.counts["removed"]) == (5, 3)
    with Artifact(tmp_path / "i") as one, Artifact(tmp_path / "j") as other:
        assert one.read("index.faiss") == other.read("index.faiss")
        assert one.manifest.bitwise
    assert made.recipe == anew.recipe


def test_an_update_says_why_it_builds_anew(tmp_path):
    rows = texts(1_200, 1)
    source, index = words(tmp_path / "s", rows), tmp_path / "i"
    settings = {"type": "ivf-pq", "threads": 1}
    assert any("nothing to update" in note for note in notes_of(source, output=index, update=True, **settings)[1])
    _, notes = notes_of(source, output=index, update=True, **settings, seed=2)
    assert any("a different value of seed" in note for note in notes)
    words(tmp_path / "s", changed(rows, texts(200, 3, "new"), 200))
    _, notes = notes_of(source, output=index, update=True, **settings, seed=2)
    assert any("more than a fifth" in note for note in notes)
    words(tmp_path / "s", rows, tokenizer=b'{"other": 1}')
    _, notes = notes_of(source, output=index, update=True, **settings, seed=2)
    assert any("a different tokenizer.json" in note for note in notes)
    (index / "index.faiss").write_bytes(b"damaged")
    made, notes = notes_of(source, output=index, update=True, **settings, seed=2)
    assert any("cannot be used" in note for note in notes)
    assert made.counts == {"vectors": 1_200}


def test_an_index_shares_the_files_of_its_rows_and_remembers_what_they_came_from(tmp_path):
    source = words(tmp_path / "s", texts(40, 1))
    wordpipe.index(source, output=tmp_path / "i")
    with Artifact(tmp_path / "i") as index, Artifact(source) as vectors:
        lineage = index.manifest.facts["lineage"]
        assert lineage["vectors"] == vectors.digest
        assert {"vectors", "tokenizer.json"} == set(lineage)
    one, other = tmp_path / "s" / "words-00000.parquet", tmp_path / "i" / "index-00000.parquet"
    assert one.samefile(other)
    one.unlink()
    assert wordpipe.verify(tmp_path / "i")["ok"]


def test_rows_are_copied_where_they_cannot_be_shared(tmp_path, monkeypatch):
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(18, "Invalid cross-device link")

    source = words(tmp_path / "s", texts(40, 1))
    monkeypatch.setattr("wordpipe.artifacts.writer.os.link", refuse)
    wordpipe.index(source, output=tmp_path / "i")
    assert wordpipe.verify(tmp_path / "i")["ok"]
    with Artifact(tmp_path / "i") as index:
        vectors = [matrix_of(batch.column("vector")) for batch in read_batches(index, "index")]
        assert np.concatenate(vectors).shape == (40, DIM)


def test_more_memory_than_allowed_is_refused_with_the_prediction(tmp_path, cli):
    source = words(tmp_path / "s", texts(60, 1))
    with pytest.raises(BudgetError, match="the predicted memory of"):
        wordpipe.index(source, output=tmp_path / "i", max_memory="10MB")
    assert not (tmp_path / "i").exists()
    result = cli("index", source, "-o", tmp_path / "i", "--max-memory", "10MB")
    assert result.code == 6
    assert "--max-memory" in result.err
    assert cli("index", source, "-o", tmp_path / "i", "--max-memory", "64 apples").code == 2
    assert IndexSettings(max_memory="1.5GB").max_memory_bytes == 1_500_000_000


@pytest.mark.parametrize("poison", [np.nan, 0.0])
def test_a_poisoned_vector_leaves_the_old_index(poison, tmp_path):
    rows = texts(50, 1)
    wordpipe.index(words(tmp_path / "s", rows), output=tmp_path / "i")
    rows["z poisoned"] = np.full(DIM, poison, dtype=np.float32)
    words(tmp_path / "s", rows)
    for update in (False, True):
        with pytest.raises(DivergedError, match="row 50"):
            wordpipe.index(tmp_path / "s", output=tmp_path / "i", update=update)
        with Artifact(tmp_path / "i") as index:
            assert index.manifest.counts["vectors"] == 50


@pytest.mark.parametrize("n", [1, 3])
def test_few_or_equal_vectors_are_indexed_by_every_kind(n, tmp_path):
    one = np.eye(DIM, dtype=np.float32)[0]
    source = words(tmp_path / "s", {f"a {number}": one for number in range(n)})
    for kind in ("auto", "hnsw", "ivf-pq"):
        made = wordpipe.index(source, output=tmp_path / "i", type=kind)
        assert made.metrics["recall_at_10"] == 1
        assert made.counts["vectors"] == n


@pytest.mark.landing
@pytest.mark.parametrize(
    "point", ["publish.file_made:kill:2", "publish.before_exchange:kill", "publish.after_exchange:kill"]
)
def test_killed_in_an_update_the_old_index_or_the_new_one_is_there(point, nursery, tmp_path):
    rows = texts(1_100, 1)
    source, index = words(tmp_path / "s", rows), tmp_path / "i"
    old = wordpipe.index(source, output=index, type="ivf-pq", threads=1)
    words(tmp_path / "s", changed(rows, texts(5, 2, "new"), 3))
    command = ["index", source, "-o", index, "--type", "ivf-pq", "--threads", "1", "--update"]
    killed = nursery.run(*command, WORDPIPE_FAILPOINT=point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert wordpipe.verify(index)["ok"]
    with Artifact(index) as found:
        assert (found.digest == old.digest) == ("after" not in point)
        assert found.manifest.counts["vectors"] == (1_102 if "after" in point else 1_100)
    again = nursery.run(*command, "--json")
    assert json.loads(again.stdout)["counts"]["vectors"] == 1_102


def test_the_curve_is_shown_and_kept(tmp_path, cli):
    source = words(tmp_path / "s", texts(1_200, 1))
    result = cli("index", source, "-o", tmp_path / "i", "--type", "ivf-pq", "--threads", 1)
    assert result.code == 0
    assert "predicted memory" not in result.err  # of so few vectors nobody plans anything
    assert "queries/s" in result.err
    assert "← chosen" in result.err
    with Artifact(tmp_path / "i") as index:
        facts = index.manifest.facts
        assert [facts["search_width"], facts["refine"]] in [point[:2] for point in facts["curve"]]
        assert facts["held_out"]
        assert facts["predicted"]["memory_bytes"] > 0


def test_an_index_of_another_kind_of_thing_is_no_input(tmp_path):
    wordpipe.index(words(tmp_path / "s", texts(20, 1)), output=tmp_path / "i")
    with pytest.raises(ArtifactError, match="wrong kind"):
        wordpipe.index(tmp_path / "i", output=tmp_path / "j")


@pytest.mark.slow
def test_sentences_keep_their_lexical_half_through_an_update(chain, tmp_path):
    wordpipe.index(chain / "sentences", output=tmp_path / "i")
    made, notes = notes_of(chain / "sentences", output=tmp_path / "i", update=True)
    assert (made.counts["added"], made.counts["removed"]) == (0, 0)
    assert not notes or not any("anew" in note for note in notes)
    anew = wordpipe.index(chain / "sentences", output=tmp_path / "j")
    assert made.digest == anew.digest
    with Artifact(tmp_path / "i") as index:
        assert {"vectors", "encoder.json"} <= set(index.manifest.facts["lineage"])


def test_an_update_keeps_to_the_memory_allowed_and_says_what_made_it(tmp_path):
    rows = texts(1_200, 1)
    source, index = words(tmp_path / "s", rows), tmp_path / "i"
    settings = {"type": "ivf-pq", "threads": 1}
    old = wordpipe.index(source, output=index, **settings)
    words(tmp_path / "s", changed(rows, texts(5, 2, "new"), 3))
    with pytest.raises(BudgetError, match="predicted memory of the ivf-pq index is above"):
        wordpipe.index(source, output=index, update=True, max_memory="10MB", **settings)
    with Artifact(index) as found:
        assert found.digest == old.digest
        assert "bm25s" not in found.manifest.versions


def test_updates_of_updates_are_measured_by_the_same_queries_and_truly(tmp_path):
    rows = texts(2_500, 1)
    source, index = words(tmp_path / "s", rows), tmp_path / "i"
    settings = {"type": "ivf-pq", "threads": 1}
    wordpipe.index(source, output=index, **settings)
    for step in range(3):
        rows = changed(rows, texts(40, 7 + step, f"new{step}"), 30)
        words(tmp_path / "s", rows)
        made, notes = notes_of(source, output=index, update=True, **settings)
        assert not any("a new index is built" in note for note in notes)
        vectors_ND = np.array(list(rows.values()))
        with Artifact(index) as found:
            held = read_held_out(found.read("held_out.npy"), len(rows), DIM, "here")
        np.testing.assert_array_equal(held["vector"], vectors_ND[held["row"]])
        others_ND = np.delete(vectors_ND, held["row"], axis=0)
        expected = -np.sort(-(held["vector"] @ others_ND.T), axis=1)[:, :10]
        np.testing.assert_allclose(held["score"][:, :10], expected, atol=1e-6)
        assert made.metrics["recall_at_10"] >= 0.95
        assert "exact_queries_per_s" not in made.rates  # nothing was compared with all rows


def test_what_reached_its_recall_and_no_longer_does_is_built_anew(tmp_path, monkeypatch):
    rows = texts(1_200, 1)
    source, index = words(tmp_path / "s", rows), tmp_path / "i"
    settings = {"type": "ivf-pq", "threads": 1}
    wordpipe.index(source, output=index, **settings)
    words(tmp_path / "s", changed(rows, texts(5, 2, "new"), 3))

    def updated(*args, update=stage.update_index):
        built = update(*args)
        return replace(built, recall_met=False, chosen=replace(built.chosen, recall_at_10=0.945))

    monkeypatch.setattr(stage, "update_index", updated)
    made, notes = notes_of(source, output=index, update=True, **settings)
    assert any("is only 0.945, so a new index is built" in note for note in notes)
    assert made.metrics["recall_at_10"] >= 0.95


def test_a_miss_that_is_worse_than_before_is_built_anew(tmp_path, monkeypatch):
    rows = texts(1_200, 1)
    source, index = words(tmp_path / "s", rows), tmp_path / "i"
    settings = {"type": "ivf-pq", "threads": 1, "nlist": 40, "nprobe": 1}
    missed = wordpipe.index(source, output=index, **settings)
    assert missed.metrics["recall_at_10"] < 0.9
    words(tmp_path / "s", changed(rows, texts(5, 2, "new"), 3))
    _, notes = notes_of(source, output=index, update=True, **settings)
    assert not any("a new index is built" in note for note in notes)
    monkeypatch.setattr("wordpipe.stages.search.index_vectors._RECALL_NOISE", -1.0)
    _, notes = notes_of(source, output=index, update=True, **settings)
    assert any("a new index is built" in note for note in notes)


def start(source: Path, output: Path) -> subprocess.Popen[bytes]:
    options = ["--type", "ivf-pq", "--threads", "1", "--update", "-q"]
    command = [sys.executable, "-m", "wordpipe", "index", str(source), "-o", str(output), *options]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


@pytest.mark.slow
def test_killed_at_random_moments_of_an_update(tmp_path):
    one, other, output = texts(20_000, 1), texts(200, 2, "new"), tmp_path / "i"
    later = changed(one, other, 150)
    wordpipe.index(words(tmp_path / "s", one), output=output, type="ivf-pq", threads=1)
    source = words(tmp_path / "t", later)
    began = time.perf_counter()
    assert start(source, tmp_path / "none").wait() == 0  # as long as an update takes, and longer
    seconds = time.perf_counter() - began
    killed = 0
    for moment in np.random.default_rng(3).uniform(0, seconds, size=12):
        work = start(source, output)
        time.sleep(moment)
        work.kill()
        killed += work.wait() == -signal.SIGKILL
        assert wordpipe.verify(output)["ok"]
        with Artifact(output) as index:
            assert index.manifest.counts["vectors"] in (20_000, 20_050)
    assert killed
    assert start(source, output).wait() == 0
    with Artifact(output) as index:
        assert index.manifest.counts["vectors"] == 20_050
    left = {path.name for path in tmp_path.iterdir() if path.name.startswith(".i.")}
    assert left <= {".i.lock"}


@pytest.fixture(scope="module")
def many_sentences(built, tmp_path_factory):
    """Sentences of words of the handbook, stored as int8; two of them have no vector."""
    folder, rng = tmp_path_factory.mktemp("many"), np.random.default_rng(5)
    with Artifact(built / "words") as artifact:
        words = [word for batch in read_batches(artifact, "words", ["word"]) for word in batch.column(0).to_pylist()]
    texts = [" ".join(rng.choice(words, 6)) for _ in range(1_300)]
    records = [{"text": text} for text in (*texts[:700], "zzqx qqzx.", *texts[700:], "xqqz.")]
    wordpipe.ingest(records, output=folder / "corpus", valid=0)
    wordpipe.embed(built / "words", folder / "corpus", output=folder / "sentences", unit="document", store="int8")
    return folder / "sentences", texts


@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivf-pq"])
def test_every_kind_finds_by_vectors_as_they_are_stored_what_faiss_finds_by_float32(many_sentences, tmp_path, kind):
    sentences, asked = many_sentences
    wordpipe.index(sentences, output=tmp_path / "i", type=kind, threads=1)
    with wordpipe.open(tmp_path / "i", "index") as index:
        assert index.artifact.manifest.facts["type"] == kind
        queries_QD = index.encode(asked[:40]) + np.float32(0.02)
        allowed = np.random.default_rng(2).random(len(index)) < 0.5
        for some in (None, allowed):
            ours = index.vector_index(some).search(queries_QD, 20)
            assert ("index" in index.__dict__) == (kind == "hnsw")  # no vector became float32 but for a graph
            theirs = VectorIndex(index.index, some, index.with_vector).search(queries_QD, 20)
            for one, other in zip(ours, theirs, strict=True):
                # scores that differ by rounding may change places
                np.testing.assert_allclose(one.scores, other.scores, atol=1e-6)
                score_of = dict(zip(other.rows.tolist(), other.scores.tolist(), strict=True))
                both = [
                    (score_of[row], score)
                    for row, score in zip(one.rows.tolist(), one.scores, strict=True)
                    if row in score_of
                ]
                assert len(both) >= len(one) - 1
                np.testing.assert_allclose(*zip(*both, strict=True), atol=1e-6)
            if kind != "hnsw":
                del index.index
