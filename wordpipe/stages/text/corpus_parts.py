"""The parts of a corpus: runs of sources, each with files of its own, whoever reads them.

The columns of the table are known only when the last record has been read. Rows are written as they come, in files beside the
artifact. Where the columns of a part were the same from its first row to its last, and are those of the whole corpus, as they
are of plain text and of records that are all alike, these files are the part: they are adopted as they are. Where a field came
late or changed its type, each stretch of rows with the same columns lies in files of its own, and the part is written once
more, in the columns that hold them all.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from wordpipe.artifacts import ArtifactWriter, HashedFile, OutputEntry, PartFiles, TableWriter

PART_BYTES = 64 << 20  # of sources in a part, at least
_ROWS = 4096  # read at a time, where rows are written again

Convert = Callable[[pa.RecordBatch], pa.RecordBatch]


class ScratchFiles:
    """The files of one stretch of rows, in a folder of its own."""

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


@dataclass
class Part:
    """What was written of a part.

    Attributes:
        stretches: its rows in order, each stretch with the columns that it has.
    """

    stretches: list[tuple[pa.Schema, ScratchFiles]] = field(default_factory=list)

    def files_as(self, schema: pa.Schema) -> ScratchFiles | None:
        """Its files, where all its rows have these columns."""
        if len(self.stretches) == 1 and self.stretches[0][0].equals(schema, check_metadata=True):
            return self.stretches[0][1]
        return None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Its rows."""
        for _, files in self.stretches:
            yield from files.batches()


def write_parts(batches: Iterable[tuple[int, pa.RecordBatch]], scratch: Path) -> list[Part]:
    """Write batches, each with the number of its part, into files of their own; a part without rows is none."""
    parts: list[Part] = []
    with ExitStack() as stack:
        table: TableWriter | None = None
        number, schema, stretches = -1, None, 0
        for part, batch in batches:
            is_new = part != number
            if table is None or schema is None or is_new or not batch.schema.equals(schema, check_metadata=True):
                if table is not None:
                    table.finish()
                if is_new:
                    parts.append(Part())
                number, schema = part, batch.schema
                files = ScratchFiles(scratch / f"rows-{stretches}")
                parts[-1].stretches.append((schema, files))
                stretches += 1
                table = stack.enter_context(TableWriter(files, "corpus", schema))
            table.write(batch)
    return parts


def write_again(batches: Iterable[pa.RecordBatch], files: PartFiles, schema: pa.Schema, convert: Convert) -> None:
    """Write rows once more, in other columns."""
    with TableWriter(files, "corpus", schema) as table:
        for batch in batches:
            table.write(convert(batch))


def part_names() -> Iterator[str]:
    """The names of the files of a corpus, in order."""
    number = 0
    while True:
        yield f"corpus-{number:05d}.parquet"
        number += 1


def adopt_parts(
    parts: Sequence[Part], writer: ArtifactWriter, schema: pa.Schema, convert: Convert, scratch: Path,
    on_rows: Callable[[int], object],
) -> None:  # fmt: skip
    """Make the parts files of an artifact, all in these columns.

    Args:
        parts: as they were written.
        writer: of the artifact.
        schema: that all rows are to have.
        convert: gives a batch these columns.
        scratch: a folder for what is written once more.
        on_rows: called with how many rows of a batch were written once more.
    """
    names = part_names()

    def noted(batch: pa.RecordBatch) -> pa.RecordBatch:
        on_rows(len(batch))
        return convert(batch)

    for number, part in enumerate(parts):
        if (files := part.files_as(schema)) is None:
            files = ScratchFiles(scratch / f"again-{number}")
            write_again(part.batches(), files, schema, noted)
        files.adopt(writer, names)
