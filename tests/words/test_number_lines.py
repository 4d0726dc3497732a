"""The reader of numbers against exact arithmetic: the nearest float32, ties to even."""

import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.words import read_text


def nearest(number: str) -> np.float32:
    """The float32 nearest to a decimal number, by fractions."""
    exact = abs(Fraction(number))
    near = np.float32(float(exact))
    with np.errstate(over="ignore"):
        around = [near, np.nextafter(near, np.float32(0)), np.nextafter(near, np.float32(np.inf))]
    around = [value for value in around if np.isfinite(value)]
    found = min(around, key=lambda f: (abs(Fraction(float(f)) - exact), int(f.view(np.uint32)) & 1))
    return -found if number.startswith("-") else found


def read_numbers(numbers: list[str]) -> np.ndarray:
    line = f"word {' '.join(numbers)}\n".encode()
    (rows,) = read_text(iter([line]), len(numbers), first_line=1, name="f")
    return rows.vectors[0]


decimals = st.from_regex(
    r"[+-]?([0-9]{1,22}|[0-9]{0,12}\.[0-9]{1,22}|[0-9]{1,9}\.)([eE][+-]?[0-3]?[0-9])?", fullmatch=True
)


@given(st.lists(decimals, min_size=1, max_size=20))
def test_any_decimal_is_rounded_as_exact_arithmetic_does(numbers: list[str]) -> None:
    numbers = [number for number in numbers if abs(Fraction(number)) < 10**38] or ["1"]
    expected = np.array([nearest(number) for number in numbers])
    np.testing.assert_array_equal(read_numbers(numbers).view(np.uint32), expected.view(np.uint32))


def test_the_middle_between_two_floats_and_its_neighbourhood() -> None:
    """Where a double's own rounding would lead the second one astray."""
    rng = random.Random(4)
    numbers = []
    for _ in range(300):
        low = np.uint32(rng.randrange(0x30000000, 0x50000000)).view(np.float32)
        middle = (Fraction(float(low)) + Fraction(float(np.nextafter(low, np.float32(np.inf))))) / 2
        digits = f"{float(middle):.60f}".rstrip("0")  # a double holds the middle exactly
        numbers += [digits, f"{digits}{'0' * 10}1", f"{float(middle):.17g}", f"{float(low):.17g}"]
    numbers += ["16777217", "16777219", "1e-45", "7e-46", "1.1754943e-38", "3.4028235e38", "3.4028235e+38", "0e99999"]
    expected = np.array([nearest(number) for number in numbers])
    np.testing.assert_array_equal(read_numbers(numbers).view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("odd", ["", "+"])  # the fast reader knows no plus sign
def test_the_fast_and_the_slow_reader_read_the_same(odd: str) -> None:
    lines = "".join(f"w{i} 1e-4{i % 6} {odd}{i}.5 1677721{i % 10}\n" for i in range(100)).encode()
    (rows,) = read_text(iter([lines]), 3, first_line=1, name="f")
    expected = [[nearest(f) for f in line.split()[1:]] for line in lines.decode().splitlines()]
    np.testing.assert_array_equal(rows.vectors, np.array(expected))
    assert rows.places == [*range(1, 101)]
