"""Products of variants: what the quick tests try of them, and what is left to the slow ones."""

from collections.abc import Iterable, Sequence
from itertools import combinations, product
from typing import Any

import pytest


def some_of(*axes: Sequence[Any], together: int = 2, rest: pytest.MarkDecorator = pytest.mark.slow) -> list[Any]:
    """The product of axes as parameters: a few rows in which any `together` values of as many axes meet, and the rest marked.

    A fault of one variant is found by any row with its value, one of two variants by a row with both.
    """
    rows = list(product(*axes))
    chosen = set(covering([[*enumerate(row)] for row in rows], together))
    return [pytest.param(*row, marks=() if at in chosen else rest) for at, row in enumerate(rows)]


def covering(rows: Sequence[Iterable[Any]], together: int) -> list[int]:
    """Numbers of rows in which every combination of so many of a row's values is met; each next has the most new ones."""
    meets = [{repr(some) for some in combinations(row, together)} for row in rows]
    left, chosen = set[str]().union(*meets), list[int]()
    while left:
        best = max(range(len(rows)), key=lambda at: len(meets[at] & left))
        chosen.append(best)
        left -= meets[best]
    return chosen
