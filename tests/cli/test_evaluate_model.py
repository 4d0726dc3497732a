"""`wordpipe evaluate model`: the table and JSON."""

import json

import pytest

import wordpipe
from tests.support.model_artifacts import made_model, small_corpus
from tests.support.results import rows_of

QUICK = ("--device", "cpu", "--threads", 1)


@pytest.fixture(scope="module")
def root(tmp_path_factory, handbook, _own_cache):
    root = tmp_path_factory.mktemp("evaluated")
    small_corpus(root / "corpus", handbook, valid=0.2)
    wordpipe.tokenize(root / "corpus", output=root / "tokens", vocab_size=600)
    made_model(root / "decoder", root / "tokens", "decoder")
    made_model(root / "longer", root / "tokens", "decoder", max_len=64)
    made_model(root / "encoder", root / "tokens", "encoder")
    return root


def test_a_table_and_its_json_say_the_same(cli, root):
    args = ["evaluate", "model", root / "decoder", root / "encoder", "--data", root / "corpus", *QUICK]
    table, found = cli(*args), json.loads(cli(*args, "--json").out)
    assert table.code == 0
    rows = rows_of(table.out)
    decoder, encoder = found["models"]
    assert found["metrics"] == decoder["metrics"]
    assert rows["context"] == ["left side", "both sides"]
    assert rows["loss (nats per target)"] == [f"{one['metrics']['loss']:.4f}" for one in (decoder, encoder)]
    assert rows["bits per byte"] == [f"{decoder['metrics']['bits_per_byte']:.4f}", "–"]
    assert rows["perplexity per word"] == [f"{decoder['metrics']['perplexity_per_word']:,.1f}", "–"]
    assert rows["targets"] == [f"{one['counts']['targets']:,}" for one in (decoder, encoder)]
    assert rows["positions"] == ["32", "32"]
    assert "the split valid: " in table.err
    assert "both sides of a token have an easier task" in table.err
    assert "longer sequences help" not in table.err
    assert "\x1b" not in table.out


def test_what_the_table_does_not_say(cli, root):
    result = cli(
        "evaluate", "model", root / "decoder", root / "longer", "--data", root / "corpus", "--split", "train", *QUICK
    )
    assert "longer sequences help" in result.err
    assert result.err.count("was trained on this text") == 2
    quiet = cli("evaluate", "model", root / "encoder", "--data", root / "corpus", "-q", *QUICK)
    assert (quiet.code, quiet.err) == (0, "")
    assert "perplexity per word" not in rows_of(quiet.out)
    assert "perplexity per target" in rows_of(quiet.out)


@pytest.mark.parametrize(
    ("args", "code", "word"),
    [
        (("--data", "nowhere"), 3, "nowhere"),
        ((), 2, "--data"),
        (("--data", "nowhere", "--split", "dev"), 2, "valid"),
        (("--data", "nowhere", "--seq-len", "2"), 2, "4 or more"),
    ],
)
def test_wrong_wishes(cli, root, args, code, word):
    result = cli("evaluate", "model", root / "decoder", *args)
    assert (result.code, result.out) == (code, "")
    assert word in result.err


def test_no_model(cli, root):
    result = cli("evaluate", "model", root / "tokens", "--data", root / "corpus")
    assert (result.code, result.out) == (4, "")
    assert "wrong kind" in result.err
