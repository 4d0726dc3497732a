"""The output on the terminal: text that cannot steer it and is as wide as it, numbers that read well, the progress of work.

Progress is a bar where stderr is a terminal, a plain line every few seconds elsewhere, and nothing with -q. Of calls from
Python it is a bar on a terminal, a line that is written over in a notebook, and nothing elsewhere; warnings are Python's.
"""

import os
import re
import sys
import threading
import time
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, TextIO

from wordpipe.errors import WordpipeWarning, shown_urls
from wordpipe.runtime import Progress, Stopped, stopped_by
from wordpipe.wording import counted as counted  # for all commands
from wordpipe.wording import human_bytes as human_bytes
from wordpipe.wording import human_count as human_count
from wordpipe.wording import human_seconds as human_seconds
from wordpipe.wording import noun as noun
from wordpipe.wording import safe_text as safe_text

if TYPE_CHECKING:
    import rich.progress

    from wordpipe.stages import Estimate

_PROGRESS_INTERVAL_S = 5.0
_NOTEBOOK_INTERVAL_S = 0.2

_GLUE = "\0"  # a space at which no line is broken; `safe_text` leaves none in a text
_LEAST_COLUMNS = 20
_ARGUMENT = r"""-\S+(?: [^\s-]\S*)?|…|"[^"]*"|'[^']*'|\S*[/.]\S*|[A-Z][A-Z|]*\b"""  # options, paths, TEXT
# commands, and what stands in backticks
_COPIED = re.compile(
    r"(?<=^next: )(?:cd|wordpipe) .*|(?<=^then: )wordpipe .*|(?<=^or: )wordpipe .*|`[^`]*`|pip install (?:\"[^\"]*\"|\S+)"
    rf"|wordpipe(?: train| evaluate)? [a-z][\w-]*(?: (?:{_ARGUMENT}))*"
)
_PAIRS = re.compile(r"(?<!\S)--?[a-z][\w-]* [^\s-]\S*")  # an option and its value
_CLAUSES = re.compile(r"(?<=;) (?!got |expected )")


def escaped(text: str) -> str:
    r"""`safe_text`, tabs and line ends too: a file's name that holds them forges no line and no column.

    >>> escaped("a\n0.99\tb")
    'a\\n0.99\\tb'
    """
    return safe_text(text).replace("\t", r"\t").replace("\n", r"\n")


def one_line(text: str) -> str:
    r"""The text with every gap as one space: a word of a table may hold tabs and line ends.

    >>> one_line(" a\tb\n")
    'a b'
    """
    return " ".join(text.split())


def has_colour(stream: TextIO) -> bool:
    """True if a stream takes escapes: a terminal that knows colours, unless the user wants none (NO_COLOR)."""
    known = os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    return known and not os.environ.get("NO_COLOR") and stream.isatty()


def emphasised(text: str) -> str:
    """The text in bold on a terminal that may be written escapes to; nothing else makes it stand out elsewhere."""
    return f"\x1b[1m{text}\x1b[0m" if text and has_colour(sys.stdout) else text


