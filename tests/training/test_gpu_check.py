"""The script for machines with a GPU runs from end to end, here with tiny sizes on the CPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import torch

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu_check.py"


def call(*arguments):
    return subprocess.run(
        [sys.executable, "-W", "error", SCRIPT, *arguments], env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=250, check=False,
    )  # fmt: skip


def test_it_runs_on_a_cpu_and_every_check_holds(tmp_path):
    done = call("--out", tmp_path / "out.json", "--device", "cpu")
    assert done.returncode == 0, done.stdout + done.stderr
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


def test_without_cuda_it_says_so(tmp_path):
    if torch.cuda.is_available():
        return
    done = call("--out", tmp_path / "out.json")
    assert done.returncode == 2
    assert "no CUDA device" in done.stderr
    assert not (tmp_path / "out.json").exists()
