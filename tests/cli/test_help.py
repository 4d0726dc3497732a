"""Help pages: fast, light, and led by examples."""

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import click
import pytest

from tests.support.commands import commands
from wordpipe import Made
from wordpipe.settings import Settings, setting
from wordpipe.stages import COMMANDS, TABLE

HEAVY = ("torch", "faiss", "pyarrow", "numpy", "gensim", "numba", "tokenizers", "pydantic", "rich")


def test_no_page_of_help_imports_anything_heavy():
    """Of all commands in one process: the pages are drawn from declarations, which pydantic has not looked at."""
    code = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from tests.support.commands import commands\n"
        "from wordpipe.cli.app import app\n"
        "for name in ['', 'train', 'evaluate', *commands()]:\n"
        "    assert CliRunner().invoke(app, [*name.split(), '--help']).exit_code == 0, name\n"
        "assert CliRunner().invoke(app, ['--version']).exit_code == 0\n"
        f"print(sorted(set(sys.modules) & set({HEAVY})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_tree_has_the_commands_of_the_table():
    assert {*commands()} == {*TABLE} > {*COMMANDS}


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


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("name", ["", "train", "evaluate", *sorted(commands())])
def test_help_fits_one_screen(name, width, cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    page = cli(*name.split(), "--help").out
    assert len(page.splitlines()) <= 40
    assert sum(bool(re.match("  -", line)) for line in page.splitlines()) <= 15
    assert cli(*name.split(), "-h").out == page


@pytest.mark.parametrize("name", sorted({*commands(), "train", "evaluate"} - {"help"}))
def test_help_is_no_wider_than_a_narrow_terminal(name, cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    lines = cli(*name.split(), "--help").out.splitlines()
    wide = [line for line in lines if len(line) > 60]
    assert all(line.startswith(("  wordpipe ", "  Example: ")) for line in wide), wide  # what one copies
    options = [re.split(r" {2,}", line.strip())[1:] for line in lines if re.match("  -", line)]
    assert not any(text[0][0].islower() and not text[0].split()[0].endswith(":") for text in options if text)


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_option_is_shown_by_help_all_with_a_line_of_help(name, cli):
    command = commands()[name]
    short, page = cli(*name.split(), "--help").out, cli(*name.split(), "--help-all").out
    left_out = 0
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help
            assert re.search(rf"^  (-\w, )?{max(option.opts, key=len)}(?![\w-])", page, re.MULTILINE)
            left_out += not re.search(rf"^  (-\w, )?{brief(option)}(?![\w-])", short, re.MULTILINE)
    left_out += len(command.no_option)  # type: ignore[attr-defined]
    if left_out:
        assert short.splitlines()[-1] == f"--help-all shows {left_out} more option{'s' * (left_out > 1)}."
    else:
        assert "more option" not in short


@pytest.mark.parametrize("name", [name for name in COMMANDS if name.startswith("train ")])
def test_a_training_has_few_options_of_its_own(name):
    settings = COMMANDS[name].load_settings().model_fields
    assert sum(option.name in settings for option in commands()[name].params) <= 35


def brief(option):
    name = max(option.opts, key=len)
    return re.escape(name.replace("--", "--[no-]", 1)) if option.secondary_opts else name


@pytest.mark.parametrize("command", COMMANDS.values(), ids=lambda command: command.name)
def test_every_setting_is_an_option_or_named_as_one_that_is_none(command, cli):
    settings = command.load_settings()
    options = {option.name: option for option in commands()[command.name].params if isinstance(option, click.Option)}
    page = cli(*command.name.split(), "--help-all").out
    for field in settings.model_fields:
        assert field in options or re.search(rf"^  {field}\b", page, re.MULTILINE)


@pytest.mark.parametrize("name", ["train seq2seq", "train denoising"])
def test_what_no_encoder_decoder_has_is_not_in_its_help(name, cli):
    page = cli(*name.split(), "--help-all").out
    for setting_of_others in ("attention", "window", "global_every", "global_tokens", "init_embeddings"):
        assert not re.search(rf"^  (--)?{setting_of_others}\b", page, re.MULTILINE)
    assert re.search(r"^  n_decoder_layers\b", page, re.MULTILINE)


class Sample(Settings):
    """Settings of all tiers."""

    command = "ingest"

    size: int = setting(3, "how large (in metres); or how small", ge=1, le=9)
    text: str = setting("a", "what to say", expert=True)
    rate: float = setting(0.5, "how fast; or how slow", gt=0, option=False)
    wise: bool = setting(True, "whether it thinks", option=False)
    names: tuple[str, ...] = setting((), "who", option=False)


SAMPLE = replace(COMMANDS["ingest"], settings=f"{__name__}:Sample", function=f"{__name__}:_made")
_GIVEN: list[dict[str, object]] = []


def _made(sources, *, output, run, **values):
    _GIVEN.append(Sample.make(values).model_dump())
    return Made("corpus", str(output), "", "", 0.0, 0)


@pytest.fixture
def sample(cli, monkeypatch):
    """The command `ingest`, with the settings above."""
    _GIVEN.clear()
    monkeypatch.setitem(COMMANDS, "ingest", SAMPLE)
    return lambda *args: cli("ingest", *args)


def test_experts_options_are_parsed_and_shown_by_help_all_alone(sample):
    short, page = sample("--help").out, sample("--help-all").out
    assert re.search(r"^  --size N +How large  \[3\]$", short, re.MULTILINE)
    assert "--size N How large (in metres); or how small (1 to 9) [default: 3]" in " ".join(page.split())
    assert "--text" not in short
    assert "--text" in page
    assert "rate" not in short
    assert "--rate" not in page
    heading = page.index("Settings without an option (use --set NAME=VALUE")
    assert re.search(r"^  rate +how fast; or how slow \(> 0\)  \[default: 0.5\]$", page[heading:], re.MULTILINE)
    assert sample("x", "-o", "y", "--text", "b").code == 0
    assert _GIVEN[0]["text"] == "b"


def test_set_takes_values_as_toml_does(sample, tmp_path):
    args = ("--set", "rate=0.25", "--set", "wise=false", "--set", 'names=["a", "b c"]', "--set", "text=plain = 3")
    assert sample("x", "-o", "y", *args).code == 0
    (tmp_path / "some.toml").write_text('rate = 0.25\nwise = false\nnames = ["a", "b c"]\ntext = "plain = 3"\n')
    assert sample("x", "-o", "y", "--config", tmp_path / "some.toml").code == 0
    assert _GIVEN == [{"size": 3, "text": "plain = 3", "rate": 0.25, "wise": False, "names": ("a", "b c")}] * 2
    assert sample("x", "-o", "y", "--config", tmp_path / "some.toml", "--set", "rate=0.125", "--size", "4").code == 0
    assert (_GIVEN[-1]["rate"], _GIVEN[-1]["size"]) == (0.125, 4)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            ["--rate", "0.9"],
            "unknown option --rate: use --set rate=0.9, or write rate = 0.9 in a --config file\n  hint: ",
        ),
        (["--rate=0.9"], "use --set rate=0.9,"),
        (["--no-wise"], "use --set wise=false,"),
        (["--wise"], "use --set wise=true,"),
        (["--set", "rate"], "--set rate: the value of --set must have the form NAME=VALUE\n"),
        (["--set", "rate=0.1", "--set", "rate=0.2"], "rate is given twice"),
        (["--size", "4", "--set", "size=5"], "size is given twice"),
        (["--set", "rate=fast"], "rate = 'fast' should be a valid number"),
        (["--set", "rate=0"], "rate = 0 should be greater than 0"),
        (["--set", "rat=1"], "did you mean rate"),
    ],
)
def test_wrong_settings_are_named(sample, args, said):
    result = sample("x", "-o", "y", *args)
    assert result.code == 2
    assert said in result.err
    assert not _GIVEN


