"""Commands under `ulimit -v`: exit 6 and a message, where native libraries would end the process."""

import errno
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.every_command import RUNS, arguments_of, make_inputs
from wordpipe import runtime
from wordpipe.errors import BudgetError
from wordpipe.runtime import cpu_count, is_out_of_memory, need_address_space
from wordpipe.stages import TABLE

ROOT = Path(__file__).parents[2]
TRIED: dict[str, list[object]] = {
    "query": ["query", "{built}/index", "sea"],
    "condition": ["query", "{built}/index", "sea", "--where", "line > 1"],
    "words": ["query", "{built}/words", "sea"],
    "index": ["index", "{built}/sentences", "-o", "made"],
    "mlm": ["train", "mlm", "{built}/tokens", "-o", "made", "--preset", "tiny", "--steps", 1],
    "word2vec": ["train", "word2vec", "{built}/tokens", "-o", "made", "--dim", 8],
    "embed": ["embed", "{built}/model", "{built}/corpus", "-o", "made"],
    "fill": ["fill", "{built}/model", "the [MASK]"],
}


def _command(name, built):
    return [str(part).format(built=built) for part in TRIED[name]]


def _limited(folder, line, megabytes):
    """A command under so many MB of address space."""
    return subprocess.run(
        [sys.executable, "-m", "wordpipe", *map(str, line)],
        cwd=folder, capture_output=True, text=True,
        timeout=300, check=False, env={"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder), "PATH": "/usr/bin:/bin"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20,) * 2),
    )  # fmt: skip


def needed_by(part):
    """MB of address space that a command, or a part of one, asks for."""
    return TABLE[part].needs_mb if part in TABLE else runtime.ADDRESS_SPACE[part]


NEEDED = {"words": ("query",), "query": ("query", "query index"), "condition": ("condition",),
          "index": ("index",), "mlm": ("train mlm",),
          "embed": ("embed", "torch"), "word2vec": ("train word2vec",), "fill": ("fill",)}  # fmt: skip


@pytest.mark.landing
@pytest.mark.parametrize(
    "name", [name if name == "words" else pytest.param(name, marks=pytest.mark.slow) for name in NEEDED]
)
def test_what_is_said_to_be_enough_is(built, tmp_path, name):
    """The figures are those of the libraries that are installed: at what is asked for, the smallest work is done."""
    needed = max(needed_by(part) for part in NEEDED[name])
    done = _limited(tmp_path, _command(name, built), needed + runtime._SPACE_OF_A_CORE * max(0, cpu_count() - 2))
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def made(built, tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    make_inputs(built, folder)
    return folder


_INDEX = ("query index",)
PARTS = {"search": _INDEX, "query": _INDEX, "evaluate search": _INDEX, "embed": ("torch",)}  # of these runs


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*RUNS} - {"run", "serve"}))  # which are their parts; which goes on (see below)
def test_what_is_said_to_be_enough_is_for_every_command(built, made, tmp_path, name):
    parts = (name, *PARTS.get(name, ()))
    needed = max(500, *map(needed_by, parts))  # some ask for nothing
    arguments = arguments_of(RUNS[name], {"built": built, "made": made, "out": tmp_path / "out"})
    done = _limited(tmp_path, [*name.split(), *arguments], needed + runtime._SPACE_OF_A_CORE * max(0, cpu_count() - 2))
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("megabytes", range(300, 1_301, 100))
@pytest.mark.parametrize("name", NEEDED)
def test_no_limit_ends_a_command_without_a_word(built, tmp_path, name, megabytes):
    done = _limited(tmp_path, _command(name, built), megabytes)
    assert done.returncode in (0, 6), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.landing
@pytest.mark.parametrize(
    ("name", "megabytes"),
    [
        pytest.param(name, megabytes, marks=[] if megabytes == 400 and number % 3 == 0 else pytest.mark.slow)
        for number, name in enumerate(TRIED)
        for megabytes in (300, 400, 700)
    ],
)
def test_too_little_is_exit_6_or_enough(built, tmp_path, name, megabytes):
    done = _limited(tmp_path, _command(name, built), megabytes)
    # the smallest work may fit, where a machine has few cores
    assert done.returncode in ((6,) if megabytes < 400 else (0, 6)), done.stderr
    if done.returncode == 6:
        assert "wordpipe: error: " in done.stderr
        assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr
    shutil.rmtree(tmp_path / "made", ignore_errors=True)


def test_the_limit_and_what_is_needed_are_said(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (300 << 20, resource.RLIM_INFINITY))
    need = 920 + 30 * max(0, cpu_count() - 2)
    with pytest.raises(BudgetError, match=f"ulimit -v: .*got 300 MB; expected at least {need:,} MB"):
        need_address_space(TABLE["train word2vec"].needs_mb)
    need_address_space(TABLE["init"].needs_mb)


def test_without_a_limit_nothing_is_asked(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    need_address_space(TABLE["train mlm"].needs_mb)


def _raised(error, cause=None):
    try:
        try:
            if cause is not None:
                raise cause
        except ImportError:
            raise error  # noqa: B904  (as a library does)
        raise error
    except BaseException as raised:  # noqa: BLE001
        return raised


@pytest.mark.parametrize(
    ("error", "limited", "unlimited"),
    [
        (MemoryError(), True, True),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), True, True),
        (ImportError("libx.so: failed to map segment from shared object"), True, False),
        (SystemError("initialization of _x failed without raising an exception"), True, False),
        (OSError("Could not find/load shared object file 'libllvmlite.so'"), True, False),
        (RuntimeError("can't start new thread"), True, False),
        (RuntimeError("something else"), False, False),
        (OSError(errno.ENOSPC, "No space left on device"), False, False),
        (_raised(RuntimeError("a wrapper"), ImportError("failed to map segment")), True, False),
        (_raised(OSError(errno.ENOSPC, "No space left on device"), ImportError("no such module")), False, False),
    ],
    ids=str,
)
def test_what_libraries_say_of_too_little_memory(monkeypatch, error, limited, unlimited):
    for limit, expected in ((1 << 30, limited), (resource.RLIM_INFINITY, unlimited)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, limit=limit: (limit, limit))
        assert is_out_of_memory(error) is expected


def test_a_library_that_does_not_fit_is_exit_6(monkeypatch, built, cli):
    def load(*_: object, **__: object) -> None:
        raise ImportError("libx.so: failed to map segment from shared object")

    monkeypatch.setattr("wordpipe.stages.verify", load)
    monkeypatch.setattr("wordpipe.runtime.need_address_space", lambda _: None)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 30, 1 << 30))
    done = cli("verify", built / "index")
    assert done.code == 6
    assert "wordpipe: error: out of memory; got libx.so: failed to map segment" in done.err
