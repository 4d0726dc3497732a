"""Streams: closed from the beginning, closed by the reader, a mark before the first byte."""

import json
import signal
from pathlib import Path

from tests.faults.case import Act, Case
from tests.faults.child import DEAF
from tests.faults.room import Broken, Room
from tests.faults.world import World

_CLOSED = {"stdin": "<&-", "stdout": ">&-", "stderr": "2>&-", "out-err": ">&- 2>&-", "all": "<&- >&- 2>&-"}
_LOOKING = {
    "query": ("query", "{world}/index", "bees", "--json"),
    "show": ("show", "{world}/index"),
    "verify": ("verify", "{world}/index"),
    "help": ("--help",),
    "version": ("--version",),
    "status": ("status", "{work}/wordpipe.toml"),
}
_GONE = {0, -signal.SIGPIPE, 128 + signal.SIGPIPE}


def _closed_stage(stage: str, how: str, *options: str) -> Act:
    """A stage whose streams are closed makes what it always makes."""

    def act(room: Room) -> None:
        done = room.program(*options, *room.world.command(stage), "-o", "out", shell=_CLOSED[how])
        room.said(done, {0})
        room.made(stage)

    return act


def _closed_look(name: str, how: str) -> Act:
    """A command that only looks says what it can, and ends well."""

    def act(room: Room) -> None:
        (room.work / "wordpipe.toml").write_text('[stage.corpus]\ncommand = "ingest"\ninputs = ["a.txt"]\n')
        (room.work / "a.txt").write_text("A short text.\n")
        room.hold()
        done = room.program(
            *(part.format(world=room.world.folder, work=room.work) for part in _LOOKING[name]), shell=_CLOSED[how]
        )
        room.said(done, {0} if "out" not in how and how != "all" else _GONE | {5}, silent=True)
        if name == "query" and how == "stderr" and '"rank"' not in done.out:
            raise Broken("no answer on stdout")
        room.as_before()

    return act


def _closed_stdin_read(*arguments: str) -> Act:
    """What is to be read from a closed stdin is missing input, not a bug."""

    def act(room: Room) -> None:
        done = room.program(*(part.format(world=room.world.folder) for part in arguments), shell="<&-")
        room.said(done, {2, 3})
        room.as_before()

    return act


def _deaf_reader(name: str, *arguments: str) -> Act:
    """Nobody reads stdout any more: quiet, by SIGPIPE."""

    def act(room: Room) -> None:
        room.fired += 1
        done = room.run(*(part.format(world=room.world.folder) for part in arguments), outputs={1: DEAF})
        room.said(done, _GONE)
        if done.err.strip() and done.code != 0:
            raise Broken(f"it says something: {done.err[:200]}")

    return act


def _lost_progress(stage: str, place: str) -> Act:
    """Nobody reads the progress any more, or it has no room: the work goes on."""

    def act(room: Room) -> None:
        room.fired += 1
        done = room.run(*room.world.command(stage), "-o", "out", outputs={2: place})
        room.said(done, {0})
        room.made(stage)

    return act


_MARK = "\ufeff"


def _lost_error(place: str, code: int, *arguments: str) -> Act:
    """An error that nobody can read has its exit code all the same."""

    def act(room: Room) -> None:
        room.fired += 1
        done = room.run(*(part.format(world=room.world.folder) for part in arguments), outputs={2: place})
        if done.code != code:
            raise Broken(f"exit {done.code} instead of {code}")
        room.as_before()

    return act


def _other_encoding(encoding: str, form: str) -> Act:
    """A stdout without the answer's characters has the answer, with escapes."""

    def act(room: Room) -> None:
        question = "the sea 你好 🐝"
        command = ("query", room.world.folder / "index", question, "-k", "2", "--format", form)
        done = room.program(*command, PYTHONIOENCODING=encoding)
        room.said(done, {0})
        if (encoding, form) == ("latin-1", "json") and json.loads(done.out.splitlines()[0])["query"] != question:
            raise Broken(f"the question came back as {done.out[:200]}")

    return act


_LOCALES: dict[str, dict[str, str]] = {
    "c": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "posix": {"LC_ALL": "POSIX"},
    "none-such": {"LC_ALL": "xx_YY.none"},
    "utf-16": {"PYTHONIOENCODING": "utf-16"},
    "ebcdic": {"PYTHONIOENCODING": "cp037"},
    "strict": {"PYTHONIOENCODING": "ascii:strict"},
    "of-hosts": {"PYTHONIOENCODING": "idna"},
}
_ODD = b"n\xc3\xb6-\xff\xfe.txt".decode("utf-8", "surrogateescape")  # a name that is no UTF-8


def _other_locale(more: dict[str, str]) -> Act:
    """Names, questions and lines that are no UTF-8, where no locale or another one says what a character is."""

    def act(room: Room) -> None:
        (room.work / _ODD).write_text("The sea is salt.\n\nBees find their way.\n")
        room.said(room.program("ingest", _ODD, "-o", "out", **more), {0})
        room.verified()
        room.said(room.program("ingest", f"none-{_ODD}", "-o", "c", **more), {3}, silent=True)
        index = room.world.folder / "index"
        room.said(room.program("query", index, "caf\udce9 海", "-k", "1", **more), {0, 1, 2, 3}, silent=True)
        done = room.program("query", index, "--json", "-k", "1", stdin=b"caf\xe9\n\xff\xfe\nbees\n", **more)
        room.said(done, {0, 1, 2, 3}, silent=True)

    return act


