"""`predict MODEL CORPUS -o`: a row for each record, places in its own text, what is refused, pipelines and the shell."""

import json

import pyarrow as pa
import pytest
from click.testing import CliRunner

import wordpipe
from wordpipe import RunOptions
from wordpipe.artifacts import CORPUS, PREDICTED, SPANS, TAGS, predictions_schema
from wordpipe.cli.app import app as cli
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.heads.settings import PredictSettings
from wordpipe.runtime import quiet
from wordpipe.stages import open_job

COLOURS = ("red", "green", "blue")
SMALL = {"device": "cpu", "dtype": "float32", "threads": 1, "epochs": 6, "lr": 5e-3, "dropout": 0.0}
SAID = RunOptions(report=quiet)
GOLD_TYPES = {"label": pa.string(), "tags": TAGS, "spans": SPANS}


def rows_of(n, first=0):
    return [
        {"text": f"Number {i} is {COLOURS[i % 3]}. It stays so.", "label": COLOURS[i % 3]}
        for i in range(first, first + n)
    ]


def tagged_rows(n):
    return [{"text": f"They saw Rio de Janeiro {i} times", "tags": ["O", "O", "B-LOC", "I-LOC", "I-LOC", "O", "O"]}
            if i % 2 else {"text": f"Anna met {i} friends", "tags": ["B-PER", "O", "O", "O"]} for i in range(n)]  # fmt: skip


@pytest.fixture(scope="module")
def coloured(base, tmp_path_factory):
    folder = tmp_path_factory.mktemp("coloured")
    wordpipe.ingest(rows_of(150), output=folder / "corpus", label_field="label", test=0.2)
    wordpipe.train_classifier(folder / "corpus", output=folder / "head", init=base, run=SAID, **SMALL)
    return folder


@pytest.fixture(scope="module")
def named(base, tmp_path_factory):
    folder = tmp_path_factory.mktemp("named")
    wordpipe.ingest(tagged_rows(80), output=folder / "corpus", tags_field="tags", test=0.2)
    wordpipe.train_tagger(folder / "corpus", output=folder / "head", init=base, run=SAID, **SMALL)
    return folder


def table_of(path):
    with wordpipe.open(path, "predictions") as opened:
        return opened.batches().read_all()


def stored(folder, task, rows, gold, name="stored", labels=None, problem="single_label", gold_type=None):
    """Predictions as `predict` would have written them."""
    corpus = pa.schema([*(field for field in CORPUS if field.name not in ("sentence_id", "split")),
                        *([pa.field("text_b", pa.string())] if task == "reader" else []),
                        pa.field(gold, gold_type or GOLD_TYPES[gold])])  # fmt: skip
    schema = predictions_schema(task, corpus)
    with (
        open_job("predictions", folder / name, PredictSettings(), SAID) as job,
        job.table("predictions", schema) as table,
    ):
        job.facts = {"task": task, "problem": problem, "labels": labels or []}
        record = {"title": None, "text": "", "source": "file", "text_b": ""}
        rows = [record | {"doc_id": str(n), "line": n + 1} | row for n, row in enumerate(rows)]
        table.write(pa.RecordBatch.from_pylist(rows, schema))
    return folder / name


# ---- predict MODEL CORPUS -o


def test_a_row_for_each_record_in_the_order_of_the_corpus(coloured, tmp_path):
    made = wordpipe.predict_corpus(
        coloured / "head", coloured / "corpus", output=tmp_path / "out", run=SAID, device="cpu"
    )
    table = table_of(tmp_path / "out")
    rows = rows_of(150)
    assert table["text"].to_pylist() == [row["text"] for row in rows]
    assert table["gold_label"].to_pylist() == [row["label"] for row in rows]
    assert made.counts == {"texts": 150, "labelled": 150, "texts_cut": 0, "tokens_cut": 0}
    found = list(wordpipe.open_predictor(coloured / "head", device="cpu").predict(row["text"] for row in rows))
    assert table["labels"].to_pylist() == [[*one.labels] for one in found]
    for ours, theirs in zip(table["probabilities"].to_pylist(), found, strict=True):
        assert ours == pytest.approx(theirs.probabilities, abs=1e-6)
    assert wordpipe.verify(tmp_path / "out")["ok"]
    shown = wordpipe.show(tmp_path / "out", rows=1)
    assert shown["rows"][0]["gold_label"] == "red"
    assert shown["manifest"]["facts"]["labels"] == sorted(COLOURS)
    again = wordpipe.predict_corpus(
        coloured / "head", coloured / "corpus", output=tmp_path / "again", run=SAID, device="cpu"
    )
    assert again.digest == made.digest


def test_equal_texts_side_by_side_are_two_records(coloured, tmp_path):
    wordpipe.ingest([{"text": "It is red. So it is."}] * 2, output=tmp_path / "corpus", deduplicate=False)
    made = wordpipe.predict_corpus(coloured / "head", tmp_path / "corpus", output=tmp_path / "out", run=SAID)
    assert made.counts["texts"] == 2
    assert table_of(tmp_path / "out")["text"].to_pylist() == ["It is red. So it is."] * 2