def say(text: str, *, whole: str = "", as_it_is: bool = False) -> None:
    """Print a message for people on stderr, wrapped to the width of a terminal, elsewhere as it is.

    A reader that went away is no reason to stop working.

    Args:
        text: of one or more lines.
        whole: a part of it that is not broken where it fits on a line, such as a path with spaces.
        as_it_is: it is for a program, or a traceback: it is not wrapped.
    """
    try:
        text, width = safe_text(shown_urls(text)), 0 if as_it_is else _columns(sys.stderr)
        sys.stderr.write((fitted(text, width, whole) if width else text) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass


def _columns(stream: TextIO) -> int:
    """The columns of a terminal; 0 where the stream is none."""
    if not stream.isatty():
        return 0
    said = os.environ.get("COLUMNS", "")
    try:
        columns = int(said) if said.isdecimal() else os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    return max(_LEAST_COLUMNS, columns or 80)


def fitted(text: str, width: int, whole: str = "") -> str:
    """Return the output lines of a text wrapped to a width; a message of clauses has a line for each.

    What one copies is never broken: a path, a command, an option with its value. A command that has no room on a line with
    others begins one of its own; a count and what it is of stay together.

    >>> print(fitted("warning: all texts look alike; what mends it: wordpipe doctor run/sentences", 40))
    warning: all texts look alike;
      what mends it:
        wordpipe doctor run/sentences
    """
    return "\n".join(line for one in text.split("\n") for line in _fitted(one, width, whole))


def _fitted(line: str, width: int, whole: str) -> list[str]:
    """Wrap one line of output to a width, each clause on a line of its own."""
    if cells_of(line) <= width:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()))
    room = width - len(indent) - 4
    line = _COPIED.sub(lambda copied: copied[0].replace(" ", _GLUE), line.strip())
    for part in (*line.split(" · "), *_PAIRS.findall(line), whole):
        if " " in part and cells_of(part) <= room:
            line = line.replace(part, part.replace(" ", _GLUE))
    clauses = _CLAUSES.split(line)
    deeper = indent + "  "
    if len(clauses) == 1:
        lines = [*wrapped_words(line.split(" "), width, indent, deeper)]
    else:
        lines = [*wrapped_words(clauses[0].split(" "), width, indent, deeper + "  ")]
        for clause in clauses[1:]:
            lines += wrapped_words(clause.split(" "), width, deeper, deeper + "  ")
    return [one.replace(_GLUE, " ") for one in lines]


def wrapped_words(words: Sequence[str], width: int, indent: str, deeper: str) -> Iterator[str]:
    """Wrap words to output lines of at most `width`, the first indented, the others deeper; a word is never broken."""
    line = indent
    for word in words:
        if line.strip() and cells_of(line) + 1 + cells_of(word) > width:
            yield line.rstrip()
            line = deeper
        line += (" " if line.strip() else "") + word
    yield line.rstrip()


def cells_of(text: str) -> int:
    """Places that a text takes on the screen."""
    return len(text) if text.isascii() else sum(cells_of_letter(letter) for letter in text)


def cells_of_letter(letter: str) -> int:
    """Places that a letter takes: two where it is Chinese, none where it is a mark on the one before."""
    if unicodedata.combining(letter) or unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


_MOST_COUNTS = 8  # on the line; `show` has all
_SPLITS = {"train": "to train on", "valid": "to validate on", "test": "for tests"}
# what was lost, changed or taken over comes before what was made, should there be too many counts for a line
_LOSSES = re.compile(
    r"drop|skip|cut|replace|split|unknown|repeat|left_out|without|bad|invalid|truncat|gone|not_finite"
    r"|copied|again|added|deleted|reused|unchanged|removed"
)
_LOST = re.compile(
    r"(ingest_)?(documents_dropped(?!_replaced|_removed)|records_skipped|files_skipped|titles_cut|python_files_not_parsed)"
)
_NAMED = {
    "distinct_kept": "different words", "distinct_words": "different words", "distinct_pretokens": "different pretokens",
    "documents_dropped_empty_source": "documents dropped because the first text is empty",
    "documents_dropped_empty_target": "documents dropped because the second text is empty",
    "documents_dropped_replaced": "older documents replaced", "documents_dropped_removed": "documents that stay removed",
    "documents_dropped_long": "documents dropped because of their length", "weights_averaged": "sets of weights averaged",
    "tokens_b": "tokens of second texts", "tokens_b_unknown": "unknown tokens in second texts",
    "tokens_b_special": "special tokens in second texts",
    "distinct_dropped_rare": "different rare words dropped",
}  # fmt: skip
_FIGURES: dict[str, Callable[[float], str]] = {
    "recall_at_10": lambda share: f"the index finds {100 * share:.3g} % of the 10 true nearest neighbours",
    "bytes_per_token": lambda value: f"{value:.3g} bytes per token",
    "bytes_per_token_b": lambda value: f"{value:.3g} bytes per token in second texts",
    "valid_loss": lambda value: f"held-out loss {value:.4g}",
}
_UNSAID = {"exact_queries_per_s", "vector_searches_per_s", "vector_queries_per_s", "valid_nearest", "valid_pairs"}


