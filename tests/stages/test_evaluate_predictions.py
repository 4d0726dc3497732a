"""`evaluate predictions`: figures equal scikit-learn's and follow conlleval's rules; baselines, splits, what is refused."""

import random
import shutil

import numpy as np
import pyarrow as pa
import pytest

import wordpipe
from tests.stages.test_predictions import (  # noqa: F401  (fixtures)
    SAID,
    coloured,
    named,
    rows_of,
    stored,
    tagged_rows,
)
from wordpipe.errors import ArtifactError, ConfigError, InputError


def evaluated(models, data=None, **settings):
    return wordpipe.evaluate_predictions(models, data, run=SAID, **{"draws": 100} | settings)


def single_rows(n, seed, labels="abc"):
    draw = random.Random(seed)
    return [
        {"labels": [draw.choice(labels[:3])], "probabilities": [0.7, 0.2, 0.1], "gold_label": draw.choice(labels)}
        for _ in range(n)
    ]


# ---- figures


@pytest.mark.landing
def test_single_labels_are_measured_as_by_scikit_learn(tmp_path):
    sklearn_metrics = pytest.importorskip("sklearn.metrics")
    rows = single_rows(200, 1)
    path = stored(tmp_path, "classifier", rows, "label", labels=[*"abc"])
    found = evaluated(path)
    gold, said = [row["gold_label"] for row in rows], [row["labels"][0] for row in rows]
    one = found["systems"][0]
    assert one["metrics"]["accuracy"] == pytest.approx(sklearn_metrics.accuracy_score(gold, said), abs=1e-6)
    for average in ("macro", "micro"):
        expected = sklearn_metrics.f1_score(gold, said, average=average)
        assert one["metrics"][f"{average}_f1"] == pytest.approx(expected, abs=1e-6)
    assert one["confusion"]["labels"] == [*"abc"]
    assert one["confusion"]["table"] == sklearn_metrics.confusion_matrix(gold, said).tolist()
    theirs = sklearn_metrics.precision_recall_fscore_support(gold, said)
    for place, label in enumerate("abc"):
        ours = one["by_label"][label]
        assert [ours[name] for name in ("precision", "recall", "f1", "support")] == pytest.approx(
            [values[place] for values in theirs], abs=1e-6
        )
    assert one["confused"][0]["count"] == max(
        count
        for row, counts in enumerate(one["confusion"]["table"])
        for column, count in enumerate(counts)
        if row != column
    )
    low, high = one["intervals"]["accuracy"]
    assert low < one["metrics"]["accuracy"] < high
    assert found == evaluated(path)
    assert found["systems"][0]["intervals"] != evaluated(path, seed=2)["systems"][0]["intervals"]


@pytest.mark.landing
def test_labels_that_are_only_given_count_in_the_macro_mean_as_in_scikit_learn(tmp_path):
    sklearn_metrics = pytest.importorskip("sklearn.metrics")
    rows = [{"labels": [said], "probabilities": [1.0], "gold_label": gold} for said, gold in ("aa", "ca", "bb")]
    (one, *_) = evaluated(stored(tmp_path, "classifier", rows, "label"))["systems"]
    expected = sklearn_metrics.f1_score(["a", "a", "b"], ["a", "c", "b"], average="macro", zero_division=0)
    assert one["metrics"]["macro_f1"] == pytest.approx(expected, abs=1e-6)


def test_the_macro_mean_of_many_labels_is_not_drawn_but_the_same(tmp_path, monkeypatch):
    path = stored(tmp_path, "classifier", single_rows(50, 2), "label")
    whole = evaluated(path)["systems"][0]
    monkeypatch.setattr("wordpipe.stages.evaluate.predictions._MOST_NUMBERS", 100)
    (part, *_) = evaluated(path)["systems"]
    assert part["metrics"]["macro_f1"] == whole["metrics"]["macro_f1"]
    assert "macro_f1" not in part["intervals"]


@pytest.mark.landing
def test_several_labels_are_measured_as_by_scikit_learn(tmp_path):
    sklearn_metrics = pytest.importorskip("sklearn.metrics")
    draw = np.random.default_rng(3)
    said, gold = draw.integers(0, 2, (80, 3)), draw.integers(0, 2, (80, 3))
    names = np.array([*"abc"])
    rows = [{"labels": names[one == 1].tolist(), "probabilities": (0.2 + 0.6 * one).tolist(),
             "gold_label": names[other == 1].tolist()}
            for one, other in zip(said, gold, strict=True)]  # fmt: skip
    path = stored(
        tmp_path, "classifier", rows, "label", labels=[*"abc"], problem="multi_label", gold_type=pa.list_(pa.string())
    )
    found = evaluated(path)
    metrics = found["metrics"]
    assert found["task"] == "several"
    for average in ("macro", "micro"):
        assert metrics[f"{average}_f1"] == pytest.approx(
            sklearn_metrics.f1_score(gold, said, average=average), abs=1e-6
        )
    assert metrics["exact_match"] == pytest.approx(sklearn_metrics.accuracy_score(gold, said), abs=1e-6)
    assert metrics["calibration_error"] == pytest.approx(
        sum((said == one).mean() * abs(gold[said == one].mean() - (0.2 + 0.6 * one)) for one in (0, 1)), abs=1e-5
    )


