"""What `wordpipe ingest --update` finds at its output, and the notes on sources that the next update goes by."""

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from wordpipe import __version__
from wordpipe.artifacts.layout import CORPUS, SOURCES
from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.tables import TableWriter, read_batches, read_schema, row_count
from wordpipe.corpus.ingest import EarlierCorpus, SourceNote
from wordpipe.corpus.settings import IngestSettings
from wordpipe.stages.earlier import earlier_artifact
from wordpipe.stages.making import Job

__all__ = ["SourceNotes", "open_earlier"]

_TABLE = "sources"
_WAITING = 1000  # notes written at a time


class SourceNotes:
    """Writes what each source gave as `sources.parquet`, a log.

    Args:
        table: the table.
        digests: content hash of each source by name; empty for a stream.
    """

    def __init__(self, table: TableWriter, digests: Mapping[str, str]) -> None:
        self._table, self._digests = table, digests
        self._waiting: list[SourceNote] = []

    def add(self, note: SourceNote) -> None:
        """One more source is done."""
        self._waiting.append(note)
        if len(self._waiting) == _WAITING:
            self.flush()

    def flush(self) -> None:
        """Write what is waiting."""
        names = [note.name for note in self._waiting]
        columns = [
            names,
            [self._digests[name] for name in names],
            [note.rows for note in self._waiting],
            [note.told for note in self._waiting],
        ]
        arrays = [pa.array(values, field.type) for values, field in zip(columns, SOURCES, strict=True)]
        self._table.write(pa.RecordBatch.from_arrays(arrays, schema=SOURCES))
        self._waiting = []


def open_earlier(
    job: Job, settings: IngestSettings, schema: pa.Schema, digests: Mapping[str, str]
) -> EarlierCorpus | None:
    """The corpus at the job's output, if it was made as this one is; else a note says why it is not used.

    Args:
        job: the job.
        settings: how sources are read now.
        schema: the columns of the corpus that is made.
        digests: content hash of each source by name; empty for a stream.
    """
    artifact = earlier_artifact(job, "all sources are read")
    if artifact is None:
        return None
    if (reason := _unusable(artifact, settings, schema)) is not None:
        job.note(f"{reason}: all sources are read")
        return None

    def read(columns: Sequence[str] | None) -> Iterable[pa.RecordBatch]:
        return read_batches(artifact, "corpus", columns, expected=CORPUS)

    return EarlierCorpus(_notes(artifact), digests, read)


def _unusable(artifact: Artifact, settings: IngestSettings, schema: pa.Schema) -> str | None:
    """Why the rows of an earlier corpus are not those that would be read now; None where they are."""
    before, now = artifact.manifest.settings, settings.recipe()
    if changed := [name for name in now if before.get(name) != now[name]]:
        return f"{changed[0]} was {before.get(changed[0])} and is {now[changed[0]]}"
    if artifact.manifest.wordpipe != __version__:
        return f"the corpus was made by wordpipe {artifact.manifest.wordpipe}"
    if f"{_TABLE}.parquet" not in artifact.names():
        return "the corpus does not say what came from which source"
    if not read_schema(artifact, "corpus").equals(schema):
        return "the columns of the corpus have changed"
    if sum(note.rows for note in _notes(artifact)) != row_count(artifact, "corpus"):
        return "the corpus does not have the rows that it says it has"
    return None


def _notes(artifact: Artifact) -> list[SourceNote]:
    return [
        SourceNote(row["source"], row["rows"], row["told"], row["digest"])
        for batch in read_batches(artifact, _TABLE, expected=SOURCES)
        for row in batch.to_pylist()
    ]
