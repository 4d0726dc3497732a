"""Checkpoints of a training, and the resume cache of a stage: what unfinished work leaves on the disk.

Checkpoints are the exact state of a training, safe against being killed at any moment and against a disk that lies.

    FOLDER/LATEST.json             which checkpoints there are, the newest first, with the size and BLAKE3 of every file
    FOLDER/step-00000200/          the files of one checkpoint, named by the training

A checkpoint is written and forced to the disk before LATEST.json names it, and the one before it is removed after that.
Two are kept: if a file of the newest is cut or changed, it is refused by name and the other one is used. While one is being
written there are three on the disk, and of the state in memory there is never a copy.

A resume cache holds what a killed stage has done and need not do twice: files, each written whole, forced to the disk and
only then named, with a note of its size, hash and figures beside it. Files of another recipe are thrown away.

    .tokens.partial/recipe                       the recipe of what is being made
    .tokens.partial/counted-00000.parquet        a file
    .tokens.partial/counted-00000.parquet.json   its size, BLAKE3 and figures; without this note it does not count
"""

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self, TypeVar

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray
from typing_extensions import Buffer

from wordpipe.artifacts.manifest import OutputEntry, hash_bytes, hash_fd
from wordpipe.artifacts.publish import failpoint, sync_folder
from wordpipe.artifacts.writer import ArtifactWriter, HashedFile, atomic_file
from wordpipe.errors import ArtifactError, StorageError

if TYPE_CHECKING:
    import pyarrow as pa

    from wordpipe.artifacts.tables import TableWriter

_BLOCK = 1 << 20  # bytes; so few that they are still in the processor's cache when they are hashed
_POINTER = "LATEST.json"
_RECIPE = "recipe"
_CHECKPOINTS_KEPT = 2
_LATE_S = 60  # that a file of another machine may come late
_UNUSABLE = (OSError, ValueError, KeyError, TypeError)

T = TypeVar("T")


