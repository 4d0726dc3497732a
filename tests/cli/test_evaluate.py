"""`wordpipe evaluate tokenizer`: tables, JSON."""

import json

import pytest

from tests.support.results import rows_of
from wordpipe.metrics import Figure


def test_a_table_and_its_json_say_the_same(cli, built):
    both = (built / "tokens", built / "tokens" / "tokenizer.json")
    args = ["evaluate", "tokenizer", *both, "--data", built / "corpus", "--by", "source"]
    table, found = cli(*args), json.loads(cli(*args, "--json").out)
    assert table.code == 0
    assert [one["vocab_size"] for one in found["tokenizers"]] == [1000, 1000]
    assert found["metrics"] == found["tokenizers"][0]["metrics"]
    rows = rows_of(table.out)
    assert rows["vocabulary"] == ["1,000", "1,000"]
    for name in found["metrics"]:
        figures = [Figure(name, one["metrics"][name]) for one in found["tokenizers"]]
        assert rows[figures[0].measure.label.strip()] == [one.shown or "–" for one in figures]
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
