"""The results of commands: JSON, or tables as wide as the terminal; in a pipe as wide as they are, and without colour."""

import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

from wordpipe.cli.output import ProgressDrawer, escaped, has_colour, one_line, safe_text, say

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Drawn

    from wordpipe.metrics import Part, Table

_PIPED_WIDTH = 10_000  # nothing is folded
_UNBOUNDED = 100_000
_LEAST_WIDTH = 20


def answer(
    stage: Callable[..., Any],
    *args: Any,
    show: Callable[[Any], None] | None = None,
    remarks: Callable[[Any], Iterable[str]] | None = None,
    details: bool = False,
    quiet: bool,
    verify: bool,
    as_json: bool,
    **options: Any,
) -> Any:
    """Call a stage and print the result: as JSON, or as tables with remarks below, which go to stderr.

    What is no `Evaluation` is shown by `show` and `remarks`; its details are shown where they are wanted.
    """
    from wordpipe.stages import RunOptions

    with ProgressDrawer(quiet=quiet) as draw:
        found = stage(*args, run=RunOptions(report=draw, verify=verify), **options)
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False, default=str))
        return found
    if show is None:
        print_parts([*found.parts, *(found.details if details else ())])
    else:
        show(found)
    for line in () if quiet else found.remarks if remarks is None else remarks(found):
        say(line)
    return found


def console() -> "Console":
    """Return the screen to print tables on. NO_COLOR and TERM=dumb are obeyed."""
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


def new_table(first: str, *heads: str, title: str | None = None) -> "Drawn":
    """A table without frame: names on the left, numbers on the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, title=None if title is None else Text(title, style="bold"), title_justify="left")
    table.add_column(Text(first), overflow="fold")
    for head in heads:
        table.add_column(Text(head, justify="right"), justify="right", overflow="fold")
    return table


def print_parts(parts: "Iterable[Part]") -> None:
    """Print the tables and lines of an evaluation."""
    screen = console()
    for part in parts:
        if isinstance(part, str):
            _print_line(screen, part)
        else:
            print_table(screen, part)


def _print_line(screen: "Console", line: str) -> None:
    """Print a line beside the tables, wrapped to the screen; a command, which is copied, as it is."""
    from rich.text import Text

    line = safe_text(line)
    if not line.lstrip().startswith("wordpipe "):
        label = re.match(r" *\S* {2,}|", line)
        indent = " " * (label.end() if label else 0)
        wrapped = Text(line[len(indent) :]).wrap(screen, max(_LEAST_WIDTH, screen.width - len(indent)))
        line = line[: len(indent)] + f"\n{indent}".join(one.plain.rstrip() for one in wrapped)
    screen.print(line.rstrip(" "), soft_wrap=True)


def print_table(screen: "Console", table: "Table") -> None:
    """Print a table as few tables as fit the screen, of at least one column; a line of nothing but dashes is left out."""
    from rich.text import Text

    def build(first: int, last: int, title: str | None) -> "Drawn":
        drawn = new_table(safe_text(table.corner), *map(safe_text, table.heads[first:last]), title=title)
        for label, cells in table.rows:
            if any(cell is not None for cell in cells):
                shown = ["–" if cell is None else safe_text(cell) for cell in cells[first:last]]
                drawn.add_row(Text(safe_text(label)), *map(Text, shown))
        return drawn

    free, first, title = screen.options.update(max_width=_UNBOUNDED), 0, safe_text(table.title) or None
    for last in range(1, len(table.heads) + 1):
        whole = last == len(table.heads)
        if whole or screen.measure(build(first, last + 1, None), options=free).maximum > screen.width:
            screen.print(build(first, last, title))
            first, title = last, None


def print_counts(form: str, queries: Sequence[str], numbers: Sequence[int], *, titled: bool) -> None:
    """Print the numbers of rows that match queries, one a line.

    Args:
        form: of the output, as of answers.
        queries: the queries.
        numbers: as many.
        titled: every number stands beside its query.
    """
    from wordpipe.stages import csv_line

    for query, n in zip(queries, numbers, strict=True):
        if form == "json":
            click.echo(json.dumps({"query": query, "count": n}, ensure_ascii=False))
        elif form == "csv":
            click.echo(csv_line([query, n] if titled else [n]), nl=False)
        else:
            click.echo(f"{escaped(one_line(query))}\t{n}" if titled else f"{n}")
