"""What is written over: nothing without --force; and a bad output is refused before the work."""

import json

import pytest

from wordpipe.errors import ConfigError
from wordpipe.stages import export, map_words, plot

COMMANDS = {
    "words.txt": "export {0}/words --to word2vec-text -o {1}",
    "arrays": "export {0}/words --to numpy -o {1}",
    "tokenizer": "export {0}/tokens --to transformers -o {1}",
    "encoder": "export {0}/sentences --to sentence-transformers -o {1}",
    "map.html": "map {0}/words --layout pca --words 50 -o {1}",
    "curve.svg": "plot {0}/words -o {1}",
}


def run(cli, built, line, output, *more):
    return cli(*line.format(built, output).split(), *more)


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_is_replaced_without_force(cli, built, tmp_path, name):
    output = tmp_path / name
    assert run(cli, built, COMMANDS[name], output).code == 0
    before = output.stat().st_ino
    refused = run(cli, built, COMMANDS[name], output)
    assert refused.code == 2
    assert refused.err.splitlines() == [
        f"wordpipe: error: {output}: the output exists already",
        "  hint: replace the output with --force, or choose another output with -o",
    ]  # fmt: skip
    assert output.stat().st_ino == before
    assert run(cli, built, COMMANDS[name], output, "--force").code == 0
    assert output.stat().st_ino != before


def test_the_file_beside_the_first_is_kept_too(cli, built, tmp_path):
    (tmp_path / "vocab.tiktoken.json").write_text("mine")
    refused = cli("export", built / "tokens", "--to", "tiktoken", "-o", tmp_path / "vocab.tiktoken")
    assert refused.code in (2, 4)  # or the tokenizer is none that tiktoken reads
    assert (tmp_path / "vocab.tiktoken.json").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    assert run(cli, built, COMMANDS["arrays"], tmp_path / "empty").code == 0


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("output", ["/dev/null", "{0}/file/x", "{0}/pipe"])
def test_a_bad_output_is_refused_before_the_work(cli, built, tmp_path, monkeypatch, name, output):
    import os

    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe")

    def working(*_, **__):
        raise AssertionError

    for module in ("import_export", "examine.map", "examine.plot"):
        monkeypatch.setattr(f"wordpipe.stages.{module}.Artifact", working)
    refused = run(cli, built, COMMANDS[name], output.format(tmp_path), "--force", "--json")
    error = json.loads(refused.err)["error"]
    assert refused.code == error["code"]
    assert error["kind"] in ("storage", "config")


def test_in_python_a_file_is_replaced_unless_that_is_refused(built, tmp_path):
    for make in (
        lambda **how: export(built / "words", "glove", tmp_path / "a", **how),
        lambda **how: map_words(built / "words", tmp_path / "a.html", n_words=20, layout="pca", **how),
        lambda **how: plot(built / "words", tmp_path / "a.svg", **how),
    ):
        assert make()
        assert make()
        with pytest.raises(ConfigError, match="the output exists already"):
            make(replace=False)
