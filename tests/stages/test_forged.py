"""Artifacts from elsewhere whose hashes were made right after something in them was changed: an error, never a traceback."""

import json
import random
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.support.forged import fact_forgeries, file_forgeries, forge_file, sealed
from tests.support.trained import CHAIN, MAKE, Of
from wordpipe.artifacts import MANIFEST

NAMES = (*CHAIN, *MAKE)
ALLOWED = {0, 2, 3, 4, 6}
FEW = 2  # of each artifact's forgeries in the fast tests


def manifest_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / MANIFEST).read_bytes())


def forgeries(folder: Path) -> list[tuple[str, str, object]]:
    """File (or "facts"), name and content of every forgery of an artifact."""
    manifest = manifest_of(folder)
    found: list[tuple[str, str, object]] = [("facts", what, facts) for what, facts in fact_forgeries(manifest["facts"])]
    for entry in manifest["outputs"]:
        data = (folder / entry["path"]).read_bytes()
        found += [(entry["path"], what, other) for what, other in file_forgeries(entry["path"], data)]
    return found


def forge(folder: Path, file: str, content: object) -> None:
    if file == "facts":
        sealed(folder, lambda body: body.update(facts=content))
    else:
        assert isinstance(content, bytes)
        forge_file(folder, file, content)


def looks(kind: str, folder: Path) -> list[list[object]]:
    """Commands that read an artifact and make nothing."""
    found: list[list[object]] = [["verify", folder], ["show", folder, "--rows", 2]]
    if kind in ("tokens", "words", "model"):
        found.append(["show", folder, "--text", "the sea"])
    if kind in ("words", "index"):
        found.append(["query", folder, "sea", "-k", 3, "--json"])
    if kind == "index":
        found += [["query", folder, "the tides", "--mode", mode, "--explain", "--json"] for mode in ("dense", "hybrid")]
    return found


def makes(trained: Of, name: str, folder: Path, out: Path) -> list[list[object]]:
    """Commands that make something of it, or change it."""
    found: list[list[object]] = []
    kind = manifest_of(trained(name))["kind"]
    if kind in ("words", "sentences"):
        found += [["index", folder, "-o", out / "index"], ["doctor", folder]]
    if kind in ("words", "model"):
        found.append(["embed", folder, trained("corpus"), "-o", out / "sentences", "--set", "threads=1"])
    if kind == "index":
        source = trained({"index": "sentences", "word-index": "words"}.get(name, "sentences-static"))
        found += [["index", source, "-o", folder, "--update"], ["doctor", folder]]
    if kind in ("sentences", "index", "model"):
        found.append(["export", folder, "--to", "sentence-transformers", "-o", out / "encoder"])
    if kind == "tokens":
        found.append(["train", "word2vec", folder, "-o", out / "words", "--dim", 8, "--epochs", 1])
    if kind == "corpus":
        found.append(["tokenize", folder, "-o", out / "tokens", "--vocab-size", 300])
    return found


def check(cli, commands: list[list[object]], about: str) -> None:
    for command in commands:
        done = cli(*command)
        assert done.code in ALLOWED, f"{about}: {' '.join(map(str, command))}\n{done.err[-1500:]}"
        assert "Traceback" not in done.err, about


def forged(source: Path, tmp_path: Path, file: str, content: object) -> Path:
    folder = tmp_path / source.name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)
    forge(folder, file, content)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_some_forgeries_are_errors_of_ours(cli, trained, tmp_path, name):
    kind = manifest_of(trained(name))["kind"]
    for file, what, content in random.Random(zlib.crc32(name.encode())).sample(forgeries(trained(name)), FEW):
        folder = forged(trained(name), tmp_path, file, content)
        check(cli, looks(kind, folder), f"{name}/{file}: {what}")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("name", NAMES)
def test_all_forgeries_are_errors_of_ours(cli, trained, tmp_path, name, part):
    kind = manifest_of(trained(name))["kind"]
    for file, what, content in forgeries(trained(name))[part::8]:
        about, out = f"{name}/{file}: {what}", tmp_path / "out"
        check(cli, looks(kind, forged(trained(name), tmp_path, file, content)), about)
        for command in makes(trained, name, tmp_path / name, out):
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir()
            check(cli, [command], about)


