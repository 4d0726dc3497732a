"""A pipeline: which of its stages are stale and why, what it would take to make them, and the making.

A stage is stale when its recipe (settings that matter and the digests of its inputs) is not the one its artifact was made
from. Times play no part, so a touched file makes nothing, and an input that came out the same stops the chain there.
A stage that says `keep = true` is made again for its own settings alone, and so is one that only such stages read.
An artifact that `slim` deleted counts as it was, and is made again only if a stage that is to be made reads it.
Before anything is said or made, the inputs of all stages are looked for.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from glob import escape, has_magic
from pathlib import Path
from typing import Any

from wordpipe.artifacts import (
    InputEntry,
    Manifest,
    forget_deleted,
    is_artifact,
    is_deleted,
    manifest_at,
    manifest_known,
    notes_of,
    recipe_of,
)
from wordpipe.corpus import Sources, sources_of
from wordpipe.engines import EngineOptions
from wordpipe.errors import ArtifactError, ConfigError, InputError, StorageError, WordpipeError
from wordpipe.pipeline.config import (
    CONFIG,
    Stage,
    check_artifact,
    check_sources,
    home_of,
    in_keys,
    nearest,
    place_of,
    raise_together,
    read_stages,
    text_in_keys,
)
from wordpipe.pipeline.config import read_toml as _read_toml
from wordpipe.runtime import Progress, seen_from
from wordpipe.settings import Settings
from wordpipe.stages import (
    Estimate,
    Estimator,
    Made,
    PathLike,
    RunOptions,
    Size,
    entries_of,
    fetched,
    file_entry,
    model_entry,
    public,
    size_of_artifact,
    size_of_sources,
)
from wordpipe.storage import as_path, url_of

# what foreign or forged artifacts lead to, too
_NO_ESTIMATE = (WordpipeError, OSError, ArithmeticError, ValueError, TypeError, LookupError, AttributeError)


@dataclass(frozen=True)
class State:
    """The state of a stage: the reasons why it must be made; without reasons it is fresh."""

    stage: Stage
    reasons: tuple[str, ...]
    estimate: Estimate | None = None  # of making it; None where it is fresh
    kept: tuple[str, ...] = ()  # why it would be stale, were it not kept
    notes: tuple[str, ...] = ()  # what is to be known of what is there

    @property
    def fresh(self) -> bool:
        """True if the stage need not be made."""
        return not self.reasons


@dataclass(frozen=True)
class StageStatus:
    """One stage in the answer of `pipeline_status`."""

    name: str
    command: str  # "train mlm"
    output: str  # its folder, seen from the current one
    fresh: bool  # nothing to do
    reasons: tuple[str, ...]  # why it would be made; empty where it is fresh
    kept: tuple[str, ...]  # why it would be stale, were it not kept by `keep = true`
    estimate: Estimate | None  # of making it; None where it is fresh
    notes: tuple[str, ...] = ()  # what is to be known of what is there, such as that its training was ended early

    def to_json(self) -> dict[str, Any]:
        """One JSON object."""
        body = asdict(self) | {"reasons": list(self.reasons), "kept": list(self.kept), "notes": list(self.notes)}
        return body | {"estimate": self.estimate.to_json() if self.estimate else None}


@public(name="run")
def run_pipeline(
    config: PathLike = CONFIG, *, first: str | None = None, last: str | None = None, run: RunOptions | None = None
) -> list[Made]:
    """Make what is missing or stale in a pipeline, in order.

    Args:
        config: the file that describes the stages.
        first: begin with this stage (`--from`).
        last: end with this stage (`--to`).
        run: progress, making every stage anew (`fresh`), verification.

    Returns:
        What was made, in order; nothing where all was fresh.

    Raises:
        WordpipeError: the config or an input is wrong, said before anything is made; or as from the stage that failed.

    Example:
        >>> [made.path for made in wordpipe.run("wordpipe.toml", last="corpus")]
        ['made/corpus']
    """
    return [made for _, made in Pipeline(config).run(run or RunOptions(), first=first, last=last) if made is not None]


@public(name="status")
def pipeline_status(
    config: PathLike = CONFIG, *, first: str | None = None, last: str | None = None
) -> list[StageStatus]:
    """Look which stages of a pipeline must be made, why, and what that would take; makes nothing.

    Args:
        config: the file that describes the stages.
        first: begin with this stage.
        last: end with this stage.

    Returns:
        Of every stage whether it is fresh, why not, and an estimate of time, memory and disk.

    Raises:
        WordpipeError: the config or an input is wrong.

    Example:
        >>> [(stage.name, stage.reasons[0]) for stage in wordpipe.status() if not stage.fresh]
        [('corpus', 'missing'), ('tokens', 'missing')]
    """
    pipeline = Pipeline(config)
    states = pipeline.estimated(pipeline.states(first=first, last=last))
    return [pipeline.status_of(state) for state in states]


class Pipeline:
    """The stages of a config file, in an order in which they can be made.

    Raises:
        ConfigError: not TOML, an unknown key, command, stage or setting, or stages that need each other in a circle.
    """

    def __init__(self, config: PathLike = CONFIG) -> None:
        self.config = Path(config)
        self.home = home_of(self.config)
        self.stages = [replace(stage, output=self._at(stage.output)) for stage in read_stages(self.config)]

    def states(self, *, first: str | None = None, last: str | None = None, fresh: bool = False) -> list[State]:
        """Return the states of a pipeline's stages: what would be made, and why; with `fresh` every stage.

        Raises:
            WordpipeError: an input of one of them is missing or of a wrong kind; all such together.
        """
        with seen_from(self.home):
            self._check_inputs(chosen := self._chosen(first, last))
            return self._states(chosen, fresh=fresh)

    def _states(self, chosen: list[Stage], *, fresh: bool = False) -> list[State]:
        """Return the states of stages in their order, as far as can be told before any of them is made."""
        states: dict[str, State] = {}
        for stage in chosen:
            state = self._state(stage, states)
            states[stage.name] = State(stage, ("--fresh",)) if fresh and state.fresh else state
        # a deleted artifact is made again where a stage reads it, from the last stage back
        for state in reversed([*states.values()]):
            if not states[state.stage.name].fresh:
                for name in self.read_by(state.stage):
                    if name in states and states[name].fresh and is_deleted(states[name].stage.output):
                        states[name] = State(states[name].stage, (f"deleted, but needed by {state.stage.name}",))
        return list(states.values())

    def read_by(self, stage: Stage) -> list[str]:
        """Return the stages whose artifacts the making of a stage opens; some open the corpus of their tokens, too."""
        if not self._checked_settings(stage).reads_corpus:
            return [*stage.needs]
        return [*stage.needs, *(name for one in self.stages if one.name == stage.inputs[0] for name in one.needs)]

    def all_missing(self) -> list[State]:
        """Return the states of a pipeline of which nothing has been made."""
        return [State(stage, ("missing",)) for stage in self.stages]

    def estimated(self, states: list[State], *, sources: Size | None = None) -> list[State]:
        """Return the states of a pipeline with an estimate for each stale stage.

        `sources`: sizes to assume for the sources.
        """
        if all(state.fresh for state in states):
            return states
        stale = {state.stage.name for state in states if not state.fresh}
        with seen_from(self.home):
            estimator, found = Estimator(), {}
            for stage in self.stages:
                try:
                    found[stage.name] = self._estimate(stage, stage.name in stale, estimator, sources)
                except _NO_ESTIMATE:  # it is a help, never a reason to stop
                    estimator.nothing_known(stage.name)
            estimator.save()
        return [replace(state, estimate=found.get(state.stage.name)) if not state.fresh else state for state in states]

    def run(
        self, run: RunOptions, *, first: str | None = None, last: str | None = None
    ) -> Iterator[tuple[State, Made | None]]:
        """Make what is missing or stale, one stage at a time; yields the state of each stage, with the artifact that was made.

        Each state is yielded twice for a stage that is made: before, with None, and after.

        Raises:
            WordpipeError: before anything is made, where an input is missing or of a wrong kind; or as from a stage.
        """
        chosen = self._chosen(first, last)
        EngineOptions(run.engine, run.address, run.workers)  # before the first stage is made
        with seen_from(self.home):
            self._check_inputs(chosen)
        for place, stage in enumerate(chosen):
            with seen_from(self.home):
                state = self._state(stage, {})
                if state.fresh and is_deleted(stage.output):
                    state = self._states(chosen[place:])[0]
            yield state, None
            if state.fresh and not run.fresh:
                continue
            local = replace(run, engine="local", address=None, workers=None)
            yield state, self.make(stage, local if stage.command.joined else run)

    def make(
        self, stage: Stage, run: RunOptions, *, output: Path | None = None, settings: Mapping[str, Any] | None = None
    ) -> Made:
        """Make one stage of a pipeline from its inputs, whatever its state.

        Args:
            stage: one of this pipeline.
            run: how.
            output: another folder than the stage's, seen from the current folder.
            settings: instead of the stage's; the artifacts that they name are paths that are valid everywhere.
        """
        target = stage.output if output is None else as_path(output.absolute())
        with seen_from(self.home):
            arguments = stage.by_argument([self._resolve(name) for name in stage.inputs])
            chosen = self._settings(stage) if settings is None else dict(settings)
            if not (stage.command.shards(chosen) or stage.command.joined):
                run = replace(run, engine="local", address=None, workers=None)
            needed = self._with_needed(stage)

            def report(progress: Progress) -> None:
                note = progress.note and text_in_keys(progress.note, needed)
                run.report(replace(progress, note=note) if note else progress)

            how = replace(run, report=report, keeps_settings=False)  # the file has all settings
            try:
                made = stage.command.load()(*arguments, output=target, run=how, **chosen)
            except WordpipeError as error:
                in_keys(error, needed, self.config)
                raise
        if output is None:
            forget_deleted(stage.output)
        made.path = str(self.from_here(stage.output) if output is None else as_path(output))
        return made

    def status_of(self, state: State) -> StageStatus:
        """Return the state of a pipeline's stage in plain values."""
        stage = state.stage
        output = str(self.from_here(stage.output))
        return StageStatus(
            stage.name, stage.command.name, output, state.fresh, state.reasons, state.kept, state.estimate, state.notes
        )

    def from_here(self, path: Path) -> Path:
        """Return a path of the config as seen from the current folder."""
        whole = self._at(path)
        return whole if url_of(whole) is not None else Path(os.path.relpath(whole))

    def inputs_from_here(self, stage: Stage) -> list[str]:
        """Return the stage's inputs as seen from the current folder; python:PACKAGE stays as it is."""
        resolved = [self._resolve(name) for name in stage.inputs]
        return [name if name.startswith("python:") else str(self.from_here(Path(name))) for name in resolved]

    def settings_from_here(self, stage: Stage) -> dict[str, Any]:
        """Return the stage's settings, with paths that are valid everywhere for the artifacts that they name."""
        return self._settings(stage)

    def _at(self, path: str | Path) -> Path:
        """Return the absolute path, or URL, for a path of the config."""
        return as_path(self.home / path)

    def _chosen(self, first: str | None, last: str | None) -> list[Stage]:
        """Return the stages to run from `first` to `last`. Raises ConfigError: there is no stage of that name."""
        names = [stage.name for stage in self.stages]
        for wanted in filter(None, (first, last)):
            if wanted not in names:
                hint = nearest(wanted, names)
                raise ConfigError(
                    f"there is no stage {wanted!r}", where=self.config, expected=", ".join(names), hint=hint
                )
        begin = names.index(first) if first else 0
        end = names.index(last) if last else len(names) - 1
        if begin > end:
            got = f"{last}, which is made before {first}"
            raise ConfigError("the last stage comes before the first stage", where=self.config, got=got)
        return self.stages[begin : end + 1]

    def _with_needed(self, stage: Stage) -> list[Stage]:
        """Return a stage of a pipeline and the stages that its run needs, nearest first."""
        by_name = {one.name: one for one in self.stages}
        found = {stage.name: stage}
        waiting = [stage]
        while waiting:
            one = waiting.pop(0)
            for name in one.needs:
                if name in by_name and name not in found:
                    found[name] = by_name[name]
                    waiting.append(by_name[name])
        return list(found.values())

    def _check_inputs(self, stages: list[Stage]) -> None:
        """Check before a run that all inputs that no stage makes exist and are of the right kind.

        Raises:
            WordpipeError: what is missing or of a wrong kind, all of it together.
        """
        names = {stage.name for stage in self.stages}
        problems: list[WordpipeError] = []
        for stage in stages:
            # what the stage reads and no stage makes
            checks = [(argument, [n for n in given if n not in names]) for argument, given in stage.given]
            reading = {
                "read_as": stage.settings.get("format", "auto"),
                "parallel": stage.settings.get("parallel") is True,
            }
            reading["unreadable"] = stage.settings.get("unreadable", "auto")
            kinds_of = stage.command.load_settings().artifact_fields()
            try:
                for argument, given in checks:
                    if not given:
                        continue
                    places = [self._resolve(name) for name in given]
                    if argument.kinds and len(given) == 1 and is_artifact(Path(places[0])):
                        manifest_at(places[0], argument.kinds)  # type: ignore[arg-type]
                    elif argument.sources:
                        check_sources(given, places, names, reading)
                    elif argument.entry and not Path(fetched(places[0])).exists():
                        raise InputError("the file does not exist", where=given[0])
                # artifacts that its settings name
                for setting, name in stage.artifacts.items():
                    if name not in names:
                        check_artifact(setting, name, self._resolve(name), kinds_of[setting], names)
            # the error, with the stage as its place
            except WordpipeError as error:
                inside = str(error.where or "").replace(f"{self.home}/", "")
                where = place_of(stage, self.config) + (f" {inside}" if inside else "")
                again = type(error)(error.what, where=where, got=error.got, expected=error.expected, hint=error.hint)
                problems.append(in_keys(again, [stage], self.config))
        raise_together(problems, self.config)

    def _state(self, stage: Stage, before: dict[str, State]) -> State:
        """Return the state of a stage: fresh, stale with reasons, or kept; `before` has the states of earlier stages."""
        state = self._changed(stage, before)
        if state.fresh or not self._is_kept(stage) or not self._stands(stage):
            return state
        return State(stage, (), kept=state.reasons)

    def _is_kept(self, stage: Stage) -> bool:
        """True if other inputs do not make a stage stale: it has `keep`, or so have all stages that read its artifact."""
        readers = [other for other in self.stages if stage.name in other.needs]
        return stage.keep or (bool(readers) and all(self._is_kept(one) and self._stands(one) for one in readers))

    def _stands(self, stage: Stage) -> bool:
        """True if a stage's artifact is there, made from any inputs with the same settings by this version's recipe."""
        try:
            manifest = manifest_known(stage.output, [stage.kind(self.home)])
        except (ArtifactError, StorageError):
            return False
        settings = self._checked_settings(stage)
        is_of_sources = any(entry.kind == "source" for entry in manifest.inputs)
        wanted = len(stage.needs) + settings.reads_corpus
        if not is_of_sources and len(manifest.inputs) != wanted:  # a setting that names an artifact came or went
            return False
        return recipe_of(stage.kind(self.home), settings.recipe_body(), manifest.inputs) == manifest.recipe

    def _changed(self, stage: Stage, before: dict[str, State]) -> State:
        """Return the state of a pipeline's stage as if it were not kept: why its artifact must be made."""
        waits = [f"{name} will be made" for name in stage.needs if name in before and not before[name].fresh]
        if not _is_known(stage.output):
            return State(stage, ("missing", *waits))
        if waits:
            return State(stage, tuple(waits))
        try:
            manifest = manifest_known(stage.output, [stage.kind(self.home)])
        except ArtifactError as error:
            return State(stage, (f"unreadable: {error.what}",))
        settings = self._checked_settings(stage)
        try:
            inputs = self._planned_inputs(stage, settings)
        except (InputError, ArtifactError, StorageError) as error:
            return State(stage, (f"input unreadable: {error.message}",))
        if recipe_of(stage.kind(self.home), settings.recipe_body(), inputs) == manifest.recipe:
            deleted = ("deleted by slim",) if is_deleted(stage.output) else ()
            return State(stage, (), notes=(*notes_of(manifest.facts), *deleted))
        return State(stage, tuple(_differences(stage, settings, inputs, manifest)) or ("made by another version",))

    def _estimate(self, stage: Stage, stale: bool, estimator: Estimator, sources: Size | None) -> Estimate | None:
        """Return the estimate of running a stage; the estimator knows the size of its artifact afterwards."""
        # the artifact is there: its size is known
        if not stale and is_artifact(stage.output):
            estimator.sizes[stage.name] = size_of_artifact(stage.output)
            return None
        inputs = []
        settings = self._checked_settings(stage)
        # sizes of the inputs, as estimated before or as they are
        for argument, given in stage.given:
            places = [self._resolve(name) for name in given]
            one = Path(places[0])
            if given[0] in estimator.sizes:
                inputs.append(estimator.sizes[given[0]])
            elif argument.kinds and is_artifact(one):
                inputs.append(size_of_artifact(one))
            # sources of text: of an assumed size, or as they are
            elif argument.sources and sources is not None:
                inputs.append(sources)
            elif argument.sources:
                inputs.append(size_of_sources(_sources(places, settings)))
            else:
                inputs.append(size_of_sources(Path(fetched(places[0]))))
        # sizes of the artifacts that settings name
        for name in stage.artifacts.values():
            if name in estimator.sizes:
                inputs.append(estimator.sizes[name])
            elif is_artifact(place := Path(self._resolve(name))):
                inputs.append(size_of_artifact(place))
        return estimator.estimate(stage.name, settings, inputs, stage.output)

    def _planned_inputs(self, stage: Stage, settings: Settings) -> list[InputEntry]:
        """Return the inputs of a stage that will be run as entries of a manifest."""
        entries: list[InputEntry] = []
        for argument, names in stage.given:
            several = [self._resolve(name) for name in names]
            if argument.kinds and len(several) == 1 and _is_known(several[0]):
                entries.append(_artifact_entry(several[0]))
            elif argument.entry:
                entries.append(argument.load_entry()(fetched(several[0])))
            elif argument.sources:
                entries += entries_of(_sources(several, settings), settings)
        for name, kinds in type(settings).artifact_fields().items():
            value = getattr(settings, name)
            if value is not None:
                foreign = model_entry if kinds == ("model",) else file_entry  # what it is where it is no artifact
                entries.append(_artifact_entry(value) if _is_known(value) else foreign(Path(fetched(value))))
        if settings.reads_corpus:
            entries.append(_corpus_entry(self._resolve(stage.inputs[0])))
        return entries

    def _settings(self, stage: Stage) -> dict[str, Any]:
        """Return the stage's settings, with the folders of stages in place of their names."""
        return stage.settings | {name: self._resolve(value) for name, value in stage.artifacts.items()}

    def _checked_settings(self, stage: Stage) -> Settings:
        """Return the settings of a stage, checked and filled with defaults."""
        return stage.command.load_settings().make(self._settings(stage), where=place_of(stage, self.config))

    def _resolve(self, name: str) -> str:
        """Return the path for an input's name in a run: a stage's artifact, a file, a folder, or a pattern."""
        for stage in self.stages:
            if stage.name == name:
                return str(stage.output)
        if name == "-" or name.startswith("python:"):
            return name
        place = str(self._at(name))
        if has_magic(name) and not os.path.lexists(place) and url_of(name) is None:  # of these the folder is none
            return os.path.join(escape(str(self.home)), name)  # noqa: PTH118
        return place


