"""Files below an open folder: opened without following links, read by position, their errors naming the file."""

import errno
import io
import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from wordpipe.errors import ArtifactError, StorageError

__all__ = ["PositionedFile", "naming", "open_regular"]


class PositionedFile(io.RawIOBase):
    """Reads a descriptor by position, so that many readers of one open file do not disturb each other."""

    def __init__(self, fd: int, path: Path) -> None:
        super().__init__()
        self.name = path.name
        self._path = path
        self._fd = fd
        self._size = os.fstat(fd).st_size
        self._at = 0

    def readable(self) -> bool:  # noqa: D102
        return True

    def seekable(self) -> bool:  # noqa: D102
        return True

    def fileno(self) -> int:  # noqa: D102
        return self._fd

    def tell(self) -> int:  # noqa: D102
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move the position; beyond the end is allowed, before the beginning is not."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"negative seek position {base + offset}")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        """Read at the position, and move it."""
        with naming(self._path):
            got = os.preadv(self._fd, [buffer], self._at) if hasattr(os, "preadv") else self._pread_into(buffer)
        self._at += got
        return got

    def _pread_into(self, buffer: bytearray | memoryview) -> int:
        data = os.pread(self._fd, len(buffer), self._at)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the descriptor."""
        if not self.closed:
            os.close(self._fd)
            super().close()


def open_regular(folder: int, name: str, where: Path) -> int:
    """Open the file `name` below the open folder, following no link on the way.

    Raises:
        FileNotFoundError: no such file.
        ArtifactError: a link, a device or a folder stands there.
        StorageError: this user may not read it.
    """
    *folders, last = name.split("/")
    with ExitStack() as opened:
        try:
            for part in folders:
                folder = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
                opened.callback(os.close, folder)
            fd = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise _not_ours(where) from None
            if isinstance(error, PermissionError):
                artifact = where.parents[name.count("/")]
                raise StorageError(
                    "permission denied: this user may not read it",
                    where=where,
                    hint=f"allow it with: chmod -R u+rX {shlex.quote(str(artifact))}",
                ) from None
            # it names the file within its folder, which is no path for the user
            raise OSError(error.errno, error.strerror, str(where)) from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _not_ours(where)
    return fd


def _not_ours(where: Path) -> ArtifactError:
    return ArtifactError(
        "a link or a special file stands where wordpipe wrote a file", where=where, hint="make the artifact again"
    )


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Give errors of calls that take a descriptor the name of the file."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
