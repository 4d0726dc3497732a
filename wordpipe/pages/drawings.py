"""Drawings: curves of trainings by matplotlib, as SVG of a report, and in one line of text; the flow of artifacts, and bars.

The SVG takes the page's colours, and no script: colours and widths stand in report/page.css by class. Numbers become text
here, so that what is drawn is the same everywhere.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import Any

from wordpipe.pages.markup import shown
from wordpipe.wording import human_count

_BLOCKS = "▁▂▃▄▅▆▇█"
_PAPER, _INK, _SOFT, _LINE = "#fffff8", "#1c1b19", "#625f59", "#dcd9cd"  # as on the page of `serve`
_CURVES = ("#0b4fa8", "#9a4a08", "#2f7d4f", "#8a3d8f", "#a31d2b", "#5b6770")
_IN_THE_DARK = {
    _PAPER: "#15161a", _INK: "#ecebe6", _SOFT: "#a3a19a", _LINE: "#33343a",
    **dict(zip(_CURVES, ("#8ec1ff", "#f0a668", "#7fcf9b", "#d9a3dd", "#ff9c9c", "#b3bcc4"), strict=True)),
}  # fmt: skip
_STYLE: Any = {
    "figure.facecolor": _PAPER, "axes.facecolor": _PAPER, "savefig.facecolor": _PAPER, "legend.facecolor": _PAPER,
    "text.color": _INK, "axes.labelcolor": _SOFT, "axes.titlecolor": _INK, "xtick.color": _SOFT, "ytick.color": _SOFT,
    "axes.edgecolor": _LINE, "grid.color": _LINE, "legend.edgecolor": _LINE, "axes.spines.top": False,
    "axes.spines.right": False, "font.size": 8.5, "text.parse_math": False, "axes.grid": True, "axes.titlelocation": "left",
    "svg.hashsalt": "wordpipe",  # names of clip paths are random without it
}  # fmt: skip
_ROW = 64  # pixels of a row of the flow; in report/page.css too
_WIDTH, _HEIGHT, _LR_HEIGHT = 640, 220, 44  # of curves
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 10, 28
_POINTS = 300  # of a curve at most: as many as there are pixels to tell them apart
_TICKS = 4
Point = tuple[float, float]


def draw_curves(
    runs: Sequence[Mapping[str, Any]],
    *,
    axis: str = "tokens",
    log_axis: bool = False,
    start: float = 0,
    form: str = "png",
) -> bytes:
    """Return a picture of losses and learning rates. The same logs and version of matplotlib give the same bytes.

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

    # the user's own style is set aside, so that equal logs give equal pictures
    column = "step" if axis == "steps" else axis
    with mpl.rc_context():
        mpl.rcdefaults()  # what the user's matplotlibrc says is set aside
        mpl.rcParams.update(_STYLE)
        figure = Figure(figsize=(8.0, 14 / 3), dpi=150, layout="constrained")
        loss, lr = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
        # each run: its losses above, its learning rate below
        for number, run in enumerate(runs):
            colour, end = _CURVES[number % len(_CURVES)], "" if run["finished"] else ", not finished"
            rows = [row for row in run["log"] if row[column] >= start]
            for split, what, line in (("train", "", "-"), ("valid", ": held-out text", "o--")):
                points = [(row[column], row["loss"]) for row in rows if row["split"] == split]
                label = f"{run['name']}{what}{end}"
                if points:  # a line through a single one would not be seen
                    loss.plot(*zip(*points, strict=True), line if points[1:] else "o", color=colour, label=label)
            lr.plot([row[column] for row in rows], [row["lr"] for row in rows], color=colour)
        # what is the same for all: the loss of frequencies alone, titles and axes
        for entropy in sorted({run["unigram_entropy"] for run in runs} - {None}):
            loss.axhline(entropy, color=_SOFT, linestyle=":", label=f"unigram entropy {entropy:.2f}")
        loss.set_title("loss, nats per target")
        loss.legend()
        lr.set_title("learning rate")
        lr.set_ylim(bottom=0)
        lr.set_xlabel(axis)
        lr.set_xscale("log" if log_axis else "linear")
        lr.xaxis.set_major_formatter(EngFormatter(sep=""))
        file = BytesIO()
        figure.savefig(file, format=form, metadata={"Date": None} if form == "svg" else None)
    return _dark_too(file.getvalue()) if form == "svg" else file.getvalue()


