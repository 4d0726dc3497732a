"""Mutated files in front of native parsers, behind forged manifests: no crash, no endless search, no row that is not there.

The files are mutated by a seeded draw: bits, bytes, runs, numbers of the header, cuts, repeats.
"""

import json
import random
import struct
from collections.abc import Callable
from pathlib import Path

from tests.faults.case import Act, Case, Tries
from tests.faults.forge import forge
from tests.faults.forged import used
from tests.faults.room import Broken, Room
from tests.faults.world import World

_TURNS, _TURNS_FAST = 100, 3


def _mutated(data: bytes, draw: random.Random) -> bytes:
    """One of eight kinds of damage."""
    found = bytearray(data)
    kind, place = draw.randrange(8), draw.randrange(len(data))
    head = draw.randrange(min(len(data) - 8, 120))
    if kind == 0:
        found[place] ^= 1 << draw.randrange(8)
    elif kind == 1:
        found[head] = draw.randrange(256)
    elif kind == 2:
        found[place : place + 16] = draw.randbytes(16)
    elif kind == 3:
        found[head : head + 8] = struct.pack("<q", draw.choice([2**60, -1, 2**31, 0, 10**9]))
    elif kind == 4:
        del found[place:]
    elif kind == 5:
        found[place:place] = found[max(0, place - 64) : place]
    elif kind == 6:
        found[head : head + 4] = struct.pack("<i", draw.choice([2**30, -1, 0, 7]))
    else:
        size = min(len(found) - place, 256)
        found[place : place + size] = bytes([draw.choice([0, 255])]) * size
    return bytes(found)


def _rows_are_there(out: str, rows: int) -> None:
    """The rows of the hits are rows of the index, each once."""
    hits = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    numbers = [hit["row"] if "row" in hit else hit["id"] for hit in hits if "rank" in hit]
    if any(not 0 <= number < rows for number in numbers) or len(set(numbers)) != len(numbers):
        raise Broken(f"rows {numbers} of an index of {rows}")


def _faiss(source: Callable[[World], Path], name: str, turn: int) -> Act:
    def act(room: Room) -> None:
        draw = random.Random(f"{name} {turn} {room.world.seed}")
        forge(source(room.world), room.work / "it", files={"index.faiss": lambda data: _mutated(data, draw)})
        manifest = json.loads((room.work / "it" / "manifest.json").read_bytes())
        rows = sum(output.get("rows") or 0 for output in manifest["outputs"] if output["path"].startswith("index-"))
        question = ["water"] if name == "ivf-pq" else ["bees", "--mode", "dense"]
        uses = (("query", "{it}", *question, "--json", "-k", "20"),)
        for done in used(room, "index", room.work / "it", uses=uses, seconds=25):
            _rows_are_there(done.out, rows)

    return act


def _other(stage: str, name: str, turn: int) -> Act:
    def act(room: Room) -> None:
        draw = random.Random(f"{stage} {name} {turn} {room.world.seed}")
        forge(room.world.folder / stage, room.work / "it", files={name: lambda data: _mutated(data, draw)})
        codes = {0, 3, 4, 9}  # 9: the mutation made numbers that are none, and they are named
        used(room, stage, room.work / "it", uses=_READERS[stage], codes=codes, seconds=25)

    return act


_READERS = {
    "index": (("query", "{it}", "bees", "--json"),),
    "mlm": (("fill", "{it}", "the [MASK] is old"),),
    "tokenize": (("show", "{it}", "--text", "the sea"), ("show", "{it}", "--rows", "3")),
    "embed": (("index", "{it}", "-o", "out"),),
    "word2vec": (("query", "{it}", "water"),),
    "ingest": (("tokenize", "{it}", "-o", "out"),),
}
_FILES = (
    ("index", "index-00000.parquet"),
    ("index", "encoder/model.safetensors"),
    ("index", "encoder/tokenizer.json"),
    ("index", "lexical/postings.npy"),
    ("index", "lexical/text_terms.npy"),
    ("index", "lexical/texts.npy"),
    ("mlm", "model.safetensors"),
    ("tokenize", "tokenizer.json"),
    ("tokenize", "tokens-00000.parquet"),
    ("embed", "sentences-00000.parquet"),
    ("word2vec", "words-00000.parquet"),
    ("ingest", "corpus-00000.parquet"),
)
_SOURCES: dict[str, Callable[[World], Path]] = {
    "flat": lambda world: world.folder / "index",
    "hnsw": lambda world: world.folder / "index-hnsw",
    "ivf-pq": lambda world: world.folder / "index-ivf-pq",
}


