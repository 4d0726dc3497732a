"""Hostile texts: malformed, cut, endless, growing when unpacked, empty, in other encodings, deeply nested."""

import bz2
import gzip
import io
import json
import lzma
import os
import socket
from collections.abc import Callable, Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from tests.faults.case import Act, Case
from tests.faults.room import Broken, Room
from tests.faults.world import World

_TEXT = "The river runs to the sea. Bees find their way by the sun. A kettle boils water for tea.\n\n"
_INPUT = {3}
_EITHER = {0, 3}
_DEEP = 20_000
_BOMB_MB = 900  # memory of a child that unpacks: torch is not imported, 64 MiB and their copies are allowed


def _ingested(name: str, data: bytes, codes: Collection[int], *options: str) -> Act:
    """Ingest one file of these bytes."""

    def act(room: Room) -> None:
        (room.work / name).write_bytes(data)
        room.hold()
        done = room.run("ingest", name, *options, "-o", "out")
        room.said(done, codes)
        if done.code:
            room.as_before()
        else:
            room.verified()

    return act


def _measured(
    make: Callable[[Path], list[str]], codes: Collection[int], *, most_mb: float = _BOMB_MB, seconds: float = 60
) -> Act:
    """A command as a program, whose memory and time are bounded; `make` prepares its arguments in the room."""

    def act(room: Room) -> None:
        arguments = [part.format(world=room.world.folder) for part in make(room.work)]
        done = room.program(*arguments, most_mb=most_mb, seconds=seconds)
        room.said(done, codes)

    return act


def _parquet(rows: int, length: int, *, dictionary: bool) -> Callable[[Path], list[str]]:
    """Few bytes that grow: rows that share one long string."""

    def make(work: Path) -> list[str]:
        table = pa.table({"text": pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), ["x" * length])})
        pq.write_table(table, work / "bomb.parquet", compression="zstd", use_dictionary=dictionary)
        return ["ingest", "bomb.parquet", "-o", "out"]

    return make


_PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor().compress,
}


def _bomb(ending: str) -> Callable[[Path], list[str]]:
    def make(work: Path) -> list[str]:
        data = _PACKERS[ending](bytes(1_000_000).replace(b"\0", b"a "))
        times = 200 if ending != "bz2" else 600
        (work / f"bomb.txt.{ending}").write_bytes(data * times)
        return ["ingest", f"bomb.txt.{ending}", "-o", "out", "--max-expand", "2"]

    return make


def _nested_bomb(work: Path) -> list[str]:
    (work / "bomb.txt.gz").write_bytes(gzip.compress(gzip.compress(bytes(80_000_000))))
    return ["ingest", "bomb.txt.gz", "-o", "out"]


def _endless(*arguments: str, name: str = "endless.txt", pipe: bool = False) -> Callable[[Path], list[str]]:
    def make(work: Path) -> list[str]:
        if pipe:
            os.mkfifo(work / name)
        else:
            (work / name).symlink_to("/dev/zero")
        return list(arguments)

    return make


def _fifo_as_manifest(where: str) -> Callable[[Path], list[str]]:
    def make(work: Path) -> list[str]:
        folder = work / ("texts/sub" if where == "input" else "out")
        folder.mkdir(parents=True)
        os.mkfifo(folder / "manifest.json")
        (work / "texts").mkdir(exist_ok=True)
        (work / "texts" / "a.txt").write_text(_TEXT)
        return ["ingest", "texts", "-o", "out"]

    return make


def _zero_as_manifest(where: str) -> Callable[[Path], list[str]]:
    def make(work: Path) -> list[str]:
        arguments = _fifo_as_manifest(where)(work)
        path = next(work.rglob("manifest.json"))
        path.unlink()
        path.symlink_to("/dev/zero")
        return arguments

    return make


def _nested(kind: str, depth: int) -> bytes:
    text = json.dumps("The river runs to the sea.")
    inner = "[" * depth + "]" * depth if kind == "list" else '{"a":' * depth + "1" + "}" * depth
    return f'{{"text": {text}, "more": {inner}}}\n'.encode()


