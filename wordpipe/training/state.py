"""The exact state of a training of a transformer, as a checkpoint of three files.

    STATE/step-00000200/            model.safetensors, optimiser.safetensors, log.json

How checkpoints are kept, and what happens to damaged ones, is in artifacts/checkpoints.py. No random state is kept, because
nothing random depends on more than (seed, step).
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from wordpipe.artifacts.checkpoints import Checkpoint, Checkpoints

__all__ = ["Snapshot", "StateDir", "snapshot_files", "snapshot_from"]

_MODEL, _OPTIMISER, _LOG = "model.safetensors", "optimiser.safetensors", "log.json"


@dataclass(frozen=True)
class Snapshot:
    """A training after some step.

    Attributes:
        step: optimiser steps done.
        model: the model's weights by name.
        optimiser: the optimiser's tensors, named `WEIGHT/KEY`.
        log: what was reported so far, what the next report adds to, and under which conditions it ran, as JSON values.
    """

    step: int
    model: Mapping[str, Tensor]
    optimiser: Mapping[str, Tensor]
    log: Mapping[str, Any]


class StateDir:
    """The folder of one training's checkpoints.

    Args:
        path: the folder; made with the first checkpoint.
        run_key: what is trained, with which settings, on which data. Checkpoints of anything
            else are left alone until this run has one of its own.

    Attributes:
        notes: what was found on restoring that the user should know.
    """

    def __init__(self, path: Path, run_key: str) -> None:
        self._checkpoints = Checkpoints(path, run_key)
        self.notes = self._checkpoints.notes

    @property
    def newest(self) -> Path | None:
        """The last checkpoint, if there is any."""
        return self._checkpoints.newest

    def save(self, snapshot: Snapshot) -> Path:
        """Write a checkpoint, then forget all but the last two.

        Raises:
            OSError: the disk refused; the checkpoints before are untouched.
        """
        return self._checkpoints.save(snapshot.step, snapshot_files(snapshot))

    def restore(self) -> Snapshot | None:
        """The newest whole checkpoint of this run, or None; why one was passed over is in `notes`."""
        return self._checkpoints.restore(_load)


def snapshot_files(snapshot: Snapshot) -> list[tuple[str, Iterator[bytes]]]:
    """Name and content of the three files, each made when it is written, so that only one is in memory."""
    log = json.dumps(snapshot.log, sort_keys=True).encode()
    return [(_MODEL, _tensors(snapshot.model)), (_OPTIMISER, _tensors(snapshot.optimiser)), (_LOG, iter([log]))]


def snapshot_from(read: Callable[[str], bytes], *, step: int | None = None) -> Snapshot:
    """Read the files back, one after the other.

    Args:
        read: the content of a file by its name.
        step: steps done; None: as the log says.

    Raises:
        OSError, ValueError, KeyError, TypeError: any fault of theirs.
    """
    try:
        model, optimiser = load(read(_MODEL)), load(read(_OPTIMISER))
    except SafetensorError as error:
        raise ValueError(str(error)) from None
    log = json.loads(read(_LOG))
    return Snapshot(log["step"] if step is None else step, model, optimiser, log)


def _tensors(tensors: Mapping[str, Tensor]) -> Iterator[bytes]:
    yield save(dict(tensors))


def _load(checkpoint: Checkpoint) -> Snapshot:
    return snapshot_from(checkpoint.read_bytes, step=checkpoint.step)
