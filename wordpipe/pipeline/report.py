"""`wordpipe report`: the folder of a pipeline → one page that says what it holds, how it was made and how good it is.

The folder is read first: its artifacts in the order in which they were made from each other, logs, kept evaluations. What is
damaged, of another program or of a newer version is named with what is wrong, and the rest is reported all the same.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from wordpipe import __version__
from wordpipe.artifacts import (
    KINDS,
    Artifact,
    Manifest,
    atomic_file,
    check_output,
    is_artifact,
    is_broken_artifact,
    parse_json_object,
    read_regular_file,
)
from wordpipe.errors import ConfigError, InputError, WordpipeError
from wordpipe.pages import ReportedArtifact, ReportedPipeline, draw_report
from wordpipe.pipeline.config import CONFIG
from wordpipe.pipeline.run import Pipeline, StageStatus
from wordpipe.runtime import Progress, Report
from wordpipe.settings import Settings
from wordpipe.stages import (
    COMMANDS,
    PathLike,
    RunOptions,
    dates_of,
    logged_runs,
    public,
    sample_answers,
    sizes_of_clusters,
    storage_errors,
)
from wordpipe.storage import url_of

_MOST = 500  # artifacts, and files of evaluations; more is no pipeline
_DEPTH = 3  # folders below the one that is named
_MOST_ASKED = 3  # indexes: each opens an encoder
_MOST_CLUSTERS = 50
_LARGEST_EVALUATION, _LARGEST_MANIFEST = 4 << 20, 64 << 20  # bytes


@dataclass(frozen=True)
class FoundArtifact:
    """One artifact of a folder, or what should be one.

    Attributes:
        name: its path below the folder.
        path: where it is.
        manifest: as JSON has it; empty: it could not be read.
        damage: what is wrong with it; empty: nothing.
        chosen: the settings that are not what they are by default.
        logs: runs of its training, as `plot` has them; two where a new one has begun.
        stale: why it should be made again, as far as the artifacts themselves say.
        sources: those of its inputs that lie elsewhere.
        made_from: names of those that are in the folder.
        samples: of an index, questions with their answers.
        dates: of a corpus, field → its first and last value.
        clusters: of clusters, labels and sizes, the largest first.
    """

    name: str
    path: Path
    manifest: Mapping[str, Any] = field(default_factory=dict)
    damage: str = ""
    chosen: Mapping[str, Any] = field(default_factory=dict)
    logs: tuple[Mapping[str, Any], ...] = ()
    stale: tuple[str, ...] = ()
    sources: tuple[Mapping[str, Any], ...] = ()
    made_from: tuple[str, ...] = ()
    samples: Sequence[Mapping[str, Any]] = ()
    dates: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    clusters: Sequence[tuple[str, int]] = ()


@dataclass(frozen=True)
class FoundPipeline:
    """A folder of artifacts.

    Attributes:
        artifacts: each after those that it was made from.
        evaluations: file name → what `evaluate --json` wrote there.
        notes: what could not be read.
    """

    artifacts: tuple[FoundArtifact, ...]
    evaluations: Mapping[str, Mapping[str, Any]]
    notes: tuple[str, ...]


@public(name="report")
def report_pipeline(
    folder: PathLike, output: PathLike, *, config: PathLike | None = None, replace: bool = True,
    run: RunOptions | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Write a report on a pipeline as one HTML page, whole or not at all; the same artifacts give the same bytes.

    The page runs no script, fetches nothing and can be printed. What is damaged, or of another program, is named in it; the
    rest is reported all the same.

    Args:
        folder: that holds the artifacts of a pipeline, all of them or some; or one artifact. Files in it that hold what
            `evaluate --json` printed are shown as tables of quality.
        output: the file to write; an older one is replaced in one step.
        config: the file that describes the stages and so says which are stale. By default wordpipe.toml in the folder or
            the one above it, where there is one whose stages are made in this folder.
        replace: false refuses to replace anything.
        run: progress, verification.

    Returns:
        path, bytes, artifacts (how many), stale, damaged and missing (names), and notes: what could not be read.

    Raises:
        InputError: no artifact is in the folder.
        ConfigError: `config` is wrong, or the output is a folder.
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> made = wordpipe.report("run", "report.html")
        >>> made["artifacts"], made["damaged"]
        (8, [])
    """
    run, place, target = run or RunOptions(), Path(folder), Path(output)
    # refuse what cannot be written
    if url_of(place) is not None:
        hint = "copy the artifacts first: wordpipe copy URL FOLDER"
        raise ConfigError(
            "a report can be made only for a local folder, not for a URL", where="folder", got=folder, hint=hint
        )
    if target.is_dir() or str(target) == "-":
        raise ConfigError(
            "the output of a report must be a file", where="output", got=output, hint="for example, use: -o report.html"
        )
    check_output(target, replace=replace)
    # the artifacts, and the states of their stages
    run.report(Progress("reading the artifacts"))
    found = look_into(place, run)
    statuses, said_by, notes = _statuses(place, config)
    by_place = {os.path.realpath(one.output): one for one in statuses}
    shown = [_reported(one, by_place.get(os.path.realpath(one.path))) for one in found.artifacts]
    there = {os.path.realpath(one.path) for one in found.artifacts}
    missing = [
        (one.name, ", ".join(one.reasons) or "missing")
        for at, one in by_place.items()
        if at not in there and _is_inside(at, place)
    ]
    notes = [*found.notes, *notes]
    # draw the page, and write it whole
    pipeline = ReportedPipeline(
        title=place.absolute().name or str(place), version=__version__, artifacts=shown, evaluations=found.evaluations,
        missing=missing, said_by=said_by, verified=run.verify, notes=notes,
    )  # fmt: skip
    page = draw_report(pipeline)
    with storage_errors(target), atomic_file(target) as file:
        file.write(page)
    named = {state: [one.name for one in shown if one.state == state] for state in ("stale", "damaged")}
    made = {"path": str(target), "bytes": len(page), "artifacts": len(shown)}
    return {**made, **named, "missing": [name for name, _ in missing], "notes": notes}