def _full_json(*arguments: str) -> Act:
    """Answers as JSON on a full disk are no success."""

    def act(room: Room) -> None:
        done = room.program(*(part.format(world=room.world.folder) for part in arguments), "--json", shell=">/dev/full")
        room.said(done, {5})

    return act


def _mark(how: str) -> Act:
    """A byte order mark is no part of the first query."""

    def act(room: Room) -> None:
        path = room.work / "queries.txt"
        path.write_text(f"{_MARK}bees\nwater\n", encoding="utf-8")
        command = ["query", room.world.folder / "index", "--json", "-k", "1"]
        done = room.run(*command, "--queries", path) if how == "file" else room.run(*command, stdin=str(path))
        room.said(done, {0})
        queries = [json.loads(line).get("query") for line in done.out.splitlines()]
        if "bees" not in queries or any(_MARK in str(query) for query in queries):
            raise Broken(f"the queries are {queries}")

    return act


def _same_answer(room: Room) -> None:
    """A query from stdin, a file and the command line gives one answer."""
    Path(room.work / "q.txt").write_text("bees and honey\n")
    command = ["query", room.world.folder / "index", "--json", "-k", "3"]
    runs = [
        room.run(*command, "bees and honey"),
        room.run(*command, "--queries", "q.txt"),
        room.run(*command, stdin=str(room.work / "q.txt")),
    ]
    answers = []
    for done in runs:
        room.said(done, {0})
        hits = [json.loads(line) for line in done.out.splitlines()]
        answers.append([(hit["rank"], hit["text"]) for hit in hits if "rank" in hit])
    if not answers[0] or answers.count(answers[0]) != len(answers):
        raise Broken(f"answers differ: {[len(answer) for answer in answers]}")


def cases(world: World) -> list[Case]:
    """The table of this file."""
    table = []
    for how in _CLOSED:
        for stage in ("ingest", "tokenize", "word2vec", "mlm", "index"):
            at = _closed_stage(stage, how)
            table.append(Case(f"streams/closed-{how}/{stage}", at, ("15", "C1", "P9"), prepared=True))
        for name in _LOOKING:
            look = _closed_look(name, how)
            table.append(Case(f"streams/closed-{how}/{name}", look, ("15", "C1", "P9"), prepared=True))
    quiet = _closed_stage("ingest", "stderr")
    table += [
        Case("streams/closed-stderr/again", quiet, ("15", "C1"), prepared=True),
        Case(
            "streams/read-closed-stdin/ingest",
            _closed_stdin_read("ingest", "-", "-o", "out"),
            ("15", "C1"),
            prepared=True,
        ),
        Case(
            "streams/read-closed-stdin/query", _closed_stdin_read("query", "{world}/index"), ("15", "C1"), prepared=True
        ),
        Case(
            "streams/deaf/query",
            _deaf_reader("query", "query", "{world}/index", "bees", "--json"),
            ("15", "P9"),
            fast=True,
        ),
        Case("streams/deaf/show", _deaf_reader("show", "show", "{world}/index", "--rows", "50"), ("15", "P9")),
        Case("streams/deaf/help", _deaf_reader("help", "--help"), ("15", "P9")),
        Case("streams/mark/stdin", _mark("stdin"), ("33", "C20"), fast=True, prepared=True),
        Case("streams/mark/file", _mark("file"), ("33", "C20"), fast=True, prepared=True),
        Case("streams/one-answer", _same_answer, ("33",), fast=True, prepared=True),
    ]
    table += [
        Case(f"streams/{how}-progress/{stage}", _lost_progress(stage, place), ("15", "P9"), fast=stage == "index")
        for stage in ("ingest", "word2vec", "mlm", "embed", "index")
        for how, place in (("deaf", DEAF), ("full", "/dev/full"))
    ]
    errors = {
        "source": (3, "ingest", "/nope", "-o", "out"),
        "artifact": (4, "query", "/nope", "x"),
        "usage": (2, "index", "--modus"),
        "json": (4, "query", "/nope", "x", "--json"),
        "nothing": (1, "query", "{world}/word2vec", "zzzz"),
    }
    table += [
        Case(f"streams/{how}-error/{name}", _lost_error(place, *asked), ("15", "P9"), fast=name == "source")  # type: ignore[arg-type]
        for name, asked in errors.items()
        for how, place in (("deaf", DEAF), ("full", "/dev/full"))
    ]
    table += [
        Case(f"streams/encoding-{one}/{form}", _other_encoding(one, form), ("33",), prepared=True)
        for one in ("latin-1", "cp1252", "shift_jis", "ascii")
        for form in ("tsv", "plain", "json")
    ]
    table += [
        Case(f"streams/locale/{name}", _other_locale(more), ("33", "K21"), fast=name == "c", prepared=True)
        for name, more in _LOCALES.items()
    ]
    full = {
        "query": ("query", "{world}/index", "bees"), "show": ("show", "{world}/index"), "verify": ("verify", "{world}/index"),
        "diff": ("diff", "{world}/word2vec", "{world}/word2vec"), "plan": ("plan", "1m", "{world}/text.txt"),
        "doctor": ("doctor", "{world}/word2vec"), "ingest": ("ingest", "{world}/text.txt", "-o", "out"),
    }  # fmt: skip
    table += [
        Case(f"streams/full-json/{name}", _full_json(*line), ("6", "15", "K21"), prepared=True)
        for name, line in full.items()
    ]
    return table
