"""The README is held to what the code does."""

import re
import shlex
from pathlib import Path

import pytest

import wordpipe
from tests.support.commands import commands
from wordpipe import errors
from wordpipe.artifacts import CORPUS, STEPS, TOKENS_16, VOCABULARY, sentences_schema, words_schema
from wordpipe.pipeline import Pipeline

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = "\n".join(line[4:] for line in README.splitlines() if line.startswith("    "))
SHELL = [line.split("|")[-1] if "| wordpipe" in line else line for line in BLOCKS.splitlines()]
LINES = sorted({line.strip().lstrip("$ ") for line in SHELL if re.match(r"\s*(\$ )?wordpipe \w", line)})


@pytest.mark.parametrize("line", LINES)
def test_every_command_of_the_readme_parses(line):
    args = shlex.split(line, comments=True)[1:]
    known = commands()
    name = next(n for n in (" ".join(args[:2]), args[0]) if n in known)
    known[name].make_context(name, args[len(name.split()) :])


@pytest.mark.slow
def test_the_session_of_the_readme_gives_what_it_shows(tmp_path, monkeypatch, cli):
    (tmp_path / "data").symlink_to(ROOT / "data")
    monkeypatch.chdir(tmp_path)
    session = README[README.index("## A session") : README.index("Twenty thousand words")]
    shown = [line.strip() for line in session.splitlines() if line.startswith("    ")]
    for line in (line for line in shown if line.startswith("$ ")):
        result = cli(*shlex.split(line)[2:])
        assert result.code == 0, result.err
    expected = [line.split("  ") for line in shown[-3:]]
    for (score, text, place), found in zip(expected, result.out.splitlines(), strict=True):
        assert found.startswith(f"{score}\t{text[:-1]}")
        assert found.endswith(place)


def test_every_command_is_in_the_readme():
    for name in commands():
        assert f"wordpipe {name}" in README, name


def test_the_makefile_of_the_readme_is_the_one_that_init_writes():
    template = (ROOT / "wordpipe" / "templates" / "Makefile").read_text()
    rules = template[template.index("RUN ") :]
    assert "".join(f"    {line}\n" if line else "\n" for line in rules.splitlines()) in README


def test_every_exit_code_is_in_the_readme():
    families = errors.WordpipeError.__subclasses__()
    assert len(families) == 8
    for family in families:
        assert f"| {family.exit_code} |" in README


def test_every_column_is_in_the_readme():
    schemas = (CORPUS, TOKENS_16, VOCABULARY, words_schema(2), STEPS, sentences_schema(2))
    section = README[README.index("## The tables") :]
    for schema in schemas:
        assert ", ".join(schema.names[:2]) in section
        for name in schema.names:
            assert name in section, name


def test_every_public_function_is_there():
    for name in wordpipe.__all__:
        assert getattr(wordpipe, name) is not None
    assert set(wordpipe.__all__) <= set(dir(wordpipe))
    with pytest.raises(AttributeError, match="nothing"):
        wordpipe.nothing  # noqa: B018


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.toml")), ids=lambda path: path.name)
def test_every_config_reads(path):
    assert Pipeline(path).stages


def test_the_changelog_knows_the_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "## Unreleased" in text or f"## {wordpipe.__version__}" in text
