"""BLAKE3 of files, remembered for files that have not changed since they were last read.

The memory is a small SQLite file outside the artifacts (`$XDG_CACHE_HOME/wordpipe/hashes.sqlite`). It maps a file's
identity (device, inode, size, mtime, ctime) to its hash. It is only a cache: whatever goes wrong with it, the file is read.
"""

import os
import sqlite3
import time
from contextlib import closing, suppress
from functools import cached_property
from pathlib import Path

from blake3 import blake3

from wordpipe.storage import cache_folder

_BLOCK = 1 << 20
_RACY_NS = 50_000_000  # a file changed less than 50 ms ago may change again within one clock tick, unseen


def hash_bytes(data: bytes | bytearray | memoryview) -> str:
    """BLAKE3 of `data`, 64 hex digits."""
    return blake3(data).hexdigest()


def hash_fd(fd: int) -> str:
    """BLAKE3 of an open file from its beginning, read in blocks of 1 MiB; the file position is left alone."""
    hasher = blake3()
    offset = 0
    while block := os.pread(fd, _BLOCK, offset):
        hasher.update(block)
        offset += len(block)
    return hasher.hexdigest()


class HashCache:
    """Hashes of files, read only when the file is new or has changed.

    The database is opened once and stays open until `save`: to open it took half a millisecond for each file.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path if path is not None else cache_folder() / "hashes.sqlite"
        self._new: dict[tuple[int, ...], str] = {}

    def hash_file(self, path: Path) -> str:
        """BLAKE3 of the file at `path`, 64 hex digits."""
        fd = os.open(path, os.O_RDONLY)
        try:
            return self.hash_fd(fd)
        except OSError as error:  # of reading, it does not say what was read
            error.filename = error.filename or str(path)
            raise
        finally:
            os.close(fd)

    def hash_fd(self, fd: int) -> str:
        """BLAKE3 of an open file."""
        key = _identity(os.fstat(fd))
        known = self._new.get(key) or self._look_up(key)
        return known if known is not None else self.read_fd(fd)

    def read_fd(self, fd: int) -> str:
        """BLAKE3 of an open file, read in any case and remembered."""
        key = _identity(os.fstat(fd))
        found = hash_fd(fd)
        if _identity(os.fstat(fd)) == key and time.time_ns() - max(key[3], key[4]) > _RACY_NS:
            self._new[key] = found
        return found

    def save(self) -> None:
        """Write what was learned. Never fails: without it the next run only reads more."""
        self._close()
        if not self._new:
            return
        rows = [(*map(_signed, key), digest) for key, digest in self._new.items()]
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._path, timeout=1.0)) as db, db:
                db.execute(
                    "CREATE TABLE IF NOT EXISTS files"
                    " (dev, ino, size, mtime, ctime, blake3, PRIMARY KEY (dev, ino)) WITHOUT ROWID"
                )
                db.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)", rows)
        except (sqlite3.OperationalError, OSError):  # locked, full or read-only: perhaps next time
            return
        except sqlite3.DatabaseError:  # no database, or a damaged one: the next run begins a new one
            with suppress(OSError):
                self._path.unlink()
            return
        self._new.clear()

    def _look_up(self, key: tuple[int, ...]) -> str | None:
        query = "SELECT blake3 FROM files WHERE dev = ? AND ino = ? AND size = ? AND mtime = ? AND ctime = ?"
        try:
            row = self._known.execute(query, [*map(_signed, key)]).fetchone()
        except sqlite3.Error:
            self._close()  # it may be there the next time
            return None
        return row[0] if row is not None and isinstance(row[0], str) else None

    @cached_property
    def _known(self) -> sqlite3.Connection:
        return sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro", uri=True, timeout=1.0)

    def _close(self) -> None:
        if "_known" in self.__dict__:
            self._known.close()
            del self._known


def _identity(stat: os.stat_result) -> tuple[int, ...]:
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


def _signed(value: int) -> int:
    """SQLite integers are signed 64 bits; inode numbers are unsigned."""
    return value - (1 << 64) if value >= 1 << 63 else value
