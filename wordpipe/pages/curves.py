"""Curves of trainings: a picture by matplotlib, loss above and learning rate below on the same axis; or one line of text."""

import math
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

_BLOCKS = "▁▂▃▄▅▆▇█"
_STYLE: Any = {
    "font.size": 8.5, "text.parse_math": False, "axes.grid": True, "axes.titlelocation": "left",
    "svg.hashsalt": "wordpipe",  # names of clip paths are random without it
}  # fmt: skip


def draw_curves(
    runs: Sequence[Mapping[str, Any]],
    *,
    axis: str = "tokens",
    log_axis: bool = False,
    start: float = 0,
    form: str = "png",
) -> bytes:
    """The picture. The same logs and the same version of matplotlib give the same bytes.

    Args:
        runs: one or several, as `stages.plot` reads them; a loss that is no number leaves a gap.
        axis: what is on the horizontal axis: tokens, steps or seconds.
        log_axis: whether that axis is logarithmic.
        start: nothing before it is drawn; in tokens, steps or seconds, as the axis is.
        form: png (1200 by 700 pixels) or svg.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    column = "step" if axis == "steps" else axis
    with mpl.rc_context():
        mpl.rcdefaults()  # what the user's matplotlibrc says is set aside
        mpl.rcParams.update(_STYLE)
        figure = Figure(figsize=(8.0, 14 / 3), dpi=150, layout="constrained")
        loss, lr = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
        for number, run in enumerate(runs):
            colour, end = f"C{number}", "" if run["finished"] else ", not finished"
            rows = [row for row in run["log"] if row[column] >= start]
            for split, what, line in (("train", "", "-"), ("valid", ": held-out text", "o--")):
                points = [(row[column], row["loss"]) for row in rows if row["split"] == split]
                label = f"{run['name']}{what}{end}"
                if points:  # a line through a single one would not be seen
                    loss.plot(*zip(*points, strict=True), line if points[1:] else "o", color=colour, label=label)
            lr.plot([row[column] for row in rows], [row["lr"] for row in rows], color=colour)
        for entropy in sorted({run["unigram_entropy"] for run in runs} - {None}):
            loss.axhline(entropy, color="grey", linestyle=":", label=f"unigram entropy {entropy:.2f}")
        loss.set_title("loss, nats per target")
        loss.legend()
        lr.set_title("learning rate")
        lr.set_ylim(bottom=0)
        lr.set_xlabel(axis)
        lr.set_xscale("log" if log_axis else "linear")
        lr.xaxis.set_major_formatter(EngFormatter(sep=""))
        file = BytesIO()
        figure.savefig(file, format=form, metadata={"Date": None} if form == "svg" else None)
    return file.getvalue()


def sparkline_of(values: Sequence[float | None], width: int = 40) -> str:
    """The course of some values in at most `width` characters, the lowest as ▁ and the highest as █.

    More values than characters are cut into `width` runs of equal length, and each character shows the mean of one.
    A run without any number is a blank; None, NaN and infinities are no numbers. Values that are all the same stand in the
    middle.

    >>> sparkline_of([7, 5, 4, 3.5, 3.2, 3, 3])
    '█▅▃▂▁▁▁'
    """
    count = min(len(values), width)
    means = [_mean(_numbers(values[len(values) * n // count : len(values) * (n + 1) // count])) for n in range(count)]
    there = [mean for mean in means if not math.isnan(mean)]
    low, high = min(there, default=0.0), max(there, default=0.0)
    step = high / 8 - low / 8  # of the largest floats the whole span would be infinite
    levels = (min(7, int((mean / 8 - low / 8) / step * 8)) if step > 0 else 3 for mean in there)
    return "".join(" " if math.isnan(mean) else _BLOCKS[next(levels)] for mean in means)


def trend(name: str, values: Sequence[float | None], width: int = 20, *, form: str = ".3g") -> str:
    """A name, the first number, the course and the last number; the name alone where there is no number.

    >>> trend("loss", [7.2, 5.6, 5.0, 4.5, 4.1])
    'loss 7.2 █▄▃▂▁ 4.1'
    """
    numbers = _numbers(values)
    return f"{name} {numbers[0]:{form}} {sparkline_of(values, width)} {numbers[-1]:{form}}" if numbers else name


def _numbers(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]


def _mean(numbers: Sequence[float]) -> float:
    """NaN where there is none; dividing first cannot overflow."""
    return math.fsum(number / len(numbers) for number in numbers) if numbers else math.nan
