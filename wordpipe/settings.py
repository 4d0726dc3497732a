"""The base class of the settings of every stage.

A setting is written once, as a field with its default, its bounds and one line of help. The command line
option, the TOML key, the manifest entry and the documentation are all made from that field.

    class TokenizeSettings(Settings):
        vocab_size: int = setting(16_000, "vocabulary size with special tokens", ge=16, le=2**31)
        workers: int = setting(2, "threads", ge=1, recipe=False)      # does not change the result: not in the recipe

pydantic checks the values, and is loaded when the first are checked: help, completion and the reference read declarations
alone, and its import takes twice as long as all that a page of help needs.
"""

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from inspect import get_annotations
from pathlib import PurePath
from reprlib import Repr
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar

from wordpipe.elsewhere import did_you_mean
from wordpipe.errors import ConfigError
from wordpipe.storage import refuse_controls
from wordpipe.wording import is_unicode

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

Check = TypeVar("Check", bound=Callable[[Any], None])
_MAX_SHOWN_BOUND = 100_000  # a larger bound says nothing to a reader of help; it is still checked


class _Short(Repr):
    """Short texts of values. Python prints no integer of more than 4,300 digits; its own words for one vary by version."""

    def repr_int(self, x: int, level: int) -> str:
        """Return an integer in decimal digits, or that it has too many."""
        try:
            str(x)
        except ValueError:
            return "a number with thousands of digits"
        return super().repr_int(x, level)


_SHORT = _Short()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60


def shown_value(value: Any) -> str:
    """Return a value as an error shows it: short, however long, deep or large the value is.

    >>> shown_value("a" * 1000), shown_value({"a": [[[1]]]})
    ("'aaaaaaaaaaaaaaaaaaaaaaaaaaa...aaaaaaaaaaaaaaaaaaaaaaaaaaaa'", "{'a': [[[1]]]}")
    """
    return _SHORT.repr(value)


@dataclass(frozen=True)
class Setting:
    """The declaration of one setting: default, help, bounds, and where it counts; made by `setting`."""

    default: Any
    description: str
    recipe: bool = True
    metavar: str | None = None
    artifact: tuple[str, ...] = ()
    section: str = ""
    expert: bool = False
    option: bool = True
    prose: bool = False
    several: bool = False
    read: Callable[[Any], Any] | None = None
    check: Callable[[Any], None] | None = None
    bounds: Mapping[str, Any] = field(default_factory=dict)
    annotation: Any = None  # its type

    def is_required(self) -> bool:
        """True if it has no default value."""
        return self.default is ...


def setting(default: Any, text: str, **facts: Any) -> Any:
    """Declare one setting.

    Args:
        default: its default value; `...` makes it required.
        text: one line of help, with the unit; `--help` shows its first clause (see `cli.output`).
        facts: any of

            recipe: False where the value cannot change the result (threads, progress); such settings are recorded in the
                manifest but do not make an artifact stale.
            metavar: the word that stands for the value in help.
            artifact: the value is the path of an artifact of one of these kinds; it enters the recipe by its digest.
            section: the heading of help that it and those after it stand under, where a stage has many.
            expert: its option is shown by `--help-all` alone.
            option: False where it has no option of its own: it is set in TOML, in Python, or by `--set NAME=VALUE`.
            prose: it is a text of people, with lines and tabs.
            several: its option may be repeated; `read` makes one value of them.
            read: makes of what is given the value that is checked.
            check: is called with the value, and raises ValueError: what it should be.

            and bounds as pydantic has them: `ge`, `gt`, `le`, `lt`, `min_length`, `pattern`.
    """
    own = {name: facts.pop(name) for name in [*facts] if name in Setting.__dataclass_fields__}
    return Setting(default, text, **own, bounds=facts)


def checked(function: Check) -> Check:
    """A decorator for a method that looks at all settings together. It raises ValueError: what does not fit."""
    function.checks_settings = True  # type: ignore[attr-defined]
    return function


def minutes_setting() -> Any:
    """Declare the setting that limits the time of a training."""
    return setting(
        None,
        "maximum training time in minutes; the number of steps and the learning rate schedule are then "
        "planned from the measured speed; settings such as epochs and steps become upper limits",
        gt=0,
        le=10**6,
    )


