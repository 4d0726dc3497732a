"""The benchmark of encoder-decoders: both sides do the same work, and the figures are what they say."""

import json
from importlib import import_module

import numpy as np
import pytest

from tests.conftest import BENCHMARKS

pytestmark = pytest.mark.usefixtures("benchmarks_on_path")
SPECIAL = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "<s>": 5, "</s>": 6}
SHAPE = {"dim": 32, "n_layers": 1, "n_heads": 2, "ffn_dim": 48, "seq_len": 16}


def benchmark(name):
    return import_module(name)


def task_of(folder, style, dtype="float32"):
    """A training of ours on random pairs."""
    from wordpipe.training import PairWriter

    random = np.random.default_rng(1)
    writer = PairWriter(folder / "pairs", vocab_size=90, before=(), after=(6,), end=(6,), max_len=16)
    for _ in range(60):
        writer.add(*(random.integers(7, 90, random.integers(2, 12)) for _ in range(2)))
    writer.close()
    settings = SHAPE | {
        "style": style, "batch_size": 8, "steps": 3, "lr": 1e-3, "weight_decay": 0.05, "beta1": 0.9, "beta2": 0.98,
        "optimiser": "adamw", "dtype": dtype, "dropout": 0.0, "label_smoothing": 0.0, "average": 0.0, "report_every": 1,
        "device": "cpu", "threads": 1,
    }  # fmt: skip
    same = {"special": SPECIAL, "n_tokens": 90, "pairs": str(folder / "pairs"), "threads": 1}
    return same | {"settings": settings, "folder": str(folder / "state")}


def recorded(folder, style, dtype="float32"):
    """What became of it, and what a peer needs to repeat it."""
    task, record = task_of(folder, style, dtype), str(folder / "record")
    ours = benchmark("peers.seq2seq_sides").record(task | {"record": record})
    theirs = {"record": record, "rates": ours["rates"], "betas": [0.9, 0.98], "weight_decay": 0.05, "clip": 1.0}
    return ours, task | theirs | {"dtype": dtype, "attention": "sdpa"}


@pytest.mark.parametrize("style", ["vaswani", "t5"])
def test_where_the_time_of_a_step_goes(tmp_path, style):
    shares = benchmark("peers.seq2seq_sides").record(task_of(tmp_path, style) | {"profiled": 1})
    assert sum(shares.values()) == pytest.approx(1, abs=0.01)
    assert min(shares["products of the weights"], shares["products and softmax of attention"], shares["norms"]) > 0


@pytest.mark.parametrize(("style", "dropout"), [("vaswani", "dropout"), ("t5", "dropout_rate")])
def test_transformers_repeats_a_recorded_training_of_pairs(tmp_path, style, dropout):
    ours, task = recorded(tmp_path, style)
    theirs = benchmark("peers.seq2seq_sides").repeat(task | {"config": {dropout: 0.0}})
    assert len(ours["losses"]) == 3
    assert theirs["losses"][0] == pytest.approx(ours["losses"][0], rel=1e-4)
    if style == "vaswani":  # T5's table is another multiple there, and moves otherwise
        assert theirs["losses"] == pytest.approx(ours["losses"], rel=1e-3)
        assert (
            theirs["parameters"] + 128 == ours["parameters"]
        )  # it keeps an offset of the logits, but does not train it


def test_the_products_are_those_of_the_weights():
    sides = benchmark("peers.seq2seq_sides")
    shape = SHAPE | {"gate": 1}
    of_matrices = [
        (32, 96), (32, 32), (32, 48), (48, 32),  # encoder: queries, keys and values; out; up; down
        (32, 96), (32, 32), (32, 32), (32, 32), (32, 48), (48, 32),  # decoder: the same, and the query and out to the source
    ]  # fmt: skip
    positions = [5] * 4 + [7] * 6
    wanted = sum(n * a * b for n, (a, b) in zip(positions, of_matrices, strict=True)) + 5 * 32 * 64 + 7 * 32 * 90
    assert sum(count * n * a * b for count, n, a, b in sides._shapes(5, 7, shape, 90)) == wanted


def test_tasks_are_pairs_of_texts_with_a_prefix_each(tmp_path):
    for folder, name, text in (
        ("wiki", "train.txt", "Bees\nshort\n" + "Bees are insects with wings and they live together in hives all year. " * 9),
        ("wiki", "valid.txt", "Honey\n" + "Honey is made by bees, and eaten by bears and people in all countries. " * 3),
        ("labelled/sst", "train.tsv", "label\ttext\n1\tgood\n0\tbad"), ("labelled/sst", "dev.tsv", "label\ttext\n0\tdull"),
    ):  # fmt: skip
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / name).write_text(text)
    context = "One is first. Bees make honey. They do it in May. Nobody knows why. It is so."
    question = {
        "question": "What do bees make?",
        "answers": [{"text": "honey", "answer_start": context.index("honey")}],
    }
    xquad = {"data": [{"title": "Bees", "paragraphs": [{"context": context, "qas": [question]}]}]}
    (tmp_path / "labelled" / "xquad.en.json").write_text(json.dumps(xquad))
    counts = benchmark("peers.seq2seq_tasks").write_tasks(tmp_path, tmp_path, 10)
    lines = [
        json.loads(line)
        for name in ("train", "held-out")
        for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()
    ]
    assert sum(counts.values()) == len(lines) == 6
    by_task = {line["task"]: line for line in lines}
    assert by_task["answer: "]["text"] == "What do bees make? | One is first. Bees make honey. They do it in May."
    assert by_task["answer: "]["text_b"] == "honey"
    assert [line["text_b"] for line in lines if line["task"] == "sentiment: "] == ["positive", "negative", "negative"]
    titles = [line for line in lines if line["task"] == "title: "]
    assert [line["text_b"] for line in titles] == ["Bees", "Honey"]
    assert len(titles[0]["text"].split()) == 60


def test_faults_are_named():
    script = benchmark("seq2seq")
    line = {"kind": "vaswani", "dtype": "float32", "side": "sdpa", "says": "Marian", "first_loss_off_by": 0.0}
    ratio = {"kind": "vaswani", "dtype": "float32", "against": "Marian", "times_as_fast": 1.3}
    parts = {
        "multi30k": {"evaluation": {"metrics": {"bleu_lc": 40.0}}},
        "speed": {"lines": [line | {"losses_off_by": 0.001}], "ratios": [ratio]}, "decode": {"times_as_fast": 3.1},
    }  # fmt: skip
    assert list(script.faults(parts)) == []
    parts["multi30k"]["evaluation"]["metrics"]["bleu_lc"] = 38.9
    parts["speed"] = {"lines": [line | {"losses_off_by": 0.1}], "ratios": [ratio | {"times_as_fast": 1.2}]}
    parts["decode"]["times_as_fast"] = 2.9
    assert [fault.split(":")[0] for fault in script.faults(parts)] == [
        "multi30k", "vaswani float32 Marian", "vaswani float32", "decoding"
    ]  # fmt: skip
    assert (BENCHMARKS / "seq2seq.py").exists()
