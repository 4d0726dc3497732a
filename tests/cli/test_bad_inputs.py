"""Bad inputs: one clear message, the right exit code, no traceback, and what was there is untouched."""

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from wordpipe.artifacts import OutputLock


def snapshot(root: Path) -> dict[str, str]:
    """Every file's content, but for what stays on purpose: locks, and finished pieces that the next run continues from."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.name.endswith(".lock") and not _continued(path)
    }


def _continued(path: Path) -> bool:
    """Whether a file is a piece that was finished: none of another kind may stay."""
    if not path.parent.name.endswith(".partial") or path.suffix == ".part":
        return False
    return any(path.parent.glob("*.json"))


@pytest.fixture
def fails(cli, chain, tmp_path, monkeypatch):
    """Run a command that must fail with `code`, naming every one of `words`, and change nothing."""
    monkeypatch.chdir(tmp_path)

    def check(code: int, *args: object, words: tuple[str, ...] = ()) -> str:
        before = snapshot(tmp_path)
        result = cli(*args)
        assert result.code == code, result.err
        if "Usage:" not in result.err:
            assert result.err.count("wordpipe: nothing" if code == 1 else "wordpipe: error:") == 1, result.err
        assert "Traceback" not in result.err
        assert snapshot(tmp_path) == before
        assert not list(tmp_path.glob("**/.*.tmp")), "a temporary folder was left"
        for word in words:
            assert word in result.err, (word, result.err)
        return result.err

    return check


# ---- text that cannot be read: exit 3


def test_a_missing_file(fails):
    fails(3, "ingest", "nowhere.txt", "-o", "out", words=("nowhere.txt",))


def test_an_empty_file(fails, tmp_path):
    (tmp_path / "empty.txt").touch()
    fails(3, "ingest", "empty.txt", "-o", "out", words=("empty.txt", "contain text"))


def test_a_file_of_blanks_replaces_no_corpus(fails, tmp_path):
    (tmp_path / "blank.txt").write_text(" \n\n\t\n")
    fails(3, "ingest", "blank.txt", "-o", "run/corpus")


def test_a_binary_file(fails, tmp_path):
    (tmp_path / "program.txt").write_bytes(bytes(range(256)) * 64)
    fails(3, "ingest", "program.txt", "-o", "out", words=("program.txt", "--format"))


def test_a_folder_without_text(fails, tmp_path):
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "a.png").write_bytes(b"\x89PNG")
    fails(3, "ingest", "pictures", "-o", "out", words=("pictures", "no text to read", "png"))


def test_a_damaged_json_line_is_named(fails, tmp_path):
    (tmp_path / "x.jsonl").write_text('{"text": "one"}\n{"text": two}\n')
    fails(3, "ingest", "x.jsonl", "-o", "out", words=("x.jsonl", "2"))


def test_a_cut_gzip(fails, tmp_path):
    whole = gzip.compress(b"some text. " * 5000)
    (tmp_path / "x.txt.gz").write_bytes(whole[: len(whole) // 2])
    fails(3, "ingest", "x.txt.gz", "-o", "out", words=("x.txt.gz",))


def test_invalid_utf8_where_it_is_refused(fails, tmp_path):
    (tmp_path / "x.txt").write_bytes(b"good line\nbad \xff line\n")
    fails(3, "ingest", "x.txt", "-o", "out", "--bad-bytes", "fail", words=("x.txt", "2"))


def test_a_package_that_is_not_installed(fails):
    fails(3, "ingest", "python:no_such_package", "-o", "out", words=("no_such_package",))


def test_a_file_that_is_no_tokenizer(fails, tmp_path):
    (tmp_path / "t.json").write_text("{}")
    fails(3, "tokenize", "run/corpus", "-o", "out", "--tokenizer", "t.json", words=("t.json",))


def test_words_too_rare_for_a_vector(fails):
    fails(3, "train", "word2vec", "run/tokens", "-o", "out", "--min-count", "1000000", words=("min_count", "1000000"))


def test_an_unknown_word_is_answered_with_its_neighbours_in_spelling(fails):
    fails(1, "query", "run/words", "bridgge", words=("unknown", "bridge"))


def test_an_analogy_needs_all_its_words(fails):
    fails(1, "query", "run/words", "bridge", "-", "qqqqq", words=("qqqqq",))


# ---- artifacts that cannot be used: exit 4


def test_a_missing_artifact(fails):
    fails(4, "train", "word2vec", "run/nothing", "-o", "out", words=("run/nothing",))


def test_a_folder_without_a_manifest(fails, tmp_path):
    (tmp_path / "run" / "tokens" / "manifest.json").unlink()
    fails(4, "train", "word2vec", "run/tokens", "-o", "out", words=("no manifest",))


def test_a_file_where_an_artifact_is_needed(fails, tmp_path):
    (tmp_path / "x.txt").write_text("text")
    fails(4, "train", "mlm", "x.txt", "-o", "out", words=("x.txt",))


@pytest.mark.parametrize(
    "args",
    [
        ("train", "mlm", "run/corpus"),
        ("train", "word2vec", "run/model"),
        ("embed", "run/tokens", "run/corpus"),
        ("embed", "run/model", "run/tokens"),
        ("index", "run/tokens"),
        ("tokenize", "run/words"),
    ],
)
def test_the_wrong_kind_of_artifact(fails, args):
    fails(4, *args, "-o", "out", words=("wrong kind", "to make an artifact of the right kind"))


def test_asking_a_model(fails):
    fails(4, "query", "run/model", "text", words=("index or words",))


@pytest.mark.parametrize(
    ("artifact", "command"),
    [
        ("corpus", ("tokenize", "run/corpus", "-o", "out")),
        ("tokens", ("train", "word2vec", "run/tokens", "-o", "out")),
        ("words", ("query", "run/words", "bridge")),
        ("model", ("embed", "run/model", "run/corpus", "-o", "out")),
        ("sentences", ("index", "run/sentences", "-o", "out")),
        ("index", ("query", "run/index", "bridge")),
    ],
)
@pytest.mark.parametrize("damage", ["cut", "flip", "missing", "emptied"])
def test_a_damaged_file_is_named(fails, tmp_path, artifact, command, damage):
    folder = tmp_path / "run" / artifact
    manifest = json.loads((folder / "manifest.json").read_text())
    victim = folder / max(manifest["outputs"], key=lambda output: output["bytes"])["path"]
    data = victim.read_bytes()
    if damage == "missing":
        victim.unlink()
    else:
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]
        victim.write_bytes({"cut": data[:-9], "flip": flipped, "emptied": b""}[damage])
    fails(4, *command, words=(victim.name,))


def test_a_changed_manifest(fails, tmp_path):
    path = tmp_path / "run" / "tokens" / "manifest.json"
    path.write_text(path.read_text().replace('"vocab_size": 1000', '"vocab_size": 1001', 1))
    fails(4, "train", "word2vec", "run/tokens", "-o", "out", words=("manifest was changed",))


def test_an_artifact_of_a_newer_wordpipe(fails, tmp_path):
    path = tmp_path / "run" / "tokens" / "manifest.json"
    path.write_text(path.read_text().replace('"format": 2', '"format": 99', 1))
    fails(4, "train", "word2vec", "run/tokens", "-o", "out", words=("newer version of wordpipe", "99"))


def test_verify_names_what_is_broken(fails, tmp_path):
    with (tmp_path / "run" / "words" / "words-00000.parquet").open("r+b") as file:
        file.seek(100)
        file.write(b"\0\1\2")
    fails(4, "verify", "run/corpus", "run/words", words=("words-00000.parquet",))


def test_an_output_of_another_kind_is_not_replaced(fails):
    fails(4, "tokenize", "run/corpus", "-o", "run/words", words=("words artifact",))


def test_an_artifact_is_no_source_of_text(fails):
    fails(4, "ingest", "run/corpus", "-o", "out", words=("run/corpus",))


# ---- settings and usage: exit 2


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("tokenize", "run/corpus", "-o", "out", "--vocab-size", "3"), ("--vocab-size", "3", "300")),
        (("tokenize", "run/corpus", "-o", "out", "--vocab-size", "many"), ("--vocab-size",)),
        (("tokenize", "run/corpus", "-o", "out", "--algorithm", "morse"), ("bpe",)),
        (("tokenize", "run/corpus"), ("--output",)),
        (("ingest", "x.txt", "-o", "out", "--valid", "0.6", "--test", "0.6"), ("valid", "test")),
        (("train", "mlm", "run/tokens", "-o", "out", "--steps", "1", "--epochs", "1"), ("steps", "epochs")),
        (("train", "mlm", "run/tokens", "-o", "out", "--dim", "7"), ("n_heads",)),
        (("embed", "run/words", "run/corpus", "-o", "out", "--pooling", "cls"), ("cls", "sif")),
        (("query", "run/words", "bridge", "-k", "0"), ("-k",)),
        (("query", "run/words", "bridge", "-"), ("query",)),
        (("query", "run/words", " "), ("empty",)),
        (("export", "run/words", "--to", "word2vec-text", "-o", "run"), ("file",)),
        (("ingest", "x.txt", "-o", "out", "--metadata", "score", "--no-metadata"), ("no_metadata",)),
        (("query", "run/words", "bridge", "--queries", "x.txt"), ("QUERY",)),
        (("run", "nowhere.toml"), ("nowhere.toml", "init")),
        (("tokenize", "run/corpus", "-o", "run/corpus/tokens"), ("inside another artifact",)),
    ],
)
def test_wrong_settings(fails, args, words):
    fails(2, *args, words=words)


def test_a_device_that_is_not_there(fails):
    import torch

    wanted = "mps" if not torch.backends.mps.is_available() else "cuda"
    fails(2, "train", "mlm", "run/tokens", "-o", "out", "--device", wanted, words=("device", wanted))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("vocab_sise = 500", ("vocab_sise", "vocab_size")),
        ("vocab_size = 1", ("vocab_size", "300")),
        ("vocab_size = ", ("x.toml",)),
        ('[stage.a]\ncommand = "bake"\ninputs = ["x"]', ("bake", "tokenize")),
        (
            '[stage.a]\ncommand = "tokenize"\ninputs = ["x"]\n[stage.b]\ncommand = "tokenize"\ninputs = ["x"]',
            ("a, b", "#"),
        ),
    ],
)
def test_a_wrong_config(fails, tmp_path, text, words):
    (tmp_path / "x.toml").write_text(text)
    fails(2, "tokenize", "run/corpus", "-o", "out", "--config", "x.toml", words=words)


# ---- the disk and other runs: exit 5 and 7


def test_an_output_that_holds_other_files(fails, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("dear diary")
    fails(5, "tokenize", "run/corpus", "-o", "mine", words=("diary.txt",))


def test_an_artifact_with_files_of_mine_in_it(fails, tmp_path):
    (tmp_path / "run" / "tokens" / "notes.txt").write_text("mine")
    fails(5, "tokenize", "run/corpus", "-o", "run/tokens", words=("notes.txt",))


def test_an_output_that_is_a_link(fails, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "run" / "tokens")
    fails(5, "tokenize", "run/corpus", "-o", "link", words=("link",))


@pytest.mark.parametrize("nth", [1, 3])
def test_a_full_disk(fails, monkeypatch, nth):
    monkeypatch.setenv("WORDPIPE_FAILPOINT", f"publish.file_written:enospc:{nth}")
    monkeypatch.setattr("wordpipe.artifacts.publish._passed", {})
    fails(5, "tokenize", "run/corpus", "-o", "run/tokens", words=("no space left", "free some space"))


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root to become someone else")
def test_no_permission(chain, tmp_path):
    tmp_path.chmod(0o755)
    for folder in tmp_path.resolve().parents:
        if not folder.stat().st_mode & 0o005:
            pytest.skip("the temporary folder is closed to other users")
    command = [sys.executable, "-m", "wordpipe", "tokenize", str(chain / "corpus"), "-o", str(chain / "tokens")]
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    probe = subprocess.run([*nobody, sys.executable, "-c", "import wordpipe"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("another user cannot run this Python")
    before = snapshot(tmp_path)
    done = subprocess.run([*nobody, *command], capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 5, done.stderr
    assert "permission denied" in done.stderr
    assert "Traceback" not in done.stderr
    assert snapshot(tmp_path) == before


def test_a_second_writer(fails, tmp_path):
    with OutputLock(tmp_path / "run" / "tokens"):
        fails(7, "tokenize", "run/corpus", "-o", "run/tokens", words=("another run", str(os.getpid())))


def test_not_enough_memory(fails, monkeypatch):
    def greedy(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("wordpipe.stages.corpus.tokenize.train_tokenizer", greedy)
    fails(6, "tokenize", "run/corpus", "-o", "run/tokens", words=("out of memory", "lower"))


# ---- odd but answerable


def test_more_neighbours_than_there_are(cli, chain):
    index, words = (
        cli("query", chain / "index", "how is bread baked", "-k", 100_000, "--mode", "hybrid"),
        cli("query", chain / "words", "the", "-k", 9999),
    )
    assert (index.code, words.code) == (0, 0)
    rows = json.loads((chain / "index" / "manifest.json").read_text())["counts"]["vectors"]
    assert len(index.out.splitlines()) == rows


def test_a_query_with_some_unknown_words_says_which_and_answers(cli, chain):
    result = cli("query", chain / "words", "the qqqqq", "-k", 3)
    assert result.code == 0
    assert "unknown: qqqqq" in result.err
    assert len(result.out.splitlines()) == 3
