"""Runs the blocks of a page, README or docs, from a clean folder in their order.

    python -m tests.support.pages README.md docs/tour.md             run, and print what differs
    python -m tests.support.pages README.md --write                  put what commands print now into the page
    python -m tests.support.pages docs/*.md docs/*/*.md --generated  put the generated tables into the pages

A block is a fence of `console` (lines behind `$ ` are commands, the others what they print on a terminal of 100 columns; a
lone `?` waits for --write), `sh`, or `python` (one namespace for the page). All others are shown and not run. A comment before
a block says more:

    <!-- file: notes.jsonl -->       the block is written to this file, whatever its language
    <!-- output -->                  what the block before it prints
    <!-- exit: 3 -->                 the exit code of its last command
    <!-- data: wikipedia.txt -->     it needs this file of the folder that DOCS_DATA names, and is left out without it
    <!-- needs: NAME -->             it needs a library that may not be there

Printed lines are compared loosely: numbers, times and runs of white space may differ, `…` stands for anything, and lines may
come between those that are shown.
"""

import argparse
import contextlib
import io
import os
import pty
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
MARKS = {"file", "output", "exit", "data", "needs", "generate", "generated"}
RUN = {"console", "sh", "python"}
_FENCE = re.compile(r"^(?P<fence>`{3,})(?P<language>[\w{}-]*)$")
_MARK = re.compile(r"^<!-- (?P<name>\w+)(?:: (?P<value>.+?))? -->$")
_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_PROGRESS = re.compile(r"\[\d\d:\d\d:\d\d\] ")
_COLUMNS = 100
_LOOSE = (
    (re.compile(r"\b(\d+h)?\d+m\d+s\b|\b\d[\d.,]* (ms|s)\b"), "0 s"),
    (re.compile(r"\d[\d.,]*\d|\d"), "0"),
    (re.compile(r"\b0 ?[kMG]\b"), "0"),
    (re.compile("[▁▂▃▄▅▆▇█]+"), "▁"),
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    line: int  # of its fence, from 1
    language: str
    text: str
    marks: dict[str, str] = field(default_factory=dict)

    @property
    def commands(self) -> list[tuple[str, list[str]]]:
        """The commands of a console block, each with the lines that it prints."""
        found: list[tuple[str, list[str]]] = []
        goes_on = False
        for line in self.text.splitlines():
            if goes_on:
                found[-1] = (f"{found[-1][0]}\n{line}", [])
            elif line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
            goes_on = (goes_on or line.startswith("$ ")) and line.endswith("\\")
        return found

    @property
    def shell(self) -> str:
        """What a shell is given."""
        return "\n".join(command for command, _ in self.commands) if self.language == "console" else self.text


def blocks(page: str) -> list[Block]:
    """The blocks of a page.

    Raises:
        ValueError: a mark that has no meaning, or a fence that is not closed.
    """
    found, marks, lines = [], {}, iter(enumerate(page.splitlines(), start=1))
    for number, line in lines:
        if fence := _FENCE.match(line):
            text = []
            for _, inner in lines:
                if inner == fence["fence"]:
                    break
                text.append(inner)
            else:
                raise ValueError(f"line {number}: this fence is not closed")
            found.append(Block(number, fence["language"], "\n".join(text) + "\n", marks))
            marks = {}
        elif mark := _MARK.match(line):
            if mark["name"] not in MARKS:
                raise ValueError(f"line {number}: no such mark: {line}")
            marks = {**marks, mark["name"]: mark["value"] or ""}
        elif line.strip():
            marks = {}
    return found


def differs(shown: list[str], printed: str) -> str | None:
    """The first shown line that was not printed, in this order."""
    left = iter([_loose(line) for line in printed.splitlines()])
    for line in shown:
        wanted = (
            ".*".join(re.escape(part) for part in _loose(line).split("…")).replace(r".*\ ", ".*").replace(r"\ .*", ".*")
        )
        if wanted not in ("", ".*") and not any(re.fullmatch(wanted, other) for other in left):
            return line
    return None


def _loose(line: str) -> str:
    for pattern, instead in _LOOSE:
        line = pattern.sub(instead, line)
    return line.strip()


class Runner:
    """Runs the blocks of one page in a folder.

    Args:
        folder: clean; `data` of the project is put there.
        without: the needs that are not there.
    """

    def __init__(self, folder: Path, without: frozenset[str] = frozenset()) -> None:
        self._folder, self._without = folder, without
        self._namespace: dict[str, Any] = {"__name__": "__main__"}
        self._printed = ""
        self._bin = folder.parent / f"{folder.name}-bin"
        self._bin.mkdir()
        program = self._bin / "wordpipe"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m wordpipe "$@"\n')
        program.chmod(0o755)
        (folder / "data").symlink_to(ROOT / "data")

    def left_out(self, block: Block) -> str:
        """Why a block is not run; empty: it is."""
        if missing := set(re.split(r",\s*", block.marks.get("needs", ""))) & self._without:
            return f"needs {', '.join(sorted(missing))}"
        if name := block.marks.get("data"):
            given = Path(os.environ.get("DOCS_DATA", "/nowhere")) / name
            if not given.exists():
                return f"needs the data {name}"
            if not (self._folder / name).exists():
                (self._folder / name).symlink_to(given)
        return ""

    def run(self, block: Block, tell: Callable[[Block, str, str], None] | None = None) -> list[str]:
        """Run a block; what is wrong.

        Args:
            block: of the page.
            tell: is called with a block, a command and what it printed instead of what is shown.
        """
        if self.left_out(block):
            return []
        if name := block.marks.get("file"):
            (self._folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self._folder / name).write_text(block.text, encoding="utf-8")
            return []
        if "output" in block.marks:
            return self._compared(block, block.text.splitlines(), self._printed)
        if block.language not in RUN:
            return []
        if block.language == "python":
            return self._python(block)
        if block.language == "sh":
            code, self._printed = self._shell(block.text)
            return self._ended(block, code, self._printed)
        wrong = []
        for number, (command, shown) in enumerate(block.commands, start=1):
            code, printed = self._terminal(command)
            last = number == len(block.commands)
            wrong += self._ended(block if last else Block(block.line, "", ""), code, f"$ {command}\n{printed}")
            found = self._compared(block, shown, printed)
            if found and tell is not None:
                tell(block, command, printed)
            wrong += found
        return wrong

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self._bin), str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        own = {"PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": str(_COLUMNS), "TERM": "dumb", "NO_COLOR": "1"}
        return {**os.environ, **own}

    def _shell(self, text: str) -> tuple[int, str]:
        line = ["bash", "-euo", "pipefail", "-c", text]
        done = subprocess.run(
            line, cwd=self._folder, env=self._environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout.decode(errors="replace")

    def _terminal(self, text: str) -> tuple[int, str]:
        """The same on a terminal, which people sit at."""
        ours, theirs = pty.openpty()
        line = ["bash", "-euo", "pipefail", "-c", text]
        process = subprocess.Popen(
            line, cwd=self._folder, env=self._environment(), stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL
        )
        os.close(theirs)
        found = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while some := os.read(ours, 65_536):
                found += some
        os.close(ours)
        return process.wait(), _ESCAPE.sub("", found.decode(errors="replace").replace("\r\n", "\n"))

    def _python(self, block: Block) -> list[str]:
        out = io.StringIO()
        with contextlib.chdir(self._folder), contextlib.redirect_stdout(out), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                exec(compile(block.text, f"<line {block.line}>", "exec"), self._namespace)
            except Exception as error:  # noqa: BLE001  (whatever it is, the page is wrong)
                return [f"line {block.line}: {type(error).__name__}: {error}"]
        self._printed = out.getvalue()
        return []

    def _ended(self, block: Block, code: int, printed: str) -> list[str]:
        wanted = int(block.marks.get("exit", "0"))
        return [] if code == wanted else [f"line {block.line}: exit code {code}, not {wanted}:\n{printed}"]

    def _compared(self, block: Block, shown: list[str], printed: str) -> list[str]:
        line = differs(shown, printed)
        return [] if line is None else [f"line {block.line}: not printed: {line}\nprinted:\n{printed}"]


def run_page(path: Path, folder: Path, without: frozenset[str] = frozenset()) -> list[str]:
    """Run a page in a clean folder; what is wrong, up to the first block that is."""
    runner = Runner(folder, without)
    for block in blocks(path.read_text(encoding="utf-8")):
        if wrong := runner.run(block):
            return [f"{path.name}, {one}" for one in wrong]
    return []


def _updated(path: Path, without: frozenset[str]) -> Iterator[str]:
    """Run a page and put what its commands print where it differs; what else is wrong."""
    page = path.read_text(encoding="utf-8")

    def put(block: Block, command: str, printed: str) -> None:
        nonlocal page
        shown = dict(block.commands)[command]
        before = "".join(f"{line}\n" for line in [f"$ {command}", *shown])
        kept = [line for line in printed.splitlines() if not _PROGRESS.match(line)]
        now = "".join(f"{line.rstrip()}\n" for line in [f"$ {command}", *kept])
        page = page.replace(before, now, 1)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "page"
        folder.mkdir()
        runner = Runner(folder, without)
        for block in blocks(page):
            yield from runner.run(block, put)
    path.write_text(refreshed(page), encoding="utf-8")


def refreshed(page: str) -> str:
    """The page with the generated parts that stand in it."""
    if str(ROOT / "docs") not in sys.path:
        sys.path.insert(0, str(ROOT / "docs"))
    from wordpipe_docs import written

    return written(page)


def main() -> int:
    """Run pages, or bring them up to date."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", type=Path, nargs="+")
    parser.add_argument("--write", action="store_true", help="put what is printed now into the page")
    parser.add_argument(
        "--generated", action="store_true", help="put the generated parts into the page, and run nothing"
    )
    parser.add_argument("--without", default="", help="needs that are not there, with commas")
    arguments = parser.parse_args()
    wrong, without = [], frozenset(filter(None, arguments.without.split(",")))
    for path in arguments.pages:
        if arguments.generated:
            page = path.read_text(encoding="utf-8")
            if (now := refreshed(page)) != page:
                path.write_text(now, encoding="utf-8")
        elif arguments.write:
            wrong += _updated(path, without)
        else:
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name) / "page"
                folder.mkdir()
                wrong += run_page(path, folder, without)
    sys.stdout.write("\n".join(wrong) or "all blocks do what the pages say\n")
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
