"""The config file: all that is wrong with it is said at once, and nothing that it names is read without a bound."""

import os
import threading

import pytest

from tests.support.configs import small_config
from wordpipe.errors import ConfigError
from wordpipe.pipeline import Pipeline, Stage, text_in_keys
from wordpipe.stages import COMMANDS

CONFIG = small_config("words", "corpus", "tokens")


@pytest.fixture
def config(tmp_path):
    """A config that is right; `wrong` edits it."""
    path = tmp_path / "p.toml"
    path.write_text(CONFIG)
    return path


def wrong(config, old, new):
    text = config.read_text()
    assert old in text
    config.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('inputs = ["corpus"]', 'inputs = ["words"]', "must be of the kind corpus; got words, which makes words"),
        ('inputs = ["texts"]', 'inputs = ["tokens"]', "ingest reads sources of text, but its input tokens is a stage"),
        ('inputs = ["corpus"]', "inputs = []", "inputs should be a list"),
        ('inputs = ["corpus"]', "inputs = [3]", "inputs should be a list"),
        ('inputs = ["corpus"]', 'inputs = ["corpus", "more.txt"]', "exactly one corpus, or any number of text sources"),
        ('inputs = ["tokens"]', 'inputs = ["tokens", "corpus"]', "wrong number of inputs"),
        ('inputs = ["tokens"]', 'inputs = ["corpus"]', "must be of the kind tokens"),
        (
            "dim = 8",
            'dim = 8\ninit = "tokens"',
            "init names a stage of the wrong kind; got tokens, which makes tokens; expected words",
        ),
        ("dim = 8", 'dim = 8\ninit = "words"', "circle; got words → words"),
        ('command = "tokenize"', 'command = "tokenise"', "unknown command"),
        ('command = "tokenize"', "command = [1]", "unknown command"),
        ("vocab_size = 400", "vocab_sise = 400", "unknown setting 'vocab_sise'"),
        ("vocab_size = 400", "kep = true", "unknown key 'kep'"),
        ("vocab_size = 400", 'keep = "yes"', "keep should be true or false; got 'yes'"),
        ("[stage.words]", "wrokdir = 3\n[stage.words]", "unknown key 'wrokdir'"),
        ("[stage.words]", "workdir = 3\n[stage.words]", "workdir should be a string"),
        ('inputs = ["texts"]', 'inputs = ["-"]', "standard input"),
    ],
)
def test_a_wrong_config_is_refused_before_any_work(config, old, new, message):
    wrong(config, old, new)
    with pytest.raises(ConfigError, match=message):
        Pipeline(config)


def test_all_that_is_wrong_is_said_together_with_the_nearest_names(config):
    wrong(config, 'inputs = ["tokens"]', 'inputs = ["tokans"]')
    wrong(config, 'command = "tokenize"', 'command = "tokenise"')
    wrong(config, 'inputs = ["texts"]', 'inputs = ["texts"]\nvalid = 2')
    with pytest.raises(ConfigError) as raised:
        Pipeline(config)
    assert raised.value.where == str(config)
    for said in (
        "3 errors were found, and nothing was started",
        "[stage.words]: unknown stage; got 'tokans'\n    hint: did you mean tokens?",
        "[stage.tokens]: unknown command; got 'tokenise'",
        "did you mean tokenize?",
        "[stage.corpus]: valid = 2 should be less than 1",
    ):
        assert said in raised.value.what


