"""`wordpipe report`: the folder of a pipeline → one page that says what it holds, how it was made and how good it is."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from wordpipe import __version__
from wordpipe.artifacts import atomic_file, check_output
from wordpipe.errors import ConfigError, WordpipeError
from wordpipe.pages import ReportedArtifact, ReportedPipeline, draw_report
from wordpipe.pipeline.config import CONFIG
from wordpipe.pipeline.run import Pipeline, StageStatus
from wordpipe.runtime import Progress
from wordpipe.stages import FoundArtifact, PathLike, RunOptions, look_into, public, storage_errors
from wordpipe.storage import url_of


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
    if url_of(place) is not None:
        hint = "copy the artifacts first: wordpipe copy URL FOLDER"
        raise ConfigError("a report is on a folder of this machine", where="folder", got=folder, hint=hint)
    if target.is_dir() or str(target) == "-":
        raise ConfigError("a report is a file", where="output", got=output, hint="name a file with -o: report.html")
    check_output(target, replace=replace)
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
    """States of the stages in a config, the name of the config, and the error of a config that was not named."""
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
            return [], "", [f"{beside.name} does not say what is stale: {what}"]
    return [], "", []


def _is_inside(path: str, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _reported(one: FoundArtifact, status: StageStatus | None) -> ReportedArtifact:
    """An artifact with its state: what is damaged first, then what the config says, then what the artifacts say themselves."""
    reported = ReportedArtifact(
        one.name, one.manifest, chosen=one.chosen, logs=one.logs, made_from=one.made_from, sources=one.sources
    )
    if one.damage:
        return replace(reported, state="damaged", reasons=(one.damage,))
    if status is not None:
        state = "kept" if status.kept else "fresh" if status.fresh else "stale"
        return replace(reported, state=state, reasons=status.kept or status.reasons)
    return replace(reported, state="stale" if one.stale else "unknown", reasons=one.stale)
