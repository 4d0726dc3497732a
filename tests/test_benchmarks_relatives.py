"""The benchmarks of BERT's relatives and of mixers: what is compared is comparable, and the figures are what they say."""

import json
import subprocess
import sys
from importlib import import_module
from typing import get_args

import numpy as np
import pytest

from tests.conftest import BENCHMARKS
from wordpipe.model import MixerKind
from wordpipe.stages import COMMANDS

pytestmark = pytest.mark.usefixtures("benchmarks_on_path")
SHAPE = {"dim": 16, "n_layers": 2, "n_heads": 2}


def benchmark(name):
    return import_module(name)


def records(n, seed):
    random = np.random.default_rng(seed)
    return [
        {"id": str(i), "text": f"w{i}-{seed}", "label": "ab"[label]} for i, label in enumerate(random.integers(0, 2, n))
    ]


def vectors_of(records, random):
    """One of 8 numbers says the label, among larger ones that say nothing."""
    vectors_ND = random.normal(0, 5, (len(records), 8))
    vectors_ND[:, 3] = [0.1 * (one["label"] == "a") for one in records]
    return vectors_ND + random.normal(0, 0.02, vectors_ND.shape)


def test_a_line_finds_the_number_that_says_the_label():
    probe, random = benchmark("peers.frozen_probe"), np.random.default_rng(1)
    train, test = records(300, 1), records(100, 2)
    strength, right_N = probe.regression("sst", vectors_of(train, random), train, vectors_of(test, random), test)
    assert strength in probe.STRENGTHS
    assert right_N.shape == (100,)
    assert right_N.mean() > 0.9


def test_the_strength_is_chosen_without_the_measured_texts():
    probe, random = benchmark("peers.frozen_probe"), np.random.default_rng(1)
    train, test = records(200, 1), records(50, 2)
    vectors_ND, measured_MD = vectors_of(train, random), vectors_of(test, random)
    turned = [one | {"label": "ab"[one["label"] == "a"]} for one in test]
    one, other = (probe.regression("sst", vectors_ND, train, measured_MD, some) for some in (test, turned))
    assert one[0] == other[0]
    assert np.array_equal(one[1], ~other[1])


def test_scores_have_intervals_and_a_distance_text_by_text(tmp_path):
    script = benchmark("relatives")
    mlm_N = np.array([True] * 60 + [False] * 40)
    other_N = np.array([True] * 50 + [False] * 50)
    for name in script.SETS:
        np.save(tmp_path / f"mlm-{name}.npy", mlm_N)
        np.save(tmp_path / f"nsp-{name}.npy", other_N)
    np.save(tmp_path / "mlm.npy", np.array([2.0, 3.0]))
    np.save(tmp_path / "nsp.npy", np.array([2.5, 3.6]))
    sets = {name: {"texts": 100} for name in script.SETS}
    losses = {"mlm": 2.5, "nsp": 3.05}
    found = [
        {"cell": cell, "says": cell, "sets": sets, "loss": loss, "kept": f"{cell}.npy"} for cell, loss in losses.items()
    ]
    mlm, nsp = script.lines_of(found, tmp_path)
    assert mlm["sets"]["sst"]["accuracy"] == 0.6
    assert "above_mlm" not in mlm["sets"]["sst"]
    apart = nsp["sets"]["trec"]["above_mlm"]
    assert apart["mean"] == -0.1
    assert apart["interval"][0] < -0.1 < apart["interval"][1] < 0
    assert nsp["better_than_mlm"]["nats"] == -0.55
    assert "kept" not in nsp
    assert list(script.rows([mlm, nsp]))[2].startswith("| mlm | 2.500 | 60.0 (")


def test_what_is_not_as_it_should_be_is_said():
    script = benchmark("relatives")
    lines = [
        {"cell": "fresh", "sets": {"sst": {"accuracy": 0.6}, "trec": {"accuracy": 0.6}}},
        {"cell": "mlm", "sets": {"sst": {"accuracy": 0.7}, "trec": {"accuracy": 0.5}}},
    ]
    assert list(script.faults(lines, [])) == ["mlm is no better than its first weights on trec"]
    assert list(script.faults([], [{"cell": "sop", "why": "it broke"}])) == ["sop: it broke"]


def test_every_option_of_a_cell_is_one_of_its_command():
    script = benchmark("relatives")
    for name, cell in script.CELLS.items():
        if cell.command in COMMANDS:
            settings = COMMANDS[cell.command].load_settings()
            given = cell.options | ({"teacher": "model"} if cell.teacher else cell.parts | script.SHAPE)
            assert settings.make(given), name
            assert given.keys() <= settings.model_fields.keys(), name
        assert not cell.teacher or cell.teacher in script.CELLS


@pytest.mark.parametrize(
    ("given", "says"),
    [(["--only", "nobody"], "no cell is called nobody"), (["--data", "."], "--work FOLDER are needed")],
)
def test_a_command_line_that_says_too_little_is_refused(capsys, given, says):
    with pytest.raises(SystemExit):
        benchmark("relatives").arguments_of(["--data", ".", "--work", ".", *given] if "--only" in given else given)
    assert says in capsys.readouterr().err


