"""What a search must not lose: rows whose text has no vector, in every kind of index, and in an update."""

import json

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


def cases(world: World) -> list[Case]:
    """The table of this file."""
    del world
    return [
        Case(
            f"search/without-a-vector/{kind}{'-update' * updated}", _without_a_vector(kind, updated=updated), ("P4",),
            fast=kind == "flat" and updated, prepared=True,
        )
        for kind in ("flat", "hnsw") for updated in (False, True)
    ]  # fmt: skip
