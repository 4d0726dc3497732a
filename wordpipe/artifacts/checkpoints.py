"""Checkpoints: the exact state of a training, safe against being killed at any moment and against a disk that lies.

    FOLDER/LATEST.json             which checkpoints there are, the newest first, with the size and BLAKE3 of every file
    FOLDER/step-00000200/          the files of one checkpoint, named by the training

A checkpoint is written and forced to the disk before LATEST.json names it, and the one before it is removed after that.
Two are kept: if a file of the newest is cut or changed, it is refused by name and the other one is used. While one is being
written there are three on the disk, and of the state in memory there is never a copy.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from blake3 import blake3
from numpy.typing import NDArray
from typing_extensions import Buffer

from wordpipe.artifacts.arrays import array_blocks
from wordpipe.artifacts.draft import HashedFile
from wordpipe.artifacts.failpoints import failpoint
from wordpipe.artifacts.hashing import hash_bytes

__all__ = ["Checkpoint", "Checkpoints"]

_POINTER = "LATEST.json"
_KEPT = 2
_UNUSABLE = (OSError, ValueError, KeyError, TypeError)

T = TypeVar("T")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was found, to be read.

    Attributes:
        step: steps of the training done.
        folder: where its files are.
        files: what every file should be: its `bytes` and its `blake3`.
    """

    step: int
    folder: Path
    files: Mapping[str, Mapping[str, Any]]

    def read_bytes(self, name: str) -> bytes:
        """All of a file.

        Raises:
            ValueError: the file is not what was written.
            OSError: the disk refused.
            KeyError: the checkpoint has no such file.
        """
        self._refuse_other_size(name)
        data = (self.folder / name).read_bytes()
        self._refuse_changed(name, hash_bytes(data))
        return data

    def read_into(self, name: str, array: NDArray[Any]) -> None:
        """Read a file of `array_blocks` straight into an array, which holds garbage if this raises.

        Args:
            name: the file.
            array: of the shape and dtype that was written, C-contiguous; all of it is overwritten.

        Raises:
            ValueError: the file is not what was written, or not of the size of the array.
            OSError: the disk refused.
            KeyError: the checkpoint has no such file.
        """
        assert array.flags.writeable, f"{name} is to be read into an array that must not change"
        self._refuse_other_size(name)
        if array.nbytes != self.files[name]["bytes"]:
            raise ValueError(f"{name} has {self.files[name]['bytes']} bytes, and its array here {array.nbytes}")
        hasher = blake3()
        with (self.folder / name).open("rb") as file:
            for block in array_blocks(array):
                file.readinto(block)  # a file that was cut just now leaves the rest as it was, and the hash tells
                hasher.update(block)
        self._refuse_changed(name, hasher.hexdigest())

    def _refuse_other_size(self, name: str) -> None:
        expected = self.files[name]["bytes"]
        size = (self.folder / name).stat().st_size
        if size != expected:
            raise ValueError(f"{name} has {size} of {expected} bytes")

    def _refuse_changed(self, name: str, digest: str) -> None:
        if digest != self.files[name]["blake3"]:
            raise ValueError(f"{name} has changed since it was written")


