"""A text cut into tokens, drawn: pieces in alternating colours, their ids below; readable without colour too."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wordpipe.cli.output import counted, safe_text

if TYPE_CHECKING:
    from rich.text import Text

_BAR = "│"
_COLOURS = ("black on bright_cyan", "black on bright_yellow")
_MARKED = {"?": "bold white on red", "*": "bold white on magenta", "": ""}
_VISIBLE = {" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍"}


@dataclass(frozen=True)
class _Cell:
    piece: str
    number: str
    style: str


def print_segmentation(found: dict[str, Any]) -> None:
    """Draw what `stages.segment.segment` found, in lines as wide as the terminal."""
    from wordpipe.cli.tables import console

    screen = console()
    cells = list(_cells(found))
    for line in _lines(cells, shutil.get_terminal_size().columns):
        for text in _drawn(line):
            screen.print(text, soft_wrap=True)
    screen.print(safe_text(_summary(found)), soft_wrap=True)


def _cells(found: dict[str, Any]) -> Iterator[_Cell]:
    rows = zip(found["pieces"], found["ids"], found["special"], found["unknown"], strict=True)
    for place, (piece, number, special, unknown) in enumerate(rows):
        mark = "?" if unknown else "*" if special else ""
        yield _Cell(_visible(piece), f"{number}{mark}", _MARKED[mark] or _COLOURS[place % 2])


def _visible(piece: str) -> str:
    """A piece on one line, with its spaces to be seen. Other controls, and what has no width of its own, as escapes."""
    shown = safe_text("".join(_VISIBLE.get(letter, letter) for letter in piece))
    return re.sub(r"[\u00ad\u200b-\u200d\u2060\ufeff]", lambda match: f"\\u{ord(match[0]):04x}", shown)


def _width(cell: _Cell) -> int:
    return max(_display_width(cell.piece), len(cell.number))


def _display_width(text: str) -> int:
    """Columns of the terminal that a text takes."""
    from rich.cells import cell_len

    return cell_len(text)


def _lines(cells: list[_Cell], width: int) -> Iterator[list[_Cell]]:
    line: list[_Cell] = []
    used = 0
    for cell in cells:
        if line and used + _width(cell) + 1 > width:
            yield line
            line, used = [], 0
        line.append(cell)
        used += _width(cell) + 1
    if line:
        yield line


def _drawn(line: list[_Cell]) -> "tuple[Text, Text, Text]":
    """The pieces, the ids below them, and an empty line."""
    from rich.text import Text

    pieces, numbers = Text(), Text(style="dim")
    for place, cell in enumerate(line):
        bar, width = _BAR if place else "", _width(cell)
        pieces.append(bar).append(cell.piece, style=cell.style).append(" " * (width - _display_width(cell.piece)))
        numbers.append(bar).append(cell.number.ljust(width))
    for text in (pieces, numbers):
        text.rstrip()
    return pieces, numbers, Text()


def _summary(found: dict[str, Any]) -> str:
    tokens, size = len(found["ids"]), len(found["text"].encode())
    parts = [f"{counted(tokens, 'tokens')}, {counted(len(found['text']), 'characters')}, {counted(size, 'bytes')}"]
    if tokens:
        parts.append(f"{size / tokens:.2f} bytes per token")
    parts += [
        f"{sum(found[name]):,} {name} ({mark})"
        for name, mark in (("unknown", "?"), ("special", "*"))
        if any(found[name])
    ]
    return " · ".join(parts)
