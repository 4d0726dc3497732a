"""Calls from Python: each setting as a typed keyword of its function, and progress on a terminal or in a notebook.

    @public(TokenizeSettings)
    def tokenize(corpus: PathLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any) -> Made:

The function takes `**settings`, which the settings class checks; its signature and its docstring name every one of them, so
that completion, `help` and the stub for type checkers (`wordpipe/__init__.pyi`) know them. Where nobody says what becomes of
the reports of progress, they are drawn on a terminal and in a notebook, and warnings are given as Python's own are.
"""

import os
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import reduce, wraps
from inspect import Parameter, Signature, getdoc, signature
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, Union, get_args, get_origin

from wordpipe import TERMINAL
from wordpipe.errors import WordpipeError, missing_library, shown_urls
from wordpipe.runtime import Progress, automatic
from wordpipe.settings import Settings, bounds_of
from wordpipe.stages.registry import COMMANDS, load_named

if TYPE_CHECKING:
    from wordpipe.artifacts import Kind

F = TypeVar("F", bound=Callable[..., Any])
_ALL_SETTINGS = re.compile(r"\n    (settings|options): fields of `\w+`\.(?=\n|$)")  # each of them is named below
_OPTION = re.compile(r"--([a-z][a-z-]*)")  # what the command line calls a keyword


class Keyword(NamedTuple):
    """One keyword of a call."""

    name: str
    type: Any  # what may be given; wider than what the setting keeps: a list for a tuple, a string for a path
    default: Any  # Parameter.empty where it is required
    text: str  # one line of help, with bounds
    section: str = ""  # the heading that it stands under

    @property
    def is_required(self) -> bool:
        """True if it has no default."""
        return self.default is Parameter.empty


def public(options: type | None = None, *, name: str = "") -> Callable[[F], F]:
    """Return a decorator for a function that Python calls as `wordpipe.NAME`.

    Args:
        options: the class whose fields the function takes as `**settings`: one of settings, or a dataclass.
        name: what it is offered as, where that is not its name.
    """

    def give(function: F) -> F:
        """Make the function public."""
        own = signature(function)
        keywords = list(keywords_of(options)) if options is not None else []
        offered: Any = function if options is None else _with_kept(function, options)
        offered = _with_libraries(_with_urls(offered, own, keywords))
        offered = _with_progress(offered) if "run" in own.parameters else offered
        kept = [one for one in own.parameters.values() if not keywords or one.kind is not Parameter.VAR_KEYWORD]
        taken = {one.name for one in kept}
        added = [
            Parameter(one.name, Parameter.KEYWORD_ONLY, default=one.default, annotation=one.type)
            for one in keywords
            if one.name not in taken  # the function's own comes first
        ]
        offered.__signature__ = own.replace(parameters=[*kept, *added])
        offered.__doc__ = documented(getdoc(function) or "", [one for one in keywords if one.name not in taken])
        offered.__name__ = name or function.__name__
        return offered  # type: ignore[no-any-return]

    return give


def _with_libraries(function: Any) -> Any:
    """Return the public function with an error of ours where a library of an extra is not installed."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except ModuleNotFoundError as error:
            raise missing_library(error) or error from None

    return call


def keywords_of(options: type) -> Iterator[Keyword]:
    """Return the fields of a settings class as typed keywords of a call from Python."""
    if is_dataclass(options):
        for one in fields(options):
            default = Parameter.empty if one.default is MISSING else one.default
            yield Keyword(one.name, _as_given(one.type), default, one.metadata["text"])
        return
    assert issubclass(options, Settings)
    section = ""
    for name, setting in options.model_fields.items():
        section = setting.section or section
        default = Parameter.empty if setting.is_required() else setting.default
        text = _OPTION.sub(lambda found: found[1].replace("-", "_"), setting.description) + bounds_of(setting)
        yield Keyword(name, _as_given(setting.annotation), default, text, section)


def _as_given(kind: Any) -> Any:
    """Return the type that a keyword of a call from Python accepts for a setting's field."""
    if kind is Path:
        return str | os.PathLike[str]
    if get_origin(kind) is tuple:
        return list[get_args(kind)[0]] | kind  # type: ignore[misc]
    if get_origin(kind) in (Union, types.UnionType):
        return reduce(or_, map(_as_given, get_args(kind)))
    return kind


def documented(text: str, keywords: list[Keyword]) -> str:
    """Return the docstring of a public function, with its keywords grouped by section."""
    sections: dict[str, list[str]] = {}
    for one in keywords:
        default = "Required" if one.is_required else f"Default: {one.default!r}"
        sections.setdefault(one.section, []).append(f"    {one.name}: {one.text}. {default}.")
    blocks = [
        "\n".join([f"Settings, {name.lower()}:" if name else "Settings:", *lines]) for name, lines in sections.items()
    ]
    return "\n\n".join([_ALL_SETTINGS.sub("", text), *blocks])