FOUND = [  # each was a traceback, a wrong exit code, or gigabytes
    ("index", "facts", {}, ["query"]),
    ("sentences", "facts", {}, ["index"]),
    ("sentences", "facts", {"dim": "32x"}, ["index"]),
    ("sentences", "facts", {"dim": 10**18}, ["index"]),
    ("tokens", "facts", {}, ["train"]),
    ("index", "encoder/encoder.json", b"", ["query"]),
    ("index", "encoder/encoder.json", b"null", ["query"]),
    ("index", "encoder/encoder.json", b"[" * 5_000, ["query"]),
    ("index", "encoder/tokenizer.json", b"random", ["query"]),
    ("index", "row_keys.npy", b"random", ["update"]),
    ("index-hnsw", "encoder/model.safetensors", b"", ["query"]),
    ("index", "lexical/postings.npy", b"", ["lexical"]),
    ("index", "lexical/lexical.json", b"{}", ["lexical"]),
    ("model", "tokenizer_config.json", b"[" * 5_000, ["fill"]),
    ("model", "steps.parquet", b"PAR1", ["plot"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "file", "content", "how"), FOUND, ids=[f"{one[0]}-{one[1]}-{at}" for at, one in enumerate(FOUND)]
)
def test_what_was_found_is_exit_4(cli, trained, tmp_path, name, file, content, how):
    folder = forged(trained(name), tmp_path, file, content)
    command = {
        "query": ["query", folder, "the tides", "--mode", "dense"],
        "lexical": ["query", folder, "the tides", "--mode", "lexical"],
        "index": ["index", folder, "-o", tmp_path / "made"],
        "train": ["train", "word2vec", folder, "-o", tmp_path / "made", "--dim", 8],
        "update": ["index", trained("sentences"), "-o", folder, "--update"],
        "fill": ["fill", folder, "the [MASK]"],
        "plot": ["plot", folder],
    }[how[0]]
    done = cli(*command)
    assert done.code == 4, done.err[-1500:]
    assert str(folder) in done.err or (file != "facts" and Path(file).name in done.err)


def forged_config(source: Path, tmp_path: Path, file: str, **values: object) -> Path:
    config = json.loads((source / file).read_bytes())
    return forged(source, tmp_path, file, json.dumps(config | values).encode())


@pytest.mark.parametrize(
    "values",
    [{"hidden_size": 10**9}, {"vocab_size": 10**9}, {"num_hidden_layers": 10**9}, {"intermediate_size": 10**9},
     {"max_position_embeddings": 10**9}, {"hidden_size": 10**30}, {"num_attention_heads": 10**9}],
    ids=str,
)  # fmt: skip
def test_a_giant_model_is_refused_before_it_is_made(cli, built, tmp_path, values):
    done = cli("fill", forged_config(built / "model", tmp_path, "config.json", **values), "the [MASK]")
    assert done.code == 4, done.err[-1500:]
    index = forged_config(built / "index", tmp_path, "encoder/config.json", **values)
    done = cli("query", index, "the tides", "--mode", "dense")
    # NumPy makes no table of positions, and so does not mind how many there are
    assert done.code == (0 if "max_position_embeddings" in values else 4), done.err[-1500:]


def test_a_path_with_half_a_letter_is_no_path(cli, built, tmp_path):
    folder = tmp_path / "corpus"
    shutil.copytree(built / "corpus", folder)
    sealed(folder, lambda body: body["outputs"][0].update(path="\ud800.parquet"))
    for command in ("verify", "show"):
        done = cli(command, folder)
        assert done.code == 4, done.err
        assert "the manifest was changed" in done.err


def test_deep_facts_are_no_manifest(cli, built, tmp_path):
    folder = tmp_path / "corpus"
    shutil.copytree(built / "corpus", folder)
    deep: list[object] = []
    for _ in range(900):
        deep = [deep]
    sealed(folder, lambda body: body["facts"].update(deep=deep))
    assert cli("show", folder).code == 4