class Settings:
    """Frozen, complete and checked settings of one stage. Unknown keys are refused."""

    model_fields: ClassVar[Mapping[str, Setting]] = {}
    """The settings by name: those of the last base first."""

    model_fields_set: frozenset[str]
    """The settings that were given."""

    command: ClassVar[str] = ""
    """The command that takes them, as in "train mlm"."""

    in_files: ClassVar[bool] = True
    """True if a config file can hold the settings; otherwise a flag needs no second one that takes it back."""

    displaces: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Setting → those that cannot stand beside it; given later (a flag after a file), it takes their place."""

    _own: ClassVar[Mapping[str, Setting]] = {}
    _checks: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        """Take the declarations out of the class, beside those of its bases."""
        kinds = get_annotations(cls)
        cls._own = {
            name: replace(one, annotation=kinds[name]) for name, one in vars(cls).items() if isinstance(one, Setting)
        }
        for name in cls._own:
            delattr(cls, name)
        parts = [part for part in reversed(cls.__mro__) if issubclass(part, Settings)]
        cls.model_fields = {name: one for part in parts for name, one in vars(part)["_own"].items()}
        names = [name for part in parts for name, one in vars(part).items() if hasattr(one, "checks_settings")]
        cls._checks = tuple(dict.fromkeys(names))

    def __init__(self, **values: Any) -> None:
        """Check values and fill in the defaults; see `make`.

        Raises:
            ValueError: pydantic's ValidationError for single values, another for values that do not fit together.
        """
        found = _model(type(self))(**values)  # type: ignore[arg-type]  # a class has the hash of classes
        self.__dict__.update(vars(found), model_fields_set=frozenset(found.model_fields_set))
        for name in self._checks:
            getattr(self, name)()

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"settings cannot be changed; make a changed copy with model_copy(update={{{name!r}: …}})")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.model_dump() == other.model_dump()

    def __hash__(self) -> int:
        return hash((type(self), *self.model_dump().values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.model_dump().items())})"

    def model_dump(
        self, *, mode: str = "python", include: Collection[str] | None = None, exclude: Collection[str] = ()
    ) -> dict[str, Any]:
        """Return the values by name; with mode "json" paths are strings, and tuples lists."""
        names = [name for name in self.model_fields if name not in exclude and (include is None or name in include)]
        return {name: _as_json(self.__dict__[name]) if mode == "json" else self.__dict__[name] for name in names}

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """Return settings with some other values, which are not checked, and count as given."""
        made = object.__new__(type(self))
        given = self.model_fields_set | update.keys()
        made.__dict__.update(self.model_dump() | dict(update), model_fields_set=given)
        return made

    @classmethod
    def make(
        cls, values: Mapping[str, Any], *, where: str | None = None, flags: Mapping[str, str] | None = None
    ) -> Self:
        """Check `values` and fill in the defaults.

        Args:
            values: setting → value.
            where: the file and table they come from, for errors.
            flags: setting → the flag by which it was given (`--vocab-size`), for those that come from a command line.

        Raises:
            ConfigError: an unknown key, a value of the wrong type or out of bounds, a text with control characters or with
                bytes that are no UTF-8; names the setting and the bound.
        """
        from pydantic import ValidationError

        # pydantic knows no other paths than pathlib's; what a stage has made is one too
        plain = {name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in values.items()}
        _refuse_strange(plain, cls, flags or {}, where)
        try:
            return cls(**plain)
        except ValidationError as error:
            flags = flags or {}
            by_flag = all(item["loc"] and item["loc"][0] in flags for item in error.errors(include_url=False))
            where = None if by_flag else where
            raise ConfigError(_explain(error, cls, flags), where=where, hint=_hint(error, cls)) from None
        except ValueError as error:
            raise ConfigError(str(error), where=where) from None

    @classmethod
    def instead(cls, name: str) -> str:
        """Return advice on a setting that this command does not have, without a full stop; "": there is none."""
        del name
        return ""

    @classmethod
    def merge(cls, base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a file and of flags, which win, also over settings that a flag displaces."""
        gone = {name for given in overrides for name in cls.displaces.get(given, ())} - set(overrides)
        return {name: value for name, value in base.items() if name not in gone} | dict(overrides)

    def recipe(self) -> dict[str, Any]:
        """Return the settings that decide the result, as JSON values."""
        kept = {name for name, one in self.model_fields.items() if one.recipe and not one.artifact}
        named = {f"{name} is given": True for name in self.artifact_fields() if getattr(self, name) is not None}
        return {**self.model_dump(mode="json", include=kept), **named}  # an input's digest does not say what it is for

    @property
    def takes_no_input(self) -> bool:
        """True if the command works, with these settings, on its output alone."""
        return False

    @property
    def reads_corpus(self) -> bool:
        """True if the stage reads, beside its tokens, the corpus of these tokens: its last input."""
        return False

    def recipe_body(self) -> dict[str, Any]:
        """Return the part of a recipe beside the inputs: command and settings."""
        return {"command": self.command, **self.recipe()}

    @classmethod
    def artifact_fields(cls) -> dict[str, tuple[str, ...]]:
        """Return the settings that name an artifact, with the kinds each takes."""
        return {name: one.artifact for name, one in cls.model_fields.items() if one.artifact}

    def manifest(self) -> dict[str, Any]:
        """Return every resolved setting, as JSON values; artifacts that settings name are listed as inputs instead."""
        return self.model_dump(mode="json", exclude=set(self.artifact_fields()))