@pytest.mark.parametrize(
    "name", ["/tmp/x", "../x", "a/b", "..", ".", ".hidden", "", "a\\nb", " a", "a\\u0000", "a" * 201]
)
def test_a_name_of_a_stage_stays_in_workdir(config, name):
    wrong(config, "[stage.words]", f'[stage."{name}"]')
    with pytest.raises(ConfigError, match="this name is not allowed") as raised:
        Pipeline(config)
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize("name", ["a-b", "a_b.2", "two words", "ελληνικά", "a..b"])
def test_other_names_are_folders(config, name):
    wrong(config, "[stage.words]", f'[stage."{name}"]')
    assert Pipeline(config).stages[-1].output == config.parent / "run" / name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = " + "[" * 20_000, "too deeply"),
        ("x = " + "{a=" * 20_000, "too deeply"),
        ("x = " + "9" * 5_000, "thousands of digits"),
        ("[stage.a]\ncommand = 'ingest'\ninputs = ['x']\nvalid = 0x" + "f" * 9_000, "thousands of digits"),
        ("[stage.a]\ncommand = 'ingest'\ninputs = ['x']\nvalid = '" + "f" * 90_000 + "'", "valid = 'fff"),
        ("[stage.a]\ncommand = '" + "f" * 90_000 + "'", "unknown command"),
        ("'" + "f" * 90_000 + "' = 1", "unknown key"),
        ("[stage." + "f" * 90_000 + "]", "this name is not allowed"),
        ("x = ", "not a TOML file"),
    ],
)
def test_errors_stay_short_whatever_is_written(config, text, message):
    config.write_text(text)
    with pytest.raises(ConfigError, match=message) as raised:
        Pipeline(config)
    assert len(raised.value.message) < 1000


def test_bytes_that_are_no_text_are_refused(config):
    config.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not a TOML file"):
        Pipeline(config)


@pytest.mark.landing
def test_a_chain_of_very_many_stages_is_refused(config):
    stages = "\n".join(
        f'[stage.s{n}]\ncommand = "tokenize"\ninputs = ["x"]\ntokenizer = "s{n + 1}"' for n in range(3000)
    )
    config.write_text(stages + '\n[stage.s3000]\ncommand = "tokenize"\ninputs = ["x"]\n')
    with pytest.raises(ConfigError, match="too many stages"):
        Pipeline(config)


def test_only_files_are_read_and_pipes_of_the_shell(config, tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", "/dev/zero", tmp_path):
        with pytest.raises(ConfigError, match="not a TOML file"):
            Pipeline(path)
    with (tmp_path / "large.toml").open("wb") as file:
        file.truncate((16 << 20) + 1)
    with pytest.raises(ConfigError, match="more than 16 MiB"):
        Pipeline(tmp_path / "large.toml")
    monkeypatch.chdir(tmp_path)
    read, write = os.pipe()
    os.write(write, CONFIG.encode())
    os.close(write)
    pipeline = Pipeline(f"/dev/fd/{read}")
    os.close(read)
    assert str(pipeline.from_here(pipeline.stages[0].output)) == "run/corpus"  # beside no file: in the current folder


def test_a_pipe_is_read_up_to_a_bound():
    read, write = os.pipe()

    def feed():
        try:
            while True:
                os.write(write, b"#" * 65_536)
        except OSError:
            os.close(write)

    feeder = threading.Thread(target=feed)
    feeder.start()
    with pytest.raises(ConfigError, match="more than 16 MiB"):
        Pipeline(f"/dev/fd/{read}")
    os.close(read)
    feeder.join(10)
    assert not feeder.is_alive()


def test_a_config_that_is_not_there_says_what_writes_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as raised:
        Pipeline()
    assert raised.value.message == "wordpipe.toml: the config file does not exist"
    assert raised.value.hint == "write a new config file with: wordpipe init"


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("name it with --text-field", "name it with text_field in [stage.corpus]"),
        ("keep them with --metadata NAME", "keep them with metadata in [stage.corpus]"),
        ("read it with --format jsonl", 'read it with format = "jsonl" in [stage.corpus]'),
        ("read: --include '*.py,*.c'", 'read: include = ["*.py", "*.c"] in [stage.corpus]'),
        ("or --no-deduplicate", "or deduplicate = false in [stage.corpus]"),
        ("use --no-deduplicate to keep all", "use deduplicate = false in [stage.corpus] to keep all"),
        ("raise --max-document-bytes 4096 or more", "raise max_document_bytes = 4096 in [stage.corpus] or more"),
        ("wordpipe ingest --valid 0", "valid = 0 in [stage.corpus]"),
        ("lower --min-count (it was 3)", "lower --min-count (it was 3)"),  # no setting of these stages
        ("train: wordpipe train word2vec TOKENS --valid 3", "train: wordpipe train word2vec TOKENS --valid 3"),
        ("no flag", "no flag"),
    ],
)
def test_flags_of_a_message_become_keys(tmp_path, text, keys):
    stage = Stage("corpus", COMMANDS["ingest"], ("texts",), {}, tmp_path)
    assert text_in_keys(text, [stage]) == keys