def _dark_too(svg: bytes) -> bytes:
    """Return an SVG of matplotlib that changes its colours where the reader's theme is dark."""
    rules = "".join(
        f'[style*="{kind}: {light}"]{{{kind}:{dark}!important}}'
        for light, dark in _IN_THE_DARK.items() for kind in ("fill", "stroke")
    )  # fmt: skip
    style = f"<style>@media (prefers-color-scheme: dark){{{rules}}}</style>"
    return svg.replace(b"</svg>", f"{style}\n</svg>".encode())


def sparkline_of(values: Sequence[float | None], width: int = 40) -> str:
    """Draw the course of some values in at most `width` characters, the lowest as ▁ and the highest as █.

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
    """Draw in a line of text a name, the first number, the course and the last number.

    The name alone where there is no number.

    >>> trend("loss", [7.2, 5.6, 5.0, 4.5, 4.1])
    'loss 7.2 █▄▃▂▁ 4.1'
    """
    numbers = _numbers(values)
    return f"{name} {numbers[0]:{form}} {sparkline_of(values, width)} {numbers[-1]:{form}}" if numbers else name


def _numbers(values: Sequence[float | None]) -> list[float]:
    """Return those values of a curve that are finite numbers."""
    return [value for value in values if value is not None and math.isfinite(value)]


def _mean(numbers: Sequence[float]) -> float:
    """Return the mean of finite numbers, NaN of none; dividing first cannot overflow."""
    return math.fsum(number / len(numbers) for number in numbers) if numbers else math.nan


# ---- of a report, as SVG


def flow_lines(edges: Iterable[tuple[int, int]], n: int) -> str:
    """Draw the flow of `n` artifacts: an arc from each to the one made from it, and a dot for each.

    Args:
        edges: (from, to), rows from 0.
        n: rows.
    """
    arcs, x = [], 52
    for begin, end in sorted(set(edges)):
        y0, y1 = begin * _ROW + _ROW / 2, end * _ROW + _ROW / 2
        reach = 0 if end - begin == 1 else min(46, 10 + 7 * (end - begin))
        arcs.append(f'<path class="arc" d="M{x} {y0:g}C{x - reach} {y0:g} {x - reach} {y1:g} {x} {y1:g}"/>')
    dots = "".join(f'<circle class="dot" cx="{x}" cy="{one * _ROW + _ROW / 2:g}" r="4"/>' for one in range(n))
    size = f'width="64" height="{n * _ROW}" viewBox="0 0 64 {n * _ROW}"'
    return f'<svg class="rail" aria-hidden="true" {size}>{"".join(arcs)}{dots}</svg>'


def bar(share: float, kind: str = "") -> str:
    """Draw a bar for a share (SVG); it repeats a number beside it, so it is hidden from screen readers."""
    width = 100 * min(max(share, 0.0), 1.0)
    return (
        f'<svg class="bar {kind}" aria-hidden="true" viewBox="0 0 100 4" preserveAspectRatio="none">'
        f'<rect class="all" width="100" height="4"/><rect class="part" width="{width:.2f}" height="4"/></svg>'
    )


def loss_curves(log: Sequence[Mapping[str, Any]], entropy: float | None, name: str) -> str:
    """Draw training and held-out loss along the tokens that were read, with the learning rate below (SVG).

    Empty: there is no loss.

    Args:
        log: rows with tokens, split, loss, lr; what is no number leaves a gap.
        entropy: loss of a model that knows how frequent each token is and nothing else, drawn as a line if it is known.
        name: of what was trained, for readers of screens.
    """
    # the points, and the span that they need
    rows = [row for row in log if is_number(row["tokens"])]
    train = _thinned([(row["tokens"], row["loss"]) for row in rows if row["split"] == "train"])
    valid = _thinned([(row["tokens"], row["loss"]) for row in rows if row["split"] == "valid"])
    losses = [loss for _, loss in (*train, *valid) if is_number(loss)]
    if not losses:
        return ""
    end = max(row["tokens"] for row in rows) or 1
    known = [entropy] if entropy is not None and is_number(entropy) else []
    low, high = _padded(min(losses), max([*losses, *known]))
    # lines and numbers behind the curves
    parts = []
    for value in _ticks(low, high):
        y = _place(value, low, high)
        parts.append(f'<path class="line" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>')
        parts.append(f'<text class="tick end" x="{_LEFT - 6}" y="{y + 4:.1f}">{value:.4g}</text>')
    for value in _ticks(0, end):
        x = _LEFT + value / end * (_WIDTH - _LEFT - _RIGHT)
        where = "mid" if value else "start"
        parts.append(
            f'<text class="tick {where}" x="{x:.1f}" y="{_HEIGHT - 6}">{human_count(value).replace(".0", "")}</text>'
        )
    # the curves
    parts += [
        f'<path class="entropy" d="M{_LEFT} {_place(value, low, high):.1f}H{_WIDTH - _RIGHT}"/>' for value in known
    ]
    parts.append(f'<path class="train" d="{_path(train, end, low, high)}"/>')
    parts.append(f'<path class="valid" d="{_path(valid, end, low, high)}"/>')
    parts += [
        f'<circle class="valid-dot" cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>' for x, y in _places(valid[-1:], end, low, high)
    ]
    values = f"the first loss is {losses[0]:.3g} and the lowest loss is {min(losses):.3g}"
    said = f"Loss of {name} over {human_count(end)} tokens; {values}"
    drawing = f'<svg role="img" aria-label="{shown(said)}" viewBox="0 0 {_WIDTH} {_HEIGHT}">{"".join(parts)}</svg>'
    return drawing + _rate([(row["tokens"], row["lr"]) for row in rows if is_number(row["lr"])], end)


def _rate(points: Sequence[Point], end: float) -> str:
    """Draw the learning rate as a low curve (SVG); empty where it is always 0."""
    highest = max((rate for _, rate in points), default=0)
    if highest <= 0:
        return ""
    width = _WIDTH - _LEFT - _RIGHT
    steps = [
        f"{'L' if number else 'M'}{_LEFT + x / end * width:.1f} {_LR_HEIGHT - 4 - rate / highest * (_LR_HEIGHT - 10):.1f}"
        for number, (x, rate) in enumerate(_thinned(points))
    ]
    said = f"Learning rate, at most {highest:.2g}"
    return (
        f'<svg role="img" aria-label="{said}" viewBox="0 0 {_WIDTH} {_LR_HEIGHT}">'
        f'<path class="line" d="M{_LEFT} {_LR_HEIGHT - 4}H{_WIDTH - _RIGHT}"/><path class="rate" d="{"".join(steps)}"/>'
        f'<text class="tick end" x="{_LEFT - 6}" y="14">{highest:.2g}</text></svg>'
    )


def _thinned(points: Sequence[Point]) -> list[Point]:
    """Return at most `_POINTS` points of a curve to draw, evenly spread, with the first and the last."""
    if len(points) <= _POINTS:
        return [*points]
    last = len(points) - 1
    return [points[round(one * last / (_POINTS - 1))] for one in range(_POINTS)]


def _path(points: Sequence[Point], end: float, low: float, high: float) -> str:
    """Return the SVG path of a loss curve, with a gap where a loss is no number."""
    commands, pen = [], "M"
    for tokens, loss in points:
        if not is_number(loss):
            pen = "M"
            continue
        ((x, y),) = _places([(tokens, loss)], end, low, high)
        commands.append(f"{pen}{x:.1f} {y:.1f}")
        pen = "L"
    return "".join(commands)


def _places(points: Sequence[Point], end: float, low: float, high: float) -> list[Point]:
    """Return the points of a loss curve in pixels."""
    width = _WIDTH - _LEFT - _RIGHT
    return [(_LEFT + x / end * width, _place(y, low, high)) for x, y in points if is_number(y)]


def _place(value: float, low: float, high: float) -> float:
    """Return the pixels from the top of a drawing to a value."""
    return _TOP + (high - value) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)


def _padded(low: float, high: float) -> tuple[float, float]:
    """Return the range of an axis with some room at both ends."""
    room = (high - low) * 0.06 or max(abs(high) * 0.1, 0.1)
    return low - room, high + room


def _ticks(low: float, high: float) -> list[float]:
    """Return three to six round values of an axis of a drawing between two values."""
    step = 10.0 ** math.floor(math.log10((high - low) / _TICKS))
    step *= next(one for one in (1, 2, 5, 10) if (high - low) / (step * one) <= _TICKS + 1)
    first = math.ceil(low / step)
    return [number * step for number in range(first, math.floor(high / step) + 1)]


def is_number(value: object) -> bool:
    """True if it is a number that can be written and drawn: no truth value, not infinite, not beyond all bounds."""
    return (
        isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and abs(value) < 1e300
    )
