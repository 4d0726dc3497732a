"""The logs of trainings: of artifacts, and of runs that are not finished, from their last checkpoint."""

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from wordpipe.artifacts.checkpoints import Checkpoint
from wordpipe.artifacts.manifest import Manifest
from wordpipe.artifacts.reader import Artifact, is_artifact
from wordpipe.artifacts.tables import read_batches
from wordpipe.errors import ArtifactError, InputError
from wordpipe.report.run_log import RunLog
from wordpipe.training.trainer import Step

__all__ = ["read_run_logs"]

_STEPS = "steps"
_COLUMNS = ("step", "tokens", "split", "loss", "lr", "seconds")  # later versions may log more
_TRIES = 5  # a training that goes on forgets its last checkpoint but one while we read it
_ENTROPY = "unigram_entropy"


def read_run_logs(paths: Iterable[str], *, verify: bool = True) -> list[RunLog]:
    """The logs of trainings, in order. Where a new run is about to replace an artifact, both are given.

    Args:
        paths: folders of model or words artifacts, which need not be there yet.
        verify: check the artifacts' hashes before use.

    Raises:
        ArtifactError: nothing there that was ever trained.
        InputError: a run has not kept a checkpoint yet.
    """
    given = [Path(path) for path in paths]
    names = _names(given)
    return [log for path, name in zip(given, names, strict=True) for log in _of_path(path, name, verify=verify)]


def _of_path(path: Path, name: str, *, verify: bool) -> Iterator[RunLog]:
    partial = path.absolute().parent / f".{path.name}.partial"
    there = is_artifact(path)
    if there or not partial.is_dir():  # an artifact that is missing says so best itself
        yield _finished(path, name, verify=verify)
    if partial.is_dir():
        unfinished = _unfinished(partial, f"{name}, new run" if there else name)
        if unfinished is not None:
            yield unfinished
        elif not there:
            raise InputError(
                "this training has not kept a checkpoint yet, and its log is kept there",
                where=path,
                hint="wait a minute, or train with checkpoint_seconds = 10",
            )


def _finished(path: Path, name: str, *, verify: bool) -> RunLog:
    with Artifact(path, ["model", "words"], verify=verify) as artifact:
        if f"{_STEPS}.parquet" not in artifact.names():
            raise ArtifactError(
                "there is no log of a training in it", where=path, hint="imported words have none: train some"
            )
        rows = [row for batch in read_batches(artifact, _STEPS, _COLUMNS) for row in batch.to_pylist()]
        return RunLog(name, artifact.kind, tuple(rows), _entropy(artifact.manifest))


def _entropy(manifest: Manifest) -> float | None:
    found = manifest.facts.get(_ENTROPY)
    return None if found is None else float(found)


def _unfinished(partial: Path, name: str) -> RunLog | None:
    """The log in the newest checkpoint; None where there is none."""
    for left in reversed(range(_TRIES)):
        try:
            pointer = json.loads((partial / "LATEST.json").read_bytes())
            newest = pointer["checkpoints"][0]
            folder = partial / f"step-{newest['step']:08d}"
            return _of_checkpoint(Checkpoint(newest["step"], folder, newest["files"]), name)
        except FileNotFoundError:
            if not left:
                return None
            time.sleep(0.02)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise ArtifactError(
                "the state of the unfinished run is damaged", where=partial, got=error, hint="run the training again"
            ) from None
    return None


def _of_checkpoint(checkpoint: Checkpoint, name: str) -> RunLog:
    """From the log of a transformer or of word vectors (see training/checkpoint.py and stages/word_training.py)."""
    if "log.json" in checkpoint.files:
        log = json.loads(checkpoint.read_bytes("log.json"))
        columns = [field.name for field in fields(Step)]
        rows = [dict(zip(columns, row, strict=False)) for row in log["history"]]
        return RunLog(name, "model", tuple(rows), log.get(_ENTROPY), finished=False)
    state: dict[str, Any] = json.loads(checkpoint.read_bytes("state.json"))
    return RunLog(name, "words", tuple(state["log"]), finished=False)


def _names(paths: list[Path]) -> list[str]:
    """The last parts of the paths, as many as tell them apart."""
    parts = [path.absolute().parts[1:] or (str(path),) for path in paths]
    for depth in range(1, max(map(len, parts), default=0) + 1):
        names = ["/".join(one[-depth:]) for one in parts]
        if len(set(names)) == len(set(parts)):
            return names
    return [str(path) for path in paths]
