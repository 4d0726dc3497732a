"""Plain English: what the program says keeps the rules of `tests/support/english.py`."""

from pathlib import Path

import pytest

from tests.support.english import PACKAGE, broken_below, broken_in


def test_what_the_program_says_is_plain():
    found = [str(broken) for broken in broken_below(PACKAGE)]
    assert not found, "\n".join(["write these anew (rules: tests/support/english.py):", *found])


@pytest.mark.parametrize(
    ("source", "rules"),
    [
        ('"""What is read."""', ["begins as a question"]),
        ('def f():\n    """True if a text is read."""', []),
        ('x = f"{name} is such a text"', ["a riddle"]),
        ('x = "a text such as this one"', []),
        ('x = ("words of these", f"no {name} among " "them")', ["ends in a pronoun", "ends in a pronoun"]),
        ('raise E("the same as above", hint="nobody is asked")', ["a riddle", "begins with what stands before"]),
        ('x = "them"', []),
        ('def f():\n    """Read it.\n\n    What this gives.\n    """', ["ends in a pronoun"]),
    ],
)
def test_rules_find_what_they_are_for(source, rules):
    assert [broken.rule for broken in broken_in(Path("a.py"), source)] == rules
