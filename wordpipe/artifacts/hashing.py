"""BLAKE3 of files, remembered for files that have not changed since they were last read.

The memory is a small SQLite file outside the artifacts (`$XDG_CACHE_HOME/wordpipe/hashes.sqlite`). It maps a file's
identity (device, inode, size, mtime, ctime) to its hash. It is only a cache: whatever goes wrong with it, the file is read.
"""

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from blake3 import blake3

__all__ = ["HashCache", "hash_bytes", "hash_fd"]

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
    """Hashes of files, read only when the file is new or has changed."""

    def __init__(self, path: Path | None = None) -> None:
        root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")  # noqa: PTH111, PTH118
        self._path = path if path is not None else Path(root) / "wordpipe" / "hashes.sqlite"
        self._known: dict[tuple[int, ...], str] | None = None
        self._new: dict[tuple[int, ...], str] = {}

    def hash_file(self, path: Path) -> str:
        """BLAKE3 of the file at `path`, 64 hex digits."""
        fd = os.open(path, os.O_RDONLY)
        try:
            return self.hash_fd(fd)
        finally:
            os.close(fd)

    def hash_fd(self, fd: int) -> str:
        """BLAKE3 of an open file."""
        key = _identity(os.fstat(fd))
        known = self._load()
        if key not in known:
            known[key] = hash_fd(fd)
            if _identity(os.fstat(fd)) == key and time.time_ns() - max(key[3], key[4]) > _RACY_NS:
                self._new[key] = known[key]
        return known[key]

    def save(self) -> None:
        """Write what was learned. Never fails: without it the next run only reads more."""
        if not self._new:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._path, timeout=1.0)) as db, db:
                db.execute(
                    "CREATE TABLE IF NOT EXISTS files"
                    " (dev, ino, size, mtime, ctime, blake3, PRIMARY KEY (dev, ino)) WITHOUT ROWID"
                )
                rows = [(*map(_signed, key), digest) for key, digest in self._new.items()]
                db.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)", rows)
        except (sqlite3.Error, OSError):
            return
        self._new.clear()

    def _load(self) -> dict[tuple[int, ...], str]:
        if self._known is None:
            self._known = {}
            try:
                with closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True, timeout=1.0)) as db:
                    for *key, digest in db.execute("SELECT dev, ino, size, mtime, ctime, blake3 FROM files"):
                        self._known[tuple(_unsigned(part) for part in key)] = digest
            except sqlite3.Error:
                pass
        return self._known


def _identity(stat: os.stat_result) -> tuple[int, ...]:
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


def _signed(value: int) -> int:
    """SQLite integers are signed 64 bits; inode numbers are unsigned."""
    return value - (1 << 64) if value >= 1 << 63 else value


def _unsigned(value: int) -> int:
    return value + (1 << 64) if value < 0 else value
