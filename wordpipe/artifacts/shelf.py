"""Finished pieces of unfinished work: what a killed stage has done is not done twice.

A piece is one file, written whole, forced to the disk and only then named, with a note of its size, hash and figures beside
it. Pieces of another recipe are thrown away.

    .tokens.partial/
      recipe                 what the pieces are pieces of
      counted-00000.parquet  a piece
      counted-00000.parquet.json   its size, BLAKE3 and figures; without this note there is no piece
"""

import json
import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from wordpipe.artifacts.draft import Draft, HashedFile
from wordpipe.artifacts.failpoints import failpoint
from wordpipe.artifacts.files import whole_file
from wordpipe.artifacts.hashing import hash_fd
from wordpipe.artifacts.manifest import OutputEntry

if TYPE_CHECKING:
    import pyarrow as pa

    from wordpipe.artifacts.tables import TableWriter

__all__ = ["Shelf"]

_RECIPE = "recipe"
_UNUSABLE = (OSError, ValueError, KeyError, TypeError)


class _OneFile:
    """The one file of a table that is a piece."""

    def __init__(self, file: HashedFile) -> None:
        self._file = file

    def open(self, _: str) -> HashedFile:
        return self._file

    def close(self, file: HashedFile, *, rows: int | None = None, log: bool = False) -> None:
        file.close()


class Shelf:
    """The folder of one job's finished pieces. Threads may share it, each with pieces of its own.

    Args:
        path: the folder; made when the first piece is put there.
        recipe: what is being made. Whatever else lies in the folder is removed.
    """

    def __init__(self, path: Path, recipe: str) -> None:
        self.path = path
        self._recipe = recipe
        self._lock = threading.Lock()
        self._under_way = 0
        if path.exists() and not self._is_ours():
            shutil.rmtree(path, ignore_errors=True)
        for left in path.glob(".*.tmp"):  # of a run that was killed while it wrote
            left.unlink()

    def figures(self, name: str) -> dict[str, Any] | None:
        """What was noted of a finished piece; None where there is none, or where its bytes have changed since."""
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
    def piece(self, name: str, figures: dict[str, Any]) -> Iterator[HashedFile]:
        """Write a new piece; it counts as finished when the block ends well.

        Args:
            name: its file name.
            figures: noted beside it; may be filled in within the block. `rows`, where given, is its number of rows.
        """
        with self._lock:
            self._under_way += 1
        try:
            self._make()
            for old in (self._note(name), self.path / name):
                old.unlink(missing_ok=True)
            with whole_file(self.path / name) as file:
                yield file
            note = {"entry": file.entry(rows=figures.get("rows")).model_dump(), "figures": figures}
            _write_small(self._note(name), json.dumps(note, sort_keys=True).encode())
        except BaseException:
            self._give_up()
            raise
        finally:
            with self._lock:
                self._under_way -= 1
        failpoint("shelf.piece_finished")

    @contextmanager
    def table(self, name: str, schema: "pa.Schema", figures: dict[str, Any]) -> Iterator["TableWriter"]:
        """Write a Parquet table as a new piece; its number of rows is noted among the figures."""
        from wordpipe.artifacts.tables import TableWriter

        with self.piece(name, figures) as file:
            with TableWriter(_OneFile(file), name.removesuffix(".parquet"), schema, single=True) as table:
                yield table
            figures["rows"] = table.rows

    def put(self, name: str, data: bytes, figures: Mapping[str, Any] | None = None) -> None:
        """A small piece at once."""
        with self.piece(name, dict(figures or {})) as file:
            file.write(data)

    def open(self, name: str) -> BinaryIO:
        """Open a finished piece for reading."""
        return (self.path / name).open("rb")

    def adopt(self, name: str, draft: Draft) -> None:
        """Make a finished piece a file of an artifact that is about to be published; it stays here until then."""
        draft.adopt(self.path / name, OutputEntry(**json.loads(self._note(name).read_bytes())["entry"]))

    def _give_up(self) -> None:
        """Leave no shelf without a piece."""
        with self._lock:
            if self._under_way == 1 and not any(self.path.glob("*.json")):
                shutil.rmtree(self.path, ignore_errors=True)

    def _is_ours(self) -> bool:
        try:
            return (self.path / _RECIPE).read_text() == self._recipe
        except _UNUSABLE:
            return False

    def _make(self) -> None:
        with self._lock:
            self.path.mkdir(parents=True, exist_ok=True)
            if not (self.path / _RECIPE).exists():
                _write_small(self.path / _RECIPE, self._recipe.encode())

    def _note(self, name: str) -> Path:
        return self.path / f"{name}.json"


def _write_small(path: Path, data: bytes) -> None:
    with whole_file(path) as file:
        file.write(data)
