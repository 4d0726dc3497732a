"""The pipeline of a config file: its stages, which of them are stale and why, and the order in which they are made.

    workdir = "run"                      # where the stages' folders go, seen from the config file

    [stage.corpus]
    command = "ingest"
    inputs = ["docs/*.md"]               # sources, or names of stages

    [stage.tokens]
    command = "tokenize"
    inputs = ["corpus"]
    vocab_size = 8000                    # any setting of the command

A stage is stale when its recipe (settings that matter and the digests of its inputs) is not the one its artifact was made
from. Times play no part, so a touched file makes nothing, and an input that came out the same stops the chain there.
"""

import contextlib
import os
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from wordpipe.artifacts import Artifact, InputEntry, Manifest, atomic_file, is_artifact, recipe_of
from wordpipe.corpus import expand
from wordpipe.errors import ArtifactError, ConfigError, InputError, StorageError
from wordpipe.settings import Settings
from wordpipe.stages import (
    COMMANDS,
    Command,
    Made,
    PathLike,
    RunOptions,
    entries_of,
    file_entry,
    model_entry,
    storage_errors,
)

_PROJECT_FILES = ("wordpipe.toml", "Makefile")


@dataclass(frozen=True)
class Stage:
    """One stage of a pipeline."""

    name: str
    command: Command
    inputs: tuple[str, ...]  # as written: stage names or sources
    settings: dict[str, Any]
    output: Path  # seen from the config's folder

    @property
    def artifacts(self) -> dict[str, str]:
        """The settings that name an artifact, or a stage whose artifact is meant."""
        fields = self.command.load_settings().artifact_fields()
        return {name: str(self.settings[name]) for name in fields if name in self.settings}


@dataclass(frozen=True)
class State:
    """Whether a stage must be made, and why; no reasons means that it is fresh."""

    stage: Stage
    reasons: tuple[str, ...]

    @property
    def fresh(self) -> bool:
        """Nothing to do."""
        return not self.reasons


