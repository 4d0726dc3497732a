"""Progress on stderr: a bar on a terminal, a plain line every few seconds elsewhere, nothing with -q."""

import os
import sys
import time
from typing import TYPE_CHECKING

from wordpipe.cli.output import human_seconds, safe_text, say
from wordpipe.runtime import Progress

if TYPE_CHECKING:
    import rich.progress

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

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, progress: Progress) -> None:
        """Draw one report."""
        if self._quiet:
            return
        if self._bar is not None:
            self._draw(self._bar, progress)
        elif progress.note is not None:
            say(progress.note)
        else:
            self._print(progress)

    def _draw(self, bar: "rich.progress.Progress", progress: Progress) -> None:
        if progress.note is not None:
            bar.console.print(safe_text(progress.note), markup=False, highlight=False)
            return
        if self._task is None or progress.phase != self._phase:
            self._phase = progress.phase
            if self._task is not None:
                bar.remove_task(self._task)
            self._task = bar.add_task(progress.phase, total=progress.total, figures="")
        figures = "  ".join(f"{name} {value}" for name, value in progress.values.items())
        bar.update(self._task, completed=progress.done, total=progress.total, figures=figures)

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
    from rich import progress
    from rich.console import Console
    from rich.table import Column

    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(20),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        # the last one gives way where the terminal is narrow: how far it is matters more than how fast
        progress.TextColumn("{task.fields[figures]}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
        console=Console(stderr=True),
        transient=True,
        expand=True,
    )
