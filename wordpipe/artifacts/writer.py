"""Files and folders that are whole or absent: artifacts, and what leaves them (exports, configs).

Files go into a sibling folder with a random name, are hashed as they are written, flushed to the disk and closed; then
the manifest is written and the folder is exchanged with the target. A reader sees the old artifact or the new one, whole,
whatever happens in between. No library is given a final path: faiss, pyarrow and torch all destroy or truncate the good
file when the disk is full.
"""

import io
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from blake3 import blake3
from typing_extensions import Buffer

from wordpipe.artifacts.manifest import Manifest, OutputEntry, is_plain_path
from wordpipe.artifacts.publish import (
    ELSEWHERE,
    check_replaceable,
    failpoint,
    files_at,
    put_in_place,
    signals_held,
    sync_folder,
    sync_folders,
)
from wordpipe.artifacts.reader import Artifact, refuse_inside_artifact
from wordpipe.artifacts.safe_reading import MANIFEST
from wordpipe.errors import ConfigError, StorageError

if TYPE_CHECKING:
    import numpy.typing as npt

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MANIFEST_PART = f"{MANIFEST}.part"
_BLOCK = 4 << 20  # bytes copied at a time


class HashedFile(io.RawIOBase):
    """A new file that hashes what is written to it. Closing it forces it to the disk.

    Libraries often lose the error of a failed write, so the file keeps it: `error` is raised again at publishing.
    """

    def __init__(self, path: Path, name: str) -> None:
        super().__init__()
        self.name = name
        self.size = 0
        self.error: OSError | None = None
        self._path = path
        self._hasher = blake3()
        try:
            self._fd = os.open(path, _NEW_FILE, 0o666)
        except OSError:
            super().close()  # or Python would close, when it is collected, a file that was never open, and say that it failed
            raise

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size

    def write(self, data: Buffer, /) -> int:
        """Write all of `data`."""
        if self.closed:  # its descriptor may be another file's by now
            raise ValueError(f"the file {self._path} is closed and cannot be written")
        view = memoryview(data)
        view = view.cast("B") if view.nbytes else memoryview(b"")  # a view without elements cannot be cast
        try:
            failpoint("publish.file_written")
            left = view
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError as error:
            self.error = OSError(error.errno, error.strerror, str(self._path))
            raise self.error from None
        self._hasher.update(view)
        self.size += len(view)
        return len(view)

    def close(self) -> None:
        """Force the file to the disk and close it; a failed fsync is never tried again, as the pages may be gone."""
        if self.closed:
            return
        try:
            failpoint("publish.file_synced")
            os.fsync(self._fd)
        except OSError as error:
            self.error = OSError(error.errno, error.strerror, str(self._path))
        finally:
            os.close(self._fd)
            super().close()
        self.raise_error()

    def raise_error(self) -> None:
        """Raise the error that a write or the closing met, even if a library has swallowed it since.

        Raises:
            OSError: the disk refused; names the file.
        """
        if self.error is not None:
            raise self.error

    def entry(self, *, rows: int | None = None, log: bool = False) -> OutputEntry:
        """Return the entry of this file for the manifest: size and hash."""
        return OutputEntry(path=self.name, bytes=self.size, blake3=self._hasher.hexdigest(), rows=rows, log=log)