class Pipeline:
    """The stages of a config file, in an order in which they can be made.

    Raises:
        ConfigError: not TOML, an unknown key, command, stage or setting, or stages that need each other in a circle.
    """

    def __init__(self, config: PathLike) -> None:
        config = self.config = Path(config)
        table = _read_toml(config)
        if unknown := sorted(set(table) - {"workdir", "stage"}):
            raise ConfigError(f"unknown key {unknown[0]!r}", where=config, expected="workdir and [stage.NAME] tables")
        workdir = table.get("workdir", "run")
        if not isinstance(workdir, str):
            raise ConfigError("workdir should be a string", where=config, got=workdir)
        stages = table.get("stage", {})
        if not isinstance(stages, dict) or not stages:
            hint = "add a [stage.NAME] table with a command"
            raise ConfigError("the file describes no stages", where=config, hint=hint)
        written = [_stage(config, name, body, workdir, set(stages)) for name, body in stages.items()]
        self.stages = _in_order(written, config)

    def states(self, *, first: str | None = None, last: str | None = None, fresh: bool = False) -> list[State]:
        """What would be made of the stages from `first` to `last`, and why; `fresh` means all of them."""
        with self._at_home():
            states: dict[str, State] = {}
            for stage in self._chosen(first, last):
                state = self._state(stage, states)
                states[stage.name] = State(stage, ("--fresh",)) if fresh and state.fresh else state
            return list(states.values())

    def run(
        self, run: RunOptions, *, first: str | None = None, last: str | None = None
    ) -> Iterator[tuple[State, Made | None]]:
        """Make what is missing or stale, one stage at a time; yields each stage's state, with what was made of it.

        Each state is yielded twice for a stage that is made: before, with None, and after.
        """
        for stage in self._chosen(first, last):
            with self._at_home():
                state = self._state(stage, {})
            yield state, None
            if state.fresh and not run.fresh:
                continue
            with self._at_home():
                arguments = _by_argument(stage.command, [self._resolve(name) for name in stage.inputs])
                made = stage.command.load()(*arguments, output=stage.output, run=run, **self._settings(stage))
            made.path = str(self.from_here(stage.output))
            yield state, made

    def _at_home(self) -> contextlib.AbstractContextManager[None]:
        """Work in the config's folder: inputs, outputs and the names of sources are seen from there."""
        return contextlib.chdir(self.config.absolute().parent)

    def _chosen(self, first: str | None, last: str | None) -> list[Stage]:
        names = [stage.name for stage in self.stages]
        for wanted in filter(None, (first, last)):
            if wanted not in names:
                raise ConfigError(f"no stage {wanted!r}", where=self.config, expected=", ".join(names))
        begin = names.index(first) if first else 0
        end = names.index(last) if last else len(names) - 1
        return self.stages[begin : end + 1]

    def _state(self, stage: Stage, before: dict[str, State]) -> State:
        needed = [*stage.inputs, *stage.artifacts.values()]
        waits = [f"{name} will be made" for name in needed if name in before and not before[name].fresh]
        if not is_artifact(stage.output):
            return State(stage, ("missing", *waits))
        if waits:
            return State(stage, tuple(waits))
        try:
            with Artifact(stage.output, [stage.command.makes], verify=False) as artifact:
                manifest = artifact.manifest
        except ArtifactError as error:
            return State(stage, (f"unreadable: {error.what}",))
        settings = stage.command.load_settings().make(self._settings(stage), where=f"[stage.{stage.name}]")
        try:
            inputs = self._planned_inputs(stage, settings)
        except (InputError, ArtifactError, StorageError) as error:
            return State(stage, (f"input unreadable: {error.message}",))
        if recipe_of(stage.command.makes, settings.recipe_body(), inputs) == manifest.recipe:
            sources = [entry.path or "" for entry in manifest.inputs if entry.kind == "source"]
            outdated = settings.outdated(manifest.facts, sources)
            return State(stage, (outdated,) if outdated else ())
        return State(stage, tuple(_differences(stage, settings, inputs, manifest)) or ("made by another version",))

    def _planned_inputs(self, stage: Stage, settings: Settings) -> list[InputEntry]:
        """The inputs as the stage itself would record them."""
        paths = [self._resolve(name) for name in stage.inputs]
        entries: list[InputEntry] = []
        for argument, given in zip(stage.command.arguments, _by_argument(stage.command, paths), strict=True):
            several = given if isinstance(given, list) else [given]
            if argument.kinds and len(several) == 1 and is_artifact(Path(several[0])):
                entries.append(_artifact_entry(several[0]))
            elif argument.entry:
                entries.append(argument.load_entry()(several[0]))
            elif argument.sources:
                entries += entries_of(expand(several, read_as=getattr(settings, "format", "auto")))
        for name, kinds in type(settings).artifact_fields().items():
            value = getattr(settings, name)
            if value is not None:
                foreign = model_entry if kinds == ("model",) else file_entry  # what it is where it is no artifact
                entries.append(_artifact_entry(value) if is_artifact(Path(value)) else foreign(Path(value)))
        return entries

    def _settings(self, stage: Stage) -> dict[str, Any]:
        """The stage's settings, with names of stages replaced by their folders where an artifact is meant."""
        return stage.settings | {name: self._resolve(value) for name, value in stage.artifacts.items()}

    def from_here(self, path: Path) -> Path:
        """A path of the config as seen from the current folder."""
        return Path(os.path.relpath(self.config.absolute().parent / path))

    def settings_from_here(self, stage: Stage) -> dict[str, Any]:
        """The stage's settings for a command that runs in the current folder."""
        folders = {name: self.config.parent / self._resolve(value) for name, value in stage.artifacts.items()}
        return stage.settings | {name: str(folder) for name, folder in folders.items()}

    def _resolve(self, name: str) -> str:
        return next((str(stage.output) for stage in self.stages if stage.name == name), name)


def settings_from_file(where: str, command: str) -> dict[str, Any]:
    """The settings of one command from `FILE` or `FILE#STAGE`: flat keys, or a stage of a pipeline with that command.

    Raises:
        ConfigError: no such file or stage, or several stages to choose from.
    """
    name, _, wanted = where.partition("#")
    table = _read_toml(Path(name))
    if "stage" not in table:
        if wanted:
            raise ConfigError(f"the file has no stage {wanted!r}", where=name)
        return table
    pipeline = Pipeline(Path(name))
    fitting = [s for s in pipeline.stages if s.command.name == command and wanted in ("", s.name)]
    if len(fitting) != 1:
        names = ", ".join(s.name for s in pipeline.stages if s.command.name == command) or "none"
        what = f"stages with the command {command!r}: {names}"
        raise ConfigError(f"one stage is needed; {what}", where=name, hint=f"choose one: --config {name}#NAME")
    return pipeline.settings_from_here(fitting[0])