_MALFORMED: dict[str, tuple[str, bytes, Collection[int]]] = {
    "empty": ("a.txt", b"", _INPUT),
    "key-twice": ("a.jsonl", b'{"text": "One."}\n{"text": "Two.", "of": {"k": 1, "k": 2}}\n', _INPUT),
    "column-twice": ("a.csv", b"text,id,text\nOne.,1,Two.\n", _INPUT),
    "not-a-number": ("a.jsonl", b'{"text": "One.", "n": NaN}\n{"text": NaN}\n{"text": "Two.", "n": [1e999]}\n', {0}),
    "blanks": ("a.txt", b" \n\t\r\n \n" * 50, _INPUT),
    "marks-only": ("a.txt", "\ufeff".encode(), _INPUT),
    "nul": ("a.txt", _TEXT.encode().replace(b" ", b"\0"), _EITHER),
    "some-nul": ("a.txt", _TEXT.encode() * 50 + b"\0 and more.", _EITHER),
    "binary": ("a.txt", bytes(range(256)) * 64, _INPUT),
    "utf-16": ("a.txt", _TEXT.encode("utf-16"), {0}),
    "utf-32": ("a.txt", _TEXT.encode("utf-32"), {0}),
    "utf-16-unmarked": ("a.txt", _TEXT.encode("utf-16-le"), {0}),
    "dos-end": ("a.txt", b"A note.\r\n\x1a", {0}),
    "mail": ("a.txt", b"Received: from x\nSubject: y\nMIME-Version: 1.0\n\nHay.\n", {0}),
    "notebook": ("a.json", b'{"cells": [{"cell_type": "code"}], "nbformat": 4}', _INPUT),
    "rule-first": ("a.md", b"---\n\n## Votes\n\nAll for it.\n\n---\n", {0}),
    "front-matter-deep": ("a.md", b"---\na: " + b"[" * _DEEP + b"\n---\nText.\n", {0}),
    "unclosed-heading": ("a.html", b"<h2>Menu<p>Tea costs two.</p><?php x ?>", {0}),
    "sep-line": ("a.csv", b"sep=;\nid;text\n1;bread\n", {0}),
    "latin-1": ("a.txt", ("Grün ist der Weg. " + _TEXT).encode("latin-1"), {0}),
    "mark": ("a.txt", ("\ufeff" + _TEXT).encode(), {0}),
    "carriage-returns": ("a.txt", _TEXT.replace("\n", "\r").encode(), {0}),
    "separators": ("a.txt", _TEXT.replace(". ", ".\u2028\u2029\u0085").encode(), {0}),
    "overlong": ("a.txt", (_TEXT * 5).encode() + b"\xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80 \xff", {0}),
    "combining": ("a.txt", ("a" + "\u0301" * 100_000 + " " + _TEXT).encode(), {0}),
    "joiners": ("a.txt", ("👨\u200d👩\u200d👧" * 5_000 + ". " + _TEXT).encode(), {0}),
    "bidi": ("a.txt", ("\u202eevil\u2066 txt \u2069" + _TEXT).encode(), {0}),
    "escapes": ("a.txt", ("\x1b]52;c;aGk=\x07\x1b[2J\x9b31m " + _TEXT).encode(), {0}),
    "one-letter": ("a.txt", b"a" * 1_000_000, {0}),
    "one-word-a-line": ("a.txt", b"word\n" * 20_000, {0}),
    "json-cut": ("a.jsonl", b'{"text": "one two three."}\n{"text": "two', _INPUT),
    "json-surrogate": ("a.jsonl", b'{"text": "lone \\ud800 here. ' + _TEXT.strip().encode() + b'"}\n', {0}),
    "json-no-object": ("a.jsonl", b"[1, 2]\n", _INPUT),
    "json-nan": ("a.jsonl", b'{"text": "a b c.", "x": NaN, "y": 1e400}\n', _EITHER),
    "json-long-number": ("a.jsonl", b'{"text": "a b c.", "x": ' + b"9" * 5_000 + b"}\n", _EITHER),
    "json-deep-list": ("a.jsonl", _nested("list", _DEEP), _EITHER),
    "json-deep-object": ("a.jsonl", _nested("object", _DEEP), _EITHER),
    "json-twice": ("a.jsonl", b'{"text": "a b c.", "text": 5}\n', _EITHER),
    "json-many-fields": (
        "a.jsonl", json.dumps({"text": "A short text."} | {f"f{n}": n for n in range(20_000)}).encode() + b"\n", _EITHER
    ),
    "csv-no-end-of-quote": ("a.csv", b'text,x\n"one two three.\n' + b"a,b\n" * 500, _EITHER),
    "csv-ragged": ("a.csv", b"text,x\none two.,1,2,3,4\n", _EITHER),
    "csv-no-header": ("a.csv", b"\n\n\n", _INPUT),
    "conll-ragged": ("a.conll", b"Rome B-LOC\nis O O\nold O\n", _INPUT),
    "conll-no-tags": ("a.conll", b"Rome\nis\n", _INPUT),
    "conll-no-ends": ("a.conll", b"Rome B-LOC\n" * 9_000, {0}),
    "squad-cut": ("a.json", b'{"data": [{"title": "x", "paragraphs": [{"context": "The sea', _INPUT),
    "squad-wrong-place": (
        "a.json", b'{"data": [{"paragraphs": [{"context": "The sea.", "qas": [{"id": "1", "question": "What?", "answers": '
        b'[{"text": "sea", "answer_start": 400}]}]}]}]}', _INPUT,
    ),
    "squad-deep": ("a.json", b'{"data": ' + b"[" * _DEEP, _INPUT),
    "squad-none": ("a.json", b'[{"text": "one two three."}]', _INPUT),
    "parquet-cut": ("a.parquet", b"PAR1" + bytes(500), _INPUT),
    "parquet-garbage": ("a.parquet", b"PAR1" + os.urandom(900) + b"\xff\xff\xff\x7fPAR1", _INPUT),
    "gz-cut": ("a.txt.gz", gzip.compress(os.urandom(9_000).hex().encode())[:-900], _INPUT),
    "gz-garbage-after": ("a.txt.gz", gzip.compress((_TEXT * 9).encode()) + b"garbage", _INPUT),
    "gz-twice": ("a.txt.gz", gzip.compress(_TEXT.encode()) + gzip.compress(b"More of it here."), {0}),
    "gz-flipped": ("a.txt.gz", gzip.compress((_TEXT * 99).encode())[:-6] + b"\0\0\0\0\0\0", _INPUT),
    "xz-cut": ("a.txt.xz", lzma.compress(os.urandom(9_000).hex().encode())[:-900], _INPUT),
    "zst-cut": ("a.txt.zst", _PACKERS["zst"](os.urandom(9_000).hex().encode())[:-900], _INPUT),
    "zst-window": ("a.txt.zst", b"\x28\xb5\x2f\xfd\x00\xf8" + bytes(20), _INPUT),
    "bz2-cut": ("a.txt.bz2", bz2.compress(os.urandom(9_000).hex().encode())[:-900], _INPUT),
    "zip": ("a.zip", b"PK\x03\x04" + bytes(100), _INPUT),
    "tar": ("a.tar", b"../../evil" + bytes(600), _INPUT),
    "lies-in-its-name": ("a.jsonl", _TEXT.encode(), _INPUT),
}  # fmt: skip


