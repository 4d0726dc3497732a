"""Forged artifacts, every hash right: a manifest or a file from elsewhere is data like any other, and may be wrong."""

import io
import json
import math
import random
import struct
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.faults.case import Act, Case
from tests.faults.forge import Change, forge
from tests.faults.room import Broken, Room
from tests.faults.world import World

_MORE = 2_000_000_000  # bytes that a command may take beyond what was mapped before it
_CODES = {0, 3, 4}

USES: dict[str, tuple[tuple[str, ...], ...]] = {
    "ingest": (("tokenize", "{it}", "-o", "out"), ("show", "{it}", "--rows", "2"), ("verify", "{it}")),
    "tokenize": (
        ("train", "word2vec", "{it}", "--epochs", "1", "-o", "out"),
        ("show", "{it}"),
        ("show", "{it}", "--text", "the sea"),
        ("verify", "{it}"),
        ("evaluate", "tokenizer", "{it}", "--data", "{world}/text.txt"),
    ),
    "word2vec": (
        ("query", "{it}", "water"),
        ("show", "{it}"),
        ("verify", "{it}"),
        ("index", "{it}", "-o", "out"),
        ("embed", "{it}", "{world}/ingest", "-o", "out"),
        ("export", "{it}", "--to", "glove", "-o", "out"),
    ),
    "mlm": (
        ("fill", "{it}", "the [MASK] is old"),
        ("show", "{it}"),
        ("verify", "{it}"),
        ("embed", "{it}", "{world}/ingest", "-o", "out", "--device", "cpu"),
    ),
    "static": (("embed", "{it}", "{world}/ingest", "-o", "out"), ("show", "{it}"), ("verify", "{it}")),
    "embed": (
        ("index", "{it}", "-o", "out"),
        ("show", "{it}"),
        ("verify", "{it}"),
        ("export", "{it}", "--to", "npy", "-o", "out"),
    ),
    "index": (
        ("query", "{it}", "bees", "--json"),
        ("show", "{it}"),
        ("verify", "{it}"),
        ("export", "{it}", "--to", "npy", "-o", "out"),
    ),
}
"""Kind, by the stage that makes it → the commands that read it."""


def used(
    room: Room,
    stage: str,
    it: Path,
    *,
    uses: Iterable[tuple[str, ...]] | None = None,
    codes: Collection[int] = _CODES,
    seconds: float = 40,
) -> list[Any]:
    """Ask every command of a forged artifact; what each said."""
    told = []
    for number, arguments in enumerate(USES[stage] if uses is None else uses):
        words = [part.format(it=it, world=room.world.folder) for part in arguments]
        words = [f"out{number}" if word == "out" else word for word in words]
        done = room.run(*words, seconds=seconds, more_memory=_MORE)
        room.said(done, codes)
        told.append(done)
    return told


def _with_manifest(stage: str, change: Change, codes: Collection[int]) -> Act:
    def act(room: Room) -> None:
        forge(room.world.folder / stage, room.work / "it", change=change)
        used(room, stage, room.work / "it", codes=codes)

    return act


def _facts(**facts: object) -> Change:
    return lambda body: body["facts"].update(facts)


def _without(name: str, kind: type = dict) -> Change:
    return lambda body: body.update({name: kind()})


def _nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def _first_path(path: str) -> Change:
    return lambda body: body["outputs"][0].update(path=path)


_CHANGES: dict[str, Change] = {
    "no-facts": _without("facts"),
    "dim-a-word": _facts(dim="32x"),
    "dim-huge": _facts(dim=10**18),
    "dim-negative": _facts(dim=-1),
    "dim-null": _facts(dim=None),
    "dim-fraction": _facts(dim=1.5),
    "facts-deep": _facts(dim=_nested(900)),
    "encoder-null": _facts(encoder=None),
    "encoder-a-list": _facts(encoder=[1, 2]),
    "type-unknown": _facts(type="magic", of="nothing"),
    "lexical-a-word": _facts(lexical="yes"),
    "lineage-a-word": _facts(lineage="yes"),
    "keep-case-a-word": _facts(keep_case="perhaps"),
    "path-surrogate": _first_path("a\udcff.parquet"),
    "path-up": _first_path("../../etc/passwd"),
    "path-absolute": _first_path("/etc/passwd"),
    "path-nul": _first_path("a\0b"),
    "path-long": _first_path("a" * 5_000),
    "path-controls": _first_path("a\n\x1b[2Jwordpipe: error: no.parquet"),
    "no-outputs": _without("outputs", list),
    "bytes-negative": lambda body: body["outputs"][0].update(bytes=-5),
    "rows-huge": lambda body: [output.update(rows=2**60) for output in body["outputs"]],
    "settings-other": _without("settings"),
    "counts-huge": lambda body: body.update(counts={"documents": 10**30}),
    "another-kind": lambda body: body.update(kind="corpus" if body["kind"] != "corpus" else "index"),
}


def _with_files(
    stage: str, files: dict[str, bytes | Callable[[bytes], bytes]], uses: Iterable[tuple[str, ...]] | None = None
) -> Act:
    def act(room: Room) -> None:
        forge(room.world.folder / stage, room.work / "it", files=files)
        used(room, stage, room.work / "it", uses=uses)

    return act


