"""The script for machines with a GPU runs from end to end, here with tiny sizes on the CPU."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu_check.py"


@pytest.fixture
def call(monkeypatch):
    spec = importlib.util.spec_from_file_location("gpu_check", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["gpu_check", *map(str, arguments)])
        return script.main()

    return run


def test_it_runs_on_a_cpu_and_every_check_holds(call, tmp_path, capsys):
    assert call("--out", tmp_path / "out.json", "--device", "cpu") == 0, capsys.readouterr().out
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
    assert all(line["tokens_per_s"] > 0 for line in found["lines"] if "speed" in line)


@pytest.mark.skipif(torch.cuda.is_available(), reason="has CUDA")
def test_without_cuda_it_says_so(call, tmp_path, capsys):
    assert call("--out", tmp_path / "out.json") == 2
    assert "no CUDA device" in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()


def test_one_part_alone(call, tmp_path):
    assert call("--out", tmp_path / "out.json", "--device", "cpu", "--only", "encode") == 0
    checks = [line["check"] for line in json.loads((tmp_path / "out.json").read_text())["lines"]]
    assert checks == ["encoder encodes", "decoder encodes"]


@pytest.mark.gpu
@pytest.mark.parametrize("part", ["learn", "resume", "encode"])
def test_every_check_holds_on_a_gpu(call, part, tmp_path, capsys):
    assert call("--out", tmp_path / "out.json", "--only", part) == 0, capsys.readouterr().out
