"""Commands under `ulimit -v`: exit 6 and a message, where native libraries would end the process."""

import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from wordpipe.errors import BudgetError
from wordpipe.runtime import cpu_count, need_address_space

ROOT = Path(__file__).parents[2]
BEFORE = ROOT / "tests" / "before" / "artifacts"
COMMANDS = {
    "query": ["query", BEFORE / "index", "sea"],
    "words": ["query", BEFORE / "words", "sea"],
    "index": ["index", BEFORE / "sentences", "-o", "made"],
    "mlm": ["train", "mlm", BEFORE / "tokens", "-o", "made", "--preset", "tiny", "--steps", 1],
    "word2vec": ["train", "word2vec", BEFORE / "tokens", "-o", "made", "--dim", 8],
    "embed": ["embed", BEFORE / "mlm", BEFORE / "corpus", "-o", "made"],
    "fill": ["fill", BEFORE / "mlm", "the [MASK]"],
}


@pytest.mark.parametrize("megabytes", [300, 400, 700])
@pytest.mark.parametrize("name", COMMANDS)
def test_too_little_is_exit_6_or_enough(tmp_path, name, megabytes):
    done = subprocess.run(
        [sys.executable, "-m", "wordpipe", *map(str, COMMANDS[name])], cwd=tmp_path, capture_output=True, text=True,
        timeout=100, check=False, env={"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20,) * 2),
    )  # fmt: skip
    # the smallest work may fit, where a machine has few cores
    assert done.returncode in ((6,) if megabytes < 400 else (0, 6)), done.stderr
    if done.returncode == 6:
        assert "wordpipe: error: " in done.stderr
        assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr
    shutil.rmtree(tmp_path / "made", ignore_errors=True)


def test_the_limit_and_what_is_needed_are_said(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (300 << 20, resource.RLIM_INFINITY))
    need = 860 + 30 * max(0, cpu_count() - 2)
    with pytest.raises(BudgetError, match=f"ulimit -v: .*got 300 MB; expected at least {need:,} MB"):
        need_address_space("train word2vec")
    need_address_space("init")


def test_without_a_limit_nothing_is_asked(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    need_address_space("train mlm")
