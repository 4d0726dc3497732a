"""The benchmark of embedding: both sides get the same texts and give the same vectors, and a miss is said."""

import json
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def embed(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return import_module("embed")


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(f"The {n}th bee finds her way home in a field of clover.\n" for n in range(80)))
    return path


@pytest.mark.slow
def test_it_runs_and_both_sides_agree(embed, text, tmp_path, monkeypatch):
    out = tmp_path / "out" / "embed.json"
    sizes = ["--texts", "12", "--sentences", "100", "--repeat", "1", "--vocab-size", "300", "--threads", "1"]
    options = ["--parts", "4x256", "static", *sizes]
    monkeypatch.setattr(sys, "argv", ["embed.py", "--data", str(text), "--out", str(out), *options])
    embed.main()
    found = json.loads(out.read_text())
    assert [line["part"] for line in found["lines"]] == ["4x256", "static"]
    for line in found["lines"]:
        assert line["largest_difference"] < 1e-5
        assert set(line["texts_per_s"]) == {"wordpipe", "sentence-transformers"}


def test_misses_are_named(embed):
    line = {"part": "4x256", "largest_difference": 1e-3, "ratio": 1.2, "texts_per_s": {"wordpipe": 5.0}}
    assert embed.misses_of(line, "float32") == ["4x256: vectors differ by 1.0e-03", "4x256: only 1.2 times as fast"]
    assert embed.misses_of(line | {"ratio": 2.0}, "bfloat16") == []
    assert embed.misses_of({"part": "static", "texts_per_s": {"wordpipe": 5e4}}, "float32") == [
        "static: only 50,000 texts/s"
    ]
    asked = {"part": "query", "cold_median_s": 1.6, "batch_s": 11.0}
    assert embed.misses_of(asked, "float32") == [
        "query: a cold query takes 1.6 s",
        "query: a thousand queries take 11.0 s",
    ]


def test_sides_take_turns_and_the_first_run_does_not_count(embed):
    calls = []

    def side(name, value):
        def encode(texts):
            calls.append(name)
            return np.full((len(texts), 2), value)

        return encode

    seconds, difference = embed.in_turns({"a": side("a", 1.0), "b": side("b", 1.25)}, ["x", "y"], 2)
    assert calls == ["a", "b"] * 3
    assert [len(taken) for taken in seconds.values()] == [2, 2]
    assert difference == 0.25
