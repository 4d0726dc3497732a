"""Bounded memory: one line of half a gigabyte, 200,000 files, millions of distinct words, long questions."""

from collections.abc import Callable
from pathlib import Path

from tests.faults.case import Act, Case
from tests.faults.room import Broken, Room
from tests.faults.world import World

_MB = 1_000_000


def _measured(make: Callable[[Path], list[object]], most_mb: float, seconds: float = 600) -> Act:
    """A command that must end well within so much memory."""

    def act(room: Room) -> None:
        arguments = [str(part).format(world=room.world.folder) for part in make(room.work)]
        done = room.program(*arguments, most_mb=most_mb, seconds=seconds)
        room.said(done, {0})
        if not done.peak_mb:
            raise Broken("its memory was not measured")

    return act


def _one_line(size: int) -> Callable[[Path], list[object]]:
    def make(work: Path) -> list[object]:
        with (work / "line.txt").open("wb") as file:
            for _ in range(size // _MB):
                file.write(b"The river runs to the sea and on. " * (_MB // 34))
        return ["ingest", "line.txt", "-o", "out"]

    return make


def _one_word(work: Path) -> list[object]:
    (work / "word.txt").write_bytes(b"a" * 20 * _MB)
    return ["tokenize", "word.txt", "-o", "out", "--vocab-size", "300"]


def _files(count: int) -> Callable[[Path], list[object]]:
    def make(work: Path) -> list[object]:
        for number in range(count):
            folder = work / "texts" / str(number // 1_000)
            if number % 1_000 == 0:
                folder.mkdir(parents=True)
            (folder / f"{number}.txt").write_text(f"Text number {number} is short. It ends here.\n")
        return ["ingest", "texts", "-o", "out"]

    return make


def _distinct(words: int) -> Callable[[Path], list[object]]:
    def make(work: Path) -> list[object]:
        with (work / "words.txt").open("w") as file:
            for first in range(0, words, 1_000):
                file.write(
                    " ".join(f"w{(number * 2654435761) % 2**32:x}" for number in range(first, first + 1_000)) + ".\n"
                )
        return ["tokenize", "words.txt", "-o", "out", "--vocab-size", "1000", "--memory", "100MB"]

    return make


def _long_question(size: int) -> Act:
    """A line of questions that is far too long is answered or refused, within bounds."""

    def act(room: Room) -> None:
        (room.work / "questions.txt").write_bytes(b"bees and honey " * (size // 15) + b"\nwater\n")
        done = room.program(
            "query", room.world.folder / "index-words", "--queries", "questions.txt", "--json", most_mb=900, seconds=300
        )
        room.said(done, {0, 3})

    return act


def _many_questions(room: Room) -> None:
    (room.work / "questions.txt").write_text("".join(f"bees and honey {number}\n" for number in range(2_000)))
    done = room.program(
        "query",
        room.world.folder / "index",
        "--queries",
        "questions.txt",
        "--json",
        "-k",
        "2",
        most_mb=700,
        seconds=300,
    )
    room.said(done, {0})
    if done.out.count('"rank"') < 2_000:
        raise Broken("not every question was answered")


def cases(world: World) -> list[Case]:
    """The table of this file."""
    files = 200_000  # of which each is remembered, at 2 kB
    return [
        Case("memory/one-line/500-mb", _measured(_one_line(500 * _MB), 700), ("24", "P8"), prepared=True),
        Case("memory/one-line/5-mb", _measured(_one_line(5 * _MB), 500), ("24", "P8"), fast=True, prepared=True),
        Case("memory/one-word", _measured(_one_word, 900), ("24", "P8"), prepared=True),
        Case(f"memory/files/{files}", _measured(_files(files), 650), ("12", "24", "P8"), prepared=True),
        Case("memory/files/1000", _measured(_files(1_000), 500), ("12", "P8"), fast=True, prepared=True),
        Case("memory/distinct-words", _measured(_distinct(3_000_000), 900), ("25", "P8"), prepared=True),
        Case("memory/long-question", _long_question(50 * _MB), ("24", "C12", "P8"), prepared=True),
        Case("memory/many-questions", _many_questions, ("P8",), prepared=True),
    ]
