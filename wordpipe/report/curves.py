"""Curves of trainings as a picture: loss above, learning rate below on the same axis, names at the ends of the lines."""

import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from wordpipe.errors import ConfigError, InputError
from wordpipe.report.curve_style import COLOURS, GREY, INK, count_label, plain_style, rate_label, short_name, time_unit
from wordpipe.report.end_labels import End, write_ends
from wordpipe.report.run_log import Course, RunLog

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["INSTALL_MATPLOTLIB", "MOST_RUNS", "PictureForm", "draw_curves", "has_matplotlib", "smooth"]

PictureForm = Literal["png", "svg"]
INSTALL_MATPLOTLIB = 'pip install "matplotlib>=3.10"'
MOST_RUNS = len(COLOURS)

_SIZE, _DPI = (8.0, 14 / 3), 150  # 1200 by 700 pixels
_EDGE, _LEFT, _TOP, _BOTTOM = 0.013, 0.07, 0.83, 0.085  # shares of the width and the height
_METADATA: dict[str, dict[str, Any]] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
_SMOOTHED_FROM = 60  # reports; fewer are drawn as they are
_TITLE_CHARS = 76


def has_matplotlib() -> bool:
    """Whether matplotlib is installed; it is not imported."""
    return find_spec("matplotlib") is not None


def draw_curves(
    runs: Sequence[RunLog],
    *,
    axis: str = "tokens",
    log_axis: bool = False,
    start: float = 0,
    form: PictureForm = "png",
) -> bytes:
    """The picture. The same logs and the same version of matplotlib give the same bytes.

    Args:
        runs: one or several, at most `MOST_RUNS`, each with a loss.
        axis: what is on the horizontal axis: tokens, steps or seconds.
        log_axis: whether that axis is logarithmic.
        start: nothing before it is drawn; in tokens, steps or seconds, as the axis is.
        form: png (1200 by 700 pixels) or svg.

    Raises:
        ConfigError: matplotlib is not installed, or there are more runs than colours.
        InputError: a run has no loss.
    """
    runs = [run.since(start, axis) for run in runs]
    _check(runs)
    with warnings.catch_warnings(), plain_style():
        warnings.simplefilter("ignore")  # of letters that the font lacks: they are drawn as boxes
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=_SIZE, dpi=_DPI)
        FigureCanvasAgg(figure)  # measures text, for every form
        axes, ends = _draw(figure, runs, axis, start, log_axis=log_axis)
        write_ends(figure, axes, ends)
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
    means: npt.NDArray[np.float64] = (sums[n + wide + 1] - sums[n - wide]) / (2 * wide + 1)
    return means


def _check(runs: Sequence[RunLog]) -> None:
    if not has_matplotlib():
        raise ConfigError("matplotlib, which draws the picture, is not installed", hint=INSTALL_MATPLOTLIB)
    if not 1 <= len(runs) <= MOST_RUNS:
        raise ConfigError("too many curves to tell apart", got=len(runs), expected=f"1 to {MOST_RUNS}")
    for run in runs:
        if not any(len(run.loss(split, "steps")) for split in ("train", "valid")):
            raise InputError("there is no loss to draw", where=run.name, got=f"{len(run.rows)} reports")


def _draw(
    figure: "Figure", runs: Sequence[RunLog], axis: str, start: float, *, log_axis: bool
) -> tuple["Axes", list[End]]:
    """All but what is written at the ends of the lines, which is given back with the axes of the loss."""
    has_lr = any(len(run.lr(axis)) for run in runs)
    rows = figure.subplots(2 if has_lr else 1, 1, sharex=True, squeeze=False, height_ratios=[4, 1] if has_lr else [1])
    loss_axes, last_axes = rows[0, 0], rows[-1, 0]
    unit, scale = _unit(runs, axis)
    figure.subplots_adjust(left=_LEFT, right=0.97, top=_TOP, bottom=_BOTTOM, hspace=0.2)
    ends = [end for run, colours in _coloured(runs) for end in _draw_losses(loss_axes, run, colours, axis, scale)]
    _set_axis(last_axes, unit, _extent(runs, axis, scale), log_axis=log_axis, cut=start > 0)
    _draw_entropies(loss_axes, runs)
    if has_lr:
        for run, (colour, _) in _coloured(runs):
            course = run.lr(axis)
            last_axes.plot(course.x / scale, course.y, color=colour, linewidth=1.2, alpha=0.9, **_point(course))
        _set_heights(last_axes, rate_label, ticks=3)
        last_axes.set_ylim(bottom=0)
        _caption(last_axes, "learning rate")
    _set_heights(loss_axes, "{:g}".format, ticks=7)
    _caption(loss_axes, "loss, nats per target")
    _titles(figure, runs)
    return loss_axes, ends


def _coloured(runs: Sequence[RunLog]) -> list[tuple[RunLog, tuple[str, str]]]:
    """Each run with the colours of its training and held-out lines: two for one run, one for each of several."""
    if len(runs) == 1:
        return [(runs[0], (COLOURS[0], COLOURS[1]))]
    return [(run, (colour, colour)) for run, colour in zip(runs, COLOURS, strict=False)]


def _unit(runs: Sequence[RunLog], axis: str) -> tuple[str, float]:
    """What the axis counts, and by how much its numbers are divided."""
    if axis == "seconds":
        return time_unit(max(float(run.rows[-1]["seconds"]) for run in runs))
    by_epoch = axis == "steps" and all(run.kind == "words" for run in runs)
    return ("epochs" if by_epoch else axis), 1.0


