"""The one printer: tables as wide as the terminal, lines wrapped to it, text that cannot steer it."""

import re
from itertools import chain, pairwise

import pytest
from rich.console import Console

from wordpipe.cli.tables import new_table, print_parts
from wordpipe.metrics import Figure, System, Table, side_by_side

WIDTHS = [20, 30, 47, 80, 200]


@pytest.mark.parametrize("width", WIDTHS)
def test_tables_are_as_few_as_fit(width, capsys, screen):
    screen(width)
    heads = ["x" * length for length in (3, 14, 1, 9, 20, 5, 2)]
    print_parts([Table(heads, [("n", [str(number) for number in range(len(heads))])])])
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width
    shown = [[int(number) for number in line.split()] for line in re.findall(r"\bn (.*)", out)]
    assert list(chain(*shown)) == [*range(len(heads))]
    for one, other in pairwise(shown):  # one more would not have fitted
        table = new_table("", *(heads[number] for number in [*one, other[0]]))
        table.add_row("n", *map(str, [*one, other[0]]))
        assert Console(width=1000).measure(table).maximum > width


@pytest.mark.parametrize("width", [44, 60, 80, 120])
def test_systems_fit_a_terminal_and_each_column_is_there_once(width, capsys, screen):
    screen(width)
    figure = Figure("ndcg_at_10", 0.51234, [0.4, 0.6], below={"above BM25": None, "pairs known": "3 of 4"})
    systems = [System(f"…/a/rather/long/name-{number}", [figure, Figure("mrr", None)]) for number in range(5)]
    print_parts([side_by_side(systems, corner="x 100", title="all of them")])
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width
    assert out.count("nDCG@10") == out.count("95 %") == out.count("pairs known") == {44: 5, 60: 5, 80: 3, 120: 2}[width]
    assert re.sub(r"\s", "", out).count("name-") == 5
    assert out.count("51.23") == 5
    assert out.count("all of them") == 1
    assert "MRR" not in out
    assert "above BM25" not in out  # a line of nothing but dashes


@pytest.mark.parametrize("width", WIDTHS[1:])
def test_what_goes_on_stands_below_what_is_said(width, capsys, screen):
    screen(width)
    text = "all texts look alike: their vectors lie in a narrow cone, so a high score means little"
    command = "  wordpipe embed MODEL CORPUS -o run/sentences --transform whiten"
    print_parts([f"sick     {text}", f"         {text}", command, text])
    lines = capsys.readouterr().out.splitlines()
    at = lines.index(command)  # whole, to be copied
    assert all(len(line) <= width for line in lines if line != command)
    assert lines[0].startswith("sick     all")
    assert all(line.startswith(" " * 9) for line in lines[1:at])
    assert " ".join(" ".join(lines[:at]).split()) == f"sick {text} {text}"
    assert " ".join(lines[at + 1 :]) == text


def test_text_cannot_steer_the_terminal(capsys, screen):
    screen(100)
    evil = "evil\x1b]0;x\x07\u202e"
    print_parts([evil, f"said  {evil}", Table([evil], [(evil, [evil])], evil, evil)])
    out = capsys.readouterr().out
    assert not set(out) & {"\x1b", "\x07", "\u202e"}
    assert out.count("evil\\x1b]0;x\\x07\\u202e") == 7
