"""Curves of trainings: a picture by matplotlib, loss above and learning rate below on the same axis; or one line of text."""

import math
import warnings
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wordpipe.errors import ConfigError, InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Course = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
"""Positions along the axis, not falling, and a figure at each: (N,) both, finite."""

# Okabe and Ito 2008, "Color Universal Design", distinct for people with any kind of colour blindness; their yellow is left
# out, as white swallows it
CURVE_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_GREY = "#5F6368"
_STYLE: Any = {
    "font.size": 8.5, "text.parse_math": False, "axes.edgecolor": _GREY, "axes.linewidth": 0.6, "axes.spines.top": False,
    "axes.spines.right": False, "axes.spines.left": False, "axes.grid": True, "axes.grid.axis": "y", "axes.axisbelow": True,
    "axes.titlelocation": "left", "axes.titlesize": 8.5, "axes.titlecolor": _GREY, "grid.color": "#E3E5E8",
    "xtick.color": _GREY, "ytick.color": _GREY, "ytick.major.size": 0, "legend.frameon": False,
    "svg.hashsalt": "wordpipe",  # names of clip paths are random without it
}  # fmt: skip
_METADATA: dict[str, dict[str, Any]] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
_SMOOTHED_FROM = 60  # reports; fewer are drawn as they are
_TITLE_CHARS, _NAME_CHARS = 76, 24
_BLOCKS, _ASCII = "▁▂▃▄▅▆▇█", "_.-=+*%#"
_UNITS = (("hours", 3600.0, 3 * 3600), ("minutes", 60.0, 300), ("seconds", 1.0, 0))


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
        runs: one or several, at most as many as there are colours, as `stages.plot` reads them.
        axis: what is on the horizontal axis: tokens, steps or seconds.
        log_axis: whether that axis is logarithmic.
        start: nothing before it is drawn; in tokens, steps or seconds, as the axis is.
        form: png (1200 by 700 pixels) or svg.

    Raises:
        ConfigError: there are more runs than colours.
        InputError: a run has no loss.
    """
    if len(runs) > len(CURVE_COLOURS):
        raise ConfigError("too many curves to tell apart", got=len(runs), expected=f"at most {len(CURVE_COLOURS)}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of letters that the font lacks: they are drawn as boxes
        import matplotlib as mpl
        from matplotlib.figure import Figure
        from matplotlib.ticker import EngFormatter

        with mpl.rc_context():
            mpl.rcdefaults()  # what the user's matplotlibrc says is set aside
            mpl.rcParams.update(_STYLE)
            figure = Figure(figsize=(8.0, 14 / 3), dpi=150, layout="constrained")
            loss, lr = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
            unit, scale = _unit(runs, axis)
            for number, run in enumerate(runs):
                colours = CURVE_COLOURS[number], CURVE_COLOURS[number + (len(runs) == 1)]
                _draw_run(loss, lr, run, colours, axis, start, scale)
            _draw_entropies(loss, runs)
            loss.set_title("loss, nats per target")
            lr.set_title("learning rate")
            lr.set_xlabel(unit, loc="right", color=_GREY)
            lr.set_ylim(bottom=0)
            low, high = loss.dataLim.intervalx
            if log_axis and 0 < low < high:
                lr.set_xscale("log")
            lr.set_xlim(low if log_axis or start > 0 or low == high else 0, high if low < high else None)
            lr.xaxis.set_major_formatter(EngFormatter(sep=""))
            title = _short(", ".join(run["name"] for run in runs), _TITLE_CHARS)
            figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
            loss.legend(bbox_to_anchor=(1.0, 1.0), loc="upper left", title=_key(runs), alignment="left")
            file = BytesIO()
            figure.savefig(file, format=form, metadata=_METADATA[form])
    return file.getvalue()


def smooth(values: npt.NDArray[np.float64], reach: int) -> npt.NDArray[np.float64]:
    """The mean of each value and of as many on both its sides, at most `reach`, as there are values after it.

    So the last value stays, which is written beside it, and a straight line stays straight. Among the first values the
    reach is an eighth of those before it: there a loss falls fast, and on a logarithmic axis all of that is to be seen.

    >>> smooth(np.array([9.0] * 8 + [0.0, 3.0, 0.0, 3.0]), 1)[-4:]
    array([4., 1., 2., 3.])
    """
    n = np.arange(len(values))
    wide = np.minimum(np.minimum(n // 8, n[::-1]), reach)
    sums = np.concatenate(([0.0], np.cumsum(values)))
    return (sums[n + wide + 1] - sums[n - wide]) / (2 * wide + 1)  # type: ignore[no-any-return]


def _draw_run(loss: "Axes", lr: "Axes", run: Mapping[str, Any], colours: tuple[str, str], *place: Any) -> None:
    """The lines of one run: training and held-out loss, the first thin where both have one colour; and the learning rate."""
    (x, y), (valid_x, valid), rate = (
        _course(run["log"], *what, *place) for what in (("train", "loss"), ("valid", "loss"), ("", "lr"))
    )
    if not len(x) + len(valid_x):
        raise InputError("there is no loss to draw", where=run["name"], got=f"{len(run['log'])} reports")
    alone, end = colours[0] != colours[1], "" if run["finished"] else " …"
    name = _short(run["name"], _NAME_CHARS)
    if alone or not len(valid):
        if len(y) >= _SMOOTHED_FROM:  # every report stays to be seen behind the smooth line
            loss.plot(x, y, color=colours[0], linewidth=0.7, alpha=0.3)
        label = f"{'training' if alone else name} {y[-1]:.2f}{end}" if len(y) else None
        look: dict[str, Any] = {"linewidth": 1.6, "label": label}
    else:
        look = {"linewidth": 0.9, "alpha": 0.6}
    loss.plot(x, smooth(y, len(y) // _SMOOTHED_FROM), color=colours[0], **look, **_dot(x))
    if len(valid):
        look = {"marker": "o", "markersize": 4, "clip_on": False, "zorder": 4}
        label = f"{'held-out' if alone else name} {valid[-1]:.2f}{end}"
        loss.plot(valid_x, valid, color=colours[1], linewidth=1.4, label=label, **look)
    lr.plot(*rate, color=colours[0], linewidth=1.2, **_dot(rate[0]))


def _course(
    rows: Sequence[Mapping[str, Any]], split: str, column: str, axis: str, start: float, scale: float
) -> Course:
    """A figure of the reports from `start` on, of one split or of both."""
    where = axis.removesuffix("s") if axis == "steps" else axis
    found = [(row[where] / scale, row[column]) for row in rows if split in ("", row["split"]) and row[where] >= start]
    found = [(x, y) for x, y in found if y is not None and np.isfinite(y)]
    x, y = np.array(found, dtype=np.float64).reshape(-1, 2).T
    return x, y


def _dot(x: npt.NDArray[np.float64]) -> dict[str, Any]:
    """A line through one point has to be a dot to be seen."""
    return {"marker": "o", "markersize": 4, "clip_on": False} if len(x) == 1 else {}


def _draw_entropies(axes: "Axes", runs: Sequence[Mapping[str, Any]]) -> None:
    """The losses of models that know frequencies and nothing else, where that does not press the curves together."""
    low, high = axes.dataLim.intervaly
    for entropy in sorted({round(run["unigram_entropy"], 2) for run in runs if run["unigram_entropy"] is not None}):
        if entropy <= high + (high - low):
            label = f"unigram entropy {entropy:.2f}:\ntoken frequencies\nand nothing else"
            axes.axhline(entropy, color=_GREY, linewidth=1.0, linestyle=(0, (1, 2)), zorder=1.5, label=label)


def _unit(runs: Sequence[Mapping[str, Any]], axis: str) -> tuple[str, float]:
    """What the axis counts, and by how much its numbers are divided."""
    if axis == "seconds":
        longest = max(run["seconds"] for run in runs)
        return next((unit, scale) for unit, scale, least in _UNITS if longest >= least)
    by_epoch = axis == "steps" and all(run["kind"] == "words" for run in runs)
    return ("epochs" if by_epoch else axis), 1.0


def _short(name: str, room: int) -> str:
    """A name in at most `room` characters; the end of a long one says most."""
    return name if len(name) <= room else f"…{name[1 - room :]}"


def _key(runs: Sequence[Mapping[str, Any]]) -> str:
    """What dots, thin lines and … mean."""
    with_valid = len(runs) > 1 and any(run["valid_loss"] is not None for run in runs)
    key = "dots: held-out text\nthin lines: training text\n" if with_valid else ""
    return key + ("" if all(run["finished"] for run in runs) else "…: not finished")


def sparkline_of(values: Sequence[float | None], width: int = 40, *, ascii_only: bool = False) -> str:
    """The course of some values in at most `width` characters, the lowest as ▁ and the highest as █.

    More values than characters are cut into `width` runs of equal length, and each character shows the mean of one.
    A run without any number is a blank; None, NaN and infinities are no numbers. Values that are all the same stand in the
    middle.

    >>> sparkline_of([7, 5, 4, 3.5, 3.2, 3, 3])
    '█▅▃▂▁▁▁'
    >>> sparkline_of([1, float("nan"), 9], ascii_only=True)
    '_ #'
    """
    count = min(len(values), width)
    means = [_mean(_numbers(values[len(values) * n // count : len(values) * (n + 1) // count])) for n in range(count)]
    there = [mean for mean in means if not math.isnan(mean)]
    low, high = min(there, default=0.0), max(there, default=0.0)
    blocks = _ASCII if ascii_only else _BLOCKS
    step = high / 8 - low / 8  # of the largest floats the whole span would be infinite
    levels = (min(7, int((mean / 8 - low / 8) / step * 8)) if step > 0 else 3 for mean in there)
    return "".join(" " if math.isnan(mean) else blocks[next(levels)] for mean in means)


def trend(
    name: str, values: Sequence[float | None], width: int = 20, *, form: str = ".3g", ascii_only: bool = False
) -> str:
    """A name, the first number, the course and the last number; the name alone where there is no number.

    >>> trend("loss", [7.2, 5.6, 5.0, 4.5, 4.1])
    'loss 7.2 █▄▃▂▁ 4.1'
    """
    numbers = _numbers(values)
    if not numbers:
        return name
    return f"{name} {numbers[0]:{form}} {sparkline_of(values, width, ascii_only=ascii_only)} {numbers[-1]:{form}}"


def _numbers(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]


def _mean(numbers: Sequence[float]) -> float:
    """NaN where there is none; dividing first cannot overflow."""
    return math.fsum(number / len(numbers) for number in numbers) if numbers else math.nan
