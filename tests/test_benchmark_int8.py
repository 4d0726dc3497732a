"""The benchmark of 8-bit integers: sides are compared with the first, and all four run on a model."""

import json
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from tests.stages.test_export_encoder import model

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def int8(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return import_module("int8")


def test_rows_of_unlike_length_are_filled_up(int8):
    ids_BT, mask_BT = int8.padded([[5, 6, 7], [8]])
    assert ids_BT.tolist() == [[5, 6, 7], [8, 0, 0]]
    assert mask_BT.tolist() == [[1, 1, 1], [1, 0, 0]]


def test_a_side_is_judged_by_scores_and_by_the_first_side(int8):
    angle = {"a": 0.0, "b": 0.1, "c": 1.0, "d": 2.0}

    def exact(texts):
        return np.array([[np.cos(angle[text]), np.sin(angle[text])] for text in texts], np.float32)

    def turned(texts):
        return exact(texts)[:, ::-1] + np.float32([0.25, 0])

    lines = int8.judged({"exact": exact, "turned": turned}, ["a"] * 3, ["b", "c", "d"], np.array([3.0, 2, 1]))
    assert lines["exact"] == {"spearman": 100.0, "largest_difference": 0.0}
    assert lines["turned"]["largest_difference"] > 0.5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of torch's, on its own workings
def test_all_sides_run(int8, tmp_path, monkeypatch):
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name)
    pairs, text, out = tmp_path / "dev.csv", tmp_path / "text.txt", tmp_path / "out" / "int8.json"
    pairs.write_text("the bees fly,bees fly home,4\nthe hive,a bee and the bees,2\nhome,the bees,1\n")
    text.write_text("bees fly home\n\nthe hive\n")
    made = model(tmp_path / "model")
    options = ["--data", str(pairs), "--text", str(text), "--repeat", "1", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["int8.py", str(made), *options])
    assert int8.main() == 0
    sides = json.loads(out.read_text())["sides"]
    assert list(sides) == ["float32", "bfloat16", "onnx", "onnx int8"]
    assert sides["onnx"]["largest_difference"] < 1e-4 < sides["onnx int8"]["largest_difference"]
    assert {side["lines"]["texts"] for side in sides.values()} == {2}
    assert sides["bfloat16"]["sentences"]["to_bfloat16"] == 1.0