def stage_from_file(where: str, command: str) -> tuple[Pipeline, Stage] | dict[str, Any]:
    """Return the stage that `FILE` or `FILE#STAGE` names for a command, and its pipeline; or the settings of a flat file.

    Raises:
        ConfigError: no such file or stage, or several stages to choose from.
    """
    name, _, wanted = where.partition("#")
    table = _read_toml(Path(name))
    if "stage" not in table:
        if wanted:
            raise ConfigError(f"the file has no stage {wanted!r}", where=name)
        return table
    pipeline = Pipeline(name)
    fitting = [s for s in pipeline.stages if s.command.name == command and wanted in ("", s.name)]
    if len(fitting) != 1:
        names = ", ".join(s.name for s in pipeline.stages if s.command.name == command) or "none"
        raise ConfigError(
            f"the file must contain exactly one stage with the command {command!r}; its stages with this command: {names}",
            where=name,
            hint=f"choose one: --config {name}#NAME",
        )
    return pipeline, fitting[0]


def settings_from_file(where: str, command: str) -> dict[str, Any]:
    """Return the settings of a command from `FILE` or `FILE#STAGE`: flat keys, or a stage of a pipeline with that command.

    Raises:
        ConfigError: no such file or stage, or several stages to choose from.
    """
    found = stage_from_file(where, command)
    return found if isinstance(found, dict) else found[0].settings_from_here(found[1])


