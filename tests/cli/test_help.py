"""Help pages: fast, light, and led by examples."""

import os
import shlex
import statistics
import subprocess
import sys
import time

import click
import pytest

from wordpipe.cli.app import app
from wordpipe.settings import declared
from wordpipe.stages.catalog import VERBS

HEAVY = ("torch", "faiss", "pyarrow", "numpy", "gensim", "numba", "tokenizers", "pydantic", "rich")


def commands(group: click.Group = app, prefix: str = "") -> dict[str, click.Command]:
    found = {}
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            found |= commands(command, f"{prefix}{name} ")
        else:
            found[prefix + name] = command
    return found


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["train", "--help"]])
def test_the_group_pages_import_nothing_heavy(args):
    code = (
        "import sys; sys.argv = ['wordpipe', *sys.argv[1:]]\n"
        "from wordpipe.cli import run\n"
        "run()\n"
        f"print(sorted(set(sys.modules) & set({HEAVY})), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.slow
def test_help_answers_at_once():
    seconds = []
    for _ in range(10):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "wordpipe", "--help"], capture_output=True, check=True)
        seconds.append(time.perf_counter() - start)
    assert statistics.median(seconds) <= 0.15


def test_every_verb_of_the_catalogue_is_a_command():
    assert set(VERBS) <= set(commands())


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_page_leads_with_an_example_of_its_own_command(name, cli):
    page = cli(*name.split(), "--help")
    assert page.code == 0
    title, first = page.out.splitlines()[:2]
    assert title == "Example:"
    assert first.strip().startswith(f"wordpipe {name}")


@pytest.mark.parametrize("name", sorted(commands()))
def test_the_example_parses(name):
    command = commands()[name]
    for line in command.example.splitlines():  # type: ignore[attr-defined]
        args = shlex.split(line.split("&&")[0])[1 + len(name.split()) :]
        command.make_context(name, args)


@pytest.mark.parametrize("verb", VERBS.values(), ids=lambda verb: verb.name)
def test_every_setting_is_an_option_with_a_line_of_help(verb):
    settings = verb.load_settings()
    options = {option.name: option for option in commands()[verb.name].params if isinstance(option, click.Option)}
    for field, of in settings.model_fields.items():
        assert of.description
        assert (field in options) == declared(settings, field).get("option", True)
        assert field not in options or options[field].help


@pytest.mark.parametrize("name", ["train mlm", "train clm", "train contrastive"])
def test_a_training_has_few_options(name):
    settings = VERBS[name].load_settings()
    assert sum(isinstance(option, click.Option) for option in commands()[name].params) <= 35
    plain = [field for field in settings.model_fields if not declared(settings, field).keys() & {"expert", "option"}]
    assert len(plain) <= 10


def test_a_misspelled_command_is_answered_with_the_right_one(cli):
    result = cli("tokenise")
    assert result.code == 2
    assert "tokenize" in result.err


def test_shell_completion_knows_commands_options_and_values():
    def complete(line: str) -> set[str]:
        env = {
            **os.environ,
            "_WORDPIPE_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(line.count(" ")),
        }
        done = subprocess.run([sys.executable, "-m", "wordpipe"], env=env, capture_output=True, text=True, check=False)
        return {entry.partition(",")[2] for entry in done.stdout.splitlines()}

    assert {"tokenize", "train", "query"} <= complete("wordpipe ")
    assert {"mlm", "clm", "word2vec"} <= complete("wordpipe train ")
    assert "--vocab-size" in complete("wordpipe tokenize --vo")
    assert {"bpe", "wordpiece"} <= complete("wordpipe tokenize --algorithm ")
