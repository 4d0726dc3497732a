"""Strings known by reading: Python's own evaluation of the same expression is the oracle."""

import ast
import inspect
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.corpus import string_value

NAMES = {
    "a": '"one"',
    "b": '"  two " + a',
    "shared": '{"x": "ex", "y": a, "z": b.strip()}',
    "more": 'dict(w="double", **{"v": "vee"})',
    "endless": "endless",
}


def lookup(name):
    return (ast.parse(NAMES[name], mode="eval").body, lookup) if name in NAMES else None


def read(code):
    return string_value(ast.parse(code, mode="eval").body, lookup)


def python_value(code):
    scope = {"textwrap": textwrap, "inspect": inspect, "dedent": textwrap.dedent}
    for name, text in NAMES.items():
        if name != "endless":
            scope[name] = eval(text, scope)
    return eval(code, scope)


@pytest.mark.parametrize(
    "code",
    [
        '"text"',
        'r"\\n" "joined"',
        '"x" + a + b',
        "b.strip().lstrip()",
        'b.replace("two", "2").rstrip()',
        '"{x}, {y} and {{z}} {z!s:>4}".format(**shared).replace("   ", " ")',
        '"{} {}".format(a, "b")',
        '"{0}{1}{0}".format(a, b)',
        '"{w}{v}{x}".format(**more, **shared)',
        '"%(x)s of 100%%" % shared',
        'f"{a}: {b}"',
        'textwrap.dedent("    x\\n    y")',
        'inspect.cleandoc("x\\n      y")',
        'dedent("  x")',
    ],
)
def test_what_can_be_known_is_what_python_says(code):
    assert read(code).replace("   ", " ") == python_value(code).replace("   ", " ")


@pytest.mark.parametrize(
    "code", ["unknown", "5", '"a" + unknown', "a.join([])", "print(a)", "endless", 'a.replace("x")']
)
def test_what_cannot_be_known_is_unknown(code):
    assert read(code) is None


def test_unknown_placeholders_are_taken_out():
    assert read('"{x} {unknown} {y}".format(**shared, **what_is_this)') == "ex  one"


def test_descriptions_of_arguments_as_torch_shares_them():
    code = '''"{dim}|{out}".format(**merge_dicts(parse_kwargs("""
    dim (int): the dimension
        to reduce.
    other: no
"""), {"out": "there"}))'''
    assert read(code) == "dim (int): the dimension\n        to reduce.|there"


def test_a_long_sum_is_given_up_not_a_crash():
    assert read("+".join(['"x"'] * 200)) is None


@given(st.text(st.sampled_from("{}xy% ()s"), max_size=30))
def test_no_template_crashes(template):
    assert isinstance(read(f"{template!r}.format(x='1')"), str)
    assert isinstance(read(f"{template!r} % shared"), str)
