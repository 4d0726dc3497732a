"""What the tests of several rooms share: a small corpus, the whole chain made from it, and the command line in process."""

import fcntl
import gc
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

import pytest
from hypothesis import settings

import wordpipe
from tests.support.kernels import remove_outdated
from tests.support.nursery import Nursery
from tests.support.serving import client, heads, records, serving  # noqa: F401  (fixtures)
from tests.support.trained import MAKE, TINY, Of
from wordpipe.cli import run

# no deadline: the first example may wait for the compiler. Every run draws other examples, so that few of them find in a
# week what many find in a day; `make test-all` asks for the many
settings.register_profile("quick", deadline=None, max_examples=20)
settings.register_profile("thorough", deadline=None, max_examples=300)
settings.load_profile("quick")

# Processes that test side by side have their share of the cores. Threads beyond it wait by spinning: with two of them on two
# cores, the tests of `doctor` took five times the processor. To be set before the libraries are imported, which read it once
if count := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0")):
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, str(max(1, (os.cpu_count() or 1) // count)))

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "data"
BENCHMARKS = ROOT / "benchmarks"


def pytest_configure(config: pytest.Config) -> None:
    """Remove kernels compiled before a part of them in another file was edited: numba looks at their own file only."""
    if not hasattr(config, "workerinput"):  # the process that starts the others has done it
        remove_outdated(Path(wordpipe.__file__).parent)


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory):
    """The cache of file hashes of the tests, not the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_waiting():
    """Only a loss of power tells whether data has reached the disk; that it is forced there is tested by the calls made.

    Commands that run as programs of their own wait for the disk as they always do.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="module")
def benchmarks_on_path() -> Iterator[None]:
    """The scripts of `benchmarks/` can be imported by their names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield


@pytest.fixture(scope="session")
def handbook() -> Path:
    """A hundred short documents in English, a title line each, parted by blank lines."""
    return DATA / "sample" / "handbook.txt"


@pytest.fixture(scope="session")
def built(tmp_path_factory, handbook, _own_cache) -> Path:
    """The whole chain, made once; never write into it (see `chain`). Processes that test side by side share one."""
    own = tmp_path_factory.getbasetemp()
    root = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "built"
    with root.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / "index").exists():
            _build(root, handbook)
    return root


@pytest.fixture(scope="session")
def trained(built) -> Of:
    """Gives the folder of an artifact of `built`, or of `tests/support/trained.py`, which is made when it is first asked for.

    Never write into it. Processes that test side by side share what was made.
    """
    root = built.with_name("trained")
    root.mkdir(exist_ok=True)

    def of(name: str) -> Path:
        if name not in MAKE:
            return built / name
        with (root / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (root / name / "manifest.json").exists():
                MAKE[name](of, root / name)
        return root / name

    return of


def _build(root: Path, handbook: Path) -> None:
    wordpipe.ingest(handbook, output=root / "corpus", documents="block", first_line_title=True, valid=0.1)
    wordpipe.tokenize(root / "corpus", output=root / "tokens", vocab_size=1000)
    wordpipe.train_word2vec(root / "tokens", output=root / "words", min_count=2, dim=24, epochs=3, threads=1)
    wordpipe.train_mlm(root / "tokens", output=root / "model", steps=4, **TINY)
    wordpipe.embed(root / "model", root / "corpus", output=root / "sentences", unit="document", device="cpu", threads=1)
    wordpipe.cluster(root / "sentences", output=root / "clusters", k=4, threads=1)
    _build_predictions(root)
    wordpipe.index(root / "sentences", output=root / "index")


def _build_predictions(root: Path) -> None:
    """Of a head that is gone afterwards: the chain needs none."""
    rows = [{"text": f"{number} is {colour}", "label": colour} for number in range(20) for colour in ("red", "blue")]
    with TemporaryDirectory(dir=root.parent) as folder:
        labelled, head = Path(folder) / "labelled", Path(folder) / "head"
        wordpipe.ingest(rows, output=labelled, label_field="label")
        wordpipe.train_classifier(labelled, output=head, init=root / "model", epochs=1, device="cpu", threads=1)
        wordpipe.predict_corpus(head, labelled, output=root / "predictions", device="cpu", threads=1)


@pytest.fixture
def collector_off() -> Iterator[None]:
    """Python's cycle collector does not run; what the tests before have left is gone first."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def chain(built, tmp_path) -> Path:
    """A copy of the whole chain that a test may damage."""
    shutil.copytree(built, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture(scope="session")
def _nursery(_own_cache):
    with Nursery() as nursery:
        yield nursery


@pytest.fixture
def nursery(_nursery) -> Iterator[Nursery]:
    """The command line in processes of its own, none of which outlives its test."""
    yield _nursery
    _nursery.kill_all()


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """An empty folder, which is the working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@dataclass
class Result:
    """What a command left: exit code, stdout, stderr."""

    code: int
    out: str
    err: str


@pytest.fixture
def cli(monkeypatch, capfd) -> Callable[..., Result]:
    """Run the command line in this process; `piped` is what it reads from a pipe at standard input."""

    def call(*args: object, piped: str | None = None) -> Result:
        monkeypatch.setattr(sys, "argv", ["wordpipe", *map(str, args)])
        capfd.readouterr()
        with _piped(piped) if piped is not None else nullcontext(sys.stdin) as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
            try:
                code = run()
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)
        return Result(code, *capfd.readouterr())

    return call


def _piped(text: str) -> TextIO:
    read, write = os.pipe()
    with os.fdopen(write, "wb") as end:
        end.write(text.encode("utf-8", "surrogateescape"))  # which a pipe holds without a reader: some kB
    return os.fdopen(read, encoding="utf-8")