@cache
def _model(cls: type[Settings]) -> "type[BaseModel]":
    """Return the pydantic model that checks single values of these settings."""
    from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, create_model

    fields: dict[str, Any] = {}
    for name, one in cls.model_fields.items():
        looked_at: list[Any] = [Field(**one.bounds)]
        looked_at += [BeforeValidator(one.read)] if one.read else []
        looked_at += [AfterValidator(partial(_looked_at, one.check))] if one.check else []
        fields[name] = (Annotated[(one.annotation, *looked_at)], one.default)
    config = ConfigDict(extra="forbid", allow_inf_nan=False, validate_default=True)
    return create_model(cls.__name__, __config__=config, **fields)


def _looked_at(check: Callable[[Any], None], value: Any) -> Any:
    """Return the value of a setting after its check has passed."""
    check(value)
    return value


def _as_json(value: Any) -> Any:
    """Return a setting as a JSON value."""
    if isinstance(value, tuple):
        return [_as_json(one) for one in value]
    return str(value) if isinstance(value, PurePath) else value


def _refuse_strange(
    values: Mapping[str, Any], cls: type[Settings], flags: Mapping[str, str], where: str | None
) -> None:
    """Refuse control characters in settings, and but for paths, whose names may be so, bytes that are no UTF-8."""
    for name, value in values.items():
        at = flags.get(name) or f"{f'{where} ' if where else ''}{name}"
        known = name in cls.model_fields
        for text in value if isinstance(value, (list, tuple)) else (value,):
            if not (known and isinstance(text, str)):
                continue
            refuse_controls(text, at, but="\t\n\r" if cls.model_fields[name].prose else "")
            if "Path" not in str(cls.model_fields[name].annotation) and not is_unicode(text):
                raise ConfigError("the value contains bytes that are not UTF-8", where=at, got=ascii(text))


def bounds_of(one: Setting) -> str:
    """Return the bounds of a number in words, without bounds that say nothing."""
    found = one.bounds
    parts = [f"> {found['gt']:g}"] if "gt" in found else []
    if found.get("lt", _MAX_SHOWN_BOUND) < _MAX_SHOWN_BOUND:
        parts.append(f"< {found['lt']:g}")
    least, most = found.get("ge", 0), found.get("le", _MAX_SHOWN_BOUND)
    if most < _MAX_SHOWN_BOUND:
        parts.append(f"{least:g} to {most:g}" if "ge" in found else f"at most {most:g}")
    elif least > 1:
        parts.append(f"at least {least:g}")
    return f" ({', '.join(parts)})" if parts else ""


def _explain(error: "ValidationError", cls: type[Settings], flags: Mapping[str, str]) -> str:
    """Return one line per wrong setting: its name, or the flag that gave it, the value and the bound."""
    lines = []
    for item in error.errors(include_url=False):
        # what follows the name is a place in a tuple, or a part of a union, which is no word of ours
        name = ".".join(str(part) for place, part in enumerate(item["loc"]) if not place or isinstance(part, int))
        flag = flags.get(str(item["loc"][0])) if item["loc"] else None
        if item["type"] == "extra_forbidden":
            lines.append(": ".join(filter(None, (f"unknown setting {shown_value(name)}", cls.instead(name)))))
        elif item["type"] == "missing":
            lines.append(f"setting {name!r} is required")
        elif not name:
            lines.append(str(item["msg"]).removeprefix("Value error, "))
        else:
            reason = str(item["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")
            said = f"{flag or f'{name} ='} {shown_value(item['input'])} should be "
            if lines and lines[-1].startswith(said):  # of a union each part has a reason
                lines[-1] += f", or {reason}"
            else:
                lines.append(said + reason)
    return "; ".join(lines)


def _hint(error: "ValidationError", cls: type[Settings]) -> str | None:
    """Return for an unknown key the setting that is meant, else all settings."""
    for item in error.errors(include_url=False):
        name = str(item["loc"][-1]) if item["loc"] else ""
        if item["type"] == "extra_forbidden" and not cls.instead(name):
            return did_you_mean(name, cls.model_fields) or f"known settings: {', '.join(sorted(cls.model_fields))}"
    return None


def parted_by_commas(entries: object) -> object:
    """Return the entries of a setting that is a list of names, those in one string separated at commas."""
    if isinstance(entries, str):
        entries = (entries,)
    if isinstance(entries, (list, tuple)) and all(isinstance(entry, str) for entry in entries):
        return tuple(name.strip() for entry in entries for name in entry.split(",") if name.strip())
    return entries
