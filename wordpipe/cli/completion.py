"""What the shell offers after TAB: artifacts of the right kind, stages of configs. Opens no table and imports nothing heavy.

What a parameter takes stands in its metavar: TOKENS is a folder whose manifest says "tokens", FILE[#STAGE] a config. Commands,
options, and values such as the formats of `export --to` are click's own to complete.
"""

import json
import os
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import click
from click.shell_completion import CompletionItem

_KINDS = ("corpus", "tokens", "words", "model", "sentences", "index")
_DEPTH = 3  # folders below what is typed
_MOST = 2_000  # folders looked into


def complete_by_metavar(param: click.Parameter) -> None:
    """Let the shell offer what the parameter's metavar says."""
    metavar = param.metavar or (param.name or "").upper()
    if metavar == "FILE[#STAGE]":
        param.shell_complete = _stages_of_file  # type: ignore[method-assign]
    elif metavar == "STAGE":
        param.shell_complete = _stages_of_config  # type: ignore[method-assign]
    elif kinds := _kinds(metavar):
        param.shell_complete = partial(_artifacts, kinds)  # type: ignore[method-assign]


def _kinds(metavar: str) -> Sequence[str]:
    named = re.findall("[A-Z]+", metavar)
    return _KINDS if {"ARTIFACT", "ARTIFACTS"} & {*named} else [kind for kind in _KINDS if kind.upper() in named]


def _artifacts(kinds: Sequence[str], _: click.Context, incomplete: str) -> list[CompletionItem]:
    """Folders that hold an artifact of one of these kinds; where there is none, the shell's own files and folders."""
    folder, slash, begins = incomplete.rpartition("/")
    below = _below(Path(folder + slash).expanduser(), begins, kinds, _DEPTH, iter(range(_MOST)))
    found = [CompletionItem(f"{folder}{slash}{path}") for path in below]
    return found or [CompletionItem(incomplete, type="file")]


def _below(folder: Path, begins: str, kinds: Sequence[str], depth: int, looked_into: Iterator[int]) -> Iterator[str]:
    """Paths below a folder of artifacts of some kinds; hidden folders are passed over, and those inside artifacts."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.name.startswith(begins) and entry.is_dir())
    except OSError:
        return
    for name in names:
        if (name.startswith(".") and not begins) or next(looked_into, None) is None:
            continue
        kind = _kind(folder / name)
        if kind in kinds:
            yield name
        elif kind is None and depth > 1:
            yield from (f"{name}/{path}" for path in _below(folder / name, "", kinds, depth - 1, looked_into))


def _kind(folder: Path) -> str | None:
    """The kind of an artifact; None where there is none that can be read."""
    try:
        return str(json.loads((folder / "manifest.json").read_bytes())["kind"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _stages_of_file(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """After the # the stages of a config that are of this command; before it files."""
    file, sign, begins = incomplete.partition("#")
    if not sign:
        return [CompletionItem(incomplete, type="file")]
    own = [name for name, command in _stages(Path(file)).items() if command == ctx.command_path.partition(" ")[2]]
    return [CompletionItem(f"{file}#{name}") for name in own if name.startswith(begins)]


def _stages_of_config(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The stages of the config that was named before."""
    config = ctx.params.get("config") or next(iter(ctx.args), None)  # click stops parsing where a value is missing
    return [CompletionItem(name) for name in (_stages(Path(config)) if config else {}) if name.startswith(incomplete)]


def _stages(config: Path) -> dict[str, object]:
    """Stage → its command, as the config says."""
    import tomllib

    try:
        tables = tomllib.loads(config.expanduser().read_text(encoding="utf-8"))["stage"]
        return {name: table.get("command") for name, table in tables.items()}
    except (OSError, ValueError, KeyError, AttributeError):
        return {}