def test_long_lists_of_choices_end_where_the_line_does(sample, cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    page = cli("export", "--help").out
    assert re.search(r"^  --to \[word2vec-text\|[\w|-]+\|…\]$", page, re.MULTILINE)


@pytest.mark.parametrize("name", ["train mlm", "query", "train", "help"])
def test_help_by_name_is_the_commands_own(name, cli):
    assert cli("help", *name.split()).out == cli(*name.split(), "--help").out
    if name != "train":
        assert cli("help", *name.split(), "--all").out == cli(*name.split(), "--help-all").out


def test_help_of_all_and_of_nothing(cli):
    assert cli("help").out == cli("--help").out
    result = cli("help", "train", "mml")
    assert result.code == 2
    assert "Did you mean mlm" in result.err
    assert "no subcommands" in cli("help", "query", "words").err


def test_a_misspelled_command_is_answered_with_the_right_one(cli):
    result = cli("tokenise")
    assert result.code == 2
    assert "tokenize" in result.err


def complete(line: str, folder: Path | str = ".") -> set[str]:
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "_WORDPIPE_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
    }
    done = subprocess.run(
        [sys.executable, "-m", "wordpipe"], env=env, cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    return {entry.partition(",")[2] for entry in done.stdout.splitlines() if entry}


def test_shell_completion_knows_commands_options_and_values():
    assert {"tokenize", "train", "query"} <= complete("wordpipe ")
    assert {"mlm", "clm", "word2vec"} <= complete("wordpipe train ")
    assert "--vocab-size" in complete("wordpipe tokenize --vo")
    assert {"bpe", "wordpiece"} <= complete("wordpipe tokenize --algorithm ")
    assert {"word2vec-text", "sentence-transformers"} <= complete("wordpipe export run/words --to ")


@pytest.fixture
def project(tmp_path):
    """A folder with artifacts, as far as completion looks at them, and a config."""
    kinds = {
        "run/tokens": "tokens",
        "run/old/tokens": "tokens",
        "run/words": "words",
        ".hidden": "tokens",
        "run/model": "model",
    }
    for name, kind in kinds.items():
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "manifest.json").write_text(json.dumps({"kind": kind}))
    (tmp_path / "run/tokens/inner").mkdir()
    (tmp_path / "run/tokens/inner/manifest.json").write_text(json.dumps({"kind": "tokens"}))
    (tmp_path / "run/broken").mkdir()
    (tmp_path / "run/broken/manifest.json").write_text("{")
    for name, make in (
        ("pipe", os.mkfifo),
        ("endless", lambda path: path.symlink_to("/dev/zero")),
        ("deep", lambda path: path.write_text("[" * 20_000)),
    ):
        (tmp_path / "run" / name).mkdir()
        make(tmp_path / "run" / name / "manifest.json")
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "some.toml").write_text(
        '[stage.text]\ncommand = "ingest"\n[stage.cut]\ncommand = "tokenize"\n[stage.more]\ncommand = "tokenize"\n'
    )
    return tmp_path


