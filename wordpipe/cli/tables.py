"""Tables on stdout: as wide as the terminal; in a pipe, as wide as they are and without colour."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["console", "new_table"]

_PIPED_WIDTH = 10_000  # nothing is folded


def console() -> "Console":
    """The screen to print on. NO_COLOR and TERM=dumb are obeyed."""
    from rich.console import Console

    class Screen(Console):
        def on_broken_pipe(self) -> None:
            """Let the closed pipe through; rich would exit with 1."""
            raise BrokenPipeError

    return Screen(width=None if sys.stdout.isatty() else _PIPED_WIDTH, highlight=False, markup=False, emoji=False)


def new_table(first: str, *heads: str, title: str | None = None) -> "Table":
    """A table without frame: names on the left, numbers on the right.

    Args:
        first: head of the column of names.
        heads: heads of the columns of numbers.
        title: stands above.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, title=None if title is None else Text(title, style="bold"), title_justify="left")
    table.add_column(Text(first), overflow="fold")
    for head in heads:
        table.add_column(Text(head, justify="right"), justify="right", overflow="fold")
    return table
