"""The exact state of a training as a checkpoint: safetensors files and a log; what another machine means.

    STATE/step-00000200/            model.safetensors, optimiser.safetensors, log.json
    STATE/step-00000200/            state.safetensors, log.json (of a static table)

How checkpoints are kept, and what happens to damaged ones, is in artifacts/checkpoints.py. No random state is kept, because
nothing random depends on more than (seed, step).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors import SafetensorError

from wordpipe.artifacts import Checkpoint
from wordpipe.errors import DivergedError
from wordpipe.runtime import cpu_count

Tensors = Mapping[str, Mapping[str, Any]]
"""File (model, optimiser; or state) → tensor by its name in it: of torch, or of a static table an array of NumPy."""

_LOG, _SUFFIX = "log.json", ".safetensors"
_MAX_SUGGESTED_LR = 3e-3  # a third of a rate that nobody should give is no advice


@dataclass(frozen=True)
class Snapshot:
    """A training after some step.

    Attributes:
        step: optimiser steps done.
        tensors: the model's weights by name; the optimiser's tensors, named `WEIGHT/KEY`.
        log: what was reported so far, what the next report adds to, and under which conditions it ran, as JSON values.
    """

    step: int
    tensors: Tensors
    log: Mapping[str, Any]


def snapshot_files(snapshot: Snapshot) -> list[tuple[str, Iterator[bytes]]]:
    """Return name and content of a snapshot's files, each made when it is written, so that only one is in memory."""
    files = [(f"{name}{_SUFFIX}", _saved(tensors)) for name, tensors in snapshot.tensors.items()]
    return [*files, (_LOG, iter([json.dumps(snapshot.log, sort_keys=True).encode()]))]


def load_snapshot(checkpoint: Checkpoint, *, library: Literal["torch", "numpy"] = "torch") -> Snapshot:
    """Read the files of a snapshot back, one after the other.

    Args:
        checkpoint: its folder.
        library: whose arrays the tensors become.

    Raises:
        OSError, ValueError, KeyError, TypeError: any fault of theirs.
    """
    names = [name for name in checkpoint.files if name.endswith(_SUFFIX)]
    load = _library(library).load
    try:
        tensors = {name.removesuffix(_SUFFIX): load(checkpoint.read_bytes(name)) for name in names}
    except SafetensorError as error:
        raise ValueError(str(error)) from None
    return Snapshot(checkpoint.step, tensors, json.loads(checkpoint.read_bytes(_LOG)))


def diverged(step: int, *, loss: float, norm: float, lr: float, newest: Path | None) -> DivergedError:
    """Return the error of a training whose loss, or gradient, is no longer finite, by its last snapshot.

    Args:
        step: steps done.
        loss: summed since the last report.
        norm: of the gradients, likewise.
        lr: peak learning rate; a third of it is advised.
        newest: the last checkpoint, if there is any.
    """
    good = f"the last good checkpoint is {newest}" if newest else "there is no checkpoint yet"
    return DivergedError(
        "the loss or its gradient is no longer a finite number",
        where=f"step {step}",
        got=f"loss {loss}, gradient norm {norm}",
        hint=f"use a lower learning rate, for example --lr {min(lr / 3, _MAX_SUGGESTED_LR):.2g} ({good})",
    )


def threads_of_before(before: int, now: int) -> int:
    """Take the number of threads of the run whose snapshot is continued, if this machine has so many threads."""
    return now if before > cpu_count() else before


def other_conditions(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Return a warning if a run goes on from a snapshot under conditions that change its last bits.

    Args:
        before: device, numbers, versions, threads of the run that is continued; a fact it does not have is not compared.
        now: those of this one.
    """
    changed = [f"{key} {before[key]} → {now[key]}" for key in sorted(now) if before.get(key, now[key]) != now[key]]
    return (
        f"the run started under different conditions ({', '.join(changed)}), so the weights may differ in the last "
        "digits"
        if changed
        else None
    )


def _saved(tensors: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the bytes of a safetensors file of these tensors."""
    are_arrays = all(isinstance(one, np.ndarray) for one in tensors.values())
    yield _library("numpy" if are_arrays else "torch").save(dict(tensors))


def _library(name: Literal["torch", "numpy"]) -> Any:
    """Return the module that reads and writes safetensors as arrays of this library."""
    return import_module(f"safetensors.{name}")