@dataclass
class Checkpoints:
    """The folder of one training's checkpoints.

    Attributes:
        path: the folder; made with the first checkpoint. Where another run has its checkpoints there, `restore` makes it a
            folder beside that one, `PATH-KEY`.
        run_key: what is trained, with which settings, on which data.
        notes: what was found on restoring that the user should know.
        tried: whether `restore` began to load anything, so that arrays it fills may hold anything.
    """

    path: Path
    run_key: str
    notes: list[str] = field(default_factory=list)
    tried: bool = field(default=False, init=False)
    _known: list[dict[str, Any]] = field(default_factory=list, init=False)

    @property
    def newest(self) -> Path | None:
        """The last checkpoint, if there is any."""
        return self._folder(self._known[0]) if self._known else None

    def save(self, step: int, files: Iterable[tuple[str, Iterable[Buffer]]]) -> Path:
        """Write a checkpoint, then forget all but the last two. One of this very step, just saved or restored, stays.

        Args:
            step: steps done.
            files: name and content of every file, taken one after the other, the content block by
                block (`array_blocks` of an array). A block must not change while it is written.

        Returns:
            The checkpoint's folder.

        Raises:
            OSError: the disk refused; the checkpoints before are untouched.
        """
        entry: dict[str, Any] = {"step": step}
        folder = self._folder(entry)
        if folder == self.newest:
            return folder
        try:
            entry["files"] = self._write_folder(folder, files)
            failpoint("checkpoint.before_pointer")
            self._point([entry, *self._known][:_KEPT])
        except BaseException:
            if folder != self.newest:  # which it is if only the last fsync failed
                shutil.rmtree(folder, ignore_errors=True)
            raise
        failpoint("checkpoint.after_pointer")
        self._prune()
        return folder

    def restore(self, load: Callable[[Checkpoint], T]) -> T | None:
        """What `load` makes of the newest whole checkpoint of this run; why one was passed over is in `notes`.

        Args:
            load: reads a checkpoint. It is called again with the one before if it raises OSError,
                ValueError, KeyError or TypeError, so arrays that it fills must be filled wholly.

        Returns:
            What `load` returned, or None if there is nothing to go on from. Arrays that `load`
            fills may hold garbage then.
        """
        pointer = self._read_pointer()
        if pointer is None:
            return None
        if pointer["run"] != self.run_key:
            return self._step_aside(load)
        for entry in pointer["checkpoints"]:
            self.tried = True
            try:
                loaded = load(Checkpoint(entry["step"], self._folder(entry), entry["files"]))
            except _UNUSABLE as error:
                self.notes.append(f"checkpoint {self._folder(entry).name} refused: {error}")
                continue
            self._known = [entry]
            return loaded
        self.notes.append("no checkpoint can be used: starting from the first step")
        return None

    def _step_aside(self, load: Callable[[Checkpoint], T]) -> T | None:
        """Leave the checkpoints of another run where they are, and keep those of this one beside them."""
        first, key = self.path, hash_bytes(self.run_key.encode())[:12]
        assert not first.name.endswith(f"-{key}"), "two runs with one key"
        self.path = first.with_name(f"{first.name}-{key}")
        found = self.restore(load)
        if found is None:
            self.notes.append(
                "a stopped run with other settings or other data is kept: the same command as then continues it, until this "
                "output is finished"
            )
        return found

    def _folder(self, entry: Mapping[str, Any]) -> Path:
        return self.path / f"step-{entry['step']:08d}"

    def _write_folder(self, folder: Path, files: Iterable[tuple[str, Iterable[Buffer]]]) -> dict[str, Any]:
        self.path.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)  # left by a run that was killed before it was named
        folder.mkdir()
        written = {name: _write(folder / name, blocks) for name, blocks in files}
        _sync(folder)
        _sync(self.path)
        return written

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

    def _point(self, known: list[dict[str, Any]]) -> None:
        part = self.path / f"{_POINTER}.part"
        part.unlink(missing_ok=True)
        text = json.dumps({"run": self.run_key, "checkpoints": known}, indent=1, sort_keys=True)
        _write(part, [f"{text}\n".encode()])
        os.replace(part, self.path / _POINTER)  # noqa: PTH105
        self._known = known
        _sync(self.path)

    def _prune(self) -> None:
        kept = [self._folder(entry) for entry in self._known]
        for folder in sorted(self.path.glob("step-*")):
            if folder not in kept:
                shutil.rmtree(folder, ignore_errors=True)


def _write(path: Path, blocks: Iterable[Buffer]) -> dict[str, Any]:
    """Write a new file, force it to the disk and say what it should be when it is read."""
    with HashedFile(path, path.name) as file:
        for block in blocks:
            file.write(block)
    entry = file.entry()
    return {"bytes": entry.bytes, "blake3": entry.blake3}


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
