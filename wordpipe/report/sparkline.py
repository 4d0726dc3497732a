"""A curve in one line of text: ▇▅▃▂▁."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeGuard

__all__ = ["sparkline", "trend"]

_BLOCKS, _ASCII = "▁▂▃▄▅▆▇█", "_.-=+*%#"
_GAP = " "


def sparkline(values: Sequence[float | None], width: int = 40, *, ascii_only: bool = False) -> str:
    """The course of some values in at most `width` characters, the lowest as ▁ and the highest as █.

    More values than characters are cut into `width` runs of equal length, and each character stands for the mean of one.
    A run without any number is a blank; values that are all the same stand in the middle.

    Args:
        values: in order; None, NaN and infinities are no numbers.
        width: characters, at least 1.
        ascii_only: for terminals that have no blocks.

    >>> sparkline([7, 5, 4, 3.5, 3.2, 3, 3])
    '█▅▃▂▁▁▁'
    >>> sparkline([1, float("nan"), 9], ascii_only=True)
    '_ #'
    """
    means = [_mean(run) for run in _runs(values, width)]
    numbers = [mean for mean in means if mean is not None]
    if not numbers:
        return _GAP * len(means)
    low, high, levels = min(numbers), max(numbers), _ASCII if ascii_only else _BLOCKS
    return "".join(_GAP if mean is None else levels[_level(mean, low, high, len(levels))] for mean in means)


def trend(
    name: str, values: Sequence[float | None], width: int = 20, *, form: str = ".3g", ascii_only: bool = False
) -> str:
    """A name, the first number, the course and the last number; the name alone where there is no number.

    >>> trend("loss", [7.2, 5.6, 5.0, 4.5, 4.1])
    'loss 7.2 █▄▃▂▁ 4.1'
    """
    numbers = [value for value in values if _is_number(value)]
    if not numbers:
        return name
    return f"{name} {numbers[0]:{form}} {sparkline(values, width, ascii_only=ascii_only)} {numbers[-1]:{form}}"


def _runs(values: Sequence[float | None], width: int) -> list[Sequence[float | None]]:
    count = min(len(values), max(1, width))
    edges = [len(values) * n // max(1, count) for n in range(count + 1)]
    return [values[first:last] for first, last in pairwise(edges)]


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if _is_number(value)]
    return math.fsum(value / len(numbers) for value in numbers) if numbers else None  # dividing first cannot overflow


def _is_number(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def _level(value: float, low: float, high: float, levels: int) -> int:
    """The number of the step that a value is on, from 0."""
    step = high / levels - low / levels  # of the largest floats the whole span would be infinite
    if step <= 0:
        return levels // 2 - 1
    return min(levels - 1, int((value / levels - low / levels) / step * levels))
