"""Isolation: the working folder holds a file of Python for each module, settings of tools, and a package with plugins."""

from tests.faults.case import Act, Case
from tests.faults.room import Broken, Room
from tests.faults.world import ROOT, World
from tests.support.canaries import lay_canaries, ran

_COMMANDS = {
    "ingest": ("ingest", "{world}/text.txt", "--documents", "block", "--workers", "2", "-o", "out"),
    "tokenize": ("tokenize", "{world}/ingest", "--vocab-size", "400", "--workers", "2", "-o", "out"),
    "mlm": ("train", "mlm", "{world}/tokenize", "--config", "{world}/tiny.toml", "-o", "out"),
    "embed": ("embed", "{world}/mlm", "{world}/ingest", "--device", "cpu", "--threads", "1", "-o", "out"),
    "query": ("query", "{world}/index", "bees"),
    "packages": ("ingest", "python:json", "-o", "out"),
}


def _nothing_runs(arguments: tuple[str, ...], environment: dict[str, str]) -> Act:
    """The command ends well, and none of the files has run."""

    def act(room: Room) -> None:
        log = room.folder / "ran"
        lay_canaries(room.work, log)
        done = room.program(*(part.format(world=room.world.folder) for part in arguments), **environment)
        room.said(done, {0})
        if names := ran(log):
            raise Broken(f"these have run: {names[:5]}")

    return act


def _docstrings(source: str) -> Act:
    """Docstrings of a package are read out of its files: none is run."""

    def act(room: Room) -> None:
        package = room.work / "package"
        (package / "below").mkdir(parents=True)
        log = room.folder / "ran"
        code = f'"""The sea is salt."""\nopen({str(log)!r}, "a").write("ran")\n'
        for path in (package, package / "below"):
            (path / "__init__.py").write_text(code)
            (path / "one.py").write_text(code)
        done = room.program("ingest", source, "-o", "out", PYTHONPATH=f"{room.work}:{ROOT}")
        room.said(done, {0, 3})
        if log.exists():
            raise Broken("a module of the package has run")

    return act


def cases(world: World) -> list[Case]:
    """The table of this file."""
    table = [
        Case(
            f"isolation/canaries/{name}",
            _nothing_runs(line, {}),
            ("31", "K1", "P7"),
            fast=name == "ingest",
            prepared=True,
        )
        for name, line in _COMMANDS.items()
    ]
    hostile = {
        "startup": {"PYTHONSTARTUP": "sitecustomize.py"},
        "user-base": {"PYTHONUSERBASE": "."},
        "home": {"HOME": "."},
        "inspect": {"PYTHONBREAKPOINT": "conftest.run"},
    }
    table += [
        Case(
            f"isolation/environment/{name}", _nothing_runs(_COMMANDS["ingest"], more), ("31", "K1", "P7"), prepared=True
        )
        for name, more in hostile.items()
    ]
    table += [
        Case(f"isolation/docstrings/{source.partition(':')[2]}", _docstrings(source), ("K1", "P7"), prepared=True)
        for source in ("python:package", "python:package.below", "python:package.below.one")
    ]
    return table