def made_lines(
    counts: Mapping[str, int], metrics: Mapping[str, float], rates: Mapping[str, float], path: str
) -> Iterator[str]:
    """Return the output lines about an artifact that was made: counts, quality and speed; `show` has the rest.

    >>> [*made_lines({"bytes_read": 1500, "documents_read": 2, "documents_kept": 2}, {"recall_at_10": 0.98}, {}, "x")]
    ['1.5 kB read · 2 documents read', 'the index finds 98 % of the 10 true nearest neighbours']
    """
    kept = {
        name: n
        for name, n in counts.items()
        if n and not re.match(r"fields_not_carried|bytes_dropped_re(placed|moved)|(labels|tags)\.", name)
    }
    for name in [*kept]:  # all that was read is kept
        if name.endswith("_kept") and kept.get(name.removesuffix("_kept") + "_read") == kept[name]:
            del kept[name]
    if kept.get("bytes_read") and kept.get("documents_read"):  # what is between the texts is no loss
        kept.pop("bytes_kept", None)
    if kept.get("pairs") and kept.get("sentences") == kept["pairs"]:  # a pair is one row
        del kept["sentences"]
    kept = _of_pairs(kept) if "tokens_b" in kept else kept
    first = sorted(kept, key=lambda name: (not _LOSSES.search(name), "pretokens" in name))[:_MOST_COUNTS]
    shown = [_count_in_words(name, kept[name]) for name in kept if name in first]
    if more := len(kept) - len(first):
        shown.append(f"{counted(more, 'more counts')}: wordpipe show {path}")
    metrics, rates = ({name: some[name] for name in some if name not in _UNSAID} for some in (metrics, rates))
    figures = [_FIGURES.get(name, f"{name.replace('_', ' ')} {{:.4g}}".format)(n) for name, n in metrics.items()]
    for name, value in rates.items():
        if value < 0.1:  # too little work to have a rate
            continue
        unit = name.replace("mb_per_s", "MB/s").replace("_per_s", "/s").replace("_", " ")
        figures.append(f"{human_count(value) if value >= 100 else f'{value:.2f}'} {unit}")
    yield from (" · ".join(line) for line in (shown, figures) if line)


def _of_pairs(counts: Mapping[str, int]) -> dict[str, int]:
    """Rename the counts of tokenized pairs so that they say of which texts they are: first, second or both."""
    sides = dict.fromkeys(("words", "distinct_words", "tokens"), "first")
    sides |= dict.fromkeys(("pretokens", "distinct_pretokens"), "first" if "pretokens_b" in counts else "both")
    sides |= {name: "second" for name in counts if name.endswith("_b") and name not in _NAMED}
    named = {
        name: _NAMED.get(own := name.removesuffix("_b"), own) + f" of {side} texts" for name, side in sides.items()
    }
    named |= {"sentences": "pairs", "sentences_trained_on": "pairs trained on"}
    found = {named.get(name, name): count for name, count in counts.items()}
    return {name: n for name, n in found.items() if name != "pairs trained on" or n != found["pairs"]}


