"""Rows of ids: from what an engine gives to one Parquet file, the same for all, and the digest of what it holds."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from peers.text import chunks

ROW_GROUP_ROWS = 65_536
IDS = pa.schema([pa.field("ids", pa.list_(pa.field("item", pa.uint16())))])


def line_arrays(path: Path, size: int = 4 << 20) -> Iterator[pa.Array]:
    """The lines of a text file as Arrow strings."""
    for chunk in chunks(path, size):
        ends = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n"))
        offsets = np.empty(len(ends) + 2, np.int32)
        offsets[0], offsets[1:-1], offsets[-1] = 0, ends - np.arange(len(ends)), len(chunk) - len(ends)
        yield pa.StringArray.from_buffers(
            len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(chunk.replace(b"\n", b""))
        )


def from_flat(offsets: np.ndarray, ids: np.ndarray) -> pa.ListArray:
    """Rows from flat ids and the places where each row begins."""
    values = pa.array(np.ascontiguousarray(ids, np.uint16))
    return pa.ListArray.from_arrays(pa.array(np.ascontiguousarray(offsets, np.int32)), values)


def from_lists(rows: list[list[int]]) -> pa.ListArray:
    """Rows from Python lists: what pyarrow does quickest by itself."""
    return pa.array(rows, IDS[0].type)


def write_ids(batches: Iterable[pa.ListArray], path: Path) -> None:
    """One column of ids, in row groups of 65,536 lines, zstd level 1, without dictionary or statistics."""
    waiting: list[pa.Array] = []
    n_waiting = 0
    options = {
        "compression": "zstd",
        "compression_level": 1,
        "use_byte_stream_split": True,
        "use_dictionary": False,
        "write_statistics": False,
    }  # fmt: skip  (as wordpipe writes its tables; the fastest of the small ones)
    with pq.ParquetWriter(path, IDS, **options) as writer:

        def write(rows: pa.Array) -> None:
            writer.write_table(pa.table([rows], schema=IDS), row_group_size=ROW_GROUP_ROWS)

        for batch in batches:
            waiting.append(batch.cast(IDS[0].type))
            n_waiting += len(batch)
            while n_waiting >= ROW_GROUP_ROWS:
                joined = pa.concat_arrays(waiting)
                write(joined[:ROW_GROUP_ROWS])
                waiting = [joined[ROW_GROUP_ROWS:]]
                n_waiting -= ROW_GROUP_ROWS
        if n_waiting:
            write(pa.concat_arrays(waiting))


class Digest:
    """A hash of rows of ids, whatever batches they come in and however wide the numbers are."""

    def __init__(self) -> None:
        self.rows = self.tokens = 0
        self._lengths, self._ids = hashlib.blake2b(digest_size=16), hashlib.blake2b(digest_size=16)

    def add(self, batch: pa.ListArray) -> None:
        """Take in more rows."""
        ids = batch.flatten().to_numpy(zero_copy_only=False)
        self._lengths.update(np.diff(batch.offsets.to_numpy()).astype("<i8").tobytes())
        self._ids.update(ids.astype("<u4").tobytes())
        self.rows += len(batch)
        self.tokens += len(ids)

    def found(self) -> dict[str, object]:
        """Rows, tokens, and the hash over the lengths of all rows and all their ids."""
        both = hashlib.blake2b(self._lengths.digest() + self._ids.digest(), digest_size=16).hexdigest()
        return {"rows": self.rows, "tokens": self.tokens, "ids": both}


def digest_of(path: Path) -> dict[str, object]:
    """The digest of the `ids` of a Parquet file."""
    digest = Digest()
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(8192, columns=["ids"]):
            digest.add(batch.column("ids"))
    return digest.found()
