"""`train classifier`, `train tagger` and `predict`: from a labelled corpus to labels and spans; what they refuse and count."""

import json
import shutil

import pyarrow.parquet as pq
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file

import wordpipe
from tests.support.results import Said
from wordpipe import RunOptions
from wordpipe.cli.app import app as cli
from wordpipe.errors import ArtifactError, ConfigError, InputError

COLOURS = ("red", "green", "blue")
SMALL = {"device": "cpu", "dtype": "float32", "threads": 1, "epochs": 4, "lr": 2e-3, "dropout": 0.0}


def rows_of(n=60, **more):
    return [
        {"text": f"Number {i} is {COLOURS[i % 3]}. It stays so.", "label": COLOURS[i % 3]} | {k: v(i) for k, v in more.items()}
        for i in range(n)
    ]  # fmt: skip


def corpus_of(folder, rows, **settings):
    chosen = {"label_field": "label"} | settings
    return wordpipe.ingest(rows, output=folder / "corpus", **{name: value for name, value in chosen.items() if value})


def trained(folder, rows, model, name="head", run=None, ingest=None, **settings):
    corpus_of(folder, rows, **(ingest or {}))
    return wordpipe.train_classifier(
        folder / "corpus", output=folder / name, init=model, run=run or RunOptions(report=Said()), **SMALL | settings
    )


@pytest.fixture(scope="module")
def coloured(base, tmp_path_factory):
    folder = tmp_path_factory.mktemp("coloured")
    made = trained(folder, rows_of(150), base, epochs=12, lr=5e-3)
    return folder / "head", made


@pytest.fixture(scope="module")
def seeds(base, tmp_path_factory):
    """The best of two models, and what was said of them."""
    said = Said()
    return trained(tmp_path_factory.mktemp("seeds"), rows_of(), base, seeds=2, run=RunOptions(report=said)), said


def test_held_out_records_with_labels_of_their_own_alone_are_refused(base, tmp_path):
    rows = [{"text": f"Number {i} is here.", "label": f"label {i}"} for i in range(40)]
    with pytest.raises(
        InputError, match="no held-out record has a label that occurs in the training records"
    ) as caught:
        trained(tmp_path, rows, base)
    assert "--held-out" in str(caught.value.hint)
    assert not (tmp_path / "head").exists()


def test_a_classifier_learns_and_says_what_it_knows(coloured):
    folder, made = coloured
    assert made.metrics["valid_accuracy"] > 0.9
    assert made.counts["labels"] == 3
    assert made.counts["texts_train"] + made.counts["texts_held_out"] == 150
    corpus = pq.read_table(folder.parent / "corpus" / "corpus-00000.parquet")
    assert corpus.num_rows == 300  # sentences: a record is read whole
    facts = json.loads((folder / "manifest.json").read_text())["facts"]
    assert (facts["task"], facts["labels"], facts["problem"]) == ("classifier", sorted(COLOURS), "single_label")
    found = wordpipe.predict(folder, "Number 7 is green. It stays so.")
    assert found.labels == ("green",)
    assert sum(found.probabilities) == pytest.approx(1)


@pytest.mark.landing
def test_transformers_loads_the_folder_and_says_the_same(coloured):
    import transformers

    folder, _ = coloured
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    temperature = json.loads((folder / "manifest.json").read_text())["facts"]["temperature"]
    texts = [row["text"] for row in rows_of(9)]
    with torch.inference_mode():
        logits = model(**tokenizer(texts, padding=True, return_tensors="pt")).logits
    ours = list(wordpipe.open_predictor(folder).predict(texts))
    assert [one.labels[0] for one in ours] == [model.config.id2label[int(row.argmax())] for row in logits]
    wanted = (logits / temperature).softmax(-1)
    assert torch.allclose(
        torch.tensor([one.probabilities for one in ours]), wanted.to(torch.float64).float(), atol=1e-4
    )


@pytest.mark.landing
def test_a_folder_of_transformers_is_asked_as_it_is(coloured, tmp_path):
    import transformers

    folder, _ = coloured
    transformers.AutoModelForSequenceClassification.from_pretrained(folder).save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(folder / name, tmp_path / name)
    texts = [row["text"] for row in rows_of(6)]
    one, other = (list(wordpipe.open_predictor(path).predict(texts)) for path in (folder, tmp_path))
    assert [a.labels for a in one] == [b.labels for b in other]