def _sources(names: list[str], settings: Settings) -> Sources:
    """Return the sources that a stage reads."""
    return sources_of(fetched(names), settings)


def _is_known(path: str | Path) -> bool:
    """True if an artifact is there, or was deleted by `slim`."""
    return is_artifact(Path(path)) or is_deleted(path)


def _artifact_entry(path: str | Path) -> InputEntry:
    """Return the entry of an artifact as an input of a manifest."""
    manifest = manifest_known(path)
    return InputEntry(kind=manifest.kind, digest=manifest.digest)


def _corpus_entry(tokens: str) -> InputEntry:
    """Return the entry of the corpus that tokens were made from, as an input of a manifest."""
    behind = manifest_known(tokens).inputs[0]
    return InputEntry(kind=behind.kind, digest=behind.digest)


def _differences(stage: Stage, settings: Settings, inputs: list[InputEntry], manifest: Manifest) -> Iterator[str]:
    """Yield the reasons why a stage is stale: changed settings and inputs since its artifact was made."""
    before, now = manifest.settings, settings.manifest()
    matter = [name for name in before if name in now and settings.model_fields[name].recipe]
    wanted = {name: now[name] for name in matter} | settings.recipe()  # what they come to, where nobody gives them
    # settings that nobody gives are those of the encoder that an index carries
    is_bundled = manifest.command == "embed" and any(entry.kind == "index" for entry in manifest.inputs)
    for name, value in wanted.items():
        if is_bundled and name not in settings.model_fields_set:
            continue
        if name in now and before.get(name) not in (now[name], value):
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
