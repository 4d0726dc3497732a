"""Standard streams: a stderr that takes nothing changes no exit code, what stdout lacks is an escape."""

import codecs
import json
import os
import subprocess
import sys

import pytest

from tests.faults.child import DEAF
from tests.support.variants import some_of
from wordpipe.stages import GROUPS, TABLE

CODE = "from wordpipe.cli import _never_fail_to_write; _never_fail_to_write(); import sys; "
FULL = "/dev/full"
NOTES = "Salt in the sea.\nThe bees of the valley.\n"
REST = "你好 🐝 naïve \udce9"  # Chinese, beyond the first plane, Latin, a byte of a name that is no UTF-8
ALL = [(), *((name,) for name in GROUPS), *(tuple(name.split()) for name in TABLE)]  # as the words that call it
WAYS = {  # a way out → what is added to the command, and its exit code
    "help": (["--help"], {0}),
    "help-all": (["--help-all"], {0, 2}),
    "usage": (["--modus"], {2}),
    "usage-json": (["--modus", "--json"], {2}),
    "missing": (["/nope", "/nope", "-o", "/nope/out"], {2, 3, 4, 5}),
}


@pytest.fixture
def asked(nursery, tmp_path):
    """Run a command in a fork, its stderr somewhere else; its code, and what came on stdout."""

    def run(*arguments, err=FULL, out=None, **environment):
        request = {"arguments": [str(one) for one in arguments], "folder": str(tmp_path)}
        request["outputs"] = {2: err, 1: out} if out else {2: err} if err else {}
        child = nursery.start("tests.faults.child:main", json.dumps(request), **environment)
        return child.wait(60), child.out.read_text(), child.err.read_text()

    return run


@pytest.mark.landing
@pytest.mark.parametrize("command", ALL[::12], ids=" ".join)
def test_no_room_for_messages(asked, command):
    assert asked(*command, "--modus")[0] == 2


@pytest.mark.slow
@pytest.mark.parametrize("err", [FULL, DEAF])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("command", ALL, ids=" ".join)
def test_no_room_for_messages_of_any_command(asked, command, way, err):
    added, codes = WAYS[way]
    usual = asked(*command, *added, err=None)[0]
    assert usual in codes
    assert asked(*command, *added, err=err)[0] == usual


@pytest.mark.parametrize(
    ("ends", "err"),
    some_of(
        [
            (["ingest", "notes.txt", "-o", "made"], 0),
            (["ingest", "notes.txt", "-o", "made", "--json"], 0),
            (["ingest", "none.txt", "-o", "made"], 3),
            (["query", "none", "x"], 4),
            (["query", "none", "x", "--json"], 4),
            (["--version"], 0),
            ([], 2),
        ],
        [FULL, DEAF],
        together=1,
    ),
)
def test_no_room_for_messages_at_any_way_out(asked, tmp_path, ends, err):
    arguments, code = ends
    (tmp_path / "notes.txt").write_text(NOTES)
    assert asked(*arguments, err=err)[0] == code
    assert (tmp_path / "made" / "manifest.json").exists() == (code == 0 and "-o" in arguments)


def test_completion_and_stdout_of_its_own(asked):
    assert asked(err=FULL, _WORDPIPE_COMPLETE="bash_source")[:2] == (
        0,
        asked(err=None, _WORDPIPE_COMPLETE="bash_source")[1],
    )
    assert asked("--help", out=FULL)[0] == 5
    assert asked("--help", out=DEAF)[0] in (-13, 141)


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("how", ["2>/dev/full", "2>&-", "2> >(exec true)"])
def test_the_ends_of_programs(tmp_path, how, unbuffered):
    """The interpreter's own end too, which writes what is left in a buffer."""
    (tmp_path / "notes.txt").write_text(NOTES)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": unbuffered}
    for line, code in (
        ("ingest notes.txt -o c", 0),
        ("ingest none -o c", 3),
        ("query none x", 4),
        ("--modus", 2),
        ("-h", 0),
    ):
        command = f"{sys.executable} -m wordpipe {line} >/dev/null {how}"
        assert subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment, check=False).returncode == code, (
            line
        )


@pytest.mark.parametrize("how", ["print('x' * 9, file=sys.stderr)", "import warnings; warnings.warn('x')", "1 / 0",
                                 "import logging; logging.error('x')", "sys.stderr.write('x')"])  # fmt: skip
def test_whatever_writes_to_stderr(how):
    """Python's own end has no part in it: 120 is what it makes of a stderr that cannot be flushed."""
    done = subprocess.run(["sh", "-c", f'exec {sys.executable} -c "{CODE}{how}" 2>{FULL}'], check=False)
    assert done.returncode == (1 if how == "1 / 0" else 0)


@pytest.mark.parametrize(
    "encoding",
    [
        "latin-1",
        "cp1252",
        "iso-8859-15",
        "cp850",
        "shift_jis",
        "ascii",
        "utf-8",
        "utf-16",
        "idna",
        "undefined",
        "ascii:strict",
    ],
)
def test_characters_that_stdout_does_not_have_are_escapes_of_json(encoding):
    code = f"{CODE}import json; text = json.dumps([{REST!r}], ensure_ascii=False); print(text); print(text, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONIOENCODING": encoding}, capture_output=True, check=True
    )
    used = "utf-8" if encoding in ("ascii", "idna", "undefined", "ascii:strict") else encoding
    for written in (done.stdout, done.stderr):
        assert json.loads(written.decode(used)) == [REST]
    if used == "utf-8":
        assert done.stdout == f'["{REST[:-1]}\\udce9"]\n'.encode()


def test_the_handler_of_errors_is_for_writing_alone():
    subprocess.run([sys.executable, "-c", CODE], check=True)
    from wordpipe.cli import _as_escapes

    with pytest.raises(UnicodeDecodeError):
        _as_escapes(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"))
    assert codecs.lookup("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["tsv", "json", "plain", "table"])
@pytest.mark.parametrize("environment", [{"PYTHONIOENCODING": "latin-1"}, {"PYTHONIOENCODING": "cp850"},
                                         {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}], ids=str)  # fmt: skip
def test_answers_in_another_encoding(built, form, environment):
    done = subprocess.run(
        [sys.executable, "-m", "wordpipe", "query", built / "index", "the sea", "你好 🐝", "--format", form],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout
