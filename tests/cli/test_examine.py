"""`wordpipe diff` on the command line: lines, table, JSON."""

import json

import pytest

from tests.stages.test_diff import pair  # noqa: F401
from wordpipe.cli import examine as command
from wordpipe.cli import tables


def test_a_line_per_word_in_a_pipe(cli, pair):  # noqa: F811
    result = cli("diff", *pair, "-n", 2, "-k", 5)
    found = json.loads(cli("diff", *pair, "-n", 2, "-k", 5, "--json").out)
    assert result.code == 0
    rows = [line.split("\t") for line in result.out.splitlines()]
    for cells, one in zip(rows, found["words"], strict=True):
        before, after = one["neighbours_a"], one["neighbours_b"]
        assert cells[:4] == [f"{one['surprise']:.2f}", one["word"], f"{one['moved']:.2f}", f"{one['kept']:.2f}"]
        assert cells[4] == ", ".join(near for near in before if near not in after)
        assert cells[5] == ", ".join(near for near in after if near not in before)
    assert "compared 300 of the 300 words that are in both tables\n" in result.err
    assert f"words that are only in {pair[1]}: 3 (q, r" in result.err
    assert cli("diff", *pair, "-q").err == ""


def test_a_table_did_not_move_from_itself(cli, pair):  # noqa: F811
    assert "no word moved more than other words" in cli("diff", pair[0], pair[0]).err


def test_unknown_words_are_named(cli, pair):  # noqa: F811
    result = cli("diff", *pair, "--word", "x", "--word", "wurd7", "--word", "word9")
    assert (result.code, result.out.split("\t")[1]) == (0, "word9")
    assert f"the word x is only in {pair[0]}" in result.err
    assert "unknown word: wurd7 (did you mean word7" in result.err
    result = cli("diff", *pair, "--word", "x")
    assert (result.code, result.out) == (3, "")
    assert cli("diff", *pair, "-k", 0).code == 2
    assert cli("diff", pair[0], pair[0].parent).code == 4


WORDS = [
    {
        "word": f"{name}\x1b[2J",
        "moved": 0.5,
        "kept": 0.25,
        "surprise": 12.345,
        "neighbours_a": [f"left{n}-{name}" for n in range(10)],
        "neighbours_b": [f"gained{n}" for n in range(10)],
    }
    for name in ("one", "incomprehensibility")
]


@pytest.mark.parametrize("width", [80, 120, 200])
def test_the_table_fits_the_terminal_and_nothing_steers_it(monkeypatch, capsys, width):
    from rich.console import Console

    plain = Console(width=width, force_terminal=False, highlight=False, markup=False, emoji=False)
    monkeypatch.setattr(tables, "console", lambda: plain)
    monkeypatch.setattr(command.sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    command._print_table(WORDS)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width
    assert "\x1b" not in out
    assert "kept" in out
    assert "left0" in out
    assert "gained0" in out
    assert "12.35" in out or "12.34" in out
