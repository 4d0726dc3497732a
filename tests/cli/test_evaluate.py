"""`wordpipe evaluate tokenizer`: tables, JSON."""

import json
import re

import pytest

from wordpipe.cli.evaluate import measures as evaluate
from wordpipe.cli.output import say
from wordpipe.cli.tables import figure

METRICS = dict.fromkeys(evaluate._TOKENIZER_MEASURES, 0.5)
COUNTS = {"texts": 12, "bytes": 3456, "words": 78, "unspaced_runs": 0, "round_trip_failures": 0}


def judged(name="run/tokens", made="as it is", size=1000, **more):
    return {
        "name": name,
        "made": made,
        "vocab_size": size,
        "metrics": METRICS,
        "counts": COUNTS,
        "failures": [],
        **more,
    }


def rows_of(out: str) -> dict[str, list[str]]:
    """The lines of a table: name → cells."""
    lines = [re.split(r"\s{2,}", line.strip()) for line in out.splitlines() if line.strip()]
    return {cells[0]: cells[1:] for cells in lines}


def test_a_table_and_its_json_say_the_same(cli, built):
    both = (built / "tokens", built / "tokens" / "tokenizer.json")
    args = ["evaluate", "tokenizer", *both, "--data", built / "corpus", "--by", "source"]
    table, found = cli(*args), json.loads(cli(*args, "--json").out)
    assert table.code == 0
    assert [one["vocab_size"] for one in found["tokenizers"]] == [1000, 1000]
    assert found["metrics"] == found["tokenizers"][0]["metrics"]
    rows = rows_of(table.out)
    assert rows["vocabulary"] == ["1,000", "1,000"]
    for name, (label, form) in evaluate._TOKENIZER_MEASURES.items():
        assert rows[label.strip()] == [figure(one["metrics"][name], form) for one in found["tokenizers"]]
    assert "handbook.txt" in table.out
    assert "\x1b" not in table.out
    assert "texts," in table.err


def test_quiet_leaves_the_table_alone(cli, built):
    result = cli("evaluate", "tokenizer", built / "tokens", "--data", built / "corpus", "-q")
    assert (result.code, result.err) == (0, "")
    assert "bytes per token" in result.out


@pytest.mark.parametrize(
    ("args", "code", "word"),
    [
        (("--sizes", "500"), 2, "--counts"),
        (("--by", "lang"), 2, "lang"),
        (("--split", "test"), 3, "split test"),
        (("--split", "dev"), 2, "valid"),
    ],
)
def test_wrong_wishes(cli, built, args, code, word):
    result = cli("evaluate", "tokenizer", built / "tokens", "--data", built / "corpus", *args)
    assert (result.code, result.out) == (code, "")
    assert word in result.err


def test_an_unknown_thing_to_evaluate(cli):
    result = cli("evaluate", "tokeniser")
    assert result.code == 2
    assert "Did you mean tokenizer?" in result.err


@pytest.mark.parametrize("width", [44, 60, 80, 120, 200])
def test_tables_fit_the_terminal(screen, capsys, width):
    screen(width)
    several = [judged(f"a/rather/long/path/to/tokens-{n}", groups={"a" * 50: judged()}) for n in range(5)]
    evaluate._show_tokenizers({"by": "source", "tokenizers": several})
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width
    assert out.count("bytes per token") == {44: 5, 60: 5, 80: 5, 120: 2, 200: 1}[width]
    assert " ".join(out.split()).count("columns do not fit") == (5 if width < 80 else 0)
    assert out.count("tokens/") == 5


def test_many_groups_are_cut_and_said_so(screen, capsys):
    screen(100)
    one = judged(groups={f"file-{n}": judged() for n in range(33)})
    evaluate._show_tokenizers({"by": "source", "tokenizers": [one]})
    out = capsys.readouterr().out
    assert "file-19" in out
    assert "file-20" not in out
    assert "… 13 more" in out


def test_names_and_failures_cannot_steer_the_terminal(screen, capsys):
    screen(100)
    failures = [{"text": "\x1b[31mred\n", "decoded": "\u202e", "group": "", "was": "\x1b[31mred\n", "became": "\u202e"}]
    one = judged("evil\x1b]0;x\x07", failures=failures, groups={"g\x1b[2J": judged()})
    evaluate._show_tokenizers({"by": "source", "tokenizers": [one]})
    shown = capsys.readouterr().out
    for line in evaluate._tokenizer_remarks({"tokenizers": [one]}):
        say(line)
    shown += capsys.readouterr().err
    assert not set(shown) & {"\x1b", "\x07", "\u202e"}
    assert "\\x1b[31mred⏎" in shown