def _statuses(folder: Path, config: PathLike | None) -> tuple[list[StageStatus], str, list[str]]:
    """Return for the report the states of the stages in a config, the config's name, and a config's error."""
    if config is not None:
        pipeline = Pipeline(config)
        return [pipeline.status_of(state) for state in pipeline.states()], Path(config).name, []
    for beside in (folder / CONFIG, folder.absolute().parent / CONFIG):
        if not beside.is_file():
            continue
        try:
            pipeline = Pipeline(beside)
            if not any(_is_inside(str(pipeline.from_here(one.output)), folder) for one in pipeline.stages):
                continue
            return [pipeline.status_of(state) for state in pipeline.states()], beside.name, []
        except (WordpipeError, OSError) as error:
            what = error.message if isinstance(error, WordpipeError) else str(error)
            return (
                [],
                "",
                [f"{beside.name} could not be read, so the report cannot tell which stages are stale: {what}"],
            )
    return [], "", []


def _is_inside(path: str, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _reported(one: FoundArtifact, status: StageStatus | None) -> ReportedArtifact:
    """Return an artifact with its state for the report: damaged, else as the config says, else as the artifacts say."""
    reported = ReportedArtifact(
        one.name, one.manifest, chosen=one.chosen, logs=one.logs, made_from=one.made_from, sources=one.sources,
        samples=one.samples, dates=one.dates, clusters=one.clusters,
    )  # fmt: skip
    if one.damage:
        return replace(reported, state="damaged", reasons=(one.damage,))
    if status is not None:
        state = "kept" if status.kept else "fresh" if status.fresh else "stale"
        return replace(reported, state=state, reasons=status.kept or status.reasons)
    return replace(reported, state="stale" if one.stale else "unknown", reasons=one.stale)


def look_into(folder: Path, run: RunOptions) -> FoundPipeline:
    """Read the artifacts and evaluations in the folder of a pipeline.

    Args:
        folder: of a pipeline, or one artifact.
        run: with `verify`, every file of every artifact is compared with its hash.

    Raises:
        InputError: the folder does not exist, or contains no artifact.
        StorageError: it cannot be read.
    """
    if not folder.is_dir():
        raise InputError(
            "the folder does not exist", where=folder, hint="use the folder that contains the artifacts of a pipeline"
        )
    with storage_errors(folder):
        places = [folder] if is_artifact(folder) else [*_places(folder, _DEPTH)][: _MOST + 1]
    if not places:
        hint = "wordpipe run makes the artifacts of a pipeline; workdir in wordpipe.toml is the folder of the artifacts"
        raise InputError("this folder does not contain any artifacts", where=folder, hint=hint)
    notes = (
        [f"the folder contains more than {_MOST} artifacts; the report shows only the first {_MOST}"]
        if len(places) > _MOST
        else []
    )
    found = [_read(place, _name_of(place, folder), run) for place in places[:_MOST]]
    asked = [*_asked([*_in_order(_connected(found))], run)]
    evaluations, unread = _evaluations(folder)
    return FoundPipeline(
        tuple(one for one, _ in asked), evaluations, (*notes, *unread, *(note for _, note in asked if note))
    )


def _name_of(place: Path, folder: Path) -> str:
    """Return the name of an artifact in the report: its path below the folder."""
    return folder.absolute().name if place == folder else place.relative_to(folder).as_posix()


def _places(folder: Path, depth: int) -> Iterator[Path]:
    """Yield the folders of artifacts to report on, also of unfinished ones, by name."""
    inner: list[Path] = []
    for entry in sorted(os.scandir(folder), key=lambda one: one.name):
        if not entry.is_dir():
            continue
        place = folder / entry.name
        if entry.name.startswith("."):
            unfinished = folder / entry.name.removesuffix(".partial")[1:]
            if entry.name.endswith(".partial") and (place / "LATEST.json").is_file() and not is_artifact(unfinished):
                yield unfinished
        elif is_artifact(place) or is_broken_artifact(place):
            yield place
        elif not entry.is_symlink():
            inner.append(place)
    if depth > 1:
        for place in inner:
            try:
                yield from _places(place, depth - 1)
            except PermissionError:
                continue


def _read(place: Path, name: str, run: RunOptions) -> FoundArtifact:
    """Read one artifact for the report; of a damaged one the manifest, if it can be read."""
    # without a manifest: broken, or not finished yet
    if is_broken_artifact(place):
        return FoundArtifact(name, place, damage="the manifest of this artifact is missing or is not from wordpipe")
    if not is_artifact(place):
        one = FoundArtifact(name, place, damage="not finished, because the training is still running or was stopped")
        return replace(one, logs=tuple(_logs(place, run.report)))
    # open the artifact; of a damaged one only the manifest is read
    damage, dates, clusters = "", dict[str, tuple[str, str]](), list[tuple[str, int]]()
    try:
        with Artifact(place, verify=run.verify) as artifact:
            manifest = artifact.manifest
            has_log = "steps.parquet" in artifact.names()
            dates = dates_of(artifact) if artifact.kind == "corpus" else {}
            clusters = [*islice(sizes_of_clusters(artifact), _MOST_CLUSTERS)] if artifact.kind == "clusters" else []
    except WordpipeError as error:
        # say what is damaged, and read its manifest alone
        damage, has_log = _without_place(error), False
        try:
            data = read_regular_file(place / "manifest.json", _LARGEST_MANIFEST)
            manifest = Manifest.from_bytes(data, where=str(place))
        except (WordpipeError, OSError, ValueError):
            return FoundArtifact(name, place, damage=damage)
    except (OSError, ValueError) as error:
        return FoundArtifact(name, place, damage=f"cannot be read: {error}")
    # what the page shows
    body = manifest.model_dump(mode="json")
    logs = tuple(_logs(place, run.report)) if has_log else ()
    chosen = _chosen(manifest.command, manifest.settings)
    return FoundArtifact(name, place, body, damage, chosen, logs, dates=dates, clusters=clusters)


def _asked(found: Sequence[FoundArtifact], run: RunOptions) -> Iterator[tuple[FoundArtifact, str]]:
    """Yield the artifacts of the report, an index with sample questions and answers, and a note where it gave none."""
    n_asked = 0
    for one in found:
        if one.damage or one.manifest["kind"] != "index":
            yield one, ""
            continue
        n_asked += 1
        if n_asked > _MOST_ASKED:
            yield one, f"{one.name} was not asked sample questions: only the first {_MOST_ASKED} indexes are"
            continue
        run.report(Progress(f"asking {one.name}"))
        try:
            yield replace(one, samples=sample_answers(one.path, verify=run.verify)), ""
        except (WordpipeError, OSError, ValueError, KeyError, TypeError) as error:
            why = _without_place(error) if isinstance(error, WordpipeError) else str(error)
            yield one, f"{one.name} was not asked sample questions: {why}"


def _without_place(error: WordpipeError) -> str:
    """Return the message of an error with the last part of its place: the page says which artifact it is."""
    where = f"{Path(error.where).name}: " if error.where else ""
    return where + type(error)(error.what, got=error.got, expected=error.expected).message


def _logs(place: Path, report: Report) -> Iterator[Mapping[str, Any]]:
    """Yield the logged training runs of an artifact to report on; nothing if there is no log that can be read.

    None if there is no log that can be read.
    """
    try:
        yield from [one for one in logged_runs(place, place.name, verify=False) if one["log"]]
    except (WordpipeError, OSError, ValueError, KeyError, TypeError):
        return


def _chosen(command: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return for the report the settings that differ from the defaults of their command.

    All if this version does not have the command.
    """
    known = COMMANDS.get(command)
    cls: type[Settings] | None = known.load_settings() if known else None
    fields = cls.model_fields if cls else {}
    defaults = {name: json.loads(json.dumps(one.default, default=str)) for name, one in fields.items()}
    return {name: value for name, value in settings.items() if name not in defaults or defaults[name] != value}


def _connected(found: list[FoundArtifact]) -> list[FoundArtifact]:
    """Return the artifacts of the report, each with its inputs, and whether one of these has changed."""
    by_place = {os.path.realpath(one.path): one for one in found if one.manifest}
    by_digest = {one.manifest["digest"]: one for one in found if one.manifest}
    connected = []
    for one in found:
        made_from, sources, stale = [], [], []
        for entry in one.manifest.get("inputs", ()):
            path = entry["path"] or ""
            there = by_place.get(os.path.realpath(one.path.absolute().parent / path)) if path else None
            there = by_digest.get(entry["digest"], there) if there is None else there
            if there is None or there.name == one.name or entry["kind"] in ("source", "file"):
                sources.append(entry)
                continue
            made_from.append(there.name)
            if there.manifest["digest"] != entry["digest"]:
                stale.append(f"{there.name} has changed since this artifact was made")
        connected.append(
            replace(one, made_from=tuple(dict.fromkeys(made_from)), sources=tuple(sources), stale=tuple(stale))
        )
    return connected


def _in_order(found: list[FoundArtifact]) -> Iterator[FoundArtifact]:
    """Yield each artifact of the report after its inputs; stale too where an input is stale."""
    kinds = {kind: place for place, kind in enumerate(KINDS)}
    by_kind = sorted(found, key=lambda one: kinds.get(one.manifest.get("kind", ""), len(kinds)))
    waiting, done = {one.name: one for one in by_kind}, dict[str, FoundArtifact]()
    while waiting:
        ready = [one for one in waiting.values() if not any(name in waiting for name in one.made_from)]
        one = ready[0] if ready else next(iter(waiting.values()))  # manifests that were forged may form a circle
        del waiting[one.name]
        before = [f"{name} is stale" for name in one.made_from if name in done and done[name].stale]
        done[one.name] = replace(one, stale=(*one.stale, *before))
        yield done[one.name]


def _evaluations(folder: Path) -> tuple[dict[str, Mapping[str, Any]], list[str]]:
    """Return for the report the results of `evaluate --json` in this folder, and the errors of damaged files."""
    found: dict[str, Mapping[str, Any]] = {}
    notes = []
    for path in sorted(folder.glob("*.json"))[:_MOST]:
        try:
            body = parse_json_object(read_regular_file(path, _LARGEST_EVALUATION, what="an evaluation"), path)
        except (WordpipeError, OSError) as error:
            notes.append(f"{path.name} is left out: {error.what if isinstance(error, WordpipeError) else error}")
            continue
        if isinstance(body.get("metrics"), dict) and isinstance(body.get("evaluated"), str):
            found[path.name] = body
    return found, notes
