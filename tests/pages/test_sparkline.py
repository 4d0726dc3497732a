"""Curves in one line of text."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.pages import sparkline_of, trend

BLOCKS = "▁▂▃▄▅▆▇█"
numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.one_of(st.none(), st.floats()), max_size=60), st.integers(1, 30))
def test_it_is_as_wide_as_asked_and_made_of_blocks(values, width):
    line = sparkline_of(values, width)
    assert len(line) == min(len(values), width)
    assert set(line) <= set(BLOCKS + " ")


@given(st.lists(numbers, min_size=2, max_size=30))
def test_it_keeps_the_order_of_values(values):
    line = sparkline_of(values, len(values))
    order = sorted(range(len(values)), key=values.__getitem__)
    levels = [BLOCKS.index(line[number]) for number in order]
    assert levels == sorted(levels)
    if min(values) / 8 < max(values) / 8:
        assert (line[order[0]], line[order[-1]]) == ("▁", "█")


@given(st.lists(numbers.filter(lambda value: value == 0 or 1e-100 < abs(value) < 1e100), min_size=2, max_size=20))
def test_turned_over_it_is_upside_down(values):
    line, turned = sparkline_of(values), sparkline_of([-value for value in values])
    apart = [BLOCKS.index(one) + BLOCKS.index(other) for one, other in zip(line, turned, strict=True)]
    if len(set(values)) > 1 and len(set(line)) > 1:
        assert set(apart) <= {6, 7, 8}  # rounding goes down on both sides
    else:
        assert line == turned


def test_long_series_are_means_of_equal_runs():
    values = [1.0, 3.0, 10.0, 10.0, 5.0, 5.0]
    assert sparkline_of(values, 3) == sparkline_of([2.0, 10.0, 5.0])
    assert sparkline_of(range(80), 8) == BLOCKS


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([], ""),
        ([3.0, 3.0], "▄▄"),
        ([None, math.nan, math.inf], "   "),
        ([1.0, math.nan, 9.0], "▁ █"),
        ([-1.7e308, 0.0, 1.7e308], "▁▅█"),
        ([0.0, 5e-324], "▄▄"),
    ],
)
def test_gaps_and_constants(values, line):
    assert sparkline_of(values) == line


def test_the_ends_of_a_trend_are_numbers():
    assert trend("loss", [math.nan, 7.2, 5.0, 4.1, None], 3, form=".2f").startswith("loss 7.20 ")
    assert trend("loss", [math.nan, 7.2, 5.0, 4.1, None], 3, form=".2f").endswith(" 4.10")
    assert trend("loss", [None, math.nan]) == "loss"
