"""The parts of a corpus: runs of sources, each with files of its own, whoever reads them.

The columns of the table are known only when the last record has been read. Rows are written as they come, in files beside the
artifact. Where the columns of a part were the same from its first row to its last, and are those of the whole corpus, as they
are of plain text and of records that are all alike, these files are the part: they are adopted as they are. Where a field came
late or changed its type, each stretch of rows with the same columns lies in files of its own, and the part is written once
more, in the columns that hold them all.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Protocol, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from wordpipe.artifacts import ArtifactWriter, HashedFile, OutputEntry, PartFiles, ResumeCache, TableWriter

PART_BYTES = 64 << 20  # of sources in a part, at least
_ROWS = 4096  # read at a time, where rows are written again

Convert = Callable[[pa.RecordBatch], pa.RecordBatch]
Files = TypeVar("Files", bound=PartFiles)


class StretchFiles(Protocol):
    """Finished files with the rows of one stretch."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, in order."""
        ...

    def adopt(self, writer: ArtifactWriter, names: Iterator[str]) -> None:
        """Make them files of an artifact, called by the next names."""
        ...


Part = Sequence[tuple[pa.Schema, StretchFiles]]
"""The rows of a part in order, each stretch with the columns that it has."""


class ScratchFiles:
    """The files of one stretch of rows, in a folder of its own; see `StretchFiles`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.entries: list[OutputEntry] = []
        folder.mkdir()

    def open(self, name: str) -> HashedFile:
        """A new file."""
        return HashedFile(self.folder / name, name)

    def close(self, file: HashedFile, *, rows: int | None = None, log: bool = False) -> None:
        """Take back a finished file."""
        file.close()
        file.raise_error()
        self.entries.append(file.entry(rows=rows, log=log))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, in order."""
        for entry in self.entries:
            yield from read_file(self.folder / entry.path)

    def adopt(self, writer: ArtifactWriter, names: Iterator[str]) -> None:
        """Make them files of an artifact, called by the next names."""
        for entry in self.entries:
            writer.adopt(self.folder / entry.path, entry.model_copy(update={"path": next(names)}))


def read_file(path: Path) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file of ours, some at a time."""
    with pq.ParquetFile(path, memory_map=False, pre_buffer=False) as part:
        yield from part.iter_batches(_ROWS, use_threads=False)


class CachedStretch:
    """The files of one stretch of rows, in a resume cache; see `StretchFiles`.

    Args:
        cache: where they are.
        names: of the files.
    """

    def __init__(self, cache: ResumeCache, names: Sequence[str]) -> None:
        self._cache, self._names = cache, names

    def batches(self) -> Iterator[pa.RecordBatch]:
        """See `StretchFiles`."""
        for name in self._names:
            yield from read_file(self._cache.path / name)

    def adopt(self, writer: ArtifactWriter, names: Iterator[str]) -> None:
        """See `StretchFiles`."""
        for name in self._names:
            self._cache.adopt(name, writer, called=next(names))


def write_parts(
    batches: Iterable[tuple[int, pa.RecordBatch]], new_files: Callable[[int], Files]
) -> list[list[tuple[pa.Schema, Files]]]:
    """Write batches, each with the number of its part, into files of their own; a part without rows is none.

    Args:
        batches: of the parts, one after the other.
        new_files: where the files of a stretch come from, by its number.

    Returns:
        Of each part its stretches: their columns and files.
    """
    parts: list[list[tuple[pa.Schema, Files]]] = []
    with ExitStack() as stack:
        table: TableWriter | None = None
        number, schema, stretches = -1, None, 0
        for part, batch in batches:
            is_new = part != number
            if table is None or schema is None or is_new or not batch.schema.equals(schema, check_metadata=True):
                if table is not None:
                    table.finish()
                if is_new:
                    parts.append([])
                number, schema, files = part, batch.schema, new_files(stretches)
                parts[-1].append((schema, files))
                stretches += 1
                table = stack.enter_context(TableWriter(files, "corpus", schema))
            table.write(batch)
    return parts


def adopt_parts(
    parts: Iterable[Part], writer: ArtifactWriter, schema: pa.Schema, convert: Convert, scratch: Callable[[], Path],
    on_rows: Callable[[int], object], *, again: bool = False,
) -> None:  # fmt: skip
    """Make the parts files of an artifact, all in these columns.

    Args:
        parts: as they were written, none without rows.
        writer: of the artifact.
        schema: that all rows are to have.
        convert: gives a batch these columns.
        scratch: gives a folder for what is written once more.
        on_rows: called with how many rows have been written once more.
        again: all are written once more.
    """
    names, done = (f"corpus-{number:05d}.parquet" for number in count()), 0
    for number, stretches in enumerate(parts):
        (first, files), *others = stretches
        if again or others or not first.equals(schema, check_metadata=True):
            files = ScratchFiles(scratch() / f"again-{number}")
            with TableWriter(files, "corpus", schema) as table:
                for _, stretch in stretches:
                    for batch in stretch.batches():
                        table.write(convert(batch))
                        done += len(batch)
                        on_rows(done)
        files.adopt(writer, names)
