"""`evaluate predictions` on the screen: tables as wide as it, remarks on what the figures stand on, JSON."""

import json
import random
import re

import pytest

from tests.stages.test_predictions import stored

LABELS = ["a rather long name of a label", "b", "c"]


def some(n, labels, right=0.7, seed=1):
    draw = random.Random(seed)
    golds = [draw.choice(labels) for _ in range(n)]
    return [{"labels": [gold if draw.random() < right else draw.choice(labels)], "probabilities": [0.8], "gold_label": gold,
             "text": f"text {number}"} for number, gold in enumerate(golds)]  # fmt: skip


@pytest.fixture
def three(tmp_path):
    return stored(tmp_path, "classifier", some(60, LABELS), "label", labels=LABELS[1:])


def test_tables_fit_a_terminal_and_say_what_is_what(three, cli, screen):
    screen(80)
    page = cli("evaluate", "predictions", three)
    assert page.code == 0
    assert max(len(line.rstrip()) for line in page.out.splitlines()) <= 80
    for part in (
        "accuracy",
        "macro F1",
        "95 %",
        "model above",
        "calibration error",
        "precision",
        "true and predicted labels",
    ):
        assert part in page.out
    assert "60 texts" in page.err
    assert "does not know the label a rather long" in page.err
    assert "is better than the best baseline (most frequent label)" in page.err
    assert "no TF-IDF baseline" in page.err
    assert "--train CORPUS" in page.err


def test_in_a_pipe_nothing_is_folded_and_quiet_says_no_more(three, cli):
    page = cli("evaluate", "predictions", three, "-q")
    assert page.err == ""
    assert any("most frequent" in line for line in page.out.splitlines())
    assert "\x1b" not in page.out


def test_many_labels_list_the_pairs_that_are_confused_most(tmp_path, cli):
    labels = [f"label-{number:02d}" for number in range(45)]
    page = cli("evaluate", "predictions", stored(tmp_path, "classifier", some(400, labels), "label"))
    assert "most frequent confusions" in page.out
    assert re.search(r"label-\d+ +label-\d+ +\d+ +file:\d+", page.out)
    assert "and 5 more labels" in page.out


def test_what_learned_nothing_is_told(tmp_path, cli):
    rows = some(80, ["x", "y"], right=0.0)
    page = cli("evaluate", "predictions", stored(tmp_path, "classifier", rows, "label"))
    assert "not measurably better than the best" in page.err or "is worse than the best baseline" in page.err


def test_two_models_stand_side_by_side(tmp_path, cli, screen):
    one = stored(tmp_path, "classifier", some(80, LABELS, 0.9), "label", name="one")
    other = stored(
        tmp_path, "classifier", [row | {"labels": ["b"]} for row in some(80, LABELS, 0.9)], "label", name="other"
    )
    screen(100)
    page = cli("evaluate", "predictions", one, other)
    assert page.code == 0
    assert "above: …" in page.out


@pytest.mark.parametrize(
    ("task", "gold", "row", "shown"),
    [
        ("tagger", "tags", {"text": "see Rome", "tags": ["O", "B-LOC"], "gold_tags": ["O", "B-LOC"],
                            "spans": [{"start": 4, "end": 8, "label": "LOC", "probability": 0.5}]}, "span F1"),
        ("reader", "spans", {"text": "see Rome", "text_b": "what?", "answer": "Rome", "start": 4, "end": 8, "probability": 1.0,
                             "no_answer": 0.0, "gold_spans": [{"start": 4, "end": 8, "label": None}]}, "exact match"),
    ],
)  # fmt: skip
def test_other_tasks_have_their_own_lines(tmp_path, cli, task, gold, row, shown):
    page = cli("evaluate", "predictions", stored(tmp_path, task, [row] * 4, gold))
    assert page.code == 0
    assert shown in page.out
    assert "100.00" in page.out


def test_json_is_one_object_with_metrics(three, cli):
    found = json.loads(cli("evaluate", "predictions", three, "--json", "--draws", 50).out)
    assert found["evaluated"] == "predictions"
    assert found["metrics"]["accuracy"] == found["systems"][0]["metrics"]["accuracy"]
    assert found["settings"]["draws"] == 50


def test_a_model_without_data_is_told_what_to_give(built, cli):
    page = cli("evaluate", "predictions", built / "predictions", "--data", built / "corpus")
    assert page.code == 2
    assert "with the labels stored in their artifact" in page.err