def write_project(folder: Path) -> list[tuple[Path, bool]]:
    """Write the config and the Makefile of a new project into `folder`, and make its `texts` folder.

    Returns:
        each file's path, and whether it is new; files that exist are not touched.
    """
    written: list[tuple[Path, bool]] = []
    with storage_errors():
        (folder / "texts").mkdir(parents=True, exist_ok=True)
        for name in _PROJECT_FILES:
            path = folder / name
            is_new = not path.exists()
            if is_new:
                template = files("wordpipe").joinpath("templates", name).read_bytes()
                with atomic_file(path) as file:
                    file.write(template)
            written.append((path, is_new))
    return written


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError("no such config file", where=path, hint="wordpipe init writes one") from None
    except (IsADirectoryError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"not a TOML file: {error}", where=path) from None


def _stage(config: Path, name: str, body: Any, workdir: str, names: set[str]) -> Stage:
    where = f"{config} [stage.{name}]"
    if not isinstance(body, dict):
        raise ConfigError("a stage is a table", where=where)
    body = dict(body)
    command_name = body.pop("command", None)
    if command_name not in COMMANDS:
        raise ConfigError("unknown command", where=where, got=command_name, expected=", ".join(COMMANDS))
    inputs = body.pop("inputs", None)
    if not isinstance(inputs, list) or not inputs or not all(isinstance(item, str) for item in inputs):
        raise ConfigError("inputs should be a list of stages or sources", where=where, got=inputs)
    command = COMMANDS[command_name]
    command.load_settings().make(body, where=where)
    _check_inputs(command, inputs, names, where, config.absolute().parent)
    return Stage(name, command, tuple(inputs), body, Path(workdir) / name)


def _check_inputs(command: Command, inputs: Sequence[str], names: set[str], where: str, home: Path) -> None:
    if "-" in inputs:
        hint = "write it to a file first: what was read once cannot be compared again"
        raise ConfigError("a pipeline cannot read standard input", where=where, hint=hint)
    if len(inputs) < len(command.arguments) or (
        len(inputs) > len(command.arguments) and not command.arguments[-1].many
    ):
        expected = " ".join(argument.name for argument in command.arguments)
        raise ConfigError(f"{command.name} takes other inputs", where=where, got=list(inputs), expected=expected)
    for argument, name in zip(command.arguments, inputs, strict=False):
        if not (argument.sources or argument.entry) and name not in names and not is_artifact(home / name):
            raise ConfigError("no such stage", where=where, got=name, expected=", ".join(sorted(names)))


def _by_argument(command: Command, paths: list[str]) -> list[str | list[str]]:
    """Hand the paths to the command's arguments; the last one may take several."""
    fixed = len(command.arguments) - 1
    last = paths[fixed:] if command.arguments[-1].many else paths[fixed]
    return [*paths[:fixed], last]


def _in_order(stages: list[Stage], config: Path) -> list[Stage]:
    """Stages after those they need; otherwise as written."""
    by_name = {stage.name: stage for stage in stages}
    done: dict[str, Stage] = {}

    def visit(stage: Stage, path: tuple[str, ...]) -> None:
        if stage.name in path:
            raise ConfigError("stages need each other in a circle", where=config, got=" → ".join((*path, stage.name)))
        for name in (*stage.inputs, *stage.artifacts.values()):
            if name in by_name and name not in done:
                visit(by_name[name], (*path, stage.name))
        done[stage.name] = stage

    for stage in stages:
        if stage.name not in done:
            visit(stage, ())
    return list(done.values())


def _artifact_entry(path: str | Path) -> InputEntry:
    with Artifact(path, verify=False) as artifact:
        return InputEntry(kind=artifact.kind, digest=artifact.digest)


def _differences(stage: Stage, settings: Settings, inputs: list[InputEntry], manifest: Manifest) -> Iterator[str]:
    """What changed since the artifact was made, setting by setting and input by input."""
    before, now = manifest.settings, settings.manifest()
    for name, value in settings.recipe().items():  # what a setting comes to, where nobody gives it
        if before.get(name) not in (now.get(name, value), value):
            yield f"{stage.name}.{name} {before.get(name)} → {value}"
    if manifest.command != stage.command.name:
        yield f"{stage.name}.command {manifest.command} → {stage.command.name}"
    was, is_now = (
        [(i.kind, i.digest, i.path if i.kind == "source" else None) for i in side] for side in (manifest.inputs, inputs)
    )
    if was != is_now:
        named = [name for name in settings.artifact_fields() if getattr(settings, name) is not None]
        names = [*stage.inputs, *(f"{name} {getattr(settings, name)}" for name in named)]
        changed = [name for name, old, new in zip(names, was, is_now, strict=False) if old != new]
        yield f"input {', '.join(changed) or ', '.join(stage.inputs)} changed"
