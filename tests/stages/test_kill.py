"""kill -9 in every stage, then the same command again: it ends well, with the bytes of an undisturbed run."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import wordpipe
from tests.conftest import TINY
from wordpipe.artifacts import Artifact

COMMANDS = {
    "corpus": ["ingest", "{text}", "--documents", "block", "--first-line-title", "--valid", "0.1"],
    "tokens": ["tokenize", "{built}/corpus", "--vocab-size", "1000"],
    "words": [
        "train",
        "word2vec",
        "{built}/tokens",
        "--min-count",
        "2",
        "--dim",
        "24",
        "--epochs",
        "3",
        "--threads",
        "1",
    ],
    "model": ["train", "mlm", "{built}/tokens", "--steps", "4", "--config", "{tmp_path}/tiny.toml"],
    "sentences": [
        "embed",
        "{built}/model",
        "{built}/corpus",
        "--unit",
        "document",
        "--device",
        "cpu",
        "--threads",
        "1",
    ],
    "index": ["index", "{built}/sentences"],
}


@pytest.fixture
def command(built, handbook, tmp_path):
    def make(kind: str, **more: int) -> list[str]:
        values = TINY | more
        (tmp_path / "tiny.toml").write_text(
            "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())
        )
        args = [part.format(built=built, text=handbook, tmp_path=tmp_path) for part in COMMANDS[kind]]
        return [*args, "-o", str(tmp_path / kind)]

    return make


@pytest.fixture
def run(nursery):
    return lambda args, **env: nursery.run(*args, **env)


def assert_as_undisturbed(path: Path, built: Path) -> None:
    assert wordpipe.verify(path)["ok"]
    with Artifact(path) as made, Artifact(built / path.name) as expected:
        assert made.digest == expected.digest
    leftovers = [
        p.name for p in path.parent.iterdir() if p.name.startswith(f".{path.name}.") and not p.name.endswith(".lock")
    ]
    assert leftovers == []


@pytest.mark.landing
@pytest.mark.parametrize("kind", COMMANDS)
@pytest.mark.parametrize(
    "older", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["nothing before", "an older one"]
)
def test_killed_before_publishing(kind, older, command, run, built, tmp_path):
    if older:
        shutil.copytree(built / kind, tmp_path / kind)
    killed = run(command(kind), WORDPIPE_FAILPOINT="publish.before_exchange:kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    if older:
        assert wordpipe.verify(tmp_path / kind)["ok"]
    else:
        assert not (tmp_path / kind).exists()
    again = run(command(kind))
    assert again.returncode == 0, again.stderr
    assert_as_undisturbed(tmp_path / kind, built)


def test_killed_training_goes_on_from_its_checkpoint(command, run, built, tmp_path):
    args = command("model", checkpoint_steps=1)
    for nth in (1, 2):  # twice in a row
        killed = run(args, WORDPIPE_FAILPOINT=f"checkpoint.after_pointer:kill:{nth}")
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = run(args)
    assert again.returncode == 0, again.stderr
    assert "continuing a stopped run at step 3" in again.stderr
    assert_as_undisturbed(tmp_path / "model", built)


@pytest.mark.landing
@pytest.mark.parametrize(
    "where", ["checkpoint.before_pointer", pytest.param("checkpoint.after_pointer", marks=pytest.mark.slow)]
)
def test_killed_word_training_goes_on_to_the_same_bytes_with_any_threads(where, command, run, built, tmp_path):
    args = [*command("words"), "--deterministic", "--checkpoint-seconds", "0.001"]
    for nth, threads in ((2, "2"), (3, "3"), (1, "1")):
        args[args.index("--threads") + 1] = threads
        killed = run(args, WORDPIPE_FAILPOINT=f"{where}:kill:{nth}")
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert ("continuing a stopped run at" in killed.stderr) == (threads != "2")
    again = run(args)
    assert again.returncode == 0, again.stderr
    assert "continuing a stopped run at" in again.stderr
    assert_as_undisturbed(tmp_path / "words", built)


@pytest.mark.slow
def test_a_damaged_checkpoint_of_words_is_named_and_not_used(command, run, built, tmp_path):
    args = [*command("words"), "--checkpoint-seconds", "0.001"]
    run(args, WORDPIPE_FAILPOINT="checkpoint.after_pointer:kill:2")
    for folder in (tmp_path / ".words.partial").glob("step-*"):
        with (folder / "outputs.f32").open("r+b") as file:
            file.write(b"damage")
    again = run(args)
    assert again.returncode == 0, again.stderr
    assert "outputs.f32 has changed" in again.stderr
    assert "starts from the first step" in again.stderr
    assert_as_undisturbed(tmp_path / "words", built)


@pytest.mark.landing
def test_fresh_starts_over(command, run, built, tmp_path):
    args = command("model", checkpoint_steps=1)
    run(args, WORDPIPE_FAILPOINT="checkpoint.after_pointer:kill:2")
    again = run([*args, "--fresh"])
    assert again.returncode == 0
    assert "continuing" not in again.stderr
    assert_as_undisturbed(tmp_path / "model", built)


def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(command, run, built, tmp_path):
    args = command("model", checkpoint_steps=1)
    run(args, WORDPIPE_FAILPOINT="checkpoint.after_pointer:kill:3")
    newest = max((tmp_path / ".model.partial").glob("step-*"))
    with (newest / "model.safetensors").open("r+b") as file:
        file.truncate(1000)
    again = run(args)
    assert again.returncode == 0, again.stderr
    assert newest.name in again.stderr
    assert "continuing a stopped run at step 2" in again.stderr
    assert_as_undisturbed(tmp_path / "model", built)


@pytest.mark.landing
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_signal_saves_and_dies_by_the_signal(number, command, nursery, tmp_path):
    args = command("model", report_every=1)
    args[args.index("--steps") + 1] = "100000"
    child = nursery.command(*args)
    child.wait_until(lambda: "] training" in child.err.read_text())  # before its first step nothing can be saved
    code, err = child.signal(number), child.err.read_text()
    assert code == -number, err
    assert "stopped" in err
    assert not (tmp_path / "model").exists()
    assert (tmp_path / ".model.partial" / "LATEST.json").is_file()
    assert not list(tmp_path.glob(".model.*.tmp"))


@pytest.mark.landing
def test_a_stop_signal_saves_the_words(command, nursery, tmp_path):
    args = [*command("words"), "--epochs", "100000"]
    child = nursery.command(*args)
    child.wait_until(lambda: "training" in child.err.read_text())
    code, err = child.signal(signal.SIGTERM), child.err.read_text()
    assert code == -signal.SIGTERM, err
    assert "stopped" in err
    assert sorted(p.name for p in tmp_path.glob(".*")) == [".words.lock", ".words.partial"]
    again = nursery.command(*args)
    again.wait_until(lambda: "continuing a stopped run at" in again.err.read_text())


def test_a_stop_signal_leaves_nothing_of_what_cannot_be_continued(command, nursery, tmp_path):
    args = [*command("words"), "--epochs", "100000", "--backend", "gensim"]
    child = nursery.command(*args)
    child.wait_until(lambda: list(tmp_path.glob(".words.*.scratch.tmp/text.rows")))
    time.sleep(0.5)
    code = child.signal(signal.SIGTERM)
    assert code == -signal.SIGTERM, child.err.read_text()
    assert [p.name for p in tmp_path.iterdir() if p.suffix != ".toml"] == [".words.lock"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", COMMANDS)
@pytest.mark.parametrize("seed", range(4))
def test_killed_at_any_moment(kind, seed, command, run, nursery, built, tmp_path):
    args = command(kind, checkpoint_steps=1)
    start = time.monotonic()
    assert run(args).returncode == 0
    whole = time.monotonic() - start
    rng = random.Random(f"{kind}{seed}")
    for _ in range(2):
        child = nursery.command(*args)
        time.sleep(rng.random() * whole)
        child.signal(signal.SIGKILL)
        assert wordpipe.verify(tmp_path / kind)["ok"]
    assert run(args).returncode == 0
    assert_as_undisturbed(tmp_path / kind, built)


@pytest.mark.slow
@pytest.mark.timeout(1_200)  # dozens of runs under strace
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize("call", ["write", "pwrite64", "fsync", "rename,renameat2", "mkdir", "unlink,unlinkat,rmdir"])
def test_killed_at_every_mutating_system_call_of_a_stage(call, command, built, tmp_path):
    args = [sys.executable, "-m", "wordpipe", *command("tokens")]

    def run(args: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(args, capture_output=True, text=True, check=False)

    assert run(args).returncode == 0
    fired = 0
    for nth in range(1, 400):
        strace = [
            "strace",
            "-f",
            "-qq",
            "-o",
            os.devnull,
            "-e",
            f"trace={call}",
            "-e",
            f"inject={call}:signal=KILL:when={nth}",
        ]
        done = run([*strace, *args])
        assert wordpipe.verify(tmp_path / "tokens")["ok"], (call, nth)
        if done.returncode == 0:
            break
        fired += 1
    assert fired or call in ("pwrite64",), f"{call} was never called"
    assert run(args).returncode == 0
    assert_as_undisturbed(tmp_path / "tokens", built)


def test_two_writers_of_one_output(command, nursery, tmp_path):
    both = [nursery.command(*command("words")) for _ in range(2)]
    codes = sorted(child.wait() for child in both)
    assert codes in (
        [0, 7],
        [0, 0],
    )  # the second waits for nothing: it either came too early, or after the first was done
    assert wordpipe.verify(tmp_path / "words")["ok"]
    assert json.loads((tmp_path / "words" / "manifest.json").read_text())["kind"] == "words"
