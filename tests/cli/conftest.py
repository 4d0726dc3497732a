"""A terminal for the tests of tables."""

import pytest
from rich.console import Console

from wordpipe.cli import tables


@pytest.fixture
def screen(monkeypatch):
    """A terminal of a width of ours."""

    def open_screen(width: int, **how: object) -> Console:
        made = Console(width=width, highlight=False, markup=False, emoji=False, **how)  # type: ignore[arg-type]
        monkeypatch.setattr(tables, "console", lambda: made)
        monkeypatch.setenv("COLUMNS", str(width))
        return made

    return open_screen
