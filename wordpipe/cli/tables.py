"""The results of commands: JSON, or tables as wide as the terminal; in a pipe as wide as they are, and without colour."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

from wordpipe.cli.output import ProgressDrawer, has_colour, safe_text, say

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Column = tuple[str, list[tuple[str, str | None]]]
"""The head of a column of a table; and of each line its label, the same in every column, and the cell."""

_PIPED_WIDTH = 10_000  # nothing is folded
_UNBOUNDED = 100_000


def answer(
    stage: Callable[..., dict[str, Any]],
    *args: Any,
    show: Callable[[dict[str, Any]], None],
    remarks: Callable[[dict[str, Any]], Iterable[str]],
    quiet: bool,
    verify: bool,
    as_json: bool,
    **options: Any,
) -> dict[str, Any]:
    """Let a stage find something, and print it: as JSON, or by `show` and below that, on stderr, the remarks on it."""
    from wordpipe.stages import RunOptions

    with ProgressDrawer(quiet=quiet) as draw:
        found = stage(*args, run=RunOptions(report=draw, verify=verify), **options)
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False, default=str))
        return found
    show(found)
    for line in () if quiet else remarks(found):
        say(line)
    return found


def console() -> "Console":
    """The screen to print on. NO_COLOR and TERM=dumb are obeyed."""
    from rich.console import Console

    class Screen(Console):
        def on_broken_pipe(self) -> None:
            """Let the closed pipe through; rich would exit with 1."""
            raise BrokenPipeError

    width = None if sys.stdout.isatty() else _PIPED_WIDTH
    colours: Literal["auto"] | None = (
        "auto" if has_colour(sys.stdout) else None
    )  # with NO_COLOR rich still writes in bold
    return Screen(width=width, color_system=colours, highlight=False, markup=False, emoji=False)


def new_table(first: str, *heads: str, title: str | None = None) -> "Table":
    """A table without frame: names on the left, numbers on the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, title=None if title is None else Text(title, style="bold"), title_justify="left")
    table.add_column(Text(first), overflow="fold")
    for head in heads:
        table.add_column(Text(head, justify="right"), justify="right", overflow="fold")
    return table


def print_columns(columns: Sequence[Column], corner: str = "", *, above: str | None = None) -> None:
    """Print columns side by side, below a line of text: as few tables as fit the screen, of at least one column.

    What is None is a dash, and a line of nothing else is left out.
    """

    def build(some: Sequence[Column]) -> "Table":
        table = new_table(corner, *(head for head, _ in some))
        for same in zip(*(lines for _, lines in some), strict=True):
            if any(cell is not None for _, cell in same):
                table.add_row(same[0][0], *("–" if cell is None else cell for _, cell in same))
        return table

    screen = console()
    free = screen.options.update(max_width=_UNBOUNDED)
    if above is not None:
        screen.print(above)
    first = 0
    for last in range(1, len(columns) + 1):
        if (
            last == len(columns)
            or screen.measure(build(columns[first : last + 1]), options=free).maximum > screen.width
        ):
            screen.print(build(columns[first:last]))
            first = last


def figure(value: float | None, form: str) -> str:
    """A figure; what is not there as a dash, and a share too little to be written as less than the least that can be.

    >>> figure(0.1234, "{:.1%}"), figure(0.0001, "{:.1%}"), figure(None, "{:.1%}")
    ('12.3%', '<0.1%', '–')
    """
    if not value:
        return "–" if value is None else "0"
    shown = form.format(value)
    return f"<{shown[:-2]}1%" if shown.endswith("%") and not float(shown[:-1]) else shown


def short_name(name: str, room: int) -> str:
    """A name on one line of at most `room` characters; the end of a long one says most."""
    name = safe_text(" ".join(name.split()))
    return name if len(name) <= room else "…" + name[1 - room :]
