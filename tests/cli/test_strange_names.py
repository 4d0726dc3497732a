"""Names, settings and conditions with control characters or bytes that are no UTF-8: an answer, or refused by name."""

import json
import os
import re
import shlex

import pytest

import wordpipe
from wordpipe.cli.output import say
from wordpipe.errors import ConfigError, InputError, WordpipeError
from wordpipe.settings import Settings
from wordpipe.storage import cache_folder

STRANGE = {
    "nul": "a\0b",
    "line": "a\nb",
    "return": "ab\r",
    "escape": "a\x1b[31mb",
    "bell": "\x07",
    "c1": "a\x9b4m",
    "del": "\x7f",
}
LATIN = os.fsdecode(b"caf\xe9")  # half a surrogate pair
GIVEN = [pytest.param(text, id=name) for name, text in STRANGE.items() if name != "nul"]  # no argument holds NUL
ONLY_PRINTED = re.compile(r"[\t\n\x20-\x7e\xa0-\U0010ffff]*")


@pytest.fixture
def words(built):
    return built / "words"


@pytest.mark.parametrize("text", GIVEN)
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["ingest", "{notes}", "-o", "{strange}"], "the name of the output"),
        (["ingest", "{notes}", "-o", "out", "--text-field", "{strange}"], "--text-field"),
        (["ingest", "{notes}", "-o", "out", "--metadata", "{strange}"], "--metadata"),
        (["ingest", "{notes}", "-o", "out", "--set", "id_field={strange}"], "--set id_field ="),
        (["tokenize", "{notes}", "-o", "out", "--memory", "{strange}"], "--memory"),
        (["export", "{words}", "--to", "glove", "-o", "{strange}"], "the name of the output"),
        (["map", "{words}", "-o", "{strange}.html"], "the name of the output"),
        (["copy", "{words}", "{strange}"], "the name of the output"),
        (["init", "{strange}"], "the name of the output"),
    ],
)
def test_they_are_refused_by_name(cli, words, tmp_path, monkeypatch, arguments, named, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("Salt in the sea.\n")
    before = sorted(tmp_path.iterdir())
    done = cli(*(one.format(notes="notes.txt", words=words, strange=text) for one in arguments))
    assert done.code == 2
    assert f"{named}: the text contains a control character (U+00" in done.err
    assert ONLY_PRINTED.fullmatch(done.err)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("text", STRANGE.values(), ids=STRANGE)
@pytest.mark.parametrize(
    ("key", "value"),
    [("text_field", "{}"), ("metadata", ["x", "{}"]), ("inputs", ["notes.txt", "{}"]), ("workdir", "{}")],
)
def test_values_of_a_config_are_refused_by_name(tmp_path, cli, key, value, text):
    toml = json.dumps(value).replace("{}", "".join(f"\\u{ord(one):04x}" for one in text))
    config = tmp_path / "wordpipe.toml"
    head, body = (f"workdir = {toml}\n", 'inputs = ["n"]') if key == "workdir" else ("", f"{key} = {toml}\n")
    body += "" if "inputs" in body else 'inputs = ["n"]\n'
    config.write_text(f'{head}[stage.a]\ncommand = "ingest"\n{body}')
    for command in ("status", "run"):
        done = cli(command, config)
        assert done.code == 2
        assert f"{key}: the text contains a control character" in done.err
        assert ONLY_PRINTED.fullmatch(done.err)
    assert [one.name for one in tmp_path.iterdir()] == ["wordpipe.toml"]


def test_a_prefix_may_have_lines_and_tabs_and_no_more():
    from wordpipe.training.settings import Seq2SeqSettings

    assert Seq2SeqSettings.make({"prefix": "to German:\n\t"}).prefix == "to German:\n\t"
    with pytest.raises(ConfigError, match=r"prefix: the text contains a control character \(U\+001B\)"):
        Seq2SeqSettings.make({"prefix": "\x1b[0m"})


def test_settings_are_texts_and_paths_may_be_bytes():
    from wordpipe.corpus.settings import IngestSettings
    from wordpipe.training.contrastive.settings import StaticSettings

    with pytest.raises(ConfigError, match="title_field: the value contains bytes that are not UTF-8"):
        IngestSettings.make({"title_field": LATIN})
    assert str(StaticSettings.make({"pairs": LATIN}).pairs) == LATIN
    assert issubclass(IngestSettings, Settings)


def test_the_cache(monkeypatch, tmp_path, cli, words):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "wordpipe"
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/\x1b[2J")
    done = cli("query", words, "sea")
    assert (done.code, done.out) == (2, "")
    assert "XDG_CACHE_HOME: the text contains a control character (U+001B)" in done.err


@pytest.mark.parametrize(
    "call", [wordpipe.open, wordpipe.verify, wordpipe.show, lambda path: wordpipe.ingest(path, output="out"),
             lambda path: wordpipe.tokenize(path, output="out"), lambda path: wordpipe.embed(path, path, output="out")]
)  # fmt: skip
def test_a_path_with_nul_is_an_error_in_words(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ConfigError, InputError)) as caught:
        call("a\0b")
    assert ONLY_PRINTED.fullmatch(str(caught.value))
    assert not (tmp_path / "out").exists()


def test_names_of_files_that_are_no_utf_8(cli, tmp_path, monkeypatch):
    """From the text to its words, by a name that no encoding has: it is an answer everywhere, as an escape."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / f"{LATIN}.txt").write_text("Salt in the sea.\n")
    out = f"{LATIN}-corpus"
    for arguments in (["ingest", "texts", "-o", out], ["ingest", f"texts/{LATIN}.txt", "-o", "by-name"],
                      ["show", out, "--rows", 1], ["show", out, "--json"], ["verify", out, "--json"]):  # fmt: skip
        done = cli(*arguments)
        assert done.code == 0, done.err
        assert "\udce9" not in done.out + done.err
    assert "caf\\udce9-corpus" in cli("verify", out).out


@pytest.mark.parametrize(
    "condition", [LATIN, f"source = '{LATIN}'", f'"{LATIN}" > 1', f"line > 0 or text like '%{LATIN}%'"]
)
def test_conditions_that_are_no_utf_8(cli, built, condition):
    done = cli("query", built / "index", "the sea", "--where", condition)
    assert done.code == 2
    assert "--where: the value contains bytes that are not UTF-8" in done.err
    assert "Traceback" not in done.err


def test_questions_that_are_no_utf_8(cli, built):
    done = cli("query", built / "index", f"the sea {LATIN}", "-k", 1)
    assert done.code == 0, done.err
    assert "invalid UTF-8 in the query was replaced by U+FFFD" in done.err
    assert cli("query", built / "index", LATIN, "--json").code in (0, 3)
    assert cli("query", built / "words", LATIN).code == 1


@pytest.mark.parametrize("text", STRANGE.values(), ids=STRANGE)
def test_messages_hold_no_control_characters(capfd, text):
    """One place escapes what a message says; as JSON it stays JSON."""
    error = WordpipeError(text, where=text, got=text, expected=text, hint=text)
    assert ONLY_PRINTED.fullmatch(str(error))
    assert ONLY_PRINTED.fullmatch(error.message)
    say(text)
    assert ONLY_PRINTED.fullmatch(capfd.readouterr().err)


@pytest.mark.parametrize("text", [*GIVEN, pytest.param(LATIN, id="latin")])
def test_errors_as_json_are_json(cli, text):
    done = cli("query", f"/nope/{text}", "sea", "--json")
    assert done.code == 4
    assert json.loads(done.err)["error"]["where"] == f"/nope/{text}"
    assert ONLY_PRINTED.fullmatch(done.err)
    assert shlex.split(done.err)
