"""Artifacts that an earlier version made open, verify, answer and stay fresh; its half-finished training goes on."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import wordpipe
from wordpipe.pipeline import Pipeline

BEFORE = Path(__file__).parent / "before"
NAMES = sorted(path.name for path in (BEFORE / "artifacts").iterdir() if not path.name.startswith("."))
ASKED = "Why the sea has tides"


@pytest.fixture
def before(tmp_path, monkeypatch) -> Path:
    """A copy of everything, from which the commands run."""
    shutil.copytree(BEFORE, tmp_path / "before")
    monkeypatch.chdir(tmp_path / "before")
    return tmp_path / "before" / "artifacts"


def test_there_is_one_of_every_kind():
    kinds = {json.loads((BEFORE / "artifacts" / name / "manifest.json").read_text())["kind"] for name in NAMES}
    assert kinds == {"corpus", "tokens", "words", "model", "sentences", "index"}


@pytest.mark.parametrize("name", NAMES)
def test_they_are_whole_and_say_what_they_are(before, cli, name):
    assert cli("verify", before / name).code == 0
    shown = cli("show", before / name, "--rows", 1, "--json")
    assert (shown.code, json.loads(shown.out)["manifest"]["wordpipe"]) == (0, "0.1.0")


def test_they_stay_fresh(before):
    """But for static encoders, whose table begins and ends otherwise since, and what is made of them."""
    states = Pipeline("wordpipe.toml").states()
    reasons = {state.stage.name: state.reasons for state in states if not state.fresh}
    assert {name: reasons.pop(name) for name in ("half", "sentences-static", "index-hnsw")} == {
        "half": ("missing",), "sentences-static": ("static will be made",), "index-hnsw": ("sentences-static will be made",),
    }  # fmt: skip
    assert list(reasons) == ["static"]
    assert "static.number_weight None → 2.0" in reasons["static"]
    assert not [reason for reason in reasons["static"] if "words_weight" in reason]  # its default comes to the same
    assert len(states) == len(NAMES) + 1


@pytest.mark.parametrize("name", ["index", "index-hnsw"])
@pytest.mark.parametrize("mode", ["auto", "dense", "lexical", "hybrid"])
def test_the_indexes_answer(before, name, mode):
    with wordpipe.open(before / name) as index:
        hits = index.query("Why the sea has tides The Moon pulls on the near side of the Earth", 5, mode=mode)
    assert len(hits) == 5
    assert all({"row", "text", "source", "line", "metadata"} <= {*hit} and "id" not in hit for hit in hits)
    if mode != "dense":
        assert any("tide" in hit["text"] or hit["title"] == ASKED for hit in hits)


def test_the_words_answer(before):
    with wordpipe.open(before / "words") as words:
        assert len(words.query("water", 5)) == 5


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("corpus", "tokens")])
def test_they_encode_texts(before, name):
    with wordpipe.open(before / name) as opened:
        vectors = opened.encode([ASKED, "The Moon pulls on the sea"])
        assert vectors.shape == (2, opened.dim)
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("name", ["mlm", "mlm-rms"])
def test_the_masked_models_answer(before, cli, name):
    filled = cli("fill", before / name, "the high [MASK] of the day", "--json")
    assert (filled.code, len(filled.out.splitlines())) == (0, 5)


@pytest.mark.parametrize("name", ["clm", "clm-alibi", "clm-window"])
def test_the_causal_models_answer(before, cli, name):
    assert cli("generate", before / name, "The sea", "--max-tokens", 5).code == 0


@pytest.mark.parametrize(("name", "loss"), [("clm", 6.327435), ("clm-alibi", 6.437588), ("clm-window", 6.431188)])
def test_the_causal_models_compute_what_they_did(before, cli, name, loss):
    """The loss that the version before measured."""
    judged = cli("evaluate", "model", before / name, "--data", before / "corpus", "--split", "valid", "--json")
    assert json.loads(judged.out)["models"][0]["metrics"]["loss"] == pytest.approx(loss, abs=2e-5)


@pytest.mark.parametrize("model", ["mlm", "static", "contrastive", "words"])
def test_they_are_built_upon(before, model):
    wordpipe.embed(before / model, before / "corpus", output=before / "new", threads=1)
    made = wordpipe.index(before / "new", output=before / "new-index", threads=1)
    assert made.counts["vectors"] > 400


def test_what_they_hold_is_taken_over_by_an_update(before):
    made = wordpipe.embed(before / "static", before / "corpus", output=before / "sentences-static", update=True)
    assert made.counts["units_reused"] + made.counts["texts_embedded"] == made.counts["sentences"] == 476


def test_an_update_of_an_index_measures_what_it_did_not_know(before):
    """How far vectors and words agree; the texts themselves are taken over."""
    made = wordpipe.index(before / "sentences", output=before / "index", update=True, threads=1)
    assert made.counts.get("added", 0) == 0
    with wordpipe.open(before / "index") as index:
        facts = index.artifact.manifest.facts["lexical"]
        assert 0 < facts["agreement"] <= 1
        assert "weight" not in facts
        assert index.lexical.by_text.starts[-1] == index.lexical.postings.starts[-1]


def test_a_finished_training_is_extended(before):
    shape = {"dim": 32, "n_layers": 1, "n_heads": 2, "ffn_dim": 32, "seq_len": 64, "threads": 1}
    made = wordpipe.train_mlm(before / "tokens", output=before / "longer", extend=before / "mlm", steps=6, **shape)
    assert made.counts["steps"] == 6


def test_a_half_finished_training_goes_on_and_ends_where_it_would_have(before, cli, monkeypatch):
    # it began where `auto` meant float32
    monkeypatch.setattr("wordpipe.training.precision._cpu_has_bfloat16", lambda: False)
    done = cli("run", "wordpipe.toml")
    assert done.code == 0
    assert "continuing a stopped run at step 3" in done.err
    wanted = load_file(BEFORE / "half.safetensors")
    found = load_file(before / "half" / "model.safetensors")
    assert set(found) == set(wanted)
    for name, weights in wanted.items():  # another kind of processor rounds otherwise
        np.testing.assert_allclose(found[name], weights, atol=2e-4, err_msg=name)