def _with_kept(function: F, options: type) -> F:
    """Let an update keep the settings of the artifact that it updates, but for those that are given; a note says which."""
    makes = {one.python: one.makes for one in COMMANDS.values()}.get(function.__name__)
    if makes is None or not issubclass(options, Settings) or "update" not in options.model_fields:
        return function

    @wraps(function)
    def call(*args: Any, output: Any = None, run: Any = None, **settings: Any) -> Any:
        from wordpipe.stages.job import RunOptions

        run = run or RunOptions()
        if settings.get("update") and run.keeps_settings and output is not None:
            kept = _kept_settings(options, makes, output, settings)
            if kept:
                listed = ", ".join(f"--{name.replace('_', '-')} {_as_option(value)}" for name, value in kept.items())
                run.report(Progress("note", note=f"settings as before: {listed}"))
            settings = kept | settings
        return function(*args, output=output, run=run, **settings)

    return call  # type: ignore[return-value]


def _kept_settings(options: type[Settings], makes: "Kind", output: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the artifact at an output that are not given and have another value than the default."""
    from wordpipe.artifacts import manifest_at

    fields, before = options.model_fields, dict[str, Any]()
    with suppress(WordpipeError, OSError):
        before = manifest_at(output, [makes]).settings
    return {
        name: value
        for name, value in before.items()
        if name in fields and name not in given and fields[name].recipe and not fields[name].artifact
        and value != _in_manifest(fields[name].default)
    }  # fmt: skip


def _in_manifest(value: Any) -> Any:
    """Return the value of a setting in the form of a manifest."""
    return list(value) if isinstance(value, tuple) else value


def _as_option(value: Any) -> str:
    """Return the value of a setting in the form of an option."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _with_urls(function: F, own: Signature, keywords: list[Keyword]) -> F:
    """Let calls from Python give URLs for the arguments of a function that are paths."""
    # the arguments that may be paths, and so URLs
    places = list(own.parameters)
    kinds = {one.name: one.type for one in keywords} | {
        name: one.annotation for name, one in own.parameters.items() if one.kind is not Parameter.VAR_KEYWORD
    }
    naming = {name for name, kind in kinds.items() if name == "output" or _takes_path(kind)}

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(places, args, strict=False)) | kwargs
        if not any(_may_be_url(value) for name, value in given.items() if name in naming):
            return function(*args, **kwargs)
        # objects at URLs are fetched, and the function sees their places on this machine
        from wordpipe.stages.sources import prepared

        run = kwargs.get("run")
        done = {name: prepared(name, given[name], run) for name in given if name in naming}
        args = tuple(done.get(name, value) for name, value in zip(places, args, strict=False))
        found = function(*args, **kwargs | {name: done[name] for name in kwargs if name in done})
        # the answer names the URL again
        if isinstance(found, dict) and isinstance(found.get("path"), str):
            found["path"] = shown_urls(found["path"])
        return found

    return call  # type: ignore[return-value]


def _may_be_url(value: Any) -> bool:
    """True if an argument may name an object, and is not what a program has in memory."""
    ones = value if isinstance(value, (list, tuple)) else (value,)
    return all(isinstance(one, (str, os.PathLike)) for one in ones) and any("s3:" in str(one) for one in ones)


def _takes_path(kind: Any) -> bool:
    """True if a parameter of this type may be a path."""
    if kind is Path or get_origin(kind) is os.PathLike or kind is os.PathLike:
        return True
    return any(map(_takes_path, get_args(kind)))


def _with_progress(function: F) -> F:
    """Let calls from Python draw their progress and give warnings, unless the caller's `run` reports elsewhere."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        from wordpipe.stages.job import Made, RunOptions  # which a query does without

        run = kwargs.get("run") or RunOptions()
        if run.report is not automatic:
            return function(*args, **kwargs)
        # progress is drawn; a warning is given at the caller's line
        caller = sys._getframe(1)
        with progress_drawer() as drawer:

            def report(progress: Progress) -> None:
                if progress.is_warning:
                    drawer.warn(progress.note, caller)
                else:
                    drawer(progress)

            found = function(*args, **kwargs | {"run": replace(run, report=report)})
        # what was lost is a warning, too
        for made in found if isinstance(found, list) else [found]:
            if isinstance(made, Made):
                drawer.warn_of_losses(made.counts, made.path, caller)
        return found

    return call  # type: ignore[return-value]


def progress_drawer() -> Any:
    """Return the drawer of progress for callers without a report of their own: a context that is called with reports."""
    return load_named(f"{TERMINAL}:default_drawer")()


def printable(text: str) -> str:
    """Return the text of a command line, with bytes that are not UTF-8 as replacement characters."""
    return text.encode("utf-8", "replace").decode("utf-8")
