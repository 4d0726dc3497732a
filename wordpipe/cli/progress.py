"""Progress on stderr: a bar on a terminal, a plain line every few seconds elsewhere, nothing with -q."""

import os
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from wordpipe.cli.output import human_seconds, say
from wordpipe.runtime import Progress

if TYPE_CHECKING:
    import rich.progress

__all__ = ["ProgressDrawer"]

_INTERVAL_S = 5.0


class ProgressDrawer:
    """A context that is called with `Progress` reports.

    Args:
        quiet: draw nothing, notes included.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._bar: rich.progress.Progress | None = None
        self._task: rich.progress.TaskID | None = None
        self._phase = ""
        self._last = time.monotonic()
        self._began = (self._last, 0.0)  # when this phase was first seen, and how far it was then

    def __enter__(self) -> "ProgressDrawer":
        if not self._quiet and sys.stderr.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown"):
            self._bar = _make_bar()
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, progress: Progress) -> None:
        """Draw one report."""
        if self._quiet:
            return
        if progress.note is not None:
            self._note(progress.note)
        elif self._bar is not None:
            self._draw(progress)
        else:
            self._print(progress)

    def _note(self, text: str) -> None:
        if self._bar is None:
            say(text)
        else:
            from wordpipe.cli.output import safe_text

            self._bar.console.print(safe_text(text), markup=False, highlight=False)

    def _draw(self, progress: Progress) -> None:
        assert self._bar is not None
        if progress.phase != self._phase:
            self._phase = progress.phase
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(progress.phase, total=progress.total, figures="")
        assert self._task is not None
        figures = "  ".join(f"{name} {value}" for name, value in progress.values.items())
        self._bar.update(self._task, completed=progress.done, total=progress.total, figures=figures)

    def _print(self, progress: Progress) -> None:
        """A plain line when a phase begins to take long, and then every few seconds."""
        now = time.monotonic()
        if progress.phase != self._phase:
            self._phase, self._began = progress.phase, (now, progress.done)
        if now - self._last < _INTERVAL_S:
            return
        self._last = now
        say(f"[{time.strftime('%H:%M:%S')}] {_line(progress, *self._began, now)}")


def _line(progress: Progress, began: float, done_before: float, now: float) -> str:
    parts = [progress.phase]
    if progress.total:
        parts.append(f"{progress.done:,.0f}/{progress.total:,.0f} {progress.unit}".strip())
    elif progress.done:
        parts.append(f"{progress.done:,.0f} {progress.unit}".strip())
    parts += [f"{name} {value}" for name, value in progress.values.items()]
    if progress.total and progress.done > done_before:
        left = (now - began) * (progress.total - progress.done) / (progress.done - done_before)
        parts.append(f"eta {human_seconds(left)}")
    return " · ".join(parts)


def _make_bar() -> "rich.progress.Progress":
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        # the last one gives way where the terminal is narrow: how far it is matters more than how fast
        TextColumn("{task.fields[figures]}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
        console=Console(stderr=True),
        transient=True,
        expand=True,
    )
