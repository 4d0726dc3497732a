"""Files and folders that others give: pipes, devices, lost manifests, patterns that take for ever."""

import json
import os
import shutil
import struct
from pathlib import Path

import pytest
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from tests.support.forged import forge_file

SLOW = "a" * 60 + "!"


def filled(command: list[object], built: Path, other: object) -> list[object]:
    """A command line with the paths of the chain for `{built}`, and `other` for `...`."""
    return [other if part is ... else str(part).format(built=built) for part in command]


@pytest.fixture
def strange(tmp_path) -> dict[str, Path]:
    """Things that are no regular files."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    return {"pipe": tmp_path / "pipe", "zero": tmp_path / "zero", "device": Path("/dev/zero")}


@pytest.mark.parametrize("name", ["pipe", "zero", "device"])
@pytest.mark.parametrize(
    "command",
    [
        ["evaluate", "words", "{built}/words", "--data", ...],
        ["evaluate", "sts", "{built}/words", "--data", ...],
        ["train", "static", "{built}/tokens", "-o", "made", "--set", "pair_file=1", "--pairs", ...],
        ["tokenize", "{built}/corpus", "-o", "made", "--tokenizer", ...],
        ["import", ..., "-o", "made"],
    ],
    ids=["words", "sts", "pairs", "tokenizer", "import"],
)
def test_what_never_ends_is_refused_by_name(cli, monkeypatch, built, tmp_path, strange, command, name):
    monkeypatch.chdir(tmp_path)
    done = cli(*filled(command, built, strange[name]))
    assert done.code == 3, done.err
    assert str(strange[name]) in done.err


@pytest.mark.parametrize("name", ["pipe", "zero"])
def test_an_output_with_a_strange_manifest_is_refused_at_once(cli, handbook, tmp_path, strange, name):
    (tmp_path / "made").mkdir()
    strange[name].rename(tmp_path / "made" / "manifest.json")
    for output in ("made", "made/below"):
        done = cli("ingest", handbook, "-o", tmp_path / output)
        assert (done.code, output) in ((5, "made"), (0, "made/below")), done.err


@pytest.mark.parametrize(
    "command",
    [["fill", ..., "the [MASK]"], ["evaluate", "model", ..., "--data", "{built}/corpus"],
     ["train", "mlm", "{built}/tokens", "-o", "made", "--steps", 1, "--init", ...],
     ["embed", ..., "{built}/corpus", "-o", "made"]],
    ids=["fill", "evaluate", "init", "embed"],
)  # fmt: skip
def test_a_model_that_lost_its_manifest_is_refused(cli, monkeypatch, built, tmp_path, command):
    shutil.copytree(built / "model", tmp_path / "model")
    (tmp_path / "model" / "manifest.json").unlink()
    monkeypatch.chdir(tmp_path)
    done = cli(*filled(command, built, "model"))
    assert done.code == 4, done.err
    assert "manifest" in done.err
    assert "hint: " in done.err


def test_a_public_folder_works_and_it_is_said_that_nothing_was_checked(cli, built, tmp_path):
    shutil.copytree(built / "model", tmp_path / "model")
    for name in ("manifest.json", "training.json", "steps.parquet", "optimiser.safetensors"):
        (tmp_path / "model" / name).unlink(missing_ok=True)
    done = cli("fill", tmp_path / "model", "the [MASK]", "--device", "cpu")
    assert done.code == 0, done.err
    assert "no hashes, so its files were not checked" in done.err


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_deep_json_in_a_public_folder(cli, built, tmp_path, name):
    shutil.copytree(built / "model", tmp_path / "model")
    for ours in ("manifest.json", "training.json", "steps.parquet", "optimiser.safetensors"):
        (tmp_path / "model" / ours).unlink(missing_ok=True)
    (tmp_path / "model" / name).write_bytes(b"[" * 20_000)
    done = cli("fill", tmp_path / "model", "the [MASK]")
    assert done.code in (3, 4), done.err
    assert "nested too deeply" in done.err


@pytest.mark.parametrize("file", ["corpus.jsonl", "queries.jsonl", "sts.jsonl"])
def test_deep_json_in_a_line(cli, built, tmp_path, file):
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query\tdocument\tgrade\nq\td\t1\n")
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d", "text": "sea"}\n')
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "sea"}\n')
    (tmp_path / file).write_text('{"a": ' + "[" * 20_000 + "\n")
    what = ["sts", built / "words", "--data", tmp_path / file] if file == "sts.jsonl" else None
    done = cli("evaluate", *(what or ["retrieval", built / "words", "--data", tmp_path]))
    assert done.code == 3, done.err
    assert f"{file}:1: not a line of JSON; got nested too deeply" in done.err


def slow_tokenizer() -> bytes:
    """A pattern whose time grows with two to the length of the text."""
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("(a+)+$"), "isolated")
    return tokenizer.to_str().encode()


def test_a_pattern_that_takes_for_ever_ends_with_an_error(cli, built, tmp_path):
    for name, file in (("tokens", "tokenizer.json"), ("index", "encoder/tokenizer.json"), ("model", "tokenizer.json")):
        shutil.copytree(built / name, tmp_path / name)
        forge_file(tmp_path / name, file, slow_tokenizer())
    for command in (
        ["show", tmp_path / "tokens", "--text", SLOW], ["query", tmp_path / "index", SLOW, "--mode", "dense"],
        ["fill", tmp_path / "model", SLOW],
    ):  # fmt: skip
        done = cli(*command)
        assert done.code in (3, 4), done.err


def test_an_id_of_four_billion_is_no_vocabulary(cli, built, tmp_path):
    for name, file in (("tokens", "tokenizer.json"), ("index", "encoder/tokenizer.json")):
        shutil.copytree(built / name, tmp_path / name)
        body = json.loads((tmp_path / name / file).read_bytes())
        first = next(iter(body["model"]["vocab"]))
        body["model"]["vocab"][first] = 2**32 - 1
        forge_file(tmp_path / name, file, json.dumps(body).encode())
    done = cli("show", tmp_path / "tokens", "--text", "the sea")
    assert (done.code, "much larger than the number of tokens" in done.err) == (4, True), done.err
    assert cli("query", tmp_path / "index", "the sea", "--mode", "dense").code in (0, 4)


@pytest.mark.parametrize("header", ["(" * 60, "\t\t\n", "[" * 9_000, "{'descr': '<f4', 'shape': (2"])
def test_a_damaged_array_is_no_table_of_words(cli, tmp_path, header):
    (tmp_path / "vectors").mkdir()
    (tmp_path / "vectors" / "words.txt").write_text("a\nb\n")
    data = b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + bytes(32)
    (tmp_path / "vectors" / "vectors.npy").write_bytes(data)
    done = cli("import", tmp_path / "vectors", "-o", tmp_path / "made")
    assert done.code == 3, done.err
    assert "vectors/vectors.npy: not a complete .npy file of numbers" in done.err


@pytest.mark.parametrize(("option", "code"), [("--pairs", 3), ("--teacher", 4)])
def test_a_wrong_file_is_refused_before_the_text_is_prepared(cli, built, tmp_path, monkeypatch, option, code):
    def prepare(*_: object, **__: object) -> None:
        raise AssertionError("prepared first")

    monkeypatch.setattr("wordpipe.stages.train.contrastive.contrast_text", prepare)
    (tmp_path / "pairs.jsonl").write_text("no json\n")
    wrong = {"--pairs": [tmp_path / "pairs.jsonl"], "--teacher": [built / "tokens", "--set", "teacher_weight=1"]}[
        option
    ]
    more = ["--set", "pair_file=1"] if option == "--pairs" else []
    done = cli(
        "train",
        "contrastive",
        built / "tokens",
        "-o",
        tmp_path / "made",
        *more,
        option,
        *wrong,
    )
    assert done.code == code, done.err