@pytest.mark.landing
def test_scores_have_correlations_and_an_error(tmp_path):
    sklearn_metrics = pytest.importorskip("sklearn.metrics")
    from scipy.stats import pearsonr, spearmanr

    draw = np.random.default_rng(4)
    gold = draw.normal(size=60).astype(np.float32)
    said = (gold + draw.normal(size=60)).astype(np.float32)
    rows = [{"score": float(one), "gold_label": float(other)} for one, other in zip(said, gold, strict=True)]
    found = evaluated(stored(tmp_path, "score", rows, "label", problem="regression", gold_type=pa.float64()))
    metrics = found["metrics"]
    assert metrics["pearson"] == pytest.approx(pearsonr(said, gold)[0], abs=1e-5)
    assert metrics["spearman"] == pytest.approx(spearmanr(said, gold)[0], abs=1e-5)
    assert metrics["rmse"] == pytest.approx(sklearn_metrics.root_mean_squared_error(gold, said), abs=1e-5)
    mean = found["systems"][1]
    assert (mean["system"], mean["metrics"]["pearson"], mean["metrics"]["spearman"]) == ("majority", 0, 0)


GOLDEN = [
    # gold tags, tags that are given, right spans, given, there: as conlleval.pl counts them
    ("B-A I-A O B-B", "B-A I-A O B-B", 2, 2, 2),
    ("B-A I-A O B-B", "B-A O O B-B", 1, 2, 2),  # a part of a span is no span
    ("I-A I-A O I-B", "I-A I-A O I-B", 2, 2, 2),  # IOB1
    ("I-A B-A O", "I-A I-A O", 0, 1, 2),  # two neighbours, and one span of both
    ("B-A L-A O U-B", "B-A I-A O B-B", 2, 2, 2),  # BILOU says the same
    ("B-A I-A I-A", "O I-A I-A", 0, 1, 1),  # an I after O begins a span
    ("B-A I-A", "B-A I-B", 0, 2, 1),  # and one of another label
    ("B-A O O", "O O O", 0, 0, 1),
    ("O O", "B-A B-A", 0, 2, 0),
    ("NOUN VERB", "NOUN NOUN", 1, 2, 2),  # parts of speech: a span for each word
]


def test_spans_are_counted_as_conlleval_does(tmp_path):
    rows = [{"text": " ".join("x" * len(gold.split())), "tags": said.split(), "spans": [], "gold_tags": gold.split()}
            for gold, said, *_ in GOLDEN]  # fmt: skip
    found = evaluated(stored(tmp_path, "tagger", rows, "tags"))
    right, given, there = (sum(row[place] for row in GOLDEN) for place in (2, 3, 4))
    metrics = found["metrics"]
    assert metrics["span_precision"] == pytest.approx(right / given, abs=1e-6)
    assert metrics["span_recall"] == pytest.approx(right / there, abs=1e-6)
    assert metrics["span_f1"] == pytest.approx(2 * right / (given + there), abs=1e-6)
    same = [a == b for gold, said, *_ in GOLDEN for a, b in zip(gold.split(), said.split(), strict=True)]
    assert metrics["accuracy"] == pytest.approx(sum(same) / len(same), abs=1e-6)
    assert found["systems"][0]["by_label"]["B"]["support"] == 4


@pytest.mark.parametrize("number", range(len(GOLDEN)))
def test_spans_of_a_single_text(tmp_path, number):
    gold, said, right, given, there = GOLDEN[number]
    rows = [
        {"text": " ".join("x" * len(gold.split())), "tags": said.split(), "spans": [], "gold_tags": gold.split()}
    ] * 2
    metrics = evaluated(stored(tmp_path, "tagger", rows, "tags"))["metrics"]
    assert metrics["span_f1"] == pytest.approx(2 * right / (given + there), abs=1e-6)