def _draw_losses(axes: "Axes", run: RunLog, colours: tuple[str, str], axis: str, scale: float) -> list[End]:
    """The lines of one run, the training loss thin where others need the room, and what to write at their ends."""
    train, valid = run.loss("train", axis), run.loss("valid", axis)
    alone = colours[0] != colours[1]
    ends = []
    if len(train):
        main = alone or not len(valid)
        _draw_train(axes, train, colours[0], scale, main=main)
        if main:
            ends.append(_end(train, scale, "training" if alone else run.name, run, colours[0]))
    if len(valid):
        dots: dict[str, Any] = {"marker": "o", "markersize": 4, "markeredgecolor": "white", "markeredgewidth": 0.7}
        axes.plot(valid.x / scale, valid.y, color=colours[1], linewidth=1.4, zorder=4, clip_on=False, **dots)
        ends.append(_end(valid, scale, "held-out" if alone else run.name, run, colours[1]))
    return ends


def _draw_train(axes: "Axes", course: Course, colour: str, scale: float, *, main: bool) -> None:
    look: dict[str, Any] = {"color": colour, "linewidth": 1.6 if main else 0.9, "alpha": 1.0 if main else 0.6}
    x, y = course.x / scale, course.y
    if len(course) >= _SMOOTHED_FROM:
        if main:  # every report stays to be seen behind the smooth line
            axes.plot(x, y, color=colour, linewidth=0.7, alpha=0.3, zorder=2)
        y = smooth(y, len(course) // _SMOOTHED_FROM)
    axes.plot(x, y, **look, zorder=3, **_point(course))


def _point(course: Course) -> dict[str, Any]:
    """A line through one point has to be a dot to be seen."""
    return {"marker": "o", "markersize": 4, "clip_on": False} if len(course) == 1 else {}


def _end(course: Course, scale: float, name: str, run: RunLog, colour: str) -> End:
    open_end = "" if run.finished else " …"
    return End(course.x[-1] / scale, course.y[-1], f"{short_name(name, 24)} {course.y[-1]:.2f}{open_end}", colour)


def _extent(runs: Sequence[RunLog], axis: str, scale: float) -> tuple[float, float]:
    """The least and the greatest place of a report, in the unit of the axis."""
    courses = [run.loss(split, axis).x for run in runs for split in ("train", "valid")]
    places = np.concatenate(courses) / scale
    return float(places.min()), float(places.max())


def _set_axis(axes: "Axes", unit: str, extent: tuple[float, float], *, log_axis: bool, cut: bool) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    low, high = extent
    if low == high:
        low, high, cut = 0.0, high or 1.0, False
    if log_axis and low > 0:
        axes.set_xscale("log")
        axes.set_xlim(low, high)
        few = high / low < 1e4
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.set_xlim(low if cut else 0, high)
        axes.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: count_label(value)))
    axes.annotate(
        unit, (1, 0), (0, -16), xycoords="axes fraction", textcoords="offset points", ha="right", va="top", color=GREY
    )


def _set_heights(axes: "Axes", form: Callable[[float], str], ticks: int) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.yaxis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: form(value)))


def _draw_entropies(axes: "Axes", runs: Sequence[RunLog]) -> None:
    """The losses of models that know frequencies and nothing else, where that does not press the curves together."""
    low, high = axes.dataLim.intervaly
    shown = sorted({round(run.entropy, 2) for run in runs if run.entropy is not None})
    shown = [entropy for entropy in shown if entropy <= high + (high - low)]
    for entropy in shown:
        axes.axhline(entropy, color=GREY, linewidth=1.0, linestyle=(0, (1, 2)), zorder=1.5)
    if shown:
        axes.annotate(
            f"unigram entropy {', '.join(map('{:.2f}'.format, shown))}: token frequencies and nothing else",
            (1, shown[-1]), (-2, 2.5), xycoords=("axes fraction", "data"), textcoords="offset points",
            ha="right", va="bottom", color=GREY, fontsize=7.5, zorder=5,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.8},
        )  # fmt: skip


def _caption(axes: "Axes", text: str) -> None:
    left = (_EDGE - _LEFT) * _SIZE[0] * 72  # points
    axes.annotate(
        text, (0, 1), (left, 4), xycoords="axes fraction", textcoords="offset points", color=GREY, va="bottom"
    )


def _titles(figure: "Figure", runs: Sequence[RunLog]) -> None:
    figure.text(_EDGE, 0.975, _title([run.name for run in runs]), fontsize=12, fontweight="bold", color=INK, va="top")
    figure.text(_EDGE, 0.925, _subtitle(runs), color=GREY, va="top")


def _title(names: Sequence[str]) -> str:
    """As many names as there is room for."""
    for shown in range(len(names), 0, -1):
        more = f" and {len(names) - shown} more" if shown < len(names) else ""
        title = ", ".join(names[:shown]) + more
        if len(title) <= _TITLE_CHARS:
            return title
    return short_name(names[0], _TITLE_CHARS - len(more)) + more


def _subtitle(runs: Sequence[RunLog]) -> str:
    if len(runs) == 1:
        facts = runs[0].summary()
        unit = "step" if facts["kind"] == "model" else "epoch"
        plural = "" if facts["steps"] == 1 else "s"
        how_far = f"{facts['steps']:,} {unit}{plural}, {count_label(facts['tokens'])} tokens"
        return how_far if runs[0].finished else f"{how_far}, not finished"
    with_valid = [run for run in runs if len(run.loss("valid", "steps"))]
    key = "dots: held-out text · thin lines: training text" if with_valid else "training text"
    return key if all(run.finished for run in runs) else f"{key} · …: not finished"