@pytest.mark.slow
def test_relatives_are_trained_from_end_to_end_and_not_twice(tmp_path):
    random = np.random.default_rng(3)
    known = [f"{a}{b}{c}" for a in "bdgklmprst" for b in "aeiou" for c in "nrs"]
    (tmp_path / "wiki").mkdir()
    for name, count in (("train", 100), ("valid", 20)):
        texts = ["\n".join(" ".join(random.choice(known, 30)) for _ in range(4)) for _ in range(count)]
        (tmp_path / "wiki" / f"{name}.txt").write_text("\n\n".join(texts) + "\n")
    for name in ("sst", "trec"):
        (tmp_path / "labelled" / name).mkdir(parents=True)
    for part in ("train", "dev"):
        lines = [f"{i % 2}\t{known[i % 2]} {random.choice(known)} {part}" for i in range(60)]
        (tmp_path / "labelled" / "sst" / f"{part}.tsv").write_text("\n".join(["label\ttext", *lines]) + "\n")
    lines = [f"{'AB'[i % 2]}:x {known[i % 2]} {random.choice(known)} {i}\n" for i in range(120)]
    (tmp_path / "labelled" / "trec" / "train.txt").write_text("".join(lines))
    size = (tmp_path / "wiki" / "train.txt").stat().st_size / 1e6
    command = [
        sys.executable,
        BENCHMARKS / "relatives.py",
        "--data",
        tmp_path,
        "--work",
        tmp_path / "work",
        "--threads",
        1,
    ]
    command += [
        "--out",
        tmp_path / "out.json",
        "--mb",
        size,
        "--vocab-size",
        320,
        "--tokens",
        9000,
        "--dtype",
        "float32",
    ]

    def run():
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        assert (tmp_path / "out.json").exists(), done.stdout + done.stderr
        return json.loads((tmp_path / "out.json").read_text()), done

    found, done = run()
    assert found["failed"] == [], done.stderr
    script = benchmark("relatives")
    there = [name for name, cell in script.CELLS.items() if cell.command in COMMANDS]
    assert [line["cell"] for line in found["lines"]] == ["bags", *there]
    assert all(("loss" in line) == script.CELLS[line["cell"]].guesses for line in found["lines"][1:])
    assert str(tmp_path) not in (tmp_path / "out.json").read_text()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "work" / "cells").iterdir()}
    again, _ = run()
    assert again["lines"] == found["lines"]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "work" / "cells").iterdir()} == before


# ------------------------------------------------------------------------------------------------------------------ mixers


def mixer_task(mixer, **given):
    return {
        "mixer": mixer, "seq_len": 32, "batch_tokens": 64, "shape": SHAPE, "n_tokens": 90, "threads": 1, "seconds": 0.0,
        "memory_gb": 64, **given,
    }  # fmt: skip


@pytest.mark.parametrize("mixer", get_args(MixerKind))
def test_every_mixer_of_the_code_is_measured(mixer):
    passes = benchmark("peers.mixer_passes")
    assert mixer in benchmark("mixers").MIXERS
    config = passes.config_of(mixer_task(mixer))
    assert {*config.kinds} == {mixer}
    model, (ids_BT, at_BK) = import_module("wordpipe.model").new_model(config, 1), passes.batch(mixer_task(mixer))
    assert ids_BT.shape == (2, 32)
    assert at_BK.shape == (2, 5)
    loss = passes.loss_of(model, ids_BT, at_BK)
    assert float(loss.detach()) == pytest.approx(np.log(config.vocab_size), rel=0.2)


@pytest.mark.slow
def test_a_process_says_how_fast_and_how_large(tmp_path):
    bench = benchmark("peers.model_bench").ModelBench(tmp_path, tmp_path, 1, 60)
    script = benchmark("mixers")
    given = script.arguments_of(["--mixers", "dot", "--batch-tokens", "64", "--seconds", "0", "--threads", "1"])
    found = script.measure(bench, given, "dot", 32, 1)
    assert found["training"]["tokens_per_s"] > 0
    assert 0 <= found["forward"]["memory_bytes"] <= found["training"]["memory_bytes"]


def test_a_slow_first_pass_is_the_measure_and_a_fast_one_warms_up():
    passes, calls = benchmark("peers.mixer_passes"), []
    passes.timed(lambda: calls.append(1), 0.0)
    assert len(calls) == 1
    passes.timed(lambda: calls.append(1), 1e-4)
    assert len(calls) >= 4


def test_rounds_become_lines_and_what_needs_too_much_memory_is_told():
    script = benchmark("mixers")

    def run(rate, megabytes, trained=True):
        one = {"tokens_per_s": rate, "memory_bytes": megabytes * 1e6}
        return {"architecture": "encoder", "parameters": 9, "forward": one, "training": one if trained else None}

    dot = script.line_of("dot", 512, [run(100, 10), run(300, 10), run(200, 10)])
    ssm = script.line_of("ssm", 512, [run(400, 30)])
    additive = script.line_of("additive", 512, [run(50, 90, trained=False)])
    bad = script.line_of("linear", 512, [{"failed": "why"}])
    script.with_ratios([dot, ssm, additive, bad])
    assert (dot["training"]["tokens_per_s"], dot["training"]["least"], dot["training"]["most"]) == (200, 100, 300)
    assert (ssm["training"]["times_as_fast"], ssm["training"]["times_the_memory"]) == (2.0, 3.0)
    assert additive["training"] is None
    assert additive["forward"]["times_as_fast"] == 0.25
    shown = list(script.rows([dot, ssm, additive, bad]))
    assert "| dot | 512 | 200 (100–300) | 1.00 | 10 MB |" in shown[2]
    assert "too much memory" in shown[4]
    assert "failed" in shown[5]
    assert [script.is_done(runs) for runs in ([], [run(1, 1)], [run(1, 1, trained=False)], [{"failed": "why"}])] == [
        False, False, True, True,
    ]  # fmt: skip


def test_a_mixer_that_does_not_exist_is_refused(capsys):
    with pytest.raises(SystemExit):
        benchmark("mixers").arguments_of(["--mixers", "dot,nothing"])
    assert "no mixer is called nothing" in capsys.readouterr().err
