"""Errors and ends: one style, JSON for programs, closed streams, stop signals, full disks."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import wordpipe
from tests.support.terminal import in_terminal
from tests.support.waiting import wait_for_work
from wordpipe.cli import wants_json
from wordpipe.errors import ConfigError, InputError, shortened
from wordpipe.runtime import Stopped
from wordpipe.stages import RunOptions, open_job
from wordpipe.tokens.settings import TokenizeSettings

ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def shell(line, **more):
    """A line for sh, in which $W is wordpipe."""
    environment = {**ENV, "W": f"{sys.executable} -m wordpipe", **more}
    return subprocess.run(["sh", "-c", line], env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize(
    ("args", "what", "hint"),
    [
        (["query", "x", "y", "--modus", "z"], "unknown option --modus",
         "did you mean --mode? To see all options: wordpipe query --help"),
        (["tokenize", "x", "-o", "y", "--vocab-sise", "5"], "unknown option --vocab-sise",
         "did you mean --vocab-size? To see all options: wordpipe tokenize --help"),
        (["tokenise"], "unknown command 'tokenise'. Did you mean tokenize?", "wordpipe --help"),
        (["query"], "missing argument 'INDEX|WORDS'", "wordpipe query --help"),
        (["query", "x", "-k", "y"], "invalid value for '-k': 'y' is not a whole number", "wordpipe query --help"),
        (["train", "mlm", "x"], "missing option '-o' / '--output'", "wordpipe train mlm --help"),
        (["tokenize", "x", "-o", "y", "--vocab-size", "10"], "--vocab-size 10 should be greater than or equal to", None),
    ],
)  # fmt: skip
def test_clicks_errors_look_as_ours(cli, args, what, hint):
    found = cli(*args)
    assert found.code == 2
    assert found.err.startswith(f"wordpipe: error: {what}")
    assert hint is None or found.err.splitlines()[1:] == [f"  hint: {hint}"]
    told = cli(*args, "--json")
    error = json.loads(told.err)["error"]
    assert [*error] == ["code", "kind", "what", "where", "got", "expected", "hint"]
    assert error["what"].startswith(what)
    assert (error["code"], error["kind"]) == (2, "config" if hint is None else "usage")
    assert told.out == ""


def test_errors_of_ours_are_json_where_that_is_asked_for(cli, built, tmp_path):
    found = cli("query", tmp_path / "none", "salt", "--format", "json")
    assert found.code == 4
    where = str(tmp_path / "none")
    assert json.loads(found.err)["error"] | {"hint": None} == {
        "code": 4, "kind": "artifact", "what": "the artifact does not exist", "where": where, "got": None, "expected": None,
        "hint": None,
    }  # fmt: skip
    assert json.loads(cli("show", tmp_path / "none", "--json").err)["error"]["kind"] == "artifact"
    assert wants_json(["query", "i", "--format=json"])
    assert not wants_json(["query", "i", "--format", "tsv", "--", "--json"])


def test_long_values_are_shown_without_their_middle(cli, built):
    found = cli("query", built / "index", "salt", "--where", "x" * 80_000 + " = 1")
    assert found.code == 2
    assert len(found.err) < 3_000
    assert cli("query", built / "index", "salt", "--format", "y" * 80_000).err.count("y") < 700
    error = ConfigError("wrong", where="a" * 300, got="b" * 300, expected="c" * 300)
    assert len(error.message) < 800
    assert "c" * 300 in error.message
    assert error.to_json()["error"]["where"] == "a" * 300
    assert [shortened("abcdefghij", room) for room in (10, 5, 4)] == ["abcdefghij", "ab…ij", "a…ij"]


def test_a_name_forges_no_second_message():
    error = InputError("no such file", where="nope\nwordpipe: error: forged\n  hint: x\ty")
    assert error.message == r"nope\nwordpipe: error: forged\n  hint: x\ty: no such file"


CLOSED = [">&-", "2>&-", "<&-", ">&- 2>&- <&-"]
COMMANDS = [
    ("query {0}/words water", 0), ("query {0}/words", 3), ("query {0}/none water", 4), ("--help", 0), ("--modus", 2),
    ("show {0}/words", 0), ("verify {0}/words", 0), ("ingest {1}/notes.txt -o {1}/corpus", 0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "code", "closed"),
    [
        pytest.param(
            *command, closed, marks=[] if number in (0, 2, 7) and (number + at) % len(CLOSED) == 0 else pytest.mark.slow
        )
        for number, command in enumerate(COMMANDS)
        for at, closed in enumerate(CLOSED)
    ],
)
def test_closed_streams_are_opened_to_nothing(built, tmp_path, command, code, closed):
    (tmp_path / "notes.txt").write_text("Salt in the sea.\n")
    stdin = "</dev/null " if "<&-" not in closed else ""
    done = shell(f"$W {command.format(built, tmp_path)} {stdin}{closed}")
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    if command.startswith("ingest"):
        assert wordpipe.verify(tmp_path / "corpus")["ok"]
    if command == "query {0}/words water" and closed != ">&- 2>&- <&-" and closed != ">&-":
        assert len(done.stdout.splitlines()) == 10


@pytest.mark.parametrize("command", ["query {0}/words water", "show {0}/words"])
def test_a_full_disk_behind_stdout_is_named(built, command):
    done = shell(f"$W {command.format(built)} >/dev/full")
    assert done.returncode == 5
    assert "wordpipe: error: standard output: no space left on device" in done.stderr


def test_a_full_disk_that_names_no_file_names_the_folder(cli, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "wordpipe.stages.corpus.ingest.fingerprints",
        lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")),
    )
    (tmp_path / "notes.txt").write_text("Salt in the sea.\n")
    found = cli("ingest", tmp_path / "notes.txt", "-o", tmp_path / "corpus")
    assert found.code == 5
    assert found.err.startswith(f"wordpipe: error: {tmp_path / 'corpus'}: no space left on device")


@pytest.mark.landing
def test_readers_that_go_away_end_a_query_by_sigpipe(built):
    done = shell(f"$W query {built}/words water -k 1000 | head -n 1")
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""
    assert len(shell(f"$W query {built}/words water -k 30 | cat").stdout.splitlines()) == 30


def test_a_failpoint_that_there_is_not_is_named(built, tmp_path):
    (tmp_path / "notes.txt").write_text("Salt.\n")
    done = shell(f"$W ingest {tmp_path}/notes.txt -o {tmp_path}/c", WORDPIPE_FAILPOINT="a:explode")
    assert done.returncode == 2
    assert (
        "WORDPIPE_FAILPOINT: unknown failpoint; got a:explode; expected PLACE:kill|enospc|eio[:NUMBER]" in done.stderr
    )


BUSY = """
import hashlib, sys
from wordpipe.cli.output import say
from wordpipe.runtime import answer_stop_signals, raise_on_stop_signals, stop_signal
answer_stop_signals(say)
raise_on_stop_signals()
print("ready", flush=True)
hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)  # many minutes that no handler of Python's interrupts
"""


@pytest.mark.landing
def test_a_stop_is_answered_while_native_code_runs():
    with subprocess.Popen(
        [sys.executable, "-c", BUSY], env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as busy:
        assert busy.stdout.readline() == "ready\n"
        wait_for_work(busy.pid)
        busy.send_signal(signal.SIGINT)
        assert busy.wait(60) == -signal.SIGINT
        assert busy.stderr.read() == "stopping … (press Ctrl-C again to stop now)\n"


@pytest.mark.landing
def test_a_loop_that_saves_is_waited_for_until_the_second_signal():
    code = BUSY.replace("hashlib.pbk", "with stop_signal(): hashlib.pbk")
    with subprocess.Popen(
        [sys.executable, "-c", code], env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as busy:
        assert busy.stdout.readline() == "ready\n"
        wait_for_work(busy.pid)
        busy.send_signal(signal.SIGTERM)
        assert busy.stderr.readline() == "stopping … (press Ctrl-C again to stop now)\n"
        wait_for_work(busy.pid)
        assert busy.poll() is None
        busy.send_signal(signal.SIGTERM)
        assert busy.wait(60) == -signal.SIGTERM


def test_a_stop_while_the_command_is_loaded_leaves_no_traceback(built):
    argv = ["wordpipe", "query", f"{built}/words", "water"]
    code = f"import sys; sys.argv = {argv}; from wordpipe.cli import main; print('ready', flush=True); main()"
    for wait in (0.0, 0.05, 0.1, 0.2):
        with subprocess.Popen(
            [sys.executable, "-c", code], env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as one:
            one.stdout.readline()
            time.sleep(0.01 + wait)
            one.send_signal(signal.SIGINT)
            assert one.wait(60) in (-signal.SIGINT, 0)
            assert "Traceback" not in one.stderr.read()


@pytest.mark.landing
def test_the_prompt_ends_with_control_d(built):
    seen = in_terminal("query", built / "words", "-k", "1", typed="water\n")
    assert seen.code == 0
    assert "query> " in seen.text


def test_a_stop_in_a_callback_is_heard_after_it():
    code = (
        "import os, signal, weakref\n"
        "from wordpipe.runtime import Stopped, raise_on_stop_signals\n"
        "class Thing: pass\n"
        "def cb(_):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    return 1\n"
        "def work():\n"
        "    thing = Thing()\n"
        "    kept = weakref.ref(thing, cb)\n"
        "    del thing\n"
        "    return 'went on'\n"
        "raise_on_stop_signals()\n"
        "try:\n"
        "    print(work())\n"
        "except Stopped as stopped:\n"
        "    print(stopped.signum)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("2\n", "")


NOT_MADE = "nothing was made, and no existing file was changed"
PIPELINE = """
import sys, time
from wordpipe.cli import main
from wordpipe.pipeline import Pipeline
def run(*_, **__):
    print("ready", flush=True)
    time.sleep(1000)
    yield
