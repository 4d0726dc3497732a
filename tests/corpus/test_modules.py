"""Strings known by reading: Python's own evaluation of the same expression is the oracle."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.corpus import string_value

NAMES = {"a": '"one"', "b": '"  two " + a', "endless": "endless"}


def read(code):
    texts = {name: ast.parse(text, mode="eval").body for name, text in NAMES.items()}
    return string_value(ast.parse(code, mode="eval").body, texts)


def python_value(code):
    scope = {}
    for name in ("a", "b"):
        scope[name] = eval(NAMES[name], scope)
    return eval(code, scope)


@pytest.mark.parametrize(
    "code",
    [
        '"text"',
        'r"\\n" "joined"',
        '"x" + a + b',
        '"{x}, {y} and {{z}} {y!s:>3}".format(x="ex", y=a)',
        '"{} {}".format(a, "b")',
        '"{0}{1}{0}".format(a, b)',
        'f"{a}: {b}"',
    ],
)
def test_what_can_be_known_is_what_python_says(code):
    assert read(code) == python_value(code)


@pytest.mark.parametrize("code", ["unknown", "5", '"a" + unknown', "a.join([])", "print(a)", "endless", "a.strip()"])
def test_what_cannot_be_known_is_unknown(code):
    assert read(code) is None


def test_unknown_placeholders_are_taken_out():
    assert read('"{x} {unknown} {y}".format(x="ex", y=a, **what_is_this)') == "ex  one"


def test_a_long_sum_is_given_up_not_a_crash():
    assert read("+".join(['"x"'] * 200)) is None


@given(st.text(st.sampled_from("{}xy% ()s"), max_size=30))
def test_no_template_crashes(template):
    assert isinstance(read(f"{template!r}.format(x='1')"), str)