def _npy(array: np.ndarray[Any, Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def _header(text: str) -> bytes:
    """A .npy file of which the header says this."""
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) + 1) + text.encode() + b"\n"


class _Canary:
    """What a pickle runs when it is read."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        import os

        return (os.mkdir, (self._path,))


_RANDOM = random.Random(9).randbytes(300)
_CONTENTS = {
    "empty": b"",
    "random": _RANDOM,
    "null": b"null",
    "list": b"[]",
    "object": b"{}",
    "deep": b"[" * 20_000,
    "text": b'"x"',
}


def _json_with(**changes: object) -> Callable[[bytes], bytes]:
    return lambda data: json.dumps(json.loads(data) | changes).encode()


def _poisoned(name: str, value: float) -> Callable[[bytes], bytes]:
    """A safetensors file of which one tensor holds a number that is none."""

    def change(data: bytes) -> bytes:
        from safetensors.numpy import load, save

        tensors = load(data)
        found = next(key for key in sorted(tensors) if name in key)
        tensors[found] = np.full_like(tensors[found], value)
        return bytes(save(tensors))

    return change


def _transposed(data: bytes) -> bytes:
    from safetensors.numpy import load, save

    return bytes(save({key: np.ascontiguousarray(tensor.T) for key, tensor in load(data).items()}))


def _no_tensors(_: bytes) -> bytes:
    from safetensors.numpy import save

    return bytes(save({"a": np.zeros(1, np.float32)}))


def _long_header(_: bytes) -> bytes:
    return struct.pack("<Q", 99_000_000) + b" " * 1_000


def _overlapping(_: bytes) -> bytes:
    head = {name: {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]} for name in ("a", "b")}
    text = json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + bytes(16)


_CONFIGS: dict[str, dict[str, object]] = {
    "hidden-huge": {"hidden_size": 10**9},
    "layers-huge": {"num_hidden_layers": 10**9},
    "vocab-huge": {"vocab_size": 2**40},
    "heads-zero": {"num_attention_heads": 0},
    "hidden-zero": {"hidden_size": 0},
    "hidden-negative": {"hidden_size": -32},
    "hidden-a-word": {"hidden_size": "32"},
    "hidden-infinite": {"hidden_size": math.inf},
    "other-type": {"model_type": "magic"},
    "code": {"auto_map": {"AutoModel": "evil.Model"}},
    "heads-odd": {"num_attention_heads": 7},
    "long": {"max_position_embeddings": 2**50},
}
_WEIGHTS: dict[str, Callable[[bytes], bytes]] = {
    "transposed": _transposed,
    "none": _no_tensors,
    "long-header": _long_header,
    "overlapping": _overlapping,
    "not-a-number": _poisoned("", math.nan),
    "infinite": _poisoned("", math.inf),
    "zeros": _poisoned("", 0.0),
    "empty": lambda _: b"",
    "random": lambda _: _RANDOM,
    "half": lambda data: data[: len(data) // 2],
}


def _weights(stage: str, name: str, change: Callable[[bytes], bytes]) -> Act:
    """Weights that are wrong: refused, or (numbers that are none) exit 9."""

    def act(room: Room) -> None:
        forge(room.world.folder / stage, room.work / "it", files={name: change})
        for number, arguments in enumerate(USES[stage]):
            words = [part.format(it=room.work / "it", world=room.world.folder) for part in arguments]
            words = [f"out{number}" if word == "out" else word for word in words]
            done = room.run(*words, seconds=40, more_memory=_MORE)
            room.said(done, _CODES | {9})
            if "NaN" in done.out:
                raise Broken("NaN on stdout")

    return act


def _pickles(room: Room) -> None:
    """Objects that would make a folder when they are unpickled: in every place that takes arrays or weights."""
    canary = room.folder / "canary"
    array = np.array([_Canary(str(canary))], dtype=object)
    payload = _npy(array)
    forge(room.world.folder / "index", room.work / "it", files={"row_keys.npy": payload})
    used(room, "index", room.work / "it")
    folder = room.work / "vectors"
    folder.mkdir()
    (folder / "vectors.npy").write_bytes(payload)
    (folder / "words.txt").write_text("a\n")
    room.said(room.run("import", folder, "-o", "out"), {3})
    model = room.work / "model"
    forge(room.world.folder / "mlm", model)
    for name in ("manifest.json", "model.safetensors"):
        (model / name).unlink()
    (model / "pytorch_model.bin").write_bytes(payload[payload.index(b"\x80") :])
    (model / "evil.py").write_text(f"import os; os.mkdir({str(canary)!r})")
    room.said(room.run("fill", model, "the [MASK]"), {3, 4})
    (room.work / "vectors.model").write_bytes(payload[payload.index(b"\x80") :])
    room.said(room.run("import", "vectors.model", "-o", "out2"), {3})
    if canary.exists():
        raise Broken("a pickle ran")


def _huge_vocabulary(data: bytes) -> bytes:
    body = json.loads(data)
    vocabulary = body["model"]["vocab"]
    if isinstance(vocabulary, dict):
        vocabulary["enormous"] = 2**32 - 1
    return json.dumps(body).encode()


def _pattern(data: bytes) -> bytes:
    body = json.loads(data)
    body["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    return json.dumps(body).encode()


_BACKTRACKING = "a" * 60 + "!"


_FAST = {"dim-a-word/index", "no-facts/embed", "path-surrogate/tokenize"}
_FILES = {
    "index": (
        "encoder/encoder.json", "encoder/tokenizer.json", "encoder/config.json", "encoder/model.safetensors", "row_keys.npy",
        "encoder/transform.safetensors", "index-00000.parquet", "lexical/lexical.json", "lexical/postings.npy",
    ),
    "index-words": ("index.faiss", "index-00000.parquet"),
    "embed": (
        "encoder/encoder.json", "encoder/tokenizer.json", "encoder/config.json", "encoder/model.safetensors",
        "sentences-00000.parquet",
    ),
    "embed-words": ("encoder/encoder.json", "encoder/words.parquet"),
    "tokenize": ("tokenizer.json", "words.parquet", "tokens-00000.parquet", "counts.parquet"),
    "word2vec": ("tokenizer.json", "words-00000.parquet"),
    "mlm": ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"),
    "static": ("modules.json", "tokenizer.json", "model.safetensors"),
    "ingest": ("corpus-00000.parquet", "sources.parquet"),
}  # fmt: skip
_LIKE = {"index-words": "index", "embed-words": "embed"}  # read by the same commands
_KEYS = {
    "objects": _npy(np.array([{"a": 1}], dtype=object)),
    "huge": _header("{'descr': '<u8', 'fortran_order': False, 'shape': (1152921504606846976, 2), }"),
    "few": _npy(np.zeros((1, 2), np.uint64)),
    "letters": _npy(np.array(["a", "b"])),
}


def cases(world: World) -> list[Case]:
    """The table of this file."""
    return [*_of_manifests(), *_of_files(), *_of_models(), *_of_tokenizers()]


def _case(name: str, act: Act, *covers: str, fast: bool = False) -> Case:
    return Case(f"forged/{name}", act, (*covers, "P7"), fast=fast, prepared=True)


def _of_manifests() -> Iterator[Case]:
    for stage in USES:
        for name, change in _CHANGES.items():
            codes = _CODES | {5} if name == "path-long" else _CODES  # the system itself refuses such a name
            place = f"{name}/{stage}"
            yield _case(f"manifest/{place}", _with_manifest(stage, change, codes), "C14", fast=place in _FAST)


def _of_files() -> Iterator[Case]:
    for stage, names in _FILES.items():
        for name in names:
            for what, content in _CONTENTS.items():
                if name.endswith(".json") or what in ("empty", "random"):
                    act = _with_files(stage, {name: content}, USES[_LIKE.get(stage, stage)])
                    quick = (stage, name, what) == ("index", "encoder/encoder.json", "null")
                    yield _case(f"file/{stage}/{name}/{what}", act, "C15", fast=quick)
    again = (("query", "{it}", "bees"), ("index", "{world}/embed", "-o", "{it}", "--update"), ("show", "{it}"))
    for name, content in _KEYS.items():
        yield _case(f"row-keys/{name}", _with_files("index", {"row_keys.npy": content}, again), "31", "C15")
    yield _case("pickles", _pickles, "31", fast=True)


def _of_models() -> Iterator[Case]:
    for stage, path in (("mlm", "config.json"), ("index", "encoder/config.json"), ("embed", "encoder/config.json")):
        for name, config in _CONFIGS.items():
            act = _with_files(stage, {path: _json_with(**config)})
            yield _case(f"config/{name}/{stage}", act, "32", "C16", fast=(name, stage) == ("hidden-huge", "index"))
    for stage, path in (
        ("mlm", "model.safetensors"),
        ("index", "encoder/model.safetensors"),
        ("static", "model.safetensors"),
    ):
        for name, weights in _WEIGHTS.items():
            yield _case(f"weights/{name}/{stage}", _weights(stage, path, weights), "32", "36", "C16")


def _of_tokenizers() -> Iterator[Case]:
    ids = (("show", "{it}", "--text", "the sea"), ("train", "word2vec", "{it}", "-o", "out"))
    slow = (("show", "{it}", "--text", _BACKTRACKING), ("evaluate", "tokenizer", "{it}", "--data", "{world}/text.txt"))
    asked = (("query", "{it}", _BACKTRACKING), ("query", "{it}", "bees"))
    for stage, path, uses_of_ids, uses_of_pattern in (
        ("tokenize", "tokenizer.json", ids, slow),
        ("index", "encoder/tokenizer.json", asked, asked),
    ):
        yield _case(f"vocabulary/{stage}", _with_files(stage, {path: _huge_vocabulary}, uses_of_ids), "32", "C23")
        pattern = _with_files(stage, {path: _pattern}, uses_of_pattern)
        yield _case(f"pattern/{stage}", pattern, "32", "C23", fast=stage == "tokenize")