Pipeline.run = run
sys.argv[0] = "wordpipe"
main()
"""
SAVED = PIPELINE.replace(
    """print("ready", flush=True)
    time.sleep(1000)""",
    """
    from wordpipe.runtime import Stopped
    try:
        print("ready", flush=True)
        time.sleep(1000)
    except Stopped as stopped:
        stopped.saved = ".encoder.partial/step-00000120"
        raise""".strip(),
)
WAITING = [
    (["-m", "wordpipe", "ingest", "-", "-o", "corpus"], NOT_MADE, "it starts from the beginning"),
    (["-m", "wordpipe", "query", "{0}/words"], "no existing file was changed", "it starts from the beginning"),
    (["-c", PIPELINE, "run"], "finished stages are kept", "it continues with the other stages"),
    (
        ["-c", SAVED, "run"],
        "finished stages are kept",
        "it continues with the other stages; the stage that was stopped continues from its checkpoint",
    ),
]


@pytest.mark.landing
@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(("program", "kept", "again"), WAITING, ids=["ingest", "query", "run", "run-saved"])
def test_who_stops_a_command_is_told_what_is_kept_and_what_it_does_next(built, tmp_path, program, kept, again, as_json):
    (tmp_path / "wordpipe.toml").write_text('[stage.corpus]\ncommand = "ingest"\ninputs = ["wordpipe.toml"]\n')
    program = [sys.executable, *(one.replace("{0}", str(built)) for one in program), *["--json"] * as_json]
    with subprocess.Popen(
        program, cwd=tmp_path, env=ENV, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as busy:
        if "-" in program:  # more than a pipe takes: it is being read
            busy.stdin.write("salt in the sea\n" * 20_000)
            busy.stdin.flush()
        else:
            if "query" in program:
                busy.stdin.write("water\n")
                busy.stdin.flush()
            busy.stdout.readline()
        busy.send_signal(signal.SIGINT)
        assert busy.wait(60) == -signal.SIGINT
        said = busy.stderr.read().splitlines()
    if as_json:
        error = json.loads(said[-1])["error"]
        assert (error["code"], error["kind"], error["what"]) == (130, "stopped", f"stopped: {kept}")
        assert error["hint"] == f"run the command again: {again}"
        assert not any("stop" in line for line in said[:-1])
    else:
        assert said[-1] == f"stopped: {kept}; run the command again: {again}"


def test_a_stop_with_a_state_of_a_run_before_goes_on_from_it(tmp_path):
    for has_state in (False, True):
        if has_state:
            (tmp_path / ".tokens.partial").mkdir()
        with (
            pytest.raises(Stopped) as stopped,
            open_job("tokens", tmp_path / "tokens", TokenizeSettings.make({}), RunOptions()),
        ):
            raise Stopped(signal.SIGINT)
        assert stopped.value.saved == ("what is saved" if has_state else None)


def test_a_stop_that_a_library_swallowed_is_heard_at_the_next_report():
    code = (
        "import os, signal\n"
        "from wordpipe.cli.output import ProgressDrawer\n"
        "from wordpipe.runtime import Progress, Stopped, raise_on_stop_signals\n"
        "raise_on_stop_signals()\n"
        "with ProgressDrawer(quiet=True) as draw:\n"
        "    draw(Progress('work', 1))\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    except BaseException:\n"
        "        pass\n"
        "    try:\n"
        "        draw(Progress('work', 2))\n"
        "    except Stopped as stopped:\n"
        "        print(stopped.signum)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("2\n", "")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("serch run/index x", "unknown command 'serch'. Did you mean search or serve?"),
        ("ask run/index x", "Did you mean query?"),
        ("find run/index x", "Did you mean query?"),
        ("qurey run/index x", "Did you mean query?"),
        (
            "query run/index x -o hits.json",
            "hint: this command has no output option; to save its results in a file, add: > FILE",
        ),
    ],
)
def test_what_other_programs_call_it_is_answered_with_ours(cli, words, hint):
    found = cli(*words.split())
    assert found.code == 2
    assert hint in found.err


def test_a_text_without_quotes_in_a_config_is_shown(cli, tmp_path):
    config = tmp_path / "wordpipe.toml"
    config.write_text('workdir = "run"\n[stage.corpus]\ncommand = "ingest"\ntext_field = report\n')
    found = cli("status", config).err
    assert "(at line 4, column 14); got text_field = report\n" in found
    assert found.endswith('hint: write a text value in quotes, for example: name = "text"\n')
    config.write_text("[stage.corpus\n")
    assert "hint" not in cli("status", config).err


def test_an_id_field_that_is_not_there_is_named_by_its_key(cli, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"ticket": "W-1", "text": "It leaks."}\n' * 3)
    config = tmp_path / "wordpipe.toml"
    config.write_text('[stage.corpus]\ncommand = "ingest"\ninputs = ["a.jsonl"]\nid_field = "tiket"\n')
    found = cli("run", config, "-q").err
    assert (
        "hint: did you mean ticket? Use id_field in [stage.corpus] "
        "to give the name of the field that contains the ids (wordpipe.toml)\n" in found
    )