def _no_words(stage: str, *options: str) -> Act:
    """Text without anything to learn from."""

    def act(room: Room) -> None:
        (room.work / "a.txt").write_text("the the the the\n\nof of of\n")
        done = room.run(*stage.split(), "a.txt", *options, "-o", "out")
        room.said(done, {0, 3})

    return act


def _special(kind: str) -> Act:
    """A folder with what is no file."""

    def act(room: Room) -> None:
        folder = room.work / "texts"
        folder.mkdir()
        (folder / "a.txt").write_text(_TEXT)
        if kind == "fifo":
            os.mkfifo(folder / "b.txt")
        elif kind == "socket":
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(os.path.relpath(folder / "b.txt"))
        elif kind == "circle":
            (folder / "b").symlink_to(folder)
        elif kind == "dangling":
            (folder / "b.txt").symlink_to("nowhere")
        elif kind == "device":
            (folder / "b.txt").symlink_to("/dev/zero")
        elif kind == "name-no-utf8":
            Path(os.fsdecode(os.fsencode(folder) + b"/\xff\xfe.txt")).write_text(_TEXT + "More.")
        done = room.run("ingest", folder, "-o", "out", seconds=20)
        room.said(done, _EITHER)

    return act


def _deep_elsewhere(which: str) -> Act:
    """Deeply nested JSON where a program's files are read."""

    def act(room: Room) -> None:
        deep = "[" * _DEEP + "]" * _DEEP
        world = room.world.folder
        if which.startswith("init-"):
            room.run("export", world / "embed", "--to", "sentence-transformers", "-o", "model")
            (room.work / "model" / which.removeprefix("init-")).write_text(deep)
            done = room.run("train", "mlm", world / "tokenize", "--init", "model", "--steps", "1", "-o", "out")
        elif which.startswith("retrieval-"):
            data = room.work / "data"
            data.mkdir()
            (data / "corpus.jsonl").write_text('{"_id": "1", "text": "the sea"}\n')
            (data / "queries.jsonl").write_text('{"_id": "q", "text": "sea"}\n')
            (data / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\t1\t1\n")
            (data / which.removeprefix("retrieval-")).write_text(f'{{"_id": "1", "text": "the sea", "x": {deep}}}\n')
            done = room.run("evaluate", "retrieval", world / "word2vec", "--data", data)
        else:
            (room.work / "sts.jsonl").write_text(f'{{"sentence1": "a", "sentence2": "b", "score": {deep}}}\n')
            done = room.run("evaluate", "sts", world / "word2vec", "--data", "sts.jsonl")
        room.said(done, {0, 2, 3, 4})

    return act


def _loud_byte_counts(room: Room) -> None:
    """What is replaced is counted and said."""
    (room.work / "a.txt").write_bytes(b"Good text here. \xff\xfe and \xc3( bad bytes.\n")
    done = room.run("ingest", "a.txt", "-o", "out", "--json")
    room.said(done, {0})
    counts = json.loads(done.out)["counts"]
    if not any(counts[name] for name in counts if "repl" in name or "bad" in name):
        raise Broken(f"the counts say nothing of it: {counts}")


def _pair_files(room: Room, sources: list[str], targets: list[str]) -> None:
    for name, lines in (("a.de", sources), ("a.en", targets)):
        (room.work / name).write_text("".join(f"{line}\n" for line in lines))
    room.hold()


def _unequal_lines(*command: str) -> Act:
    """Two files that are not line by line: both are named with their numbers of lines, and nothing is made."""

    def act(room: Room) -> None:
        _pair_files(room, ["eins", "zwei", "drei"], ["one", "two"])
        done = room.run(*(part.format(world=room.world.folder) for part in command))
        room.said(done, _INPUT, names=["a.de", "a.en", "3", "2"])
        room.as_before()

    return act


def _empty_targets(targets: list[str], code: int) -> Act:
    """Pairs without a second text are counted; where there are no others, that is an error."""

    def act(room: Room) -> None:
        _pair_files(room, ["eins", "zwei", "drei"], targets)
        done = room.run("ingest", "a.de", "a.en", "--parallel", "--valid", "0", "-o", "out", "--json")
        room.said(done, {code})
        if code:
            room.as_before()
        elif json.loads(done.out)["counts"].get("documents_dropped_empty_target") != targets.count(""):
            raise Broken(f"the counts do not say how many targets were empty: {done.out[:300]}")

    return act


def _long_pairs(stage: str, positions: int, code: int) -> Act:
    """Pairs that are longer than the model are counted and left out whole; where there are no others, that is an error."""

    def act(room: Room) -> None:
        command = [
            "train", stage, room.world.folder / "pair-tokens", "--config", room.world.folder / "tiny.toml", "--seq-len",
            positions, "-o", "out", "--json",
        ]  # fmt: skip
        done = room.run(*command)
        room.said(done, {code})
        if code:
            room.as_before()
            return
        counts = json.loads(done.out)["counts"]
        left = sum(number for name, number in counts.items() if name.startswith("pairs_left_out_long"))
        with_those = counts["pairs_train"] + counts.get("pairs_valid", 0) + left
        if not left or with_those != _rows(room.world.folder / "pair-tokens") or "left out" not in done.err:
            raise Broken(f"pairs are gone in silence: {counts}")

    return act


def _rows(tokens: Path) -> int:
    return int(json.loads((tokens / "manifest.json").read_bytes())["counts"]["sentences"])


def _long_source(room: Room) -> None:
    """A source longer than the model's positions is read as far as it goes, and that is said."""
    done = room.run("generate", room.world.folder / "seq2seq", "bees " * 5_000, "--max-tokens", "3", "--beams", "1")
    room.said(done, {0})
    if "were not read" not in done.err:
        raise Broken(f"nothing was said of what was cut: {done.err[-300:]}")


_UNEQUAL = {
    "ingest": ("ingest", "a.de", "a.en", "--parallel", "-o", "out"),
    "evaluate": ("evaluate", "seq2seq", "{world}/seq2seq", "--data", "a.de", "--data", "a.en", "--prefix", ""),
}


def _docx_like() -> bytes:
    buffer = io.BytesIO()
    buffer.write(b"PK\x03\x04")
    return buffer.getvalue() + bytes(50)


def cases(world: World) -> list[Case]:
    """The table of this file."""
    fast = {"empty", "binary", "utf-16", "overlong", "json-deep-list", "gz-cut", "gz-twice", "escapes"}
    table = [
        Case(f"texts/malformed/{name}", _ingested(*row), ("33", "34", "37", "P4"), fast=name in fast, prepared=True)
        for name, row in _MALFORMED.items()
    ]
    table += [
        Case(
            f"texts/malformed-kept/{name}",
            _ingested(name, data, codes, "--bad-bytes", policy),
            ("33", "P4"),
            prepared=True,
        )
        for policy in ("skip", "fail")
        for name, data, codes in (
            (f"a-{policy}.txt", _TEXT.encode() + b"bad \xff line.\n", {0} if policy == "skip" else {3}),
        )
    ]
    bombs = {
        "parquet-dictionary": _parquet(60, 20_000_000, dictionary=True),
        "parquet-rows": _parquet(250, 2_000_000, dictionary=True),
        **{ending: _bomb(ending) for ending in _PACKERS},
        "gz-in-gz": _nested_bomb,
    }
    for name, make in bombs.items():
        table.append(
            Case(
                f"texts/bomb/{name}",
                _measured(make, {0, 3} if name == "gz-in-gz" else {3}),
                ("37", "C2", "P8"),
                fast=name == "parquet-dictionary",
                prepared=True,
            )
        )
    endless = {
        "config": ("ingest", "{world}/text.txt", "--config", "endless.txt", "-o", "out"),
        "status": ("status", "endless.txt"),
        "queries": ("query", "{world}/index", "--queries", "endless.txt"),
        "pairs": ("train", "static", "{world}/tokenize", "--pairs", "endless.txt", "-o", "out"),
        "evaluate-words": ("evaluate", "words", "{world}/word2vec", "--data", "endless.txt"),
        "evaluate-sts": ("evaluate", "sts", "{world}/word2vec", "--data", "endless.txt"),
        "map-only": ("map", "{world}/word2vec", "--only", "endless.txt", "-o", "map.html"),
        "tokenizer": ("tokenize", "{world}/ingest", "--tokenizer", "endless.txt", "-o", "out"),
        "ingest": ("ingest", "endless.txt", "-o", "out"),
        "import": ("import", "endless.txt", "-o", "out"),
    }
    for name, arguments in endless.items():
        zero = _measured(_endless(*arguments), {2, 3, 4, 5}, most_mb=1_200, seconds=30)
        table.append(Case(f"texts/endless/{name}", zero, ("24", "C12", "P8"), fast=name == "status", prepared=True))
        if name not in ("ingest", "import", "queries"):  # text and questions may come out of a pipe (a shell's `<(…)`)
            waits = _measured(_endless(*arguments, pipe=True), {2, 3, 4, 5}, most_mb=1_200, seconds=20)
            table.append(Case(f"texts/pipe/{name}", waits, ("C12",), prepared=True))
    for where in ("input", "output"):
        hangs, grows = (
            _measured(make(where), {0, 3, 4, 5}, seconds=20) for make in (_fifo_as_manifest, _zero_as_manifest)
        )
        table.append(Case(f"texts/manifest-fifo/{where}", hangs, ("38", "C11"), fast=where == "input", prepared=True))
        table.append(Case(f"texts/manifest-endless/{where}", grows, ("38", "C11", "P8"), prepared=True))
    table += [
        Case(f"texts/special/{kind}", _special(kind), ("38", "C11", "P7"), fast=kind == "circle", prepared=True)
        for kind in ("fifo", "socket", "circle", "dangling", "device", "name-no-utf8")
    ]
    elsewhere = (
        "init-config.json", "init-tokenizer_config.json", "init-model.safetensors.index.json", "init-tokenizer.json",
        "retrieval-corpus.jsonl", "retrieval-queries.jsonl", "sts",
    )  # fmt: skip
    for which in elsewhere:
        table.append(
            Case(f"texts/deep-json/{which}", _deep_elsewhere(which), ("32", "C8"), fast=which == "sts", prepared=True)
        )
    table += [
        Case(f"texts/unequal-lines/{name}", _unequal_lines(*command), ("P4",), fast=name == "ingest", prepared=True)
        for name, command in _UNEQUAL.items()
    ]
    table += [
        Case("texts/empty-targets/some", _empty_targets(["one", "", ""], 0), ("34", "P4"), prepared=True),
        Case("texts/empty-targets/all", _empty_targets(["", "", ""], 3), ("34", "P4"), prepared=True),
        Case("texts/long-source", _long_source, ("P4",), prepared=True),
    ]
    table += [
        Case(f"texts/long-pairs/{stage}/{name}", _long_pairs(stage, positions, code), ("P4",), prepared=True)
        for stage, lengths in {"seq2seq": (12, 8), "clm": (24, 8)}.items()
        for name, positions, code in (("some", lengths[0], 0), ("all", lengths[1], 3))
    ]
    table += [
        Case("texts/counted", _loud_byte_counts, ("33", "P4"), fast=True, prepared=True),
        Case("texts/no-words/tokenize", _no_words("tokenize"), ("34",), prepared=True),
        Case("texts/zip-in-disguise", _ingested("a.docx", _docx_like(), _INPUT), ("37",), prepared=True),
    ]
    return table
