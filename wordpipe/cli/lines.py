"""The lines that a command is given: as arguments, from a file, from standard input, or at a prompt."""

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TextIO

import click

from wordpipe.cli.output import say


def given_lines(words: tuple[str, ...], path: Path | None, *, what: str, option: str) -> Iterator[str]:
    """All words as one line; else the lines of a file or of standard input that are not blank, without their ends.

    Args:
        words: arguments; where there are any, even an empty one, they are all.
        path: of a file.
        what: a line is called ("prompt").
        option: which names the file ("--prompts").

    Raises:
        ConfigError: words and a file.
        InputError: no such file, or no line at all.
    """
    from wordpipe.errors import ConfigError, InputError

    if words and path is not None:
        raise ConfigError(f"give either {what.upper()} or {option}, not both")
    if words:
        yield " ".join(words)
        return
    n_lines = 0
    for line in _prompted(what) if is_prompt(words, path) else _read(path):
        if line.strip():
            n_lines += 1
            yield line.rstrip("\r\n")
    if not n_lines:
        raise InputError(f"there is no {what}", hint=f"give {what.upper()}, {option} FILE, or lines on standard input")


def is_prompt(words: tuple[str, ...], path: Path | None) -> bool:
    """Whether someone is going to type the lines."""
    return not words and path is None and sys.stdin is not None and sys.stdin.isatty()


def _prompted(what: str) -> Iterator[str]:
    while True:
        try:
            if not sys.stdout.isatty():  # there the answers go
                click.echo(f"{what}> ", nl=False, err=True)
            yield input(f"{what}> " if sys.stdout.isatty() else "")
        except EOFError:
            say("")
            return


def _read(path: Path | None) -> Iterator[str]:
    from wordpipe.errors import InputError

    if path is None and sys.stdin is None:
        return
    if path is None and hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")
    try:
        file: TextIO
        with path.open(encoding="utf-8", errors="replace") if path else nullcontext(sys.stdin) as file:
            yield from file
    except FileNotFoundError:
        raise InputError("no such file", where=path) from None
