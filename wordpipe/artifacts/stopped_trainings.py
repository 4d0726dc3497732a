"""Trainings that were stopped: how far each is, and how to continue or to end a training.

`run/model` is being made beside `run/.model.partial`, whose LATEST.json says which checkpoints there are and what made them.
Of a model of several seeds each has a folder in there. Where settings were changed on the way there are several such folders,
`run/.model.partial-KEY`.
"""

import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path
from typing import Any

from wordpipe.artifacts.safe_reading import MANIFEST, read_regular_file
from wordpipe.errors import ArtifactError, WordpipeError

_POINTER, _LARGEST = "LATEST.json", 1 << 20  # bytes of it that are read
_PARTIAL = ".partial"
_SEED = re.compile(r"seed-\d+(-[0-9a-f]+)?")


@dataclass(frozen=True)
class StoppedRun:
    """A training that has kept a checkpoint, and is not finished; it may be going on.

    Attributes:
        folder: where its checkpoints are, or those of its seeds.
        state: the folder of the checkpoints that were saved last.
        output: what it makes.
        step: steps (of word vectors: words) that are done.
        steps: that are planned; None: not known.
        about: what made it: `command`, `arguments`, `settings`, as `Job.about` has them; empty of an earlier version.
    """

    folder: Path
    state: Path
    output: Path
    step: int
    steps: int | None
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """The command of the stopped training, as in "train mlm"; empty where it is not known."""
        command = self.about.get("command")
        return command if isinstance(command, str) else ""

    @property
    def stands_at(self) -> str:
        """The steps of the training that are done, in words."""
        unit = "word" if self.command == "train word2vec" else "step"
        far = f"{self.step:,}" if self.steps is None else f"{self.step:,} of {self.steps:,}"
        return f"{unit} {far}"

    def error(self) -> ArtifactError:
        """Return the error that a stopped training is not an artifact yet, and how to continue or to finish the training."""
        name = shlex.quote(str(self.output))
        command = f"wordpipe {self.command} … -o {name}" if self.command else "the command of the first run"
        hint = (
            f"to continue the training: {command} (with the same options); "
            f"to make a model from the last checkpoint: wordpipe finish {name}"
        )
        return ArtifactError(
            f"this is not an artifact yet, because its training was stopped at {self.stands_at}, or is still running",
            where=self.output,
            hint=hint,
        )


def stopped_runs(path: Path) -> list[StoppedRun]:
    """Return the stopped trainings of an artifact, the first folder first; an empty list if there are none.

    Args:
        path: what they make, the folder of one of them, or one of its checkpoints.
    """
    place = Path(os.path.abspath(path))  # noqa: PTH100  (which follows no links)
    for above, folder in enumerate((place, *place.parents[:2])):
        name, mark, _ = folder.name.rpartition(_PARTIAL)
        if mark and name.startswith(".") and len(name) > 1:
            holder = path.parents[above] if above < len(path.parents) else None
            return _runs_in(folder, holder, next(iter(place.relative_to(folder).parts), ""))
    beside = sorted(place.parent.glob(f"{escape(f'.{place.name}{_PARTIAL}')}*")) if place.parent.is_dir() else []
    mine = [one for one in beside if one.name.removeprefix(f".{place.name}{_PARTIAL}")[:1] in ("", "-")]
    return [run for one in mine for run in _runs_in(one, path.parent)]


def why_unfinished(path: Path) -> ArtifactError | None:
    """Return the error for a path where an artifact was expected and a stopped training is; None where there is none."""
    runs = stopped_runs(path)
    if not runs or ((runs[0].output / MANIFEST).is_file() and runs[0].output.absolute() == path.absolute()):
        return None
    return runs[-1].error()


def _runs_in(folder: Path, beside: Path | None, inner: str = "") -> list[StoppedRun]:
    """Return the stopped trainings whose checkpoints are in a folder; with several seeds, where the last begun is.

    Args:
        folder: of the checkpoints.
        beside: the folder that holds it, as the output is to be named; None: as it is.
        inner: only the run that this folder in it is of, where that is one of its seeds.
    """
    runs: dict[str, StoppedRun] = {}
    wanted = None
    for place in (folder, *sorted(_seeds(folder), key=lambda one: (int(one.name.split("-")[1]), one.name))):
        try:
            pointer = json.loads(read_regular_file(place / _POINTER, _LARGEST))
            about = dict(pointer.get("about") or {})
            step, steps = int(pointer["checkpoints"][0]["step"]), about.get("steps")
            recipe = str(pointer["run"]).partition("-")[0]  # the seed comes after it
        except (WordpipeError, OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
            continue
        output = (folder.parent if beside is None else beside) / folder.name[1:].rpartition(_PARTIAL)[0]
        runs[recipe] = StoppedRun(folder, place, output, step, steps if isinstance(steps, int) else None, about)
        wanted = recipe if place.name == inner else wanted
    return [*runs.values()] if wanted is None else [runs[wanted]]


def _seeds(folder: Path) -> list[Path]:
    """Return the folders of the seeds below a folder of checkpoints."""
    try:
        return [one for one in folder.glob("seed-*") if _SEED.fullmatch(one.name)]
    except OSError:
        return []


IN_MEMORY = object()
"""What stands for an argument that a program had in memory."""


def written(value: Any, beside: Path) -> Any:
    """Return a command's argument as a stopped training keeps it: a path relative to the output's folder; null: in memory."""
    if value is None:
        return {"is": None}
    if isinstance(value, (list, tuple)):
        return {"list": [written(one, beside) for one in value]}
    if not isinstance(value, (str, os.PathLike)):
        return None
    text = os.fspath(value)
    return {"path": os.path.relpath(text, beside)} if os.path.exists(text) else {"is": text}  # noqa: PTH110


def as_given(value: Any, beside: Path) -> Any:
    """Return a command's argument out of what a stopped training kept; paths are seen from the current folder.

    Raises:
        TypeError, KeyError: `written` has not made it.
    """
    if value is None:
        return IN_MEMORY
    if not isinstance(value, Mapping):
        raise TypeError(value)
    if "path" in value:
        return os.path.relpath(str(beside / str(value["path"])))
    if "list" in value:
        found = [as_given(one, beside) for one in value["list"]]
        return IN_MEMORY if any(one is IN_MEMORY for one in found) else found
    return value["is"]


def notes_of(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the notes of an artifact on itself: that its training was ended before its last step."""
    try:
        ended = facts["finished_early"]
        unit = "word" if ended.get("unit") == "word" else "step"
        return (f"finished early at {unit} {int(ended['at']):,} of {int(ended['of']):,}",)
    except (KeyError, TypeError, ValueError, AttributeError):
        return ()
