"""What the tests of several rooms share: a small corpus, the whole chain made from it, and the command line in process."""

import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

import wordpipe
from wordpipe.cli import run

settings.register_profile("compiling", deadline=None)  # the first example may wait for the compiler
settings.load_profile("compiling")

DATA = Path(__file__).resolve().parent.parent / "data"
TINY = {"dim": 32, "n_layers": 1, "n_heads": 1, "ffn_dim": 64, "seq_len": 64, "threads": 1, "device": "cpu"}


def pytest_configure() -> None:
    """Remove kernels compiled before a piece that may be in them was edited: numba looks at their own file only."""
    package = Path(wordpipe.__file__).parent
    pieces = [path for path in package.rglob("*.py") if re.search(r"@inlined|intrinsic\(", path.read_text())]
    newest = max(path.stat().st_mtime for path in pieces)
    for index in package.rglob("__pycache__/*.nbi"):
        if index.stat().st_mtime < newest:
            index.unlink(missing_ok=True)


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory):
    """The cache of file hashes of the tests, not the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def handbook() -> Path:
    """A hundred short documents in English, a title line each, parted by blank lines."""
    return DATA / "sample" / "handbook.txt"


@pytest.fixture(scope="session")
def built(tmp_path_factory, handbook, _own_cache) -> Path:
    """The whole chain, made once; never write into it (see `chain`)."""
    root = tmp_path_factory.mktemp("built")
    wordpipe.ingest(handbook, output=root / "corpus", documents="block", first_line_title=True, valid=0.1)
    wordpipe.tokenize(root / "corpus", output=root / "tokens", vocab_size=1000)
    wordpipe.train_word2vec(root / "tokens", output=root / "words", min_count=2, dim=24, epochs=3, threads=1)
    wordpipe.train_mlm(root / "tokens", output=root / "model", steps=4, **TINY)
    wordpipe.embed(root / "model", root / "corpus", output=root / "sentences", unit="document", device="cpu", threads=1)
    wordpipe.index(root / "sentences", output=root / "index")
    return root


@pytest.fixture
def chain(built, tmp_path) -> Path:
    """A copy of the whole chain that a test may damage."""
    shutil.copytree(built, tmp_path / "run")
    return tmp_path / "run"


@dataclass
class Result:
    """What a command left: exit code, stdout, stderr."""

    code: int
    out: str
    err: str


@pytest.fixture
def cli(monkeypatch, capfd) -> Callable[..., Result]:
    """Run the command line in this process."""

    def call(*args: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["wordpipe", *map(str, args)])
        capfd.readouterr()
        code = run()
        return Result(code, *capfd.readouterr())

    return call
