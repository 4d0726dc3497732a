"""Opening an artifact: its manifest, its files, checked against their hashes before use.

The folder is opened once and everything is read through its descriptor, so a reader stays with one generation while a
newer one is published over it.
"""

import io
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from wordpipe.artifacts.draft import recover
from wordpipe.artifacts.hashing import HashCache, hash_fd
from wordpipe.artifacts.manifest import MANIFEST, InputEntry, Kind, Manifest, OutputEntry
from wordpipe.errors import ArtifactError

__all__ = ["Artifact", "is_artifact"]

_MAX_MANIFEST = 64 << 20
_KEPT_OPEN = 64  # files opened at once with the folder; more are opened when they are read


def is_artifact(path: Path) -> bool:
    """Whether `path` is a folder with a manifest."""
    return (path / MANIFEST).is_file()


class Artifact:
    """An open artifact. Use as a context, or `close` it.

    Args:
        path: the artifact's folder.
        kinds: the kinds that will do; none means any.
        verify: check every file's size and hash first (files unchanged since they were last checked are not read again).
        on_bytes: told the number of bytes checked so far.

    Raises:
        ArtifactError: missing, incomplete, corrupt, of another kind, or of a newer format.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        kinds: Iterable[Kind] = (),
        *,
        verify: bool = True,
        on_bytes: Callable[[int], None] | None = None,
    ) -> None:
        self.path = Path(path)
        self.verified = verify
        self._folder = _open_folder(self.path)
        self._open: dict[str, int] = {}
        try:
            self.manifest = self._read_manifest()
            self._check_kind(tuple(kinds))
            self._check_sizes()
            if verify:
                self.check_hashes(HashCache(), on_bytes=on_bytes)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Artifact":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the folder and its files."""
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    @property
    def kind(self) -> Kind:
        """corpus, tokens, words, model, sentences or index."""
        return self.manifest.kind

    @property
    def digest(self) -> str:
        """The hash of what the artifact holds."""
        return self.manifest.digest

    def as_input(self, *, beside: Path) -> InputEntry:
        """How a manifest in the folder `beside` names this artifact."""
        return InputEntry(
            kind=self.kind,
            digest=self.digest,
            recipe=self.manifest.recipe,
            path=relative_path(self.path, beside),
            verified=self.verified,
        )

    def names(self, prefix: str = "") -> list[str]:
        """The paths of the artifact's files that begin with `prefix`, sorted."""
        return sorted(output.path for output in self.manifest.outputs if output.path.startswith(prefix))

    def read(self, name: str) -> bytes:
        """The whole content of a small file."""
        with self.open(name) as file:
            return file.read()

    def open(self, name: str) -> BinaryIO:
        """Open one of the artifact's files for reading, from its beginning.

        Raises:
            ArtifactError: the artifact has no such file.
        """
        self._entry(name)
        # a path through the descriptor table gives a new file position, which dup() would share
        fd = os.dup(self._open[name]) if name in self._open else self._open_at(name)
        return io.BufferedReader(_PositionedFile(fd, name))

    def check_hashes(self, cache: HashCache | None = None, *, on_bytes: Callable[[int], None] | None = None) -> None:
        """Compare every file with the hash in the manifest.

        Args:
            cache: hashes of files that were read before; without it every byte is read.
            on_bytes: told the number of bytes checked so far.

        Raises:
            ArtifactError: a file differs; names it, and the command that makes the artifact again.
        """
        done = 0
        for entry in self.manifest.outputs:
            fd = self._open[entry.path] if entry.path in self._open else self._open_at(entry.path)
            try:
                if (cache.hash_fd(fd) if cache is not None else hash_fd(fd)) != entry.blake3:
                    raise self._corrupt(entry.path, "its content has changed since it was written")
            finally:
                if entry.path not in self._open:
                    os.close(fd)
            done += entry.bytes
            if on_bytes is not None:
                on_bytes(done)
        if cache is not None:
            cache.save()

    def _check_sizes(self) -> None:
        for entry in self.manifest.outputs:
            fd = self._open_at(entry.path)
            size = os.fstat(fd).st_size
            if len(self._open) < _KEPT_OPEN:
                self._open[entry.path] = fd
            else:
                os.close(fd)
            if size != entry.bytes:
                raise self._corrupt(entry.path, "wrong size", got=f"{size} bytes", expected=f"{entry.bytes} bytes")

    def _check_kind(self, kinds: tuple[Kind, ...]) -> None:
        if kinds and self.kind not in kinds:
            raise ArtifactError(
                "wrong kind of artifact",
                where=self.path,
                got=self.kind,
                expected=" or ".join(kinds),
                hint=f"it was made by: wordpipe {self.manifest.command}",
            )

    def _read_manifest(self) -> Manifest:
        try:
            fd = os.open(MANIFEST, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._folder)
        except FileNotFoundError:
            raise ArtifactError(
                "the folder has no manifest, so it is no artifact",
                where=self.path,
                hint="if the stage that makes it was stopped, run that stage again",
            ) from None
        with open(fd, "rb") as file:  # noqa: PTH123  (opened by descriptor)
            return Manifest.from_bytes(file.read(_MAX_MANIFEST), where=str(self.path / MANIFEST))

    def _open_at(self, name: str) -> int:
        try:
            return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._folder)
        except FileNotFoundError:
            raise self._corrupt(name, "the file is missing") from None

    def _entry(self, name: str) -> OutputEntry:
        for entry in self.manifest.outputs:
            if entry.path == name:
                return entry
        raise self._corrupt(name, f"the {self.kind} artifact has no such file")

    def _corrupt(self, name: str, what: str, got: object = None, expected: object = None) -> ArtifactError:
        hint = f"make it again: wordpipe {self.manifest.command} … -o {self.path} --fresh"
        return ArtifactError(what, where=self.path / name, got=got, expected=expected, hint=hint)


class _PositionedFile(io.RawIOBase):
    """Reads a descriptor by position, so that many readers of one open file do not disturb each other."""

    def __init__(self, fd: int, name: str) -> None:
        super().__init__()
        self.name = name
        self._fd = fd
        self._size = os.fstat(fd).st_size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = base + offset
        return self._at

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        got = os.preadv(self._fd, [buffer], self._at) if hasattr(os, "preadv") else self._pread_into(buffer)
        self._at += got
        return got

    def _pread_into(self, buffer: bytearray | memoryview) -> int:
        data = os.pread(self._fd, len(buffer), self._at)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            os.close(self._fd)
            super().close()


def relative_path(path: Path, beside: Path) -> str:
    """`path` as seen from the folder `beside`: artifacts that move together keep finding each other."""
    return os.path.relpath(path.absolute(), beside.absolute())


def _open_folder(path: Path) -> int:
    recover(path)
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ArtifactError(
            "no such artifact", where=path, hint="check the path, or run the stage that makes it"
        ) from None
    except NotADirectoryError:
        raise ArtifactError("an artifact is a folder, and this is a file", where=path) from None