def test_several_labels_have_thresholds(base, tmp_path):
    rows = [{"text": f"{i} is {' and '.join(some)}", "label": some} for i in range(60)
            for some in [[name for place, name in enumerate(COLOURS) if (i >> place) & 1] or ["none"]]]  # fmt: skip
    made = trained(tmp_path, rows, base, epochs=8)
    facts = json.loads((tmp_path / "head" / "manifest.json").read_text())["facts"]
    assert facts["problem"] == "multi_label"
    assert len(facts["thresholds"]) == made.counts["labels"] == 4
    found = wordpipe.predict(tmp_path / "head", "7 is red and green")
    assert all(0 <= one <= 1 for one in found.probabilities)


def test_scores_are_numbers(base, tmp_path):
    rows = [{"text": f"{COLOURS[i % 3]} {i}", "label": (i % 3) + 0.5} for i in range(90)]
    made = trained(tmp_path, rows, base, epochs=10, lr=5e-3)
    assert json.loads((tmp_path / "head" / "manifest.json").read_text())["facts"]["problem"] == "regression"
    found = wordpipe.predict(tmp_path / "head", "red 5")
    assert found.labels == ()
    assert found.score == pytest.approx(1.5, abs=1.5)
    assert {"valid_pearson", "valid_rmse"} <= made.metrics.keys()


def test_pairs_are_read_together(base, tmp_path):
    rows = [{"text": f"it is {COLOURS[i % 3]}", "more": f"{i} is {COLOURS[i % 3 if i % 2 else (i + 1) % 3]}",
             "label": "same" if i % 2 else "other"} for i in range(60)]  # fmt: skip
    trained(tmp_path, rows, base, ingest={"text_b": "more"})
    opened = wordpipe.open_predictor(tmp_path / "head")
    assert opened.pairs
    assert next(opened.predict([("it is red", "7 is red")])).labels[0] in ("same", "other")
    with pytest.raises(InputError, match="is a single text"):
        next(opened.predict(["it is red"]))


def test_seeds_keep_the_best_one(seeds):
    made, said = seeds
    assert any("of 2 seeds" in note for note in said)
    assert made.metrics["valid_accuracy"] >= made.metrics["seeds_mean"]


def test_frozen_layers_are_those_of_the_start(base, tmp_path):
    made = trained(tmp_path, rows_of(), base, freeze=2, epochs=1)
    before, after = (load_file(folder / "model.safetensors") for folder in (base, tmp_path / "head"))
    same = {name for name in before.keys() & after.keys() if torch.equal(before[name], after[name])}
    assert "model.embeddings.tok_embeddings.weight" in same
    assert any(name.startswith("model.layers.0.") for name in same)
    assert not any(name.startswith("model.layers.1.") for name in same)
    assert made.counts["parameters_trained"] < made.counts["parameters"]


@pytest.mark.parametrize("stopped", ["before", "in the second seed"])
def test_a_stopped_run_goes_on(base, seeds, tmp_path, monkeypatch, stopped):
    from wordpipe.heads import HeadLearner

    take, calls = HeadLearner.take, []

    def failing(self, step, gradients, lr):
        calls.append(step)
        if len(calls) == (3 if stopped == "before" else 10):
            raise KeyboardInterrupt
        return take(self, step, gradients, lr)

    monkeypatch.setattr(HeadLearner, "take", failing)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "parts", rows_of(), base, seeds=2, checkpoint_steps=2)
    monkeypatch.setattr(HeadLearner, "take", take)
    said = Said()
    made = trained(tmp_path / "parts", rows_of(), base, seeds=2, checkpoint_steps=2, run=RunOptions(report=said))
    assert any("continuing a stopped run" in note for note in said)
    assert made.digest == seeds[0].digest


def test_contradictions_and_cut_texts_are_told(base, tmp_path):
    rows = [
        *rows_of(),
        {"text": rows_of(1)[0]["text"], "label": "blue", "n": 1},
        {"text": "word " * 300, "label": "red"},
    ]
    made = trained(tmp_path, rows, base, epochs=1)
    assert made.counts["contradictory"] == 1
    assert made.counts["texts_cut"] == 1
    assert made.counts["tokens_cut"] > 100
    assert any("has the label 'red'" in text and "'blue'" in text for text in made.warnings)


