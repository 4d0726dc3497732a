"""`wordpipe plot`: the logs of trainings, finished or not → curves."""

import json
import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from wordpipe.artifacts import Artifact, Checkpoint, atomic_file, check_output, is_artifact, read_batches, stopped_runs
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.pages import draw_curves
from wordpipe.runtime import Progress
from wordpipe.stages.job import PathLike, RunOptions, storage_errors
from wordpipe.stages.python_calls import public
from wordpipe.stages.sources import as_list
from wordpipe.training import Step

_AXES = ("tokens", "steps", "seconds")
_COLUMNS = ("step", "tokens", "split", "loss", "lr", "seconds")  # later versions may log more
_TRIES = 5  # a training that goes on forgets its last checkpoint but one while we read it


@public()
def plot(
    trained: PathLike | Iterable[PathLike], output: PathLike | None = None, *, axis: str = "tokens", log: bool = False,
    start: float = 0, replace: bool = True, run: RunOptions | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Loss and learning rate of trainings, finished or not, as one picture; the same logs give the same bytes.

    Args:
        trained: model or words artifacts, or outputs of trainings that still run or were stopped, whose last checkpoint is
            drawn. If a new run will replace an artifact, both runs are drawn.
        output: a .png or .svg file, which is written whole or not at all; None: nothing is drawn.
        axis: horizontal axis of the curves: tokens, steps or seconds.
        log: a logarithmic axis.
        start: number of tokens, steps or seconds where the curves begin.
        replace: false refuses to replace anything.
        run: progress, verification.

    Returns:
        path, bytes (None without an output), and runs: a list of name, kind, finished, steps, tokens, seconds, loss,
        valid_loss, unigram_entropy, and log: the rows of its log (step, tokens, split, loss, lr, seconds).

    Raises:
        ConfigError: no such axis, no such kind of picture, or matplotlib is not installed.
        InputError: a run has reported no loss, or not kept a checkpoint yet.
        ArtifactError: nothing there that was ever trained, or it is damaged.

    Example:
        >>> found = wordpipe.plot("run/model")
        >>> [run["steps"] for run in found["runs"]]
        [4]
    """
    # What cannot be drawn is refused before anything is read.
    run = run or RunOptions()
    path = None if output is None else Path(output)
    if path is not None:
        if path.suffix.lower() not in (".png", ".svg") or path.is_dir():
            raise ConfigError(
                "the file name of a picture must end in .png or .svg", where="output", got=path, expected=".png or .svg"
            )
        check_output(path, replace=replace)
        # The library is not installed with wordpipe.
        if find_spec("matplotlib") is None:
            hint = 'pip install "matplotlib>=3.10"'
            raise ConfigError("matplotlib, which draws the picture, is not installed", hint=hint)
    if axis not in _AXES:
        raise ConfigError("unknown axis", where="axis", got=axis, expected=", ".join(_AXES))
    # Read the logs of all runs; where names are the same, paths tell them apart.
    picture = None
    with storage_errors(path):
        paths = [Path(one) for one in as_list(trained)]
        names = [one.name for one in paths]
        if len(set(names)) < len(names):
            names = [str(one) for one in paths]
        runs = [one for at, name in zip(paths, names, strict=True) for one in logged_runs(at, name, run.verify)]
        # A run without a loss has no curve.
        for one in runs:
            if not any(row["loss"] is not None for row in one["log"]):
                hint = "wait for the first report of the loss; word2vec trained with gensim never reports a loss"
                raise InputError("this training reported no loss", where=one["name"], hint=hint)
        # Draw the curves.
        if path is not None:
            run.report(Progress("drawing"))
            picture = draw_curves(runs, axis=axis, log_axis=log, start=start, form=path.suffix.lower()[1:])
            with atomic_file(path) as file:
                file.write(picture)
    return {"path": path and str(path), "bytes": picture and len(picture), "runs": runs}


def logged_runs(path: Path, name: str, verify: bool) -> Iterator[dict[str, Any]]:
    """Return the logged runs to plot: the run that made an artifact, and the one that is not finished."""
    partial = path.absolute().parent / f".{path.name}.partial"
    there = is_artifact(path)
    if not there and path.name.startswith(".") and (stopped := stopped_runs(path)):  # the folder of an unfinished run
        if found := unfinished_run(stopped[-1].state, name):
            yield found
        return
    # The run that made the artifact; where neither is there, opening the artifact says so.
    if there or not partial.is_dir():
        with Artifact(path, ["model", "words"], verify=verify) as artifact:
            if "steps.parquet" not in artifact.names():
                hint = "imported words have no log, so give an artifact that wordpipe trained"
                raise ArtifactError("the artifact has no training log", where=path, hint=hint)
            rows = [row for batch in read_batches(artifact, "steps", _COLUMNS) for row in batch.to_pylist()]
            if not rows:
                raise ArtifactError("the training log is empty", where=path / "steps.parquet")
            known = artifact.manifest.facts.get("unigram_entropy") is not None
            entropy = artifact.fact("unigram_entropy", float) if known else None
            yield run_figures(name, artifact.kind, rows, entropy, finished=True)
    # The run that is not finished.
    if partial.is_dir():
        stopped = stopped_runs(partial)
        if found := unfinished_run(stopped[-1].state if stopped else partial, f"{name}, new run" if there else name):
            yield found
        elif not there:
            what = "this training has no checkpoint with a loss yet"
            raise InputError(
                what,
                where=path,
                hint="wait about a minute for the first checkpoint, or train with checkpoint_seconds = 10",
            )


def run_figures(
    name: str, kind: str, rows: list[dict[str, Any]], entropy: float | None, *, finished: bool
) -> dict[str, Any]:
    """Return the figures of a plotted run: steps, tokens, seconds and last losses, with its log."""
    losses = [(row["split"], float(row["loss"])) for row in rows if row["loss"] is not None]
    last = {split: loss for split, loss in losses if math.isfinite(loss)}
    end = rows[-1]
    far = {"steps": end["step"], "tokens": end["tokens"], "seconds": float(end["seconds"])}
    losses_now = {"loss": last.get("train"), "valid_loss": last.get("valid"), "unigram_entropy": entropy}
    return {"name": name, "kind": kind, "finished": finished, **far, **losses_now, "log": rows}


def unfinished_run(partial: Path, name: str) -> dict[str, Any] | None:
    """Return the run of the newest checkpoint, to plot; None where it has reported nothing yet.

    None where there is none, or it has reported nothing yet.
    """
    for left in reversed(range(_TRIES)):
        try:
            newest = json.loads((partial / "LATEST.json").read_bytes())["checkpoints"][0]
            checkpoint = Checkpoint(newest["step"], partial / f"step-{newest['step']:08d}", newest["files"])
            is_words = "log.json" not in checkpoint.files  # see stages/train/word2vec.py, else training/snapshot.py
            log = json.loads(checkpoint.read_bytes("state.json" if is_words else "log.json"))
            names = [field.name for field in fields(Step)]
            rows = log["log"] if is_words else [dict(zip(names, row, strict=False)) for row in log["history"]]
            kind = "words" if is_words else "model"
            return run_figures(name, kind, rows, log.get("unigram_entropy"), finished=False) if rows else None
        except FileNotFoundError:
            if left:
                time.sleep(0.02)
        except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
            what = "the state of the unfinished run is damaged"
            raise ArtifactError(what, where=partial, got=error, hint="run the training again") from None
    return None
