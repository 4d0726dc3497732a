"""Drawings of a report as SVG: the flow of artifacts, curves of a training, bars. They take the page's colours, and no script.

Colours and widths stand in report/page.css by class. Numbers become text here, so that what is drawn is the same everywhere.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wordpipe.pages.markup import shown
from wordpipe.wording import human_count

_ROW = 64  # pixels of a row of the flow; in report/page.css too
_WIDTH, _HEIGHT, _LR_HEIGHT = 640, 220, 44  # of curves
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 10, 28
_POINTS = 300  # of a curve at most: as many as there are pixels to tell them apart
_TICKS = 4

Point = tuple[float, float]


def flow_lines(edges: Iterable[tuple[int, int]], n: int) -> str:
    """The lines beside a list of `n` rows: an arc from each row to the one that was made from it, and a dot for each row.

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
    """A bar of so much of its width; it repeats a number that stands beside it, so it is hidden from screen readers."""
    width = 100 * min(max(share, 0.0), 1.0)
    return (
        f'<svg class="bar {kind}" aria-hidden="true" viewBox="0 0 100 4" preserveAspectRatio="none">'
        f'<rect class="all" width="100" height="4"/><rect class="part" width="{width:.2f}" height="4"/></svg>'
    )


def loss_curves(log: Sequence[Mapping[str, Any]], entropy: float | None, name: str) -> str:
    """Training and held-out loss along the tokens that were read, with the learning rate below; empty: there is no loss.

    Args:
        log: rows with tokens, split, loss, lr; what is no number leaves a gap.
        entropy: loss of a model that knows how frequent each token is and nothing else, drawn as a line if it is known.
        name: of what was trained, for readers of screens.
    """
    rows = [row for row in log if _is_number(row["tokens"])]
    train = _thinned([(row["tokens"], row["loss"]) for row in rows if row["split"] == "train"])
    valid = _thinned([(row["tokens"], row["loss"]) for row in rows if row["split"] == "valid"])
    losses = [loss for _, loss in (*train, *valid) if _is_number(loss)]
    if not losses:
        return ""
    end = max(row["tokens"] for row in rows) or 1
    known = [entropy] if entropy is not None and _is_number(entropy) else []
    low, high = _padded(min(losses), max([*losses, *known]))
    parts = []
    for value in _ticks(low, high):
        y = _place(value, low, high)
        parts.append(f'<path class="line" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>')
        parts.append(f'<text class="tick end" x="{_LEFT - 6}" y="{y + 4:.1f}">{_number(value)}</text>')
    for value in _ticks(0, end):
        x = _LEFT + value / end * (_WIDTH - _LEFT - _RIGHT)
        where = "mid" if value else "start"
        parts.append(
            f'<text class="tick {where}" x="{x:.1f}" y="{_HEIGHT - 6}">{human_count(value).replace(".0", "")}</text>'
        )
    parts += [
        f'<path class="entropy" d="M{_LEFT} {_place(value, low, high):.1f}H{_WIDTH - _RIGHT}"/>' for value in known
    ]
    parts.append(f'<path class="train" d="{_path(train, end, low, high)}"/>')
    parts.append(f'<path class="valid" d="{_path(valid, end, low, high)}"/>')
    parts += [
        f'<circle class="valid-dot" cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>' for x, y in _places(valid[-1:], end, low, high)
    ]
    said = f"Loss of {name} along {human_count(end)} tokens: first {losses[0]:.3g}, lowest {min(losses):.3g}"
    drawing = f'<svg role="img" aria-label="{shown(said)}" viewBox="0 0 {_WIDTH} {_HEIGHT}">{"".join(parts)}</svg>'
    return drawing + _rate([(row["tokens"], row["lr"]) for row in rows if _is_number(row["lr"])], end)


def _rate(points: Sequence[Point], end: float) -> str:
    """The learning rate as a low curve."""
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
    """At most `_POINTS` of them, evenly spread, the first and the last among them."""
    if len(points) <= _POINTS:
        return [*points]
    last = len(points) - 1
    return [points[round(one * last / (_POINTS - 1))] for one in range(_POINTS)]


def _path(points: Sequence[Point], end: float, low: float, high: float) -> str:
    """A line through the points; it begins anew where a loss is no number."""
    commands, pen = [], "M"
    for tokens, loss in points:
        if not _is_number(loss):
            pen = "M"
            continue
        ((x, y),) = _places([(tokens, loss)], end, low, high)
        commands.append(f"{pen}{x:.1f} {y:.1f}")
        pen = "L"
    return "".join(commands)


def _places(points: Sequence[Point], end: float, low: float, high: float) -> list[Point]:
    width = _WIDTH - _LEFT - _RIGHT
    return [(_LEFT + x / end * width, _place(y, low, high)) for x, y in points if _is_number(y)]


def _place(value: float, low: float, high: float) -> float:
    """Pixels from the top."""
    return _TOP + (high - value) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)


def _padded(low: float, high: float) -> tuple[float, float]:
    room = (high - low) * 0.06 or max(abs(high) * 0.1, 0.1)
    return low - room, high + room


def _ticks(low: float, high: float) -> list[float]:
    """Three to six round values between two others."""
    step = 10.0 ** math.floor(math.log10((high - low) / _TICKS))
    step *= next(one for one in (1, 2, 5, 10) if (high - low) / (step * one) <= _TICKS + 1)
    first = math.ceil(low / step)
    return [number * step for number in range(first, math.floor(high / step) + 1)]


def _number(value: float) -> str:
    return f"{value:.4g}"


def _is_number(value: object) -> bool:
    return (
        isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and abs(value) < 1e300
    )
