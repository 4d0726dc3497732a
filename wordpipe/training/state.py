"""Checkpoints: the exact state of a training, safe against being killed at any moment and against a disk that lies.

    STATE/LATEST.json               which checkpoints there are, the newest first, with the size and BLAKE3 of every file
    STATE/step-00000200/            model.safetensors, optimiser.safetensors, log.json

A checkpoint is written and forced to the disk before LATEST.json names it, and the one before it is removed after that.
Two are kept: if a file of the newest is cut or changed, it is refused by name and the other one is used. No random state is
kept, because nothing random depends on more than (seed, step).
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from wordpipe.artifacts.draft import HashedFile
from wordpipe.artifacts.failpoints import failpoint
from wordpipe.artifacts.hashing import hash_bytes

__all__ = ["Snapshot", "StateDir"]

_POINTER = "LATEST.json"
_FILES = ("model.safetensors", "optimiser.safetensors", "log.json")
_KEPT = 2
_UNUSABLE = (OSError, SafetensorError, ValueError, KeyError, TypeError)


@dataclass(frozen=True)
class Snapshot:
    """A training after some step.

    Attributes:
        step: optimiser steps done.
        model: the model's weights by name.
        optimiser: the optimiser's tensors, named `WEIGHT/KEY`.
        log: what was reported so far and what the next report adds to, as JSON values.
    """

    step: int
    model: Mapping[str, Tensor]
    optimiser: Mapping[str, Tensor]
    log: Mapping[str, Any]


@dataclass
class StateDir:
    """The folder of one training's checkpoints.

    Attributes:
        path: the folder; made with the first checkpoint.
        run_key: what is trained, with which settings, on which data. Checkpoints of anything
            else are left alone until this run has one of its own.
        notes: what was found on restoring that the user should know.
    """

    path: Path
    run_key: str
    notes: list[str] = field(default_factory=list)
    _known: list[dict[str, Any]] = field(default_factory=list, init=False)

    @property
    def newest(self) -> Path | None:
        """The last checkpoint, if there is any."""
        return self._folder(self._known[0]) if self._known else None

    def save(self, snapshot: Snapshot) -> Path:
        """Write a checkpoint, then forget all but the last two.

        Raises:
            OSError: the disk refused; the checkpoints before are untouched.
        """
        entry: dict[str, Any] = {"step": snapshot.step}
        folder = self._folder(entry)
        if folder == self.newest:
            return folder
        try:
            entry["files"] = self._write_folder(folder, snapshot)
            failpoint("checkpoint.before_pointer")
            self._point([entry, *self._known][:_KEPT])
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        failpoint("checkpoint.after_pointer")
        self._prune()
        return folder

    def restore(self) -> Snapshot | None:
        """The newest whole checkpoint of this run, or None; why one was passed over is in `notes`."""
        pointer = self._read_pointer()
        if pointer is None:
            return None
        if pointer["run"] != self.run_key:
            self.notes.append(
                "a stopped run with other settings or other data was here: the first checkpoint of this one replaces its own"
            )
            return None
        for entry in pointer["checkpoints"]:
            try:
                snapshot = self._load(entry)
            except _UNUSABLE as error:
                self.notes.append(f"checkpoint {self._folder(entry).name} refused: {error}")
                continue
            self._known = [entry]
            return snapshot
        self.notes.append("no checkpoint can be used: starting from the first step")
        return None

    def _folder(self, entry: Mapping[str, Any]) -> Path:
        return self.path / f"step-{entry['step']:08d}"

    def _write_folder(self, folder: Path, snapshot: Snapshot) -> dict[str, Any]:
        self.path.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)  # left by a run that was killed before it was named
        folder.mkdir()
        files = {name: _write(folder / name, data) for name, data in _serialise(snapshot)}
        _sync(folder)
        _sync(self.path)
        return files

    def _read_pointer(self) -> dict[str, Any] | None:
        try:
            pointer = json.loads((self.path / _POINTER).read_bytes())
            entries = [{"step": int(entry["step"]), "files": dict(entry["files"])} for entry in pointer["checkpoints"]]
            return {"run": str(pointer["run"]), "checkpoints": entries}
        except FileNotFoundError:
            return None
        except _UNUSABLE as error:
            self.notes.append(f"{_POINTER} cannot be read ({error}): starting from the first step")
            return None

    def _load(self, entry: Mapping[str, Any]) -> Snapshot:
        data = {name: _read(self._folder(entry) / name, entry["files"][name]) for name in _FILES}
        return Snapshot(
            step=entry["step"],
            model=load(data["model.safetensors"]),
            optimiser=load(data["optimiser.safetensors"]),
            log=json.loads(data["log.json"]),
        )

    def _point(self, known: list[dict[str, Any]]) -> None:
        part = self.path / f"{_POINTER}.part"
        part.unlink(missing_ok=True)
        text = json.dumps({"run": self.run_key, "checkpoints": known}, indent=1, sort_keys=True)
        _write(part, f"{text}\n".encode())
        os.replace(part, self.path / _POINTER)  # noqa: PTH105
        _sync(self.path)
        self._known = known

    def _prune(self) -> None:
        kept = [self._folder(entry) for entry in self._known]
        for folder in sorted(self.path.glob("step-*")):
            if folder not in kept:
                shutil.rmtree(folder, ignore_errors=True)


def _serialise(snapshot: Snapshot) -> Iterator[tuple[str, bytes]]:
    """The files one after the other, so that only one is in memory."""
    yield _FILES[0], save(dict(snapshot.model))
    yield _FILES[1], save(dict(snapshot.optimiser))
    yield _FILES[2], json.dumps(snapshot.log, sort_keys=True).encode()


def _write(path: Path, data: bytes) -> dict[str, Any]:
    """Write a new file, force it to the disk and say what it should be when it is read."""
    file = HashedFile(path, path.name)
    try:
        file.write(data)
    finally:
        file.close()
    entry = file.entry()
    return {"bytes": entry.bytes, "blake3": entry.blake3}


def _read(path: Path, expected: Mapping[str, Any]) -> bytes:
    data = path.read_bytes()
    if len(data) != expected["bytes"]:
        raise ValueError(f"{path.name} has {len(data)} of {expected['bytes']} bytes")
    if hash_bytes(data) != expected["blake3"]:
        raise ValueError(f"{path.name} has changed since it was written")
    return data


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
