"""The Makefile that users copy: one rule per stage, targets that appear only when they are whole."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import wordpipe
from wordpipe.pipeline import write_project

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")

SMALL = {
    "vocab_size = 8000": "vocab_size = 600",
    "dim = 100": "dim = 16\nmin_count = 1\nthreads = 1",
    "# epochs = 20 ": "epochs = 1 ",
    'preset = "tiny"': 'preset = "tiny"\ndim = 32\nn_heads = 1\nn_layers = 1\nseq_len = 64\nsteps = 2\nthreads = 1 #',
    "epochs = 3": "",
}


@pytest.fixture
def project(tmp_path, handbook) -> Path:
    write_project(tmp_path)
    shutil.copy(handbook, tmp_path / "texts" / "handbook.txt")
    config = tmp_path / "wordpipe.toml"
    text = config.read_text()
    for old, new in SMALL.items():
        assert old in text
        text = text.replace(old, new)
    config.write_text(text)
    return tmp_path


def make(project: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(["make", *args], cwd=project, env=env, capture_output=True, text=True, check=False)


def test_make_builds_in_parallel_once_and_agrees_with_run(project, cli):
    first = make(project, "-j2")
    assert first.returncode == 0, first.stderr
    for name in ("corpus", "tokens", "words", "model", "sentences", "index"):
        assert wordpipe.verify(project / "run" / name)["ok"]
    assert "Nothing to be done" in make(project, "-j2").stdout
    asked = make(project, "ask", "Q=how is bread baked")
    assert asked.returncode == 0, asked.stderr
    assert "handbook.txt" in asked.stdout
    # the same recipes: `run` finds nothing to do after `make`
    assert "nothing to do" in cli("run", project / "wordpipe.toml").err


@pytest.mark.slow
def test_a_failed_rule_leaves_no_target_and_make_goes_on_from_there(project):
    config = project / "wordpipe.toml"
    good = config.read_text()
    config.write_text(good.replace("min_count = 1", "min_count = 1000000"))
    failed = make(project, "run/words/manifest.json")
    assert failed.returncode == 2
    assert "highest count" in failed.stderr
    assert (project / "run" / "tokens" / "manifest.json").exists()
    assert not (project / "run" / "words").exists()
    config.write_text(good)
    assert make(project, "run/words/manifest.json").returncode == 0