def _count_in_words(name: str, count: int) -> str:
    """A count and what it is of: "12 documents to train on", "1 file skipped (.html)"."""
    name, _, which = name.partition(".")
    words = _NAMED.get(name, name.replace("_", " ")).split(" ")
    words[-1] = _SPLITS.get(words[-1], words[-1]) if len(words) > 1 else words[-1]
    text = " ".join(words) + (f" ({which.replace('_', ' ')})" if which else "")
    if text.startswith("bytes "):
        return f"{human_bytes(count)} {text.removeprefix('bytes ')}"
    return f"{human_count(count)} {noun(count, text)}"


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
        self._last_line = time.monotonic()
        self._phase_start = (self._last_line, 0.0)  # when this phase was first seen, and how far it was then

    def __enter__(self) -> "ProgressDrawer":
        if not self._quiet and has_colour(sys.stderr):  # a bar moves the cursor
            self._bar = _make_bar()
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, progress: Progress) -> None:
        """Draw one report. Raises `Stopped` again where a library has swallowed it, as pyarrow does while it loads pandas."""
        if (signum := stopped_by()) is not None and threading.current_thread() is threading.main_thread():
            raise Stopped(signum)
        if self._quiet and not progress.always:
            return
        if self._bar is not None:
            self._draw(self._bar, progress)
        elif progress.note is not None:
            say(escaped(progress.note))  # the name of a file in it makes no second line
        else:
            self._print(progress)

    def warn(self, text: str, caller: FrameType) -> None:
        """Give a warning of a call from Python, at the line that called; of torchrun's processes the first alone warns."""
        if os.environ.get("RANK", "0") == "0":
            registry = caller.f_globals.setdefault("__warningregistry__", {})
            place = caller.f_code.co_filename, caller.f_lineno, caller.f_globals.get("__name__")
            warnings.warn_explicit(escaped(text).removeprefix("warning: "), WordpipeWarning, *place, registry)

    def warn_of_losses(self, counts: Mapping[str, int], path: str, caller: FrameType) -> None:
        """Warn of texts that were left out, as the command line says it after the work."""
        if lost := [
            _count_in_words(name.removeprefix("ingest_"), count)
            for name, count in counts.items()
            if count and _LOST.match(name)
        ]:
            self.warn(f"{path}: {', '.join(lost)}", caller)

    def _draw(self, bar: "rich.progress.Progress", progress: Progress) -> None:
        """Draw the progress of work on the terminal."""
        if progress.note is not None:
            note = fitted(escaped(progress.note), bar.console.width)
            bar.console.print(note, markup=False, highlight=False, soft_wrap=True)
            return
        if self._task is None or progress.phase != self._phase:
            self._phase = progress.phase
            if self._task is not None:
                bar.remove_task(self._task)
            self._task = bar.add_task(progress.phase, total=progress.total, figures="", left="")
            self._phase_start = (time.monotonic(), progress.done)
        figures = "  ".join(f"{name} {value}" for name, value in progress.values.items())
        seconds = seconds_left(progress, *self._phase_start, time.monotonic())
        left = "" if seconds is None else f"{human_seconds(seconds)} left"
        bar.update(self._task, completed=progress.done, total=progress.total, figures=figures, left=left)

    def _print(self, progress: Progress) -> None:
        """Print the progress as a plain line when a phase begins to take long, and then every few seconds."""
        now = time.monotonic()
        if progress.phase != self._phase:
            self._phase, self._phase_start = progress.phase, (now, progress.done)
        if now - self._last_line < _PROGRESS_INTERVAL_S:
            return
        self._last_line = now
        say(f"[{time.strftime('%H:%M:%S')}] {_progress_line(progress, *self._phase_start, now)}")


def _progress_line(progress: Progress, began: float, done_before: float, now: float) -> str:
    """Return the progress of a phase as a plain line."""
    parts = [progress.phase]
    if progress.total:
        parts.append(f"{progress.done:,.0f}/{progress.total:,.0f} {progress.unit}".strip())
    elif progress.done:
        parts.append(f"{progress.done:,.0f} {progress.unit}".strip())
    parts += [f"{name} {value}" for name, value in progress.values.items()]
    if (left := seconds_left(progress, began, done_before, now)) is not None:
        parts.append(f"{human_seconds(left)} left")
    return " · ".join(parts)


def seconds_left(progress: Progress, began: float, done_before: float, now: float) -> float | None:
    """Seconds until a phase is done, at its speed so far; None while that is not known.

    Args:
        progress: the newest report.
        began: when the phase was first seen.
        done_before: how far it was then, as a stopped run that goes on is.
        now: the time.
    """
    if not progress.total or progress.done <= done_before:
        return None
    return (now - began) * (progress.total - progress.done) / (progress.done - done_before)