def array_blocks(array: NDArray[Any]) -> Iterator[memoryview]:
    """Yield the memory of an array that a checkpoint keeps, as views of at most 1 MiB, the first row first.

    Nothing is copied: who writes into a view writes into the array. An array without values has no blocks.
    """
    assert array.flags.c_contiguous, "the rows of the array must be contiguous in memory"
    assert not array.dtype.hasobject, f"an array of type {array.dtype} contains Python objects, not numbers"
    data = array.reshape(-1).view(np.uint8).data
    for start in range(0, len(data), _BLOCK):
        yield data[start : start + _BLOCK]


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was found, to be read."""

    step: int  # steps of the training done
    folder: Path  # where its files are
    files: Mapping[str, Mapping[str, Any]]  # what every file should be: its `bytes` and its `blake3`

    def read_bytes(self, name: str) -> bytes:
        """Return the bytes of a file of the checkpoint; raises as `read_into`."""
        self._refuse_other_size(name)
        data = (self.folder / name).read_bytes()
        self._refuse_changed(name, hash_bytes(data))
        return data

    def read_into(self, name: str, array: NDArray[Any]) -> None:
        """Read an array of a checkpoint (see `array_blocks`) straight into memory, which holds garbage if this raises.

        Raises:
            ValueError: the file is not what was written, or not of the size of the array.
            OSError: the disk refused.
            KeyError: the checkpoint has no such file.
        """
        assert array.flags.writeable, f"{name} cannot be read into a read-only array"
        self._refuse_other_size(name)
        if array.nbytes != self.files[name]["bytes"]:
            raise ValueError(
                f"the file {name} has {self.files[name]['bytes']} bytes, but the array for this file has {array.nbytes} bytes"
            )
        hasher = blake3()
        with (self.folder / name).open("rb") as file:
            for block in array_blocks(array):
                file.readinto(block)  # a file that was cut just now leaves the rest as it was, and the hash differs
                hasher.update(block)
        self._refuse_changed(name, hasher.hexdigest())

    def _refuse_other_size(self, name: str) -> None:
        expected = self.files[name]["bytes"]
        size = (self.folder / name).stat().st_size
        if size != expected:
            raise ValueError(f"the file {name} has {size} bytes instead of {expected} bytes")

    def _refuse_changed(self, name: str, digest: str) -> None:
        if digest != self.files[name]["blake3"]:
            raise ValueError(f"the file {name} has changed since it was written")


@dataclass
class Checkpoints:
    """The folder of one training's checkpoints."""

    # the folder; made with the first checkpoint. Where another run has its checkpoints there, `restore` makes it a
    # folder beside that one, `PATH-KEY`
    path: Path
    run_key: str  # what is trained, with which settings, on which data
    about: dict[str, Any] = field(default_factory=dict)  # what the pointer says of the run beside its checkpoints
    notes: list[str] = field(default_factory=list)  # what was found on restoring that the user should know
    # whether `restore` began to load anything, so that arrays it fills may hold anything
    tried: bool = field(default=False, init=False)
    _known: list[dict[str, Any]] = field(default_factory=list, init=False)

    @property
    def newest(self) -> Path | None:
        """The folder of the last checkpoint, if there is any."""
        return self._folder(self._known[0]) if self._known else None

    def save(self, step: int, files: Iterable[tuple[str, Iterable[Buffer]]]) -> Path:
        """Write a checkpoint, remove all but the last two, and return its folder; a checkpoint of the same step stays.

        The files are taken one after the other, name and content, block by block (`array_blocks` of an array). A block must
        not change while it is written.

        Raises:
            OSError: the disk refused; the checkpoints before are untouched.
        """
        entry: dict[str, Any] = {"step": step}
        folder = self._folder(entry)
        if folder == self.newest:
            return folder
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(folder, ignore_errors=True)  # left by a run that was killed before it was named
            folder.mkdir()
            entry["files"] = {name: _write(folder / name, blocks) for name, blocks in files}
            sync_folder(folder)
            sync_folder(self.path)
            failpoint("checkpoint.before_pointer")
            self._point([entry, *self._known][:_CHECKPOINTS_KEPT])
        except BaseException:
            if folder != self.newest:  # which it is if only the last fsync failed
                shutil.rmtree(folder, ignore_errors=True)
            raise
        failpoint("checkpoint.after_pointer")
        kept = [self._folder(entry) for entry in self._known]
        for old in sorted(self.path.glob("step-*")):
            if old not in kept:
                shutil.rmtree(old, ignore_errors=True)
        return folder

    def restore(self, load: Callable[[Checkpoint], T]) -> T | None:
        """Return what `load` makes of the newest whole checkpoint of this run; `notes` says why one was passed over.

        `load` is called again with the one before if it raises OSError, ValueError, KeyError or TypeError, so arrays that it
        fills must be filled wholly. None if there is nothing to go on from; arrays that `load` fills may hold garbage then.
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
                self.notes.append(f"checkpoint {self._folder(entry).name} cannot be used: {error}")
                continue
            self._known = [entry]
            return loaded
        self.notes.append("no checkpoint can be used, so the training starts from the first step")
        return None

    def nothing_to_finish(self) -> ArtifactError:
        """Return the error that a stopped run cannot be ended, after `restore` has found no checkpoint of this run."""
        if self.path.exists() and self.tried:
            what, hint = (
                "no checkpoint of the stopped run can be used",
                "to train again from the first step, run the same command again",
            )
            return ArtifactError(what, where=self.path, got="; ".join(self.notes), hint=hint)
        what = "the inputs or the settings of the stopped run have changed since it was stopped"
        return ArtifactError(
            what, where=self.path, hint="restore the inputs of the stopped run, or train again with the same command"
        )

    def _step_aside(self, load: Callable[[Checkpoint], T]) -> T | None:
        """Keep the checkpoints of this run in a folder beside that of another run, which stays as it is."""
        first, key = self.path, hash_bytes(self.run_key.encode())[:12]
        assert not first.name.endswith(f"-{key}"), "two different runs have the same key"
        self.path = first.with_name(f"{first.name}-{key}")
        found = self.restore(load)
        if found is None:
            self.notes.append(
                "the checkpoints of an older stopped run, with other settings or other data, are kept until this output is "
                "finished; to continue the older run, use the command of the older run"
            )
        return found

    def _folder(self, entry: Mapping[str, Any]) -> Path:
        """Return the folder of a checkpoint."""
        return self.path / f"step-{entry['step']:08d}"

    def _read_pointer(self) -> dict[str, Any] | None:
        """Return the run and the checkpoints that LATEST.json names; None if it is missing or damaged."""
        try:
            pointer = json.loads((self.path / _POINTER).read_bytes())
            entries = [{"step": int(entry["step"]), "files": dict(entry["files"])} for entry in pointer["checkpoints"]]
            return {"run": str(pointer["run"]), "checkpoints": entries}
        except FileNotFoundError:
            return None
        except _UNUSABLE as error:
            self.notes.append(f"{_POINTER} cannot be read ({error}), so the training starts from the first step")
            return None

    def _point(self, known: list[dict[str, Any]]) -> None:
        """Write LATEST.json with these checkpoints, in one step."""
        part = self.path / f"{_POINTER}.part"
        part.unlink(missing_ok=True)
        named = {"run": self.run_key, "checkpoints": known} | ({"about": self.about} if self.about else {})
        text = json.dumps(named, indent=1, sort_keys=True)
        _write(part, [f"{text}\n".encode()])
        os.replace(part, self.path / _POINTER)  # noqa: PTH105
        self._known = known
        sync_folder(self.path)


def _write(path: Path, blocks: Iterable[Buffer]) -> dict[str, Any]:
    """Write a new file of a checkpoint, force it to the disk, and return its size and hash."""
    with HashedFile(path, path.name) as file:
        for block in blocks:
            file.write(block)
    entry = file.entry()
    return {"bytes": entry.bytes, "blake3": entry.blake3}


class CachedFiles:
    """The files of a table in a resume cache, for a `TableWriter`; leaving the context by an error forgets the open ones.

    Args:
        cache: where they go.
        prefix: of their names.
        figures: noted beside each file, with its number of rows.

    Attributes:
        names: of the finished files.
    """

    def __init__(self, cache: "ResumeCache", prefix: str, figures: dict[str, Any] | None = None) -> None:
        self._cache, self._prefix, self._figures = cache, prefix, {} if figures is None else figures
        self._open: dict[str, ExitStack] = {}
        self.names: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        for stack in self._open.values():
            stack.__exit__(*error)

    def open(self, name: str) -> HashedFile:
        """Open a new file of the table in the resume cache."""
        stack = ExitStack()
        file = stack.enter_context(self._cache.create(self._prefix + name, self._figures))
        self._open[file.name] = stack
        return file

    def close(self, file: HashedFile, *, rows: int | None = None, log: bool = False) -> None:
        """Close a finished file of the table, which then counts."""
        self._figures["rows"] = rows
        self._open.pop(file.name).close()
        self.names.append(file.name)


class ResumeCache:
    """The folder of one job's finished files. Threads may share it, each with files of its own.

    Args:
        path: the folder; made when the first file is put there.
        recipe: of what is being made. Whatever else lies in the folder is removed.
        shared: another process has opened it, and removes what is left; this one only puts files there.
    """

    def __init__(self, path: Path, recipe: str, *, shared: bool = False) -> None:
        self.path, self.recipe = path, recipe
        self._shared = shared
        self._lock = threading.Lock()
        self._being_written = 0
        if shared:
            return
        if path.exists() and not self._has_our_recipe():
            shutil.rmtree(path, ignore_errors=True)
        for left in path.glob(".*.tmp"):  # of a run that was killed while it wrote
            left.unlink(missing_ok=True)

    @contextmanager
    def shared_with_others(self) -> Iterator[None]:
        """Others, who open it as `shared`, may put files there in the block; without a finished file no folder stays."""
        self._make_folder()
        try:
            yield
        finally:
            if not any(self.path.glob("*.json")):
                shutil.rmtree(self.path, ignore_errors=True)

    def _make_folder(self) -> None:
        """Make the folder of the resume cache, with the recipe inside."""
        with self._lock:
            self.path.mkdir(parents=True, exist_ok=True)
            if not (self.path / _RECIPE).exists():
                self._write_small(_RECIPE, self.recipe.encode())

    def _refuse_strange(self) -> None:
        """Refuse to put a file into the resume cache of another run, or into a folder that only this machine sees.

        Raises:
            StorageError: the folder is not that of the run that shares it.
        """
        if not self._has_our_recipe():
            what = f"the machine {os.uname().nodename} cannot find the folder of this run, or another run now uses the folder"
            hint = (
                "all machines must have the output folder at the same path; if the output is a URL, they must have "
                "$XDG_CACHE_HOME at the same path"
            )
            raise StorageError(what, where=self.path, hint=hint)

    def made_figures(self, name: str) -> dict[str, Any]:
        """Return the figures of a file of the resume cache that another machine may have finished: a shared disk is late.

        Raises:
            StorageError: it does not come.
        """
        for _ in range(_LATE_S):
            if (found := self.figures(name)) is not None:
                return found
            with suppress(OSError):
                os.listdir(self.path)  # noqa: PTH208  (which makes NFS look again)
            time.sleep(1.0)
        what = "a finished file is missing"
        raise StorageError(what, where=self.path / name, hint="run the same command again: finished files are kept")

    def figures(self, name: str) -> dict[str, Any] | None:
        """Return the figures of a finished file of the resume cache; None if there is none, or its bytes have changed."""
        try:
            note = json.loads(self._note(name).read_bytes())
            entry = OutputEntry(**note["entry"])
            fd = os.open(self.path / name, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                whole = os.fstat(fd).st_size == entry.bytes and hash_fd(fd) == entry.blake3
            finally:
                os.close(fd)
            return dict(note["figures"]) if whole else None
        except _UNUSABLE:
            return None

    @contextmanager
    def create(self, name: str, figures: dict[str, Any]) -> Iterator[HashedFile]:
        """Open a new file of the resume cache for writing; it counts as finished when the block ends well.

        The figures are noted beside it, and may be filled in within the block; `rows`, where given, is its number of rows.
        """
        # the folder, with the recipe in it
        with self._lock:
            self._being_written += 1
        try:
            if self._shared:
                self._refuse_strange()
            else:
                self._make_folder()
            # the file first, then the note without which it does not count
            for old in (self._note(name), self.path / name):
                old.unlink(missing_ok=True)
            with atomic_file(self.path / name) as file:
                yield file
            if self._shared:
                self._refuse_strange()
            note = {"entry": file.entry(rows=figures.get("rows")).model_dump(), "figures": figures}
            self._write_small(f"{name}.json", json.dumps(note, sort_keys=True).encode())
        except BaseException:
            with self._lock:  # leave no folder without a finished file
                if not self._shared and self._being_written == 1 and not any(self.path.glob("*.json")):
                    shutil.rmtree(self.path, ignore_errors=True)
            raise
        finally:
            with self._lock:
                self._being_written -= 1
        failpoint("resume_cache.file_finished")

    @contextmanager
    def table(self, name: str, schema: "pa.Schema", figures: dict[str, Any]) -> Iterator["TableWriter"]:
        """Write a Parquet table as a new file of the resume cache; its number of rows is noted among the figures."""
        from wordpipe.artifacts.tables import TableWriter

        with (
            CachedFiles(self, "", figures) as files,
            TableWriter(files, name.removesuffix(".parquet"), schema, single=True) as table,
        ):
            yield table

    def put(self, name: str, data: bytes, figures: Mapping[str, Any] | None = None) -> None:
        """Write a small file at once."""
        with self.create(name, dict(figures or {})) as file:
            file.write(data)

    def open(self, name: str) -> BinaryIO:
        """Open a finished file for reading."""
        return (self.path / name).open("rb")

    def adopt(self, name: str, writer: ArtifactWriter, *, called: str = "") -> None:
        """Make a finished file one of an artifact that is about to be published, perhaps `called` otherwise; it stays here."""
        entry = OutputEntry(**json.loads(self._note(name).read_bytes())["entry"])
        writer.adopt(self.path / name, entry.model_copy(update={"path": called or name}))

    def _has_our_recipe(self) -> bool:
        try:
            return (self.path / _RECIPE).read_text() == self.recipe
        except _UNUSABLE:
            return False

    def _write_small(self, name: str, data: bytes) -> None:
        """Write the recipe or a note of the resume cache, whole."""
        with atomic_file(self.path / name) as file:
            file.write(data)

    def _note(self, name: str) -> Path:
        """Return the path of the note that says a file of the resume cache is finished."""
        return self.path / f"{name}.json"