def _turns(make: Callable[[int], Act], turns: int) -> Callable[[], Tries]:
    def sweep() -> Tries:
        for turn in range(turns):
            yield f"turn {turn}", make(turn)

    return sweep


_HEADERS = {
    "not-closed": "{'descr': '<f4', 'fortran_order': False, 'shape': (50, 8",
    "tabs": "\t" * 60,
    "brackets": "(" * 9_000,
    "nothing": "",
    "a-call": "__import__('os').mkdir('canary')",
    "negative": "{'descr': '<f4', 'fortran_order': False, 'shape': (-50, 8), }",
    "huge": "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 8), }",
    "objects": "{'descr': '|O', 'fortran_order': False, 'shape': (50, 8), }",
    "a-word": "{'descr': 'magic', 'fortran_order': False, 'shape': (50, 8), }",
    "other-keys": "{'a': 1}",
    "a-string": "'text'",
    "indent": " \n  {'descr'\n :",
    "no-utf8": "{'descr': '<f4', '\xff': False}",
    "continued": "\\",
}


def _header(text: str) -> Act:
    """`import` of a folder whose vectors.npy has this for its header."""

    def act(room: Room) -> None:
        folder = room.work / "vectors"
        folder.mkdir()
        data = text.encode("latin-1") + b"\n"
        (folder / "vectors.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(data)) + data + bytes(1_600))
        (folder / "words.txt").write_text("".join(f"word{n}\n" for n in range(50)))
        done = room.run("import", folder, "-o", "out")
        room.said(done, {3})
        if (room.work / "canary").exists():
            raise Broken("the header was run")

    return act


def _vectors(name: str, data: bytes) -> Act:
    def act(room: Room) -> None:
        (room.work / "v.txt").write_bytes(data)
        done = room.run("import", "v.txt", "-o", "out", seconds=30, more_memory=2_000_000_000)
        room.said(done, {3}, names=["v.txt"])

    assert name
    return act


_VECTORS = {
    "header-lies": b"1000000000 300\nword 1 2 3\n",
    "too-few": b"3 4\na 1 2 3 4\n",
    "ragged": b"a 1 2 3\nb 1 2\n",
    "not-a-number": b"2 3\na 1 nan 3\nb 1 2 3\n",
    "infinite": b"2 3\na 1 1e400 3\nb 1 2 3\n",
    "huge-dim": b"1 99999999999\na 1 2\n",
    "empty": b"",
    "binary-cut": b"50 8\nword \0\0\0",
    "endless-line": b"a " + b"1 " * 400_000,
}


def cases(world: World) -> list[Case]:
    """The table of this file."""
    table = []
    for kind, source in _SOURCES.items():
        for name, turns in (("", _TURNS), ("-few", _TURNS_FAST)):
            sweep = _turns(lambda turn, s=source, k=kind: _faiss(s, k, turn), turns)
            quick = bool(name) and kind == "flat"
            table.append(
                Case(f"native/faiss{name}/{kind}", sweep=sweep, covers=("30", "C17"), fast=quick, prepared=True)
            )
    for stage, name in _FILES:
        sweep = _turns(lambda turn, s=stage, n=name: _other(s, n, turn), _TURNS // 10)
        table.append(Case(f"native/{stage}/{name}", sweep=sweep, covers=("26", "30", "32", "C15"), prepared=True))
    fast = ("not-closed", "brackets")
    table += [
        Case(f"native/npy-header/{name}", _header(text), ("31", "C10"), fast=name in fast, prepared=True)
        for name, text in _HEADERS.items()
    ]
    table += [
        Case(f"native/vectors/{name}", _vectors(name, data), ("30",), prepared=True) for name, data in _VECTORS.items()
    ]
    return table
