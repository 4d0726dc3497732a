"""What was removed is gone, answers with what to do instead, and leaves the artifacts of earlier versions fresh."""

import pytest

from tests.support.commands import commands
from wordpipe import removed
from wordpipe.errors import ConfigError
from wordpipe.removed import OPTIONS, VALUES, Removed
from wordpipe.settings import Settings, setting
from wordpipe.stages import COMMANDS


class Brewing(Settings):
    """Settings of a command that has lost an option and a value."""

    command = "brew"

    kind: str = setting("tea", "what", pattern="tea")


@pytest.fixture
def brewing(monkeypatch):
    monkeypatch.setitem(OPTIONS, "brew", {"sugar": Removed("add it later", was=2), "spoon": Removed("take a fork")})
    monkeypatch.setitem(VALUES, "brew", {"kind": {"coffee": "drink tea"}})
    return Brewing


def test_a_removed_setting_says_so_and_hints_at_nothing_else(brewing):
    with pytest.raises(ConfigError, match="sugar was removed: add it later") as caught:
        brewing.make({"sugar": 2})
    assert caught.value.hint is None


def test_a_removed_value_says_so(brewing):
    with pytest.raises(ConfigError, match="kind = coffee was removed: drink tea"):
        brewing.make({"kind": "coffee"})


def test_recipes_hold_what_nobody_can_ask_for_any_more(brewing):
    assert brewing.make({}).recipe_body() == {"command": "brew", "sugar": 2, "kind": "tea"}
    assert brewing.make({}).recipe() == {"kind": "tea"}


@pytest.mark.parametrize(("command", "name"), [(c, n) for c, names in OPTIONS.items() for n in names])
def test_a_removed_option_is_gone_and_answers(command, name, cli):
    options = {option for param in commands()[command].params for option in (*param.opts, *param.secondary_opts)}
    flag = "--" + name.replace("_", "-")
    assert flag not in options
    done = cli(*command.split(), "x", flag, "1")
    assert done.code == 2
    assert f"{flag} was removed: " in " ".join(done.err.split())
    if command in COMMANDS:
        with pytest.raises(ConfigError, match=f"{name} was removed"):
            COMMANDS[command].load_settings().make({name: 1})


@pytest.mark.parametrize(
    ("command", "name", "value"),
    [(c, n, v) for c, names in VALUES.items() for n, values in names.items() for v in values],
)
def test_a_removed_value_is_gone_and_answers(command, name, value, cli):
    done = cli(*command.split(), "x", "--" + name.replace("_", "-"), value)
    assert done.code == 2
    assert "was removed: " in " ".join(done.err.split())
    if command in COMMANDS:
        with pytest.raises(ConfigError, match=f"{name} = {value} was removed"):
            COMMANDS[command].load_settings().make({name: value})


@pytest.mark.parametrize("name", removed.COMMANDS)
def test_a_removed_command_is_gone_and_answers(name, cli):
    done = cli(*name.split(), "x")
    assert done.code == 2
    assert f"{name} was removed: " in " ".join(done.err.split())


@pytest.mark.parametrize("command", COMMANDS.values(), ids=list(COMMANDS))
def test_settings_know_their_command(command):
    assert command.load_settings().command == command.name


def test_a_removed_command_is_answered(monkeypatch, cli):
    monkeypatch.setitem(removed.COMMANDS, "brew", "boil it")
    done = cli("brew", "tea")
    assert (done.code, "brew was removed: boil it" in done.err) == (2, True)


def test_a_removed_option_of_a_command_is_answered(monkeypatch, cli):
    monkeypatch.setitem(OPTIONS["index"], "tea_spoons", Removed("use --seed"))
    for given in (["--tea-spoons", "3"], ["--tea-spoons=3"]):
        done = cli("index", "x", "-o", "y", *given)
        assert (done.code, "--tea-spoons was removed: use --seed" in " ".join(done.err.split())) == (2, True)


def test_a_removed_value_of_an_option_is_answered(monkeypatch, cli):
    monkeypatch.setitem(VALUES["index"], "type", {"tree": "use hnsw"})
    for given in (["--type", "tree"], ["--type=tree"]):
        done = cli("index", "x", "-o", "y", *given)
        assert (done.code, "--type = tree was removed: use hnsw" in " ".join(done.err.split())) == (2, True)
