"""An update killed at any moment leaves the old index or the new one."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import wordpipe
from tests.stages.test_index import changed, texts, words
from wordpipe.artifacts import Artifact


def start(source: Path, output: Path) -> subprocess.Popen[bytes]:
    options = ["--type", "ivf-pq", "--threads", "1", "--update", "-q"]
    command = [sys.executable, "-m", "wordpipe", "index", str(source), "-o", str(output), *options]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


@pytest.mark.slow
def test_killed_at_random_moments_of_an_update(tmp_path):
    one, other, output = texts(20_000, 1), texts(200, 2, "new"), tmp_path / "i"
    later = changed(one, other, 150)
    wordpipe.index(words(tmp_path / "s", one), output=output, type="ivf-pq", threads=1)
    source = words(tmp_path / "t", later)
    began = time.perf_counter()
    assert start(source, tmp_path / "none").wait() == 0  # as long as an update takes, and longer
    seconds = time.perf_counter() - began
    killed = 0
    for moment in np.random.default_rng(3).uniform(0, seconds, size=12):
        work = start(source, output)
        time.sleep(moment)
        work.kill()
        killed += work.wait() == -signal.SIGKILL
        assert wordpipe.verify(output)["ok"]
        with Artifact(output) as index:
            assert index.manifest.counts["vectors"] in (20_000, 20_050)
    assert killed
    assert start(source, output).wait() == 0
    with Artifact(output) as index:
        assert index.manifest.counts["vectors"] == 20_050
    left = {path.name for path in tmp_path.iterdir() if path.name.startswith(".i.")}
    assert left <= {".i.lock"}