PASSAGE = "The old mill stands by the river. Bees nest in its wall, and nobody minds."
QUESTIONS = [
    # question, accepted answers as stretches of the passage, what is answered, exact match, F1
    ("What stands by the river?", [(0, 12)], "old mill!", 1, 1.0),  # articles and punctuation count nothing
    ("Where do bees nest?", [(44, 55), (47, 55)], "wall", 0, 2 / 3),  # of several accepted ones the best
    ("Who baked the bread?", [], "", 1, 1.0),
    ("Who minds?", [], "nobody", 0, 0.0),
    ("What nests?", [(34, 38)], "", 0, 0.0),
]


def test_answers_are_measured_as_squad_does_it(tmp_path):
    rows = [{"text": PASSAGE, "text_b": question, "answer": answer, "start": -1, "end": -1, "probability": 0.9,
             "no_answer": 0.9, "gold_spans": [{"start": a, "end": b, "label": None} for a, b in spans]}
            for question, spans, answer, *_ in QUESTIONS]  # fmt: skip
    found = evaluated(stored(tmp_path, "reader", rows, "spans"))
    metrics = found["metrics"]
    assert metrics["exact_match"] == pytest.approx(2 / 5)
    assert metrics["f1"] == pytest.approx((1 + 2 / 3 + 1) / 5, abs=1e-6)
    assert metrics["answered_f1"] == pytest.approx((1 + 2 / 3) / 3, abs=1e-6)
    assert metrics["unanswered_exact"] == pytest.approx(1 / 2)
    assert metrics["calibration_error"] == pytest.approx(0.9 - 2 / 5, abs=1e-5)
    assert [one["system"] for one in found["systems"]] == ["model", "majority", "sentence"]
    assert found["systems"][1]["metrics"]["exact_match"] == pytest.approx(2 / 5)


# ---- models, and baselines


def test_a_model_is_measured_on_what_it_has_not_seen_beside_baselines(coloured):  # noqa: F811
    found = evaluated(coloured / "head", coloured / "corpus")
    assert [one["system"] for one in found["systems"]] == ["model", "majority", "tfidf"]
    assert found["split"] == "test"
    assert found["counts"]["texts_in_train"] == 0
    assert found["counts"]["texts"] + found["counts"]["train_texts"] == 150
    model, majority, tfidf = found["systems"]
    assert model["metrics"]["accuracy"] > 0.8
    assert tfidf["metrics"]["accuracy"] == 1.0
    assert model["against"]["majority"]["accuracy"]["difference"] == pytest.approx(
        model["metrics"]["accuracy"] - majority["metrics"]["accuracy"], abs=1e-5
    )
    assert model["best_baseline"]["baseline"] == "tfidf"
    assert model["best_baseline"]["significant"] is False
    assert found["metrics"]["tfidf"] == tfidf["metrics"]


def test_stored_predictions_have_the_same_figures(coloured, tmp_path):  # noqa: F811
    wordpipe.predict_corpus(coloured / "head", coloured / "corpus", output=tmp_path / "out", run=SAID)
    one, other = evaluated(tmp_path / "out"), evaluated(coloured / "head", coloured / "corpus", split="all")
    assert one["systems"][0]["metrics"] == pytest.approx(other["systems"][0]["metrics"], abs=1e-5)
    assert one["train"] == other["train"]
    assert one["counts"]["texts_in_train"] > 100


def test_tags_have_a_gazetteer(named):  # noqa: F811
    found = evaluated(named / "head", named / "corpus")
    assert [one["system"] for one in found["systems"]] == ["model", "majority", "gazetteer"]
    assert found["systems"][2]["metrics"]["span_f1"] == 1.0
    assert found["systems"][1]["metrics"]["span_f1"] == 0.0
    assert {*found["systems"][0]["by_label"]} == {"LOC", "PER"}


