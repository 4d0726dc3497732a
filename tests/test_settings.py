"""Settings: one definition, checked, with errors that name the value and the bound."""

from inspect import get_annotations
from itertools import combinations
from typing import Literal

import pytest

from wordpipe.cli.options import chosen_settings, settings_options
from wordpipe.errors import ConfigError
from wordpipe.settings import Settings, checked, setting
from wordpipe.stages import COMMANDS


class Example(Settings):
    """A class of every kind of setting."""

    size: int = setting(10, "how many", ge=1, le=100)
    share: float | None = setting(None, "how much", gt=0, lt=1)
    kind: Literal["a", "b"] = setting("a", "which")
    loud: bool = setting(False, "whether", recipe=False)
    names: tuple[str, ...] = setting((), "who")
    words: str | None = setting(None, "an artifact", artifact=("words",))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"size": 0}, r"size = 0 should be greater than or equal to 1"),
        ({"size": "many"}, r"size = 'many'"),
        ({"share": 1.0}, r"share = 1.0 should be less than 1"),
        ({"kind": "c"}, r"kind = 'c' should be 'a' or 'b'"),
        ({"share": float("nan")}, r"share"),
        ({"sizes": 3}, r"unknown setting 'sizes'"),
    ],
)
def test_a_wrong_value_is_named_with_its_bound(values, message):
    with pytest.raises(ConfigError, match=message):
        Example.make(values)


def test_an_unknown_setting_is_answered_with_the_nearest():
    with pytest.raises(ConfigError) as caught:
        Example.make({"sise": 3})
    assert caught.value.hint is not None
    assert "size" in caught.value.hint


def test_only_what_changes_the_result_enters_the_recipe():
    assert set(Example().recipe()) == {"size", "share", "kind", "names"}
    assert "words" not in Example().manifest()
    assert Example.artifact_fields() == {"words": ("words",)}


def test_options_are_made_of_fields():
    options = {option.name: option for option in settings_options(Example)}
    assert list(options) == list(Example.model_fields)
    assert options["size"].opts == ["--size"]
    assert "1 to 100" in (options["size"].help or "")
    assert options["loud"].secondary_opts == ["--no-loud"]
    assert options["names"].multiple


def test_only_given_options_count_as_chosen():
    given = {"size": 5, "share": None, "kind": None, "loud": False, "names": (), "words": None}
    assert chosen_settings(Example, given) == {"size": 5, "loud": False}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=lambda command: command.name)
def test_the_defaults_of_every_command_are_valid_json(command):
    settings = command.load_settings().make({})
    assert settings.manifest()
    assert all(field.description for field in type(settings).model_fields.values())


def doubled(cls: type[Settings]) -> set[str]:
    """Names of fields and checks that two parts of a class share: the first check alone is called, in silence."""
    parts = [base for base in cls.__mro__ if issubclass(base, Settings) and base is not Settings]
    own = {part: {*get_annotations(part), *vars(part)} for part in parts}
    names = {*cls.model_fields, *cls._checks}
    return {
        name
        for one, other in combinations(parts, 2)
        if not issubclass(one, other) and not issubclass(other, one)
        for name in own[one] & own[other] & names
    }


@pytest.mark.parametrize("command", COMMANDS.values(), ids=lambda command: command.name)
def test_parts_of_settings_share_no_field_and_no_check(command):
    assert doubled(command.load_settings()) == set()


def test_parts_that_share_a_name_would_be_found():
    class Wide(Settings):
        """A part."""

        size: int = setting(1, "how wide")

        @checked
        def _fits(self) -> None:
            pass

    class High(Settings):
        """Another."""

        size: int = setting(1, "how high")

        @checked
        def _fits(self) -> None:
            raise ValueError("too high")

    class Box(Wide, High):
        """Both; what it overrides itself is meant."""

        size: int = setting(2, "how large")

    assert doubled(Box) == {"size", "_fits"}
    assert Box.make({})  # High's would refuse it
