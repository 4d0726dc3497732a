"""The corpus table, whose columns are known only when the last record has been read.

Rows are written as they come, in files beside the artifact. Where the columns were the same from the first row to the last,
as they are of plain text and of records that are all alike, these files are the table: they are adopted as they are. Where a
field came late or changed its type, each stretch of rows with the same columns lies in files of its own, and all are written
once more, in the columns that hold them all.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from wordpipe.artifacts import HashedFile, OutputEntry, TableWriter
from wordpipe.corpus import Ingest
from wordpipe.stages.job import Job

_ROWS = 4096  # read at a time, where rows are written again


class _Files:
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
            with pq.ParquetFile(self.folder / entry.path, memory_map=False, pre_buffer=False) as part:
                yield from part.iter_batches(_ROWS, use_threads=False)


def write_corpus(job: Job, reader: Ingest) -> None:
    """Read all that the reader gives into the table `corpus` of the artifact that the job makes."""
    stretches: list[_Files] = []
    with ExitStack() as stack:
        table, schema = None, None
        for batch in reader.batches():
            if table is None or schema is None or not batch.schema.equals(schema):
                if table is not None:
                    table.finish()
                schema = batch.schema
                stretches.append(_Files(job.scratch / f"rows-{len(stretches)}"))
                table = stack.enter_context(TableWriter(stretches[-1], "corpus", schema))
            table.write(batch)
    if len(stretches) == 1:
        for entry in stretches[0].entries:
            job.writer.adopt(stretches[0].folder / entry.path, entry)
        return
    done = 0
    with job.table("corpus", reader.schema) as whole:
        for stretch in stretches:
            for batch in stretch.batches():
                whole.write(reader.converted(batch))
                done += len(batch)
                job.report("writing", done, None, "sentences")