def _make_bar() -> "rich.progress.Progress":
    """Make the bar of progress of a phase."""
    from rich import progress
    from rich.console import Console
    from rich.table import Column

    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(20),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TextColumn("{task.fields[left]}"),  # rich's own wants many reports, and forgets the speed between them
        # the last one gives way where the terminal is narrow: how far it is matters more than how fast
        progress.TextColumn("{task.fields[figures]}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
        console=Console(stderr=True),
        transient=True,
        expand=True,
    )


class NotebookDrawer(ProgressDrawer):
    """Progress as one line that is written over, for notebooks: their stderr is no terminal, but knows carriage returns."""

    def __init__(self) -> None:
        super().__init__()
        self._width = 0

    def __exit__(self, *_: object) -> None:
        self._write("")

    def __call__(self, progress: Progress) -> None:
        """Draw one report."""
        if progress.note is not None:
            self._write("")
            say(progress.note)
            return
        now = time.monotonic()
        if progress.phase != self._phase:
            self._phase, self._phase_start = progress.phase, (now, progress.done)
        elif now - self._last_line < _NOTEBOOK_INTERVAL_S:
            return
        self._last_line = now
        self._write(_progress_line(progress, *self._phase_start, now))

    def warn(self, text: str, caller: FrameType) -> None:
        """Give a warning on a line of its own."""
        self._write("")
        super().warn(text, caller)

    def _write(self, line: str) -> None:
        """Put a line in the place of the one before."""
        line = one_line(safe_text(line))
        if line or self._width:
            sys.stderr.write("\r" + line.ljust(self._width) + ("" if line else "\r"))
            sys.stderr.flush()
        self._width = len(line)


_show_progress: bool | None = None  # what `progress` was called with


def progress(show: bool | None = None) -> None:
    """Choose whether calls from Python draw how far they are, on stderr.

    One call alone is kept silent, or reports elsewhere, by `run=wordpipe.RunOptions(report=...)`.

    Args:
        show: False never draws; True draws everywhere, a line every few seconds where there is no terminal; None, as at the
            beginning, draws on a terminal and in a notebook.

    Example:
        >>> wordpipe.progress(False)
    """
    global _show_progress
    _show_progress = show


def default_drawer() -> ProgressDrawer:
    """The object that draws the progress of a call from Python; of torchrun's processes the first alone draws."""
    if _show_progress is False or os.environ.get("RANK", "0") != "0":
        return ProgressDrawer(quiet=True)
    if _in_notebook():
        return NotebookDrawer()
    return ProgressDrawer(quiet=not (_show_progress or sys.stderr.isatty()))


def _in_notebook() -> bool:
    """True if a kernel of Jupyter runs this; IPython on a terminal is a terminal."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def amounts(estimate: "Estimate") -> str:
    """Return an estimate in a line: 2 to 5 min · 740 MB memory · 95 MB disk (measured just now)."""
    basis = "measured just now" if estimate.basis == "probed" else estimate.basis
    low, high = estimate.seconds
    parts = [_span(low, high), f"{_about(estimate.memory_bytes)} memory", f"{_about(estimate.disk_bytes)} disk"]
    return f"{' · '.join(parts)} ({basis})"


def _about(size: int) -> str:
    """Return an estimated size in two digits: more would promise too much."""
    digits = max(0, len(str(size)) - 2)
    return human_bytes(round(size, -digits)).replace(".0 ", " ")


def _span(low: float, high: float) -> str:
    """Return the estimated time of a stage, from and to, in one unit."""
    if high < 1.5:
        return "about 1 s"
    for seconds, unit in ((86_400, "days"), (3600, "h"), (60, "min"), (1, "s")):
        if high >= 2 * seconds or seconds == 1:
            first, last = max(low / seconds, 0.1), high / seconds
            shown = [
                f"{one:.0f}" if one >= 3 or unit == "s" else f"{one:.1f}".removesuffix(".0") for one in (first, last)
            ]
            return f"about {shown[1]} {unit}" if shown[0] == shown[1] else f"{shown[0]} to {shown[1]} {unit}"
    raise AssertionError(high)
