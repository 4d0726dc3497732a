"""The script for machines with a GPU runs from end to end, here with tiny sizes on the CPU."""

import json
from importlib import import_module, util
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return import_module("model_gpu")


@pytest.mark.slow
def test_it_runs_on_a_cpu_and_every_check_holds(script, tmp_path, capsys):
    only = "learn,resume,encode,speed"
    assert script.main(["--out", str(tmp_path / "out.json"), "--device", "cpu", "--only", only]) == 0, (
        capsys.readouterr().out
    )
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["ok"]
    assert found["machine"]["device"] == "cpu"
    assert [line["check"] for line in found["lines"] if "check" in line] == [
        "mlm learns",
        "clm learns",
        "mlm resumes, deterministic True",
        "mlm resumes, deterministic False",
        "clm resumes, deterministic True",
        "clm resumes, deterministic False",
        "encoder encodes",
        "decoder encodes",
    ]
    speeds = [line for line in found["lines"] if "speed" in line]
    assert [line["speed"] for line in speeds] == ["tiny mlm", "tiny clm"]
    assert all(line["tokens_per_s"] > 0 and line["parameters"] > 1000 for line in speeds)


@pytest.mark.slow
def test_encoder_decoders_hold_on_a_cpu(script, tmp_path, capsys):
    options = ["--device", "cpu", "--only", "pairs"]
    assert script.main(["--out", str(tmp_path / "out.json"), *options]) == 0, capsys.readouterr().out
    lines = json.loads((tmp_path / "out.json").read_text())["lines"]
    assert [line["check"] for line in lines] == [
        "t5 seq2seq steps", "t5 seq2seq learns", "t5 beams", "vaswani seq2seq steps", "vaswani seq2seq learns",
        "vaswani beams", "t5 denoising steps", "bart denoising steps", "clm on pairs steps",
    ]  # fmt: skip
    beams = [line for line in lines if line["check"].endswith("beams")]
    assert [line["sources"] for line in beams] == [64, 64]


@pytest.mark.slow
def test_heads_hold_on_a_cpu(script, tmp_path, capsys):
    options = ["--device", "cpu", "--only", "heads"]
    assert script.main(["--out", str(tmp_path / "out.json"), *options]) == 0, capsys.readouterr().out
    lines = json.loads((tmp_path / "out.json").read_text())["lines"]
    assert [line["check"] for line in lines] == [
        f"{kind} head {what}" for kind in ("sequence", "token", "span") for what in ("steps", "learns", "scores")
    ]


def test_a_step_of_another_model_is_found(script):
    """The checks can fail: weights that a device would get wrong."""
    checks = import_module("peers.pair_checks")
    settings = checks.Seq2SeqSettings.make(script.TINY | {"device": "cpu", "style": "t5"})
    model = checks.new_pair_model(settings)
    ids = torch.arange(7, 21).repeat(4, 1)
    corruption = checks.SpanCorruption(sentinels=checks.SENTINELS, eos_id=checks.EOS)
    calls = []

    def objective(device):
        calls.append(device)
        return checks.Denoising(corruption, start_id=0 if len(calls) == 1 else 9, device=device)

    line = checks.check_step("other", model, objective, checks.Rows(ids), torch.device("cpu"))
    assert len(calls) == 3
    assert not line["ok"]


def test_trainer_is_timed_or_said_to_be_skipped(script, tmp_path):
    options = ["--device", "cpu", "--only", "trainer", "--shapes", "mlm"]
    assert script.main(["--out", str(tmp_path / "out.json"), *options]) == 0
    (line,) = json.loads((tmp_path / "out.json").read_text())["lines"]
    if util.find_spec("accelerate"):
        assert line["tokens_per_s"] > 0
    else:
        assert line == {"skipped": "trainer", "why": "accelerate is not installed"}


def test_trainer_gets_the_model_and_the_targets_that_ours_has(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    trainer = import_module("peers.model_trainer")
    task = {"n_tokens": 90, "dim": 32, "n_layers": 2, "n_heads": 2, "ffn_dim": 48, "seq_len": 42, "mask_rate": 0.15}
    for kind, targets in (("mlm", 6), ("clm", 42)):
        data = trainer.Sequences(task | {"kind": kind}, 5)
        assert [(data[n]["labels"] != -100).sum().item() for n in range(len(data))] == [targets] * 5
        model = trainer.new_model(task | {"kind": kind})
        blocks = 2 * (4 * 32 * 32 + 3 * 32 * 48)
        assert 90 * 32 + blocks <= sum(weight.numel() for weight in model.parameters()) < 90 * 32 + blocks + 1500
        loss = model(input_ids=data[0]["input_ids"][None], labels=data[0]["labels"][None]).loss
        assert abs(float(loss.detach()) - 4.5) < 0.5  # ln 90


def test_what_is_too_slow_is_said(script):
    name = "12L/768/2048 gated clm T1024"
    lines = [
        {"speed": name, "way": "compiled, Muon", "tokens_per_s": 400_000},
        {"speed": name, "way": "eager, AdamW", "tokens_per_s": 100_000},
        {"speed": name, "way": "transformers Trainer", "tokens_per_s": 160_000},
    ]
    assert list(script.shortfalls(lines)) == [
        f"{name}: 400,000 tokens/s, less than 450,000",
        f"{name}: 2.50 times as fast as Trainer, less than 3",
    ]
    assert list(script.shortfalls([lines[0] | {"tokens_per_s": 500_000}, lines[2]])) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="has CUDA")
def test_without_cuda_it_says_so(script, tmp_path, capsys):
    assert script.main(["--out", str(tmp_path / "out.json")]) == 2
    assert "no CUDA device" in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()


@pytest.mark.gpu
@pytest.mark.parametrize("part", ["learn", "resume", "encode", "pairs", "heads"])
def test_every_check_holds_on_a_gpu(script, part, tmp_path, capsys):
    assert script.main(["--out", str(tmp_path / "out.json"), "--only", part]) == 0, capsys.readouterr().out