def test_places_are_those_of_the_records_own_text(named, tmp_path):
    rows = [
        {"text": f"{gap}They saw Rio de Janeiro {n} times", "key": f"k{n}"} for n, gap in enumerate(["", "  ", "\n\n "])
    ]
    wordpipe.ingest(rows, output=tmp_path / "corpus", id_field="key")
    wordpipe.predict_corpus(named / "head", tmp_path / "corpus", output=tmp_path / "out", run=SAID)
    table = table_of(tmp_path / "out").to_pylist()
    assert [row["record_id"] for row in table] == ["k0", "k1", "k2"]
    spans = [[(row["text"][one["start"] : one["end"]], one["label"]) for one in row["spans"]] for row in table]
    assert spans == [[("Rio de Janeiro", "LOC")]] * 3
    assert "gold_tags" not in table[0]


@pytest.mark.landing
def test_sources_and_folders_of_transformers_serve(coloured, tmp_path):
    import transformers

    transformers.AutoModelForSequenceClassification.from_pretrained(coloured / "head").save_pretrained(
        tmp_path / "theirs"
    )
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "theirs" / name).write_bytes((coloured / "head" / name).read_bytes())
    (tmp_path / "texts.txt").write_text("It is red.\n\nIt is blue.\n")
    made = wordpipe.predict_corpus(tmp_path / "theirs", tmp_path / "texts.txt", output=tmp_path / "out", run=SAID)
    assert made.counts["texts"] == made.counts["ingest_documents_kept"]
    kinds = [entry["kind"] for entry in wordpipe.show(tmp_path / "out")["manifest"]["inputs"]]
    assert kinds == ["file", "source"]


def test_what_stops_leaves_the_old_artifact(coloured, tmp_path, monkeypatch):
    made = wordpipe.predict_corpus(coloured / "head", coloured / "corpus", output=tmp_path / "out", run=SAID)
    monkeypatch.setattr("wordpipe.heads.Classifier.predict", lambda *_: iter([1 / 0]))
    with pytest.raises(ZeroDivisionError):
        wordpipe.predict_corpus(coloured / "head", coloured / "corpus", output=tmp_path / "out", run=SAID)
    assert wordpipe.show(tmp_path / "out")["manifest"]["digest"] == made.digest
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".tmp")] == []


def test_models_of_pairs_want_pairs(base, coloured, tmp_path):
    rows = [
        {"text": f"it is {COLOURS[i % 3]}", "other": f"{i} is {COLOURS[i % 2]}", "label": "ab"[i % 2]}
        for i in range(90)
    ]
    wordpipe.ingest(rows, output=tmp_path / "pairs", label_field="label", text_b="other", test=0.3)
    wordpipe.train_classifier(
        tmp_path / "pairs", output=tmp_path / "head", init=base, run=SAID, **SMALL | {"epochs": 1, "held_out": 0.3}
    )
    wordpipe.predict_corpus(tmp_path / "head", tmp_path / "pairs", output=tmp_path / "out", run=SAID)
    assert table_of(tmp_path / "out")["text_b"].to_pylist() == [row["other"] for row in rows]
    with pytest.raises(InputError, match="has only single texts") as caught:
        wordpipe.predict_corpus(tmp_path / "head", coloured / "corpus", output=tmp_path / "x", run=SAID)
    assert "--text-b" in str(caught.value)
    found = wordpipe.evaluate_predictions(tmp_path / "head", tmp_path / "pairs", run=SAID, draws=50)
    assert [one["system"] for one in found["systems"]] == ["model", "majority", "tfidf"]


def test_a_table_that_says_nothing_is_refused(tmp_path, monkeypatch):
    rows = [{"labels": ["a"], "probabilities": [1.0], "gold_label": "a"}]
    path = stored(tmp_path, "classifier", rows, "label")
    monkeypatch.setitem(PREDICTED, "classifier", PREDICTED["score"])
    with pytest.raises(ArtifactError, match="no column with predictions"):
        table_of(path)


def test_a_pipeline_makes_predictions(coloured, tmp_path, cli):
    config = tmp_path / "wordpipe.toml"
    config.write_text(
        f'[stage.predicted]\ncommand = "predict"\ninputs = ["{coloured / "head"}", "{coloured / "corpus"}"]\ndevice = "cpu"\n'
    )
    assert "stale" in cli("status", config).out
    assert cli("run", config, "-q").code == 0
    assert "fresh" in cli("status", config).out
    line = cli("predict", "--config", f"{config}#predicted", "--json").out
    assert json.loads(line)["kind"] == "predictions"


def test_the_command_line_of_a_corpus(coloured, named, tmp_path, monkeypatch):
    run = CliRunner().invoke
    made = run(
        cli, ["predict", str(coloured / "head"), str(coloured / "corpus"), "-o", str(tmp_path / "out"), "--json"]
    )
    assert json.loads(made.stdout)["counts"]["texts"] == 150
    refused = run(cli, ["predict", str(coloured / "head"), str(coloured / "corpus")])
    assert isinstance(refused.exception, ConfigError)
    assert "-o OUTPUT" in str(refused.exception)
    both = run(cli, ["predict", str(coloured / "head"), "--texts", "x", "-o", str(tmp_path / "out")])
    assert isinstance(both.exception, ConfigError)
    alone = run(cli, ["predict", str(coloured / "head"), "red", "--fresh"])
    assert isinstance(alone.exception, ConfigError)
    monkeypatch.setattr("wordpipe.heads.predict.best_tags", lambda logprobs, _: ["O"] * len(logprobs))
    assert "the model found no span in this text" in run(cli, ["predict", str(named / "head"), "It", "rains"]).output
    assert "no span in 2 of 2 texts" in run(cli, ["predict", str(named / "head")], input="It rains\nIt snows\n").output
