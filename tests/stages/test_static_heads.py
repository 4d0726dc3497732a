"""`train classifier` and `train tagger` from word vectors and static encoders, and what `predict` says by them."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

import wordpipe
from tests.conftest import ROOT
from tests.stages.test_heads import COLOURS, TAGGED, corpus_of, rows_of
from tests.stages.test_import_words import vectors_of
from tests.support.results import Said
from wordpipe import RunOptions
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.heads import RowsLearner

FAST = {"threads": 1, "epochs": 8}


def trained(folder, rows, init, *, name="head", run=None, ingest=None, **settings):
    corpus_of(folder, rows, **(ingest or {}))
    train = wordpipe.train_tagger if (ingest or {}).get("tags_field") else wordpipe.train_classifier
    return train(
        folder / "corpus", output=folder / name, init=init, run=run or RunOptions(report=Said()), **FAST | settings
    )


def facts_of(folder):
    return json.loads((folder / "manifest.json").read_text())["facts"]


@pytest.fixture(scope="module")
def words(built):
    return built / "words"


@pytest.fixture(scope="module")
def coloured(words, tmp_path_factory):
    folder = tmp_path_factory.mktemp("coloured")
    return folder / "head", trained(folder, rows_of(150), words)


@pytest.fixture(scope="module")
def encoder(built, tmp_path_factory):
    """A static encoder of words."""
    output = tmp_path_factory.mktemp("encoder") / "model"
    wordpipe.train_static(built / "tokens", output=output, steps=2, lexical_dim=16, threads=1)
    return output


def test_a_classifier_learns_and_says_what_it_knows(coloured):
    folder, made = coloured
    assert made.metrics["valid_accuracy"] > 0.95
    assert made.counts["labels"] == 3
    assert made.counts["rows_new"] > 0
    found = wordpipe.predict(folder, "Number 7 is green. It stays so.")
    assert found.labels == ("green",)
    assert sum(found.probabilities) == pytest.approx(1)
    facts = facts_of(folder)
    assert (facts["task"], facts["labels"], facts["architecture"]) == ("classifier", sorted(COLOURS), "words")


def test_predictions_are_those_of_the_trained_weights(coloured):
    """Recomputed from the files of the folder with nothing of ours."""
    folder, _ = coloured
    weights = load_file(folder / "model.safetensors")
    row_of = {unit: row for row, unit in enumerate(pq.read_table(folder / "words.parquet")["word"].to_pylist())}
    units = ["number", "7", "is", "green", "number 7", "7 is", "is green"]
    rows = [row_of[unit] for unit in units if unit in row_of]
    x = weights["embedding.weight"][rows].sum(0) / len(rows) ** 0.5
    logits = (weights["classifier.weight"] @ x + weights["classifier.bias"]) / facts_of(folder)["temperature"]
    wanted = np.exp(logits) / np.exp(logits).sum()
    found = wordpipe.predict(folder, "Number 7 is GREEN!")
    assert np.allclose(found.probabilities, wanted, atol=1e-5)


def test_words_that_no_labelled_text_has_keep_their_vectors(words, coloured):
    folder, _ = coloured
    before = pq.read_table(next(words.glob("words-*.parquet")))
    after = pq.read_table(folder / "words.parquet").to_pydict()
    table = load_file(folder / "model.safetensors")["embedding.weight"]
    counts = np.array(after["count"][: len(before)])
    assert after["word"][: len(before)] == before["word"].to_pylist()
    old = vectors_of(words)
    now, is_seen = table[: len(old)], counts > 0
    assert (~is_seen).sum() > 100
    factor = (now[~is_seen] * old[~is_seen]).sum() / (old[~is_seen] ** 2).sum()
    assert np.allclose(now[~is_seen], factor * old[~is_seen], rtol=1e-4, atol=1e-7)
    assert not np.allclose(now[is_seen], factor * old[is_seen], rtol=1e-2)


def test_texts_of_unknown_words_and_of_none(coloured):
    opened = wordpipe.open_predictor(coloured[0])
    one, other = opened.predict(["zyxwv qqqq", "?!"])
    assert one == other
    with pytest.raises(InputError, match="contains only spaces"):
        next(opened.predict(["  "]))
    many = list(opened.predict([f"number {i} is {COLOURS[i % 3]}" for i in range(2500)]))
    assert [one.labels[0] for one in many[:6]] == [*COLOURS, *COLOURS]


@pytest.mark.landing
def test_several_labels_scores_and_pairs(words, tmp_path):
    several = [{"text": f"{i} is {' and '.join(some)}", "label": some} for i in range(60)
               for some in [[name for place, name in enumerate(COLOURS) if (i >> place) & 1] or ["none"]]]  # fmt: skip
    made = trained(tmp_path / "several", several, words, epochs=40)
    assert len(facts_of(tmp_path / "several" / "head")["thresholds"]) == made.counts["labels"] == 4
    found = wordpipe.predict(tmp_path / "several" / "head", "7 is red and green")
    known = dict(zip(facts_of(tmp_path / "several" / "head")["labels"], found.probabilities, strict=True))
    assert {"red", "green"} <= {*found.labels}
    assert min(known["red"], known["green"]) > known["blue"]
    scores = [{"text": f"{COLOURS[i % 3]} {i}", "label": (i % 3) + 0.5} for i in range(90)]
    made = trained(tmp_path / "scores", scores, words, problem="score", epochs=30)
    assert made.metrics["valid_pearson"] > 0.9
    assert wordpipe.predict(tmp_path / "scores" / "head", "blue 5").score == pytest.approx(2.5, abs=0.5)
    pairs = [
        {"text": f"it is {one}", "more": f"{i} is {other}", "label": "same" if one == other else "other"}
        for i in range(20) for one in COLOURS for other in COLOURS
    ]  # fmt: skip
    made = trained(tmp_path / "pairs", pairs, words, ingest={"text_b": "more"}, epochs=40)
    assert made.metrics["valid_accuracy"] > 0.8
    opened = wordpipe.open_predictor(tmp_path / "pairs" / "head")
    assert [one.labels[0] for one in opened.predict([("it is red", "7 is red"), ("it is red", "7 is green")])] == [
        "same", "other",
    ]  # fmt: skip
    with pytest.raises(InputError, match="is a single text"):
        next(opened.predict(["it is red"]))


def test_a_stopped_run_goes_on(words, tmp_path, monkeypatch):
    whole = trained(tmp_path / "whole", rows_of(), words, seeds=2)
    take, calls = RowsLearner.take, []

    def failing(self, step, gradients, lr):
        calls.append(step)
        if len(calls) == 21:
            raise KeyboardInterrupt
        return take(self, step, gradients, lr)

    monkeypatch.setattr(RowsLearner, "take", failing)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "parts", rows_of(), words, seeds=2, checkpoint_steps=2)
    monkeypatch.setattr(RowsLearner, "take", take)
    said = Said()
    made = trained(tmp_path / "parts", rows_of(), words, seeds=2, checkpoint_steps=2, run=RunOptions(report=said))
    assert any("continuing a stopped run" in note for note in said)
    assert made.digest == whole.digest


def test_frozen_vectors_stay_and_get_no_rows(words, tmp_path):
    made = trained(tmp_path, rows_of(), words, freeze=1)
    table = load_file(tmp_path / "head" / "model.safetensors")["embedding.weight"]
    old = vectors_of(words)
    assert table.shape == old.shape
    assert np.allclose(table, (table * old).sum() / (old**2).sum() * old, rtol=1e-5, atol=1e-7)
    assert made.counts["parameters_trained"] < made.counts["parameters"]


@pytest.mark.landing
def test_few_texts_get_more_passes(words, tmp_path):
    made = trained(tmp_path, rows_of(), words, epochs=None)
    assert made.counts["steps"] >= 600
    assert facts_of(tmp_path / "head")["lr"] == 0.01


def test_what_is_cut_is_counted_and_cut_again_by_predict(words, tmp_path):
    long = {"text": "red " * 20 + "it is", "label": "red"}
    made = trained(tmp_path, [*rows_of(), long], words, seq_len=12)
    assert (made.counts["texts_cut"], made.counts["tokens_cut"]) == (1, 10)
    assert any("longer than 12 words" in text for text in made.warnings)
    assert wordpipe.predict(tmp_path / "head", "red " * 15).cut == 3


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"device": "cuda"}, "on the CPU"),
        ({"dtype": "bfloat16"}, "float32"),
        ({"freeze": 2}, "only one layer to freeze"),
    ],
)
def test_what_word_vectors_do_not_have_is_refused(words, tmp_path, settings, says):
    with pytest.raises(ConfigError, match=says):
        trained(tmp_path, rows_of(), words, **settings)
    assert not (tmp_path / "head").exists()


def test_answers_are_not_found_by_word_vectors(words, tmp_path):
    rows = [
        {"text": f"{i}: Ada is here.", "q": "Who?", "a": [[len(f"{i}: "), len(f"{i}: Ada"), None]]} for i in range(30)
    ]
    wordpipe.ingest(rows, output=tmp_path / "asked", text_b="q", spans_field="a")
    with pytest.raises(ConfigError, match="a reader needs an encoder") as caught:
        wordpipe.train_reader(tmp_path / "asked", output=tmp_path / "reader", init=words)
    assert "train mlm" in str(caught.value.hint)


def test_a_static_encoder_is_a_start_too(encoder, tmp_path):
    made = trained(tmp_path, rows_of(150), encoder)
    assert made.metrics["valid_accuracy"] > 0.9
    assert wordpipe.predict(tmp_path / "head", "Number 7 is green. It stays so.").labels == ("green",)
    assert not (tmp_path / "head" / "tokenizer.json").exists()


def test_vectors_of_tokens_are_a_start_too(built, tmp_path):
    wordpipe.train_word2vec(built / "tokens", output=tmp_path / "tokens", unit="token", dim=16, epochs=1, threads=1)
    made = trained(tmp_path, rows_of(150), tmp_path / "tokens")
    assert made.metrics["valid_accuracy"] > 0.9
    assert wordpipe.predict(tmp_path / "head", "Number 7 is green. It stays so.").labels == ("green",)


def test_n_grams_lend_new_words_their_first_vectors(built, tmp_path):
    wordpipe.train_word2vec(
        built / "tokens", output=tmp_path / "words", dim=16, epochs=1, threads=1, min_n=3, max_n=5, min_count=2
    )
    rows = [{"text": f"gardenly {i}", "label": "a"} for i in range(30)] + [
        {"text": f"zzz {i}", "label": "b"} for i in range(30)
    ]
    trained(tmp_path, rows, tmp_path / "words", lr=1e-9)
    units = pq.read_table(tmp_path / "head" / "words.parquet")["word"].to_pylist()
    table = load_file(tmp_path / "head" / "model.safetensors")["embedding.weight"]
    assert np.abs(table[units.index("gardenly")]).max() > 1e-3
    assert np.abs(table[units.index("zzz")]).max() < 1e-3


@pytest.fixture(scope="module")
def named(words, tmp_path_factory):
    folder = tmp_path_factory.mktemp("named")
    return folder / "head", trained(folder, TAGGED, words, ingest={"label_field": "", "tags_field": "tags"}, epochs=20)


def test_a_tagger_finds_spans_with_their_places(named):
    folder, made = named
    assert made.metrics["valid_span_f1"] > 0.9
    text = "We saw  Rio de Janeiro 3 times."
    found, empty = wordpipe.open_predictor(folder).predict([text, "!"])
    assert [(span.start, span.end, span.label, span.text) for span in found.spans] == [(8, 22, "LOC", "Rio de Janeiro")]
    assert len(found.tags) == len(text.split())
    assert len(empty.tags) == 1


@pytest.mark.parametrize(
    "text", ["e\u0301te\u0301 Rio de Janeiro", "\U0001f600\U0001f600 Anna met", "日本 語 x", "a\u00a0b c"]
)
def test_places_are_exact_on_any_text(named, text):
    (found,) = wordpipe.open_predictor(named[0]).predict([text])
    assert len(found.tags) == len(text.split())
    assert all(text[span.start : span.end] == span.text for span in found.spans)


def test_predict_needs_neither_torch_nor_numba(coloured, named):
    code = (
        "import sys, wordpipe\n"
        f"print(wordpipe.predict({str(coloured[0])!r}, 'number 7 is red').labels)\n"
        f"print(wordpipe.predict({str(named[0])!r}, 'Anna met 7 friends').tags)\n"
        "print([name for name in ('torch', 'numba', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "('red',)"
    assert done.stdout.splitlines()[-1] == "[]"


def test_what_such_a_model_cannot_do_is_an_error(coloured, built, tmp_path):
    folder, _ = coloured
    with pytest.raises(ConfigError, match="CPU"):
        wordpipe.open_predictor(folder, device="cuda")
    for use in (
        lambda: wordpipe.open_model(folder),
        lambda: wordpipe.embed(folder, built / "corpus", output=tmp_path / "vectors"),
        lambda: trained(tmp_path, rows_of(), folder),
    ):
        with pytest.raises(ArtifactError):
            use()


@pytest.mark.parametrize("name", ["words.parquet", "model.safetensors", "config.json"])
def test_a_damaged_folder_is_named(coloured, tmp_path, name):
    shutil.copytree(coloured[0], tmp_path / "head")
    path = tmp_path / "head" / name
    data = path.read_bytes()
    path.write_bytes(data[:20] + bytes(40) + data[60:])
    for verify in (True, False):
        with pytest.raises(ArtifactError):
            wordpipe.open_predictor(tmp_path / "head", verify=verify)
