"""What a search must not lose: rows whose text has no vector, words that are hostile; and questions that are none."""

import json
import os

from tests.faults.case import Act, Case
from tests.faults.room import Broken, Room
from tests.faults.world import World

_NEW = [
    {"id": "neo1", "text": "Xylomorph frobnitz."},
    {"id": "neo2", "text": "Qwertzbolt!"},
]  # words that no encoder knows
_QUICK = ("--device", "cpu", "--threads", "1", "-q")


def _written(room: Room, records: list[dict[str, str]]) -> None:
    (room.work / "t.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


def _built(room: Room, kind: str, *update: str) -> None:
    """Corpus, sentences and index anew, or brought up to date."""
    for arguments in (
        ("ingest", "t.jsonl", "-o", "c", "--valid", "0", "-q", *update),
        ("embed", room.world.folder / "word2vec", "c", "-o", "s", "--unit", "document", *_QUICK, *update),
        ("index", "s", "-o", "out", "--type", kind, "--threads", "1", "-q", *update),
    ):
        room.said(room.run(*arguments), {0})
    room.verified()


def _found(room: Room, *arguments: str) -> list[str]:
    """The ids of all answers; a condition without a question is asked by a program, whose standard input nobody has read."""
    asked = room.program if arguments[0] == "--where" else room.run
    done = asked("query", "out", *arguments, "-k", "500", "--json", "-q")
    room.said(done, {0, 3})
    return [one["id"] for one in map(json.loads, done.out.splitlines()) if "rank" in one]


def _without_a_vector(kind: str, *, updated: bool) -> Act:
    """Texts of unknown words, at both ends, are found by their words, ids and conditions, and by no vector."""

    def act(room: Room) -> None:
        known = [block for block in (room.world.folder / "text.txt").read_text().split("\n\n") if len(block) > 40][:30]
        records = [{"id": f"r{number}", "text": text} for number, text in enumerate(known)]
        if updated:
            _written(room, records)
            _built(room, kind)
        _written(room, [_NEW[0], *records, _NEW[1]])
        _built(room, kind, *(["--update"] if updated else []))
        asked = {
            "by words": (["xylomorph", "--mode", "lexical"], ["neo1"]),
            "as usual": (["qwertzbolt"], ["neo2"]),
            "by id": (["--where", "id = 'neo1'"], ["neo1"]),
        }
        for how, (arguments, expected) in asked.items():
            if (found := _found(room, *arguments)) != expected:
                raise Broken(f"{how}: {found} instead of {expected}")
        near = _found(room, records[0]["text"].split(".")[0], "--mode", "dense")
        if set(near) != {record["id"] for record in records}:
            raise Broken(f"by vectors: {sorted(set(near) ^ {record['id'] for record in records})} too many or too few")

    return act


_WORDS = {  # what is asked for → the one text that has it
    "colours": ("failure", "\x1b[1;31mFAILURE\x1b[0m of the pump"),
    "title": ("quayside", "\x1b]0;title\x07quayside \x9b4mnews\x9b0m"),
    "overstruck": ("harbour", "h\bha\bar\brb\bbo\bou\bur\br"),
    "unseen": ("lighthouse", "light\u00adhouse, li\u200bghthouse"),
    "turned": ("breakwater", "break\u202ewater\u202c \u2066here\u2069"),
    "mark": ("anchorage", "\ufeffanchor\ufeffage"),
    "hangul": ("서울", "서울에서 만나요"),
    "half-width": ("ﾊﾞｽ", "バスを待つ"),
    "many-marks": ("sea", "se" + "a" + "\u0301" * 2_000),
    "tags": ("seagull", "sea\U000e0067\U000e0062gull"),
}


def _hostile_word(asked: str, text: str) -> Act:
    """A word is found whatever stands in and around it, and nothing that drives a terminal comes back."""

    def act(room: Room) -> None:
        others = ["Bread is baked at four.", "Two dogs slept.", "Snow lay on the roof."]
        _written(room, [{"id": str(number), "text": one} for number, one in enumerate([*others, text])])
        for arguments in (
            ("ingest", "t.jsonl", "-o", "c", "--valid", "0", "-q"),
            ("embed", room.world.folder / "word2vec", "c", "-o", "s", "--unit", "document", *_QUICK),
            ("index", "s", "-o", "out", "--threads", "1", "-q"),
        ):
            room.said(room.run(*arguments), {0})
        done = room.run("query", "out", asked, "--mode", "lexical", "--json", "-q")
        room.said(done, {0})
        found = [one["id"] for one in map(json.loads, done.out.splitlines()) if "rank" in one]
        if found != ["3"]:
            raise Broken(f"{found} for {asked!r}")
        for form in ("plain", "tsv"):
            shown = room.run("query", "out", asked, "--mode", "lexical", "--format", form, "-q").out
            if any(one in shown for one in "\x1b\x07\x08\x9b\u202e\u2066"):
                raise Broken(f"--format {form} lets through {shown[:200]!r}")

    return act


_QUESTIONS: dict[str, tuple[bytes, set[int]]] = {
    "empty": (b"", {3}),
    "blank": (b"\n \n\t\n", {3}),
    "no-tab": (b"what is it\n", {3}),
    "three-cells": (b"a\tb\tc\n", {3}),
    "no-answer": (b"a\t\n", {3}),
    "unknown": (b"a\tnowhere\n", {3}),
    "latin-1": (b"caf\xe9\tnowhere\n", {3}),
    "nul": (b"a\0\tb\n", {3}),
    "half-a-pair": (b'{"question": "\\ud800", "id": "x"}\n', {3}),
    "twice": (b'{"question": "a", "question": "b", "id": "x"}\n', {3}),
    "deep": (b'{"question": ' + b"[" * 50_000 + b"\n", {3}),
    "true": (b'{"question": "a", "id": true}\n', {3}),
    "huge-id": (b'{"question": "a", "id": ' + b"9" * 5_000 + b"}\n", {3}),
    "header-alone": (b"question\tid\n", {3}),
    "open-quote": (b'question,id\n"a,b\n', {3}),
    "artifact": (b"", {2, 3, 4}),
    "pipe": (b"", {3}),
}


def _questions(name: str, data: bytes, codes: set[int]) -> Act:
    """A file of questions that is none is refused by its name, and its line where one is to blame."""

    def act(room: Room) -> None:
        path = room.work / "questions.tsv"
        if data.startswith(b"{"):
            path = path.with_suffix(".jsonl")
        if name == "artifact":
            path = room.world.folder / "ingest"
        elif name == "pipe":
            os.mkfifo(path)
        else:
            path.write_bytes(data)
        room.hold()
        done = room.run("evaluate", "search", room.world.folder / "index", "--data", path)
        room.said(done, codes, names=[path.name])
        room.as_before()

    return act


def cases(world: World) -> list[Case]:
    """The table of this file."""
    del world
    words = [
        Case(f"search/words/{name}", _hostile_word(*row), ("K16", "P4", "P10"), fast=name == "colours", prepared=True)
        for name, row in _WORDS.items()
    ]
    questions = [
        Case(f"search/questions/{name}", _questions(name, *row), ("34", "K26"), fast=name == "nul", prepared=True)
        for name, row in _QUESTIONS.items()
    ]
    return words + questions + [
        Case(
            f"search/without-a-vector/{kind}{'-update' * updated}", _without_a_vector(kind, updated=updated), ("K2", "P4"),
            fast=kind == "flat" and updated, prepared=True,
        )
        for kind in ("flat", "hnsw") for updated in (False, True)
    ]  # fmt: skip