def test_files_are_read_with_fields_by_their_names(coloured, tmp_path):  # noqa: F811
    import json

    (tmp_path / "one.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows_of(9, 500)))
    renamed = [{"body": row["text"], "colour": row["label"]} for row in rows_of(9, 500)] * 2
    (tmp_path / "other.jsonl").write_text("".join(json.dumps(row) + "\n" for row in renamed))
    one = evaluated(coloured / "head", tmp_path / "one.jsonl")
    other = evaluated(coloured / "head", tmp_path / "other.jsonl", text_field="body", label_field="colour")
    assert (one["counts"]["texts"], other["counts"]["texts"]) == (9, 18)  # a test set may have a text twice
    assert one["metrics"]["accuracy"] == other["metrics"]["accuracy"]
    with pytest.raises(ConfigError, match="with a corpus artifact only"):
        evaluated(coloured / "head", tmp_path / "one.jsonl", split="test")


def test_unknown_labels_are_named_and_wrong(coloured):  # noqa: F811
    rows = [*rows_of(6, 900), {"text": "It is mauve", "label": "mauve"}, {"text": "It is pink", "label": None}]
    one = evaluated(coloured / "head", rows)["systems"][0]
    assert one["unknown_labels"] == {"mauve": {"count": 1, "first": "memory:7"}}
    assert one["metrics"]["accuracy"] <= 6 / 7
    assert evaluated(coloured / "head", rows)["counts"]["unlabelled"] == 1


def test_without_training_texts_a_note_says_how_to_give_them(coloured, tmp_path):  # noqa: F811
    shutil.copytree(coloured / "head", tmp_path / "head")
    found = evaluated(tmp_path / "head", rows_of(12, 300))
    assert [one["system"] for one in found["systems"]] == ["model", "majority"]
    assert "--train CORPUS" in found["train_note"]
    wordpipe.ingest(rows_of(30), output=tmp_path / "corpus", label_field="label")  # another one stands there now
    assert "was moved, deleted or changed" in evaluated(tmp_path / "head", rows_of(12, 300))["train_note"]
    given = evaluated(tmp_path / "head", rows_of(12, 300), train=tmp_path / "corpus")
    assert [one["system"] for one in given["systems"]] == ["model", "majority", "tfidf"]
    assert given["counts"]["train_texts"] == 30


def test_two_models_are_compared_text_by_text(tmp_path):
    paths = [stored(tmp_path, "classifier", [row | {"labels": [row["gold_label"]]} if keep(n) else row
                                             for n, row in enumerate(single_rows(60, 5))], "label", name=name)
             for name, keep in (("good", lambda n: n % 4), ("bad", lambda n: n % 4 == 0))]  # fmt: skip
    good, bad = evaluated(paths)["systems"][:2]
    assert good["against"][bad["name"]]["accuracy"]["p"] < 0.05
    assert good["against"][bad["name"]]["accuracy"]["difference"] == pytest.approx(
        -bad["against"][good["name"]]["accuracy"]["difference"]
    )


def test_without_draws_nothing_is_drawn(tmp_path):
    one = evaluated(stored(tmp_path, "classifier", single_rows(20, 6), "label"), draws=0)["systems"][0]
    assert (one["against"], one["best_baseline"], one["intervals"]["accuracy"]) == ({}, None, None)


# ---- what is refused


def test_data_without_labels_names_the_option(built, coloured, tmp_path):  # noqa: F811
    with pytest.raises(InputError, match="no labels") as caught:
        evaluated(coloured / "head", built / "corpus")
    assert "--label-field" in str(caught.value)
    wordpipe.predict_corpus(coloured / "head", built / "corpus", output=tmp_path / "out", run=SAID)
    with pytest.raises(InputError, match="no labels"):
        evaluated(tmp_path / "out")
    with pytest.raises(InputError, match="none with a label"):
        evaluated(coloured / "head", [{"text": "a", "label": None}, {"text": "b", "label": None}])


def test_a_label_that_cannot_be_one_is_named_by_line(coloured, named):  # noqa: F811
    with pytest.raises(InputError, match="not have exactly one label") as caught:
        evaluated(coloured / "head", [{"text": "a", "label": ["red"]}, {"text": "b", "label": ["red", "blue"]}])
    assert "memory:2" in str(caught.value)
    with pytest.raises(InputError, match="one tag for each word") as caught:
        evaluated(named / "head", [*tagged_rows(2), {"text": "one two", "tags": ["O"]}])
    assert "memory:3" in str(caught.value)


def test_what_does_not_go_together_is_refused(coloured, named, tmp_path):  # noqa: F811
    one = stored(tmp_path, "classifier", single_rows(9, 7), "label")
    other = stored(tmp_path, "classifier", single_rows(9, 8), "label", name="other")
    with pytest.raises(ArtifactError, match="different texts"):
        evaluated([one, other])
    with pytest.raises(ConfigError, match="the labels stored in their artifact"):
        evaluated(one, rows_of(3))
    with pytest.raises(ConfigError, match="different tasks"):
        evaluated([coloured / "head", named / "head"], coloured / "corpus")
    with pytest.raises(ConfigError, match="labelled texts"):
        evaluated(coloured / "head")
    with pytest.raises(ConfigError, match="no model"):
        evaluated([])
    with pytest.raises(ArtifactError, match="wrong kind"):
        evaluated([one, coloured / "head"])
    wordpipe.ingest(rows_of(5), output=tmp_path / "few", label_field="label")
    with pytest.raises(InputError, match="no split"):
        evaluated(coloured / "head", tmp_path / "few", split="test")
