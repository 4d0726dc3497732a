"""The commands of stages and pipelines: whose inputs count, what status shows, and where a wrong setting stands."""

import json
import re
import shlex
from pathlib import Path

import pytest

import wordpipe
from tests.support.configs import small_config
from wordpipe.cli.output import _span
from wordpipe.cli.stage import _state_lines
from wordpipe.pipeline import Stage, State
from wordpipe.stages import COMMANDS

CONFIG = small_config("corpus", "tokens", "words", "sentences", corpus={"valid": 0.0})


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project that stands in another folder than the current one."""
    home = tmp_path / "home"
    (home / "texts").mkdir(parents=True)
    (home / "texts" / "a.txt").write_text("The tide comes in. The tide goes out. Boats wait for the tide.\n" * 3)
    (home / "wordpipe.toml").write_text(CONFIG)
    monkeypatch.chdir(home)
    return home


def edit(project, old, new):
    path = project / "wordpipe.toml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def test_run_and_status_read_the_config_of_the_folder(project, cli, monkeypatch, tmp_path):
    assert cli("status").out.count("stale") == 4
    assert cli("run", "--to", "tokens").code == 0
    assert cli("status").out.count("fresh") == 2
    monkeypatch.chdir(tmp_path)
    result = cli("run")
    assert result.code == 2
    assert (
        result.err == "wordpipe: error: wordpipe.toml: the config file does not exist\n"
        "  hint: write a new config file with: wordpipe init\n"
    )


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_stage_of_a_config_needs_no_inputs_and_no_output(project, cli, monkeypatch, elsewhere):
    """As `run` makes it, from anywhere: what it makes is fresh for `status`."""
    if elsewhere:
        monkeypatch.chdir(project.parent)
    config = "home/wordpipe.toml" if elsewhere else "wordpipe.toml"
    for command, stage in (
        ("ingest", "corpus"),
        ("tokenize", "tokens"),
        ("train word2vec", "words"),
        ("embed", "sentences"),
    ):
        result = cli(*command.split(), "--config", f"{config}#{stage}")
        assert result.code == 0, result.err
    assert "stale" not in cli("status", config).out


def test_an_output_of_my_own_and_settings_of_my_own(project, cli):
    cli("run", "--to", "corpus")
    result = cli("tokenize", "--config", "wordpipe.toml#tokens", "-o", "other", "--vocab-size", 350, "--json")
    assert json.loads(result.out)["path"] == "other"
    assert json.loads((project / "other" / "manifest.json").read_text())["settings"]["vocab_size"] == 350
    assert not (project / "run" / "tokens").exists()


def test_an_artifact_that_a_flag_names_is_seen_from_here(project, cli, monkeypatch):
    cli("run", "--to", "tokens")
    monkeypatch.chdir(project.parent)
    config = "home/wordpipe.toml#tokens"
    assert cli("tokenize", "--config", config, "-o", "again", "--tokenizer", "home/run/tokens").code == 0
    assert (project.parent / "again").exists()


def test_other_inputs_than_the_stages_are_refused_naming_both(project, cli):
    cli("run")
    result = cli("embed", "run/tokens", "run/corpus", "-o", "x", "--config", "wordpipe.toml#sentences")
    assert result.code == 2
    assert "got run/tokens run/corpus; expected run/words run/corpus" in result.err
    assert "[stage.sentences]" in result.err
    same = cli("embed", "./run/words", "run/corpus/", "--config", "wordpipe.toml#sentences")
    assert same.code == 0, same.err


def test_a_config_without_a_stage_lends_its_settings_to_other_inputs(project, cli):
    cli("run", "--to", "corpus")
    assert cli("ingest", "texts/a.txt", "-o", "x", "--config", "wordpipe.toml").code == 0
    (project / "flat.toml").write_text("vocab_size = 333\n")
    assert "missing argument" in cli("tokenize", "--config", "flat.toml", "-o", "x").err
    assert cli("tokenize", "run/corpus", "--config", "flat.toml", "-o", "y").code == 0


@pytest.mark.parametrize(
    ("args", "missing"),
    [
        (["tokenize"], "CORPUS..."),
        (["tokenize", "texts"], "'-o' / '--output'"),
        (["embed", "-o", "x"], "MODEL|WORDS"),
        (["embed", "a", "-o", "x"], "CORPUS..."),
        (["embed", "a", "--config", "wordpipe.toml#sentences"], "CORPUS..."),
        (["index", "-o", "x"], "SENTENCES|WORDS"),
        (["embed", "a", "b", "--config", "wordpipe.toml"], "'-o' / '--output'"),
    ],
)
def test_what_is_missing_is_named(project, cli, args, missing):
    result = cli(*args)
    assert result.code == 2
    assert missing in result.err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--vocab-size", 10], "--vocab-size 10 should be greater than or equal to 300"),
        (["--set", "vocab_size=10"], "--set vocab_size = 10 should be greater than or equal to 300"),
        (["--config", "flat.toml"], "flat.toml: vocab_size = 7 should be greater than or equal to 300"),
        (["--config", "flat.toml", "--sample", 0], "flat.toml: vocab_size = 7 should be"),
        (["--config", "flat.toml", "--sample", 0], "--sample 0.0 should be greater than 0"),
    ],
)
def test_a_wrong_setting_is_named_as_it_was_given(project, cli, args, said):
    (project / "flat.toml").write_text("vocab_size = 7\n")
    result = cli("tokenize", "texts", "-o", "x", *args)
    assert result.code == 2
    assert said in result.err


def test_a_wrong_setting_of_a_stage_names_its_table(project, cli):
    edit(project, "vocab_size = 400", "vocab_size = 4")
    for args in (["status"], ["tokenize", "--config", "wordpipe.toml#tokens"]):
        result = cli(*args)
        assert result.code == 2
        assert "wordpipe.toml [stage.tokens]: vocab_size = 4 should be greater than or equal to 300" in result.err


@pytest.mark.parametrize("variable", ["WORLD_SIZE", "RANK"])
@pytest.mark.parametrize("value", ["x", "-1", "1.5", "9" * 5000])
def test_an_environment_that_names_no_number_of_processes(project, cli, monkeypatch, variable, value):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv(variable, value)
    result = cli("ingest", "texts", "-o", "x")
    assert result.code == 2
    assert f"{variable}: the environment variable must be a whole number" in result.err
    assert len(result.err) < 400


def test_status_shows_estimates_and_a_total_in_sixty_columns(project, cli):
    out = cli("status").out
    estimates = [line for line in out.splitlines() if line.startswith("  ")]
    assert len(estimates) == 4
    assert all(len(line) <= 60 for line in estimates)
    assert re.fullmatch(
        r"  .+ (s|min) · [\d.]+ [kMG]?B memory · [\d.]+ [kMG]?B disk \((probed|earlier runs)\)", estimates[0]
    )
    assert out.splitlines()[-1].startswith("total: ")
    cli("run")
    assert "total" not in cli("status").out
    assert "total: " in cli("run", "-n", "--fresh").out


def test_a_line_too_long_for_the_terminal_becomes_several():
    stage = Stage("sentences", COMMANDS["embed"], ("words", "corpus"), {}, Path("run/sentences"))
    state = State(stage, ("missing", "words will be made", "corpus will be made"))
    whole = "stale  sentences      embed            missing, words will be made, corpus will be made"
    assert _state_lines(state, None) == _state_lines(state, 200) == whole
    assert _state_lines(state, 60).splitlines() == [
        "stale  sentences      embed", "  missing", "  words will be made", "  corpus will be made",
    ]  # fmt: skip
    assert _state_lines(State(stage, ()), 60) == "fresh  sentences      embed"


def test_status_speaks_json(project, cli):
    *stages, total = map(json.loads, cli("status", "--json").out.splitlines())
    assert [stage["stage"] for stage in stages] == ["corpus", "tokens", "words", "sentences"]
    assert stages[0]["output"] == "run/corpus"
    assert not stages[0]["fresh"]
    low, high = stages[3]["estimate"]["seconds"]
    assert 0 < low < high
    assert total["total"]["disk_bytes"] == sum(stage["estimate"]["disk_bytes"] for stage in stages)


def test_more_than_the_machine_has_is_said(project, cli, monkeypatch):
    monkeypatch.setattr("wordpipe.cli.stage.memory_bytes", lambda: 1_000_000)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10})())
    out = cli("status").out
    assert "this machine does not have enough memory: 1.0 MB" in out
    assert "the disk does not have enough free space: 10 B are free" in out


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (0.2, 0.9, "about 1 s"), (4, 9, "4 to 9 s"), (40, 100, "40 to 100 s"), (100, 200, "1.7 to 3 min"),
        (600, 1500, "10 to 25 min"), (5000, 9000, "1.4 to 2.5 h"), (1e5, 4e5, "1.2 to 5 days"), (59.6, 60.4, "about 60 s"),
    ],
)  # fmt: skip
def test_spans_of_time_are_read_at_a_glance(low, high, shown):
    assert _span(low, high) == shown


def test_init_says_what_it_chose_why_and_how_long(project, cli, tmp_path):
    (tmp_path / "r.jsonl").write_text('{"id": 1, "content": "a text of some length", "kind": "x", "parts": [1]}\n' * 9)
    said = cli("init", tmp_path / "new", "--from", tmp_path / "r.jsonl").err
    for words in (
        f"settings for these texts in {tmp_path / 'new' / 'wordpipe.toml'}:",
        'text_field = "content"', "chosen: a static encoder", "(BM25)", "estimate for these 657 B of text: ",
        f"next: cd {tmp_path / 'new'} && wordpipe run --to words-index", "wordpipe query run",
    ):  # fmt: skip
        assert words in said, said
    again = cli("init", tmp_path / "new", "--from", tmp_path / "r.jsonl").err
    assert "kept " in again
    assert "exists and was not changed" in again
    assert "estimate for 10.0 MB of text: " in cli("init", tmp_path / "empty").err
    quiet = cli("init", tmp_path / "quiet", "-q")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    assert (tmp_path / "quiet" / "wordpipe.toml").is_file()


def next_lines(result):
    """What a command says that one does with its result."""
    assert result.code == 0, result.err
    return [line.split(": ", 1)[1] for line in result.err.splitlines() if line.startswith(("next: ", "then: "))]


@pytest.fixture
def pairs(tmp_path, monkeypatch):
    """A corpus of pairs with two tasks, in the current folder."""
    rows = [{"text": f"eins {i}", "text_b": f"one {i}", "task": "ab"[i % 2] + ": "} for i in range(20)]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    wordpipe.ingest("pairs.jsonl", output="pairs", text_b="text_b")
    return tmp_path


SMALL = shlex.split("--steps 2 --batch-size 4 --device cpu --seq-len 64")
SHAPE = shlex.split("--dim 32 --n-layers 1 --set n_heads=1 --set ffn_dim=64")


def test_what_a_denoiser_says_next_can_be_done(pairs, cli):
    wordpipe.tokenize("pairs", output="tokens", vocab_size=300)
    lines = next_lines(cli("train", "denoising", "tokens", "-o", "denoiser", *SMALL, *SHAPE))
    assert len(lines) == 2
    for line, more in zip(lines, ([], SMALL), strict=True):
        result = cli(*shlex.split(line.replace("PAIRS", "pairs"))[1:], *more)
        assert result.code == 0, result.err


def test_what_tokens_of_pairs_say_next_can_be_done(pairs, cli):
    (line,) = next_lines(cli("tokenize", "pairs", "-o", "tokens", "--vocab-size", 300))
    assert line == "wordpipe train seq2seq tokens -o ./seq2seq"
    (line,) = next_lines(cli(*shlex.split(line)[1:], *SMALL, *SHAPE, "--prefix-field", "task"))
    assert line == 'wordpipe generate seq2seq "a source text" --prefix PREFIX'
    result = cli(*shlex.split(line.replace("PREFIX", "'a: '"))[1:], "--device", "cpu", "--max-tokens", 2)
    assert result.code == 0, result.err
    (line,) = next_lines(cli("train", "seq2seq", "tokens", "-o", "other", *SMALL, *SHAPE))
    assert line == 'wordpipe generate other "a source text"'


def test_what_tokens_of_single_texts_say_next(project, cli):
    (line,) = next_lines(cli("tokenize", "texts", "-o", "tokens", "--vocab-size", 300))
    assert line == "wordpipe train word2vec tokens -o ./words"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["contrastive", "t", "--encoder", "static"], "unknown option --encoder: use wordpipe train static"),
        (["static", "t", "--encoder=transformer"], "wordpipe train contrastive for a transformer"),
        (["contrastive", "t", "--words", "w"], "unknown option --words: this setting belongs to wordpipe train static"),
        (["static", "t", "--set", "dropout=0.2"], "'dropout': this setting belongs to wordpipe train contrastive"),
    ],
)  # fmt: skip
def test_an_option_of_the_other_encoder_names_its_command(cli, args, said):
    done = cli("train", *args, "-o", "out")
    assert done.code == 2
    assert said in " ".join(done.err.split())


def test_a_config_with_an_encoder_says_what_to_write(project, cli):
    stage = '[stage.encoder]\ncommand = "train contrastive"\ninputs = ["tokens"]\nencoder = "static"\n'
    (project / "wordpipe.toml").write_text(CONFIG + stage)
    done = cli("status")
    assert done.code == 2
    assert "[stage.encoder]" in done.err
    assert 'command = "train static"' in done.err