@pytest.mark.parametrize(
    ("rows", "settings", "error", "says"),
    [
        (
            [{"text": "a b", "label": "x"}] * 1 + [{"text": f"{i}", "label": "x"} for i in range(20)],
            {},
            InputError,
            "two different labels",
        ),
        ([{"text": f"{i}", "label": None if i == 3 else "ab"[i % 2]} for i in range(20)], {}, InputError, ":4"),
        ([{"text": f"{i}", "label": "ab"[i % 2]} for i in range(20)], {"problem": "score"}, InputError, "not a number"),
        (
            [{"text": f"{i}", "label": "ab"[i % 2]} for i in range(20)],
            {"seq_len": 4096},
            ConfigError,
            "cannot read sequences of this length",
        ),
        (
            [{"text": f"{i}", "label": "ab"[i % 2]} for i in range(20)],
            {"freeze": 9},
            ConfigError,
            "larger than the number of layers",
        ),
        (
            [{"text": f"{i}", "label": ["a", "b"]} for i in range(20)],
            {"problem": "single"},
            InputError,
            "not have exactly one label",
        ),
    ],
)
def test_bad_labels_and_settings_are_named(base, tmp_path, rows, settings, error, says):
    with pytest.raises(error, match=says):
        trained(tmp_path, rows, base, **settings)
    assert not (tmp_path / "head").exists()


def test_a_corpus_without_labels_names_the_option(built, base, tmp_path):
    with pytest.raises(InputError, match="no column 'label'") as caught:
        wordpipe.train_classifier(built / "corpus", output=tmp_path / "x", init=base, **SMALL)
    assert "--label-field" in str(caught.value.hint)


RIO = ["O", "O", "B-LOC", "I-LOC", "I-LOC", "O", "O"]
TAGGED = [
    {"text": f"{'We' if i % 2 else 'They'} saw  Rio de Janeiro {i} times.", "tags": RIO} for i in range(40)
] + [{"text": f"Anna met {i} friends.", "tags": ["B-PER", "O", "O", "O"]} for i in range(40)]  # fmt: skip


@pytest.fixture(scope="module")
def named(base, tmp_path_factory):
    folder = tmp_path_factory.mktemp("named")
    corpus_of(folder, TAGGED, label_field="", tags_field="tags")
    made = wordpipe.train_tagger(
        folder / "corpus", output=folder / "names", init=base, run=RunOptions(report=Said()),
        **SMALL | {"epochs": 10, "lr": 5e-3},
    )  # fmt: skip
    return folder / "names", made


def test_a_tagger_finds_spans_with_their_places(named):
    folder, made = named
    assert made.metrics["valid_span_f1"] > 0.9
    text = "We saw  Rio de Janeiro 3 times."
    (found,) = wordpipe.open_predictor(folder).predict([text])
    assert [(span.start, span.end, span.label, span.text) for span in found.spans] == [(8, 22, "LOC", "Rio de Janeiro")]
    assert text[8:22] == "Rio de Janeiro"
    assert len(found.tags) == len(text.split())


@pytest.mark.parametrize(
    "text", ["e\u0301te\u0301 Rio de Janeiro", "\U0001f600\U0001f600 Anna met", "日本 語 x", "a\u00a0b c"]
)
def test_places_are_exact_on_any_text(named, text):
    folder, _ = named
    (found,) = wordpipe.open_predictor(folder).predict([text])
    assert len(found.tags) == len(text.split())
    for span in found.spans:
        assert text[span.start : span.end] == span.text


def test_tags_that_are_not_one_a_word_are_named(base, tmp_path):
    rows = [*TAGGED[:10], {"text": "one two three", "tags": ["O", "O"]}]
    corpus_of(tmp_path, rows, label_field="", tags_field="tags")
    with pytest.raises(InputError, match="one tag for each word") as caught:
        wordpipe.train_tagger(tmp_path / "corpus", output=tmp_path / "x", init=base, **SMALL)
    assert ":11" in str(caught.value)
    assert "2 tags for 3 words" in str(caught.value)


def test_models_without_a_head_and_heads_without_a_model(built, coloured, tmp_path):
    with pytest.raises(ArtifactError, match="the model has no head"):
        wordpipe.open_predictor(built / "model")
    with pytest.raises(ArtifactError):
        wordpipe.open_model(coloured[0])


def test_the_command_line(coloured, named, tmp_path):
    (folder, _), (names, _) = coloured, named
    run = CliRunner().invoke
    found = run(cli, ["predict", str(folder), "Number", "7", "is", "green."])
    assert found.output.split("\t")[0] == "green"
    lines = run(cli, ["predict", str(folder), "--json"], input="it is red\n\nit is blue\n").output.splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["it is red", "", "it is blue"]
    assert json.loads(lines[0])["probabilities"].keys() == {*COLOURS}
    spans = run(cli, ["predict", str(names)], input="x\nWe saw  Rio de Janeiro 3 times.\n").output.splitlines()
    assert "2\t8\t22\tLOC" in "\n".join(spans)
    texts = tmp_path / "texts.txt"
    texts.write_text("it is red\n")
    assert run(cli, ["predict", str(folder), "--texts", str(texts)]).exit_code == 0
