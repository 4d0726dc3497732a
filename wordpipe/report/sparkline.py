"""A curve in one line of text: ▇▅▃▂▁."""

import math
from collections.abc import Sequence

_BLOCKS, _ASCII = "▁▂▃▄▅▆▇█", "_.-=+*%#"


def sparkline_of(values: Sequence[float | None], width: int = 40, *, ascii_only: bool = False) -> str:
    """The course of some values in at most `width` characters, the lowest as ▁ and the highest as █.

    More values than characters are cut into `width` runs of equal length, and each character stands for the mean of one.
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