@pytest.mark.landing
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("wordpipe train mlm ", {"run/tokens", "run/old/tokens"}),
        ("wordpipe train mlm run/t", {"run/tokens"}),
        ("wordpipe train mlm run/old/", {"run/old/tokens"}),
        ("wordpipe train mlm .h", {".hidden"}),
        ("wordpipe train mlm text", {"text"}),  # the shell's own files
        ("wordpipe query run/", {"run/words"}),
        ("wordpipe show run/", {"run/tokens", "run/old/tokens", "run/words", "run/model"}),
        ("wordpipe tokenize x -o y --counts ", {"run/tokens", "run/old/tokens"}),
        ("wordpipe tokenize x --config so", {"so"}),
        ("wordpipe tokenize x --config some.toml#", {"some.toml#cut", "some.toml#more"}),
        ("wordpipe tokenize x --config some.toml#m", {"some.toml#more"}),
        ("wordpipe tokenize x --config none.toml#", set()),
        ("wordpipe tokenize x --config pipe.toml#", set()),
        ("wordpipe run some.toml --from ", {"text", "cut", "more"}),
        ("wordpipe run some.toml --to c", {"cut"}),
    ],
)
def test_shell_completion_knows_artifacts_and_stages(line, found, project):
    assert complete(line, project) == found


def test_shell_completion_is_light(project):
    code = (
        "import sys\n"
        "from wordpipe.cli import run\n"
        "run()\n"
        f"print(sorted(set(sys.modules) & set({HEAVY})), file=sys.stderr)"
    )
    env = {**os.environ, "_WORDPIPE_COMPLETE": "bash_complete", "COMP_WORDS": "wordpipe train mlm ", "COMP_CWORD": "3"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "options"), [("ingest", ["--text-b", "--[no-]parallel"]), ("tokenize", ["--vocabulary"])]
)
def test_the_way_of_pairs_is_on_the_first_screen(name, options, cli):
    page = cli(name, "--help").out
    assert all(f"\n  {option} " in page for option in options)


@pytest.mark.parametrize("group", [(), ("train",), ("evaluate",)])
def test_groups_show_all_too(cli, group):
    assert cli(*group, "--help-all").out == cli(*group, "--help").out
