"""Figures side by side."""

import re
from itertools import chain, pairwise

import pytest
from rich.console import Console

from wordpipe.cli import tables
from wordpipe.cli.tables import figure, new_table, print_columns, short_name


def test_little_is_not_nothing():
    shown = [figure(value, "{:.2%}") for value in (None, 0, 0.00001, 0.0001, 0.5, 1, -0.25)]
    assert shown == ["–", "0", "<0.01%", "0.01%", "50.00%", "100.00%", "-25.00%"]
    assert figure(-2.34567, "{:.3f}") == "-2.346"


def test_the_end_of_a_long_name_says_most():
    assert short_name("run/words", 10) == "run/words"
    assert short_name("a/long\npath/to/words", 10) == "…/to/words"
    assert short_name("evil\x1b", 20) == "evil\\x1b"


@pytest.mark.parametrize("width", [20, 30, 47, 80, 200])
def test_tables_are_as_few_as_fit(width, capsys, monkeypatch):
    monkeypatch.setattr(tables, "console", lambda: Console(width=width))
    heads = ["x" * length for length in (3, 14, 1, 9, 20, 5, 2)]
    print_columns([(head, [("n", str(number))]) for number, head in enumerate(heads)])
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width
    shown = [[int(number) for number in line.split()] for line in re.findall(r"\bn (.*)", out)]
    assert list(chain(*shown)) == [*range(len(heads))]
    for one, other in pairwise(shown):  # one more would not have fitted
        table = new_table("", *(heads[number] for number in [*one, other[0]]))
        table.add_row("n", *map(str, [*one, other[0]]))
        assert Console(width=1000).measure(table).maximum > width