class _NewFolder:
    """A folder being written beside its target. Leaving the context removes what stands there, without a trace."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.path = _temporary(target)
        self.outputs: list[OutputEntry] = []
        self._files: list[HashedFile] = []

    def __enter__(self) -> Self:
        failpoint("publish.started")
        self.path.mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            with suppress(OSError):
                file.close()
        shutil.rmtree(self.path, ignore_errors=True)

    @contextmanager
    def create(self, name: str, *, log: bool = False) -> Iterator[HashedFile]:
        """Open the new file `name` for writing; it is recorded when the block ends well."""
        file = self.open(name)
        yield file
        self.close(file, log=log)

    def open(self, name: str) -> HashedFile:
        """Open the new file `name`; give it back to `close`."""
        assert is_plain_path(name), name
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        file = HashedFile(path, name)
        self._files.append(file)
        failpoint("publish.file_made")
        return file

    def close(self, file: HashedFile, *, rows: int | None = None, log: bool = False) -> None:
        """Close and record a file that `open` gave."""
        file.close()
        file.raise_error()
        self._files.remove(file)
        self.outputs.append(file.entry(rows=rows, log=log))

    def write(self, name: str, data: bytes, *, log: bool = False) -> None:
        """Write a small file at once."""
        with self.create(name, log=log) as file:
            file.write(data)


class ArtifactWriter(_NewFolder):
    """An artifact being written. Leaving the context without `publish` removes it without a trace."""

    def adopt(self, path: Path, entry: OutputEntry) -> None:
        """Take a finished file on the same disk, whose hash is known, as a file of this artifact.

        It gets a second name here and keeps its first, so that it survives if this artifact is never published.
        """
        assert is_plain_path(entry.path), entry.path
        try:
            (self.path / entry.path).hardlink_to(path)
        except OSError:  # some file systems have no links
            path.rename(self.path / entry.path)
        self.outputs.append(entry)

    def share(self, source: Artifact, name: str, called: str = "") -> None:
        """Make a file of another artifact a file of this one, so that it lies on the disk once.

        An artifact's files never change, so two may share them: the vectors and the encoder of 100 MB of text are 1 GB that
        need neither be written again nor lie on the disk twice. Where the file system has no links, or the two lie on
        different ones, the file is copied.

        Args:
            source: an open artifact.
            name: of the file there.
            called: its name here; the same where it is not given.
        """
        entry = source.entry(name).model_copy(update={"path": called or name})
        assert is_plain_path(entry.path), entry.path
        path = self.path / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with source.open(name) as file:
            if _linked(source.path / name, file, path):
                self.outputs.append(entry)
                return
            path.unlink(missing_ok=True)
            shutil.copyfileobj(file, made := self.open(entry.path), _BLOCK)
            self.close(made, rows=entry.rows, log=entry.log)

    def publish(self, manifest: Manifest) -> None:
        """End the writing of an artifact: write its manifest, check all files, and publish the folder at `target`.

        Raises:
            OSError: the disk refused; the old artifact is untouched.
            StorageError, ArtifactError: what stands at `target` by now may not be replaced.
        """
        for file in self._files:  # a library may have swallowed the error of its last write
            file.raise_error()
        assert not self._files, "a file of the artifact is still open"
        part = self.open(_MANIFEST_PART)
        part.write(manifest.to_bytes())
        part.close()
        self._files.remove(part)
        (self.path / _MANIFEST_PART).rename(self.path / MANIFEST)  # its presence says that the folder is whole
        failpoint("publish.manifest_named")
        recorded = sorted([MANIFEST, *(entry.path for entry in manifest.outputs)])
        there = files_at(self.path)
        assert there == recorded, f"the manifest lists the files {recorded}, but the folder contains the files {there}"
        sync_folders(self.path)
        check_replaceable(self.target, manifest.kind)  # hours may have passed since the stage looked
        with signals_held():
            put_in_place(self.path, self.target)


def _linked(path: Path, file: BinaryIO, new: Path) -> bool:
    """Give a file that is open a second name; False where that cannot be done, or another file took its place."""
    try:
        os.link(path, new, follow_symlinks=False)
        return os.path.samestat(os.fstat(file.fileno()), new.stat())
    except OSError:
        return False


def array_data(array: "npt.NDArray[Any]") -> bytes:
    """Return an array as the bytes of a .npy file, which `parse_array` reads."""
    import numpy as np

    np.save(file := io.BytesIO(), array, allow_pickle=False)
    return file.getvalue()


def _temporary(path: Path) -> Path:
    """Return a random temporary name beside an output."""
    return path.parent / f".{path.name}.{secrets.token_hex(8)}.tmp"


def check_output(path: Path, *, replace: bool = True) -> None:
    """Refuse an output path where the writer could put no file or folder, before the work begins.

    Args:
        path: to be written.
        replace: what stands there may be replaced.

    Raises:
        StorageError: a device or a pipe stands there, or nothing may be written there.
        ConfigError: it would lie in an artifact, or replace what may not be.
    """
    device = path.absolute().is_relative_to("/dev")  # /dev/stdout may lead to a file
    if os.path.lexists(path) and (device or not (path.is_file() or path.is_dir() or path.is_symlink())):
        raise StorageError("the output exists and is not a file, so it is not replaced", where=path, hint=ELSEWHERE)
    refuse_inside_artifact(path)
    empty = path.is_dir() and not path.is_symlink() and not any(path.iterdir())
    if not replace and os.path.lexists(path) and not empty:
        raise ConfigError(
            "the output exists already",
            where=path,
            hint="replace the output with --force, or choose another output with -o",
        )
    parent = next(folder for folder in path.absolute().parents if os.path.lexists(folder))
    if not parent.is_dir():
        raise StorageError(
            "the output cannot be written here, because this is not a folder", where=parent, hint=ELSEWHERE
        )
    if not os.access(parent, os.W_OK | os.X_OK):
        raise StorageError("permission denied: this user may not write in the folder", where=parent, hint=ELSEWHERE)


@contextmanager
def atomic_file(path: Path) -> Iterator[HashedFile]:
    """Write a file beside `path`, force it to the disk, and rename it into place: an atomic writer of files.

    A link is replaced, and what it leads to stays as it is.

    Raises:
        StorageError: something stands there that is no file: a device, a pipe, a folder.
        ConfigError: it would lie in an artifact.
    """
    check_output(path)
    if path.is_dir():
        raise StorageError("the output exists and is not a file, so it is not replaced", where=path, hint=ELSEWHERE)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = _temporary(path)
    file = HashedFile(beside, path.name)
    try:
        yield file
        file.close()
        file.raise_error()
        beside.replace(path)
    except BaseException:
        with suppress(OSError):
            file.close()
        beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def atomic_folder(
    path: Path, files: Mapping[str, Iterable[bytes]], *, may_replace: AbstractSet[str] = frozenset()
) -> dict[str, int]:
    """Write a folder of these files beside `path`, and put it in place whole: an atomic writer of folders.

    Args:
        path: the folder.
        files: name (of a file in a folder below too: "1_Pooling/config.json") → content, chunk by chunk.
        may_replace: an older folder that holds only files of these names and of those in `files` is replaced; nothing else is.

    Returns:
        Name → bytes.

    Raises:
        StorageError: something else stands at `path`.
        ConfigError: it would lie in an artifact.
        OSError: the disk refused; what was there is untouched.
    """
    refuse_other(path, may_replace | set(files))
    path.parent.mkdir(parents=True, exist_ok=True)
    with _NewFolder(path) as new:
        for name, chunks in files.items():
            with new.create(name) as file:
                for chunk in chunks:
                    file.write(chunk)
        sync_folders(new.path)
        with signals_held():
            put_in_place(new.path, path)
    return {entry.path: entry.bytes for entry in new.outputs}


def refuse_other(path: Path, names: AbstractSet[str]) -> None:
    """Refuse to put a folder of files of these names where something else stands; `atomic_folder` does, after the work.

    Raises:
        StorageError: a file, a link, or a folder with other files stands there.
        ConfigError: it would lie in an artifact.
    """
    refuse_inside_artifact(path)
    if path.name in ("", ".."):
        raise StorageError("the output path must end in a name, not in . or ..", where=path, hint=ELSEWHERE)
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise StorageError(
            "the output is an existing file or link, but this format needs a folder", where=path, hint=ELSEWHERE
        )
    if path.exists() and (other := [name for name in files_at(path) if name not in names]):
        raise StorageError(f"the folder contains other files ({other[0]})", where=path, hint=ELSEWHERE)
