"""`wordpipe ingest`: sources → corpus.

The columns of the table are known only when the last record has been read. Rows are written as they come, in files beside the
artifact. Where the columns were the same from the first row to the last, as they are of plain text and of records that are all
alike, these files are the table: they are adopted as they are. Where a field came late or changed its type, each stretch of
rows with the same columns lies in files of its own, and all are written once more, in the columns that hold them all.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from wordpipe import __version__
from wordpipe.artifacts import (
    CORPUS,
    SOURCES,
    Artifact,
    HashedFile,
    OutputEntry,
    TableWriter,
    read_batches,
    read_schema,
    row_count,
)
from wordpipe.corpus import Ingest, PreviousCorpus, SourceSummary, expand, from_memory
from wordpipe.corpus.settings import ALL_EQUAL, ALL_FIELDS, WHOLE_PAIRS, IngestSettings
from wordpipe.errors import ConfigError
from wordpipe.stages.calls import public
from wordpipe.stages.job import Job, Made, PathLike, RunOptions, open_job
from wordpipe.stages.sources import (
    SourceLike,
    entries_of,
    fingerprints,
    joint_hash,
    listed_entries,
    named_or_rows,
    refuse_artifacts,
)

_MANY_SENTENCES = 500  # too many for one document
_ROWS = 4096  # read at a time, where rows are written again
_SOURCES_AT_ONCE = 1000  # rows of sources.parquet written at a time


@public(IngestSettings)
def ingest(
    sources: SourceLike, *, output: PathLike, run: RunOptions | None = None, name: str = "memory", **settings: Any
) -> Made:
    """Read text into a corpus of documents and sentences.

        ingest("notes/", output="run/corpus")
        ingest([{"text": "Bees dance.", "year": 1927}], output="run/corpus")
        ingest(({"text": text} for text in texts), output="run/corpus")
        ingest(frame, text_field="body", id_field="key", output="run/corpus")
        ingest([{"text": "Ein Hund.", "text_b": "A dog."}], text_b="text_b", output="run/corpus")
        ingest(["train.de", "train.en"], parallel=True, output="run/corpus")

    Args:
        sources: files, folders, globs, "-" for standard input, or "python:PACKAGE"; or what a program has in memory: an
            iterable of dicts, a data frame (pandas, polars), an Arrow table or reader of batches. A string is always the name
            of a source: a text is given as {"text": …}.
        output: folder of the corpus artifact.
        run: progress, fresh start, verification.
        name: what the `source` of records from memory is; their `line` is the number of the record, from 1.
        settings: fields of `IngestSettings`.

    Raises:
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> made = wordpipe.ingest("notes/*.txt", output="new/corpus", documents="block", first_line_title=True)
        >>> made.kind, made.counts["documents_kept"]
        ('corpus', 165)
    """
    chosen = IngestSettings.make(settings)
    names, rows = named_or_rows(sources)
    refuse_artifacts(names)
    with open_job("corpus", output, chosen, run) as job:
        job.libraries = ("pyarrow", "zstandard")
        if chosen.parallel and rows is not None:
            hint = 'give pairs as {"text": …, "text_b": …} with text_b="text_b"'
            raise ConfigError("parallel reads two files of lines", got="records", hint=hint)
        found = (
            expand(names, read_as=chosen.format, parallel=chosen.parallel) if rows is None else from_memory(rows, name)
        )
        streams = [source for source in found if source.is_read_once]  # they are hashed while they are read
        prints = fingerprints([source for source in found if not source.is_read_once])
        digests = dict.fromkeys((source.name for source in found), "")
        digests |= {str(entry["name"]): str(entry["blake3"]) for entry in prints}
        if chosen.parallel:  # they are one source, which has the name of the first
            digests[found[0].name] = joint_hash(digests.items()) if all(digests.values()) else ""
        previous = _open_previous(job, chosen, digests) if chosen.update and not job.run.fresh else None
        total = 0 if streams else found.bytes

        def report(done: int) -> None:
            """Bytes read of all on disk, as far as anyone knows how many there are."""
            speed = done / 1e6 / max(job.clock.seconds, 1e-9)
            job.report("reading", round(done / 1e6, 1), round(total / 1e6, 1) or None, "MB", **{"MB/s": f"{speed:.1f}"})

        with job.table("sources", SOURCES, single=True, log=True) as log:
            given: list[dict[str, Any]] = []  # what each source gave, for the next update

            def write_given() -> None:
                log.write(pa.RecordBatch.from_pylist(given, schema=SOURCES))
                given.clear()

            def add_source(source: SourceSummary) -> None:
                digest = digests[source.name]
                given.append({"source": source.name, "digest": digest, "rows": source.rows, "told": source.ledger})
                if len(given) == _SOURCES_AT_ONCE:
                    write_given()

            reader = Ingest(found, chosen, on_bytes=report, on_source=add_source, previous=previous)
            _write_corpus(job, reader)
            write_given()
        job.inputs = entries_of(found) if streams else listed_entries(prints)
        job.counts = {**reader.counts, **(reader.changes if previous is not None else {})}
        job.facts = {
            "fields": ALL_FIELDS,
            "duplicates": ALL_EQUAL,
            **({"not_read": found.skipped} if found.skipped else {}),
        }
        if chosen.is_pairs or job.counts.get("pairs"):  # of some formats all records are
            job.facts["pairs"] = WHOLE_PAIRS
            job.counts = {"pairs": job.counts.get("sentences", 0)} | job.counts
        for text in reader.notes:
            job.note(text)
        for text in reader.warnings:
            job.warn(text, always=text in reader.missing)
        if job.counts.get("documents_kept") == 1 and (sentences := job.counts.get("sentences", 0)) >= _MANY_SENTENCES:
            job.warn(  # a whole book is one document: what compares documents then has nothing to compare
                f"all {sentences:,} sentences are one document: none is held out, train contrastive has no negatives, and a "
                "search per document has one answer; --documents block parts text at blank lines, line at every line"
            )
        read = job.counts.get("bytes_read", 0) - reader.bytes_copied
        job.rates = {"mb_per_s": round(read / 1e6 / job.clock.seconds, 3)}
    return job.made


def _open_previous(job: Job, settings: IngestSettings, digests: Mapping[str, str]) -> PreviousCorpus | None:
    """The corpus at the job's output, if it was made as this one is; else a note says why it is not used.

    Args:
        job: the job.
        settings: how sources are read now.
        digests: content hash of each source by name; empty for a stream.
    """
    artifact = job.previous_artifact("all sources are read")
    if artifact is None:
        return None
    if (reason := _unusable(artifact, settings)) is not None:
        job.note(f"{reason}: all sources are read")
        return None
    summaries = [
        SourceSummary(row["source"], row["rows"], row["told"], row["digest"])
        for batch in read_batches(artifact, "sources", expected=SOURCES)
        for row in batch.to_pylist()
    ]
    if sum(summary.rows for summary in summaries) != row_count(artifact, "corpus"):
        job.note("the corpus does not have the rows that it says it has: all sources are read")
        return None
    rows = read_batches(artifact, "corpus", expected=CORPUS)
    schema = read_schema(artifact, "corpus")
    columns = ["doc_id", "sentence_id", "line", *({"record_id"} & {*schema.names})]
    documents = read_batches(artifact, "corpus", columns, expected=CORPUS)
    return PreviousCorpus(summaries, digests, rows, documents, schema)


def _unusable(artifact: Artifact, settings: IngestSettings) -> str | None:
    """Why the rows of a previous corpus are not those that would be read now; None where they are."""
    usual = IngestSettings()
    before, now = {**usual.manifest(), **artifact.manifest.settings}, settings.manifest()
    if changed := [name for name in {**usual.recipe(), **settings.recipe()} if before.get(name) != now[name]]:
        return f"{changed[0]} was {before.get(changed[0])} and is {now[changed[0]]}"
    if artifact.manifest.wordpipe != __version__:
        return f"the corpus was made by wordpipe {artifact.manifest.wordpipe}"
    if "sources.parquet" not in artifact.names():
        return "the corpus does not say what came from which source"
    if artifact.manifest.facts.get("fields") != ALL_FIELDS:
        return "the corpus was made before the fields of records were carried as they are"
    if settings.is_pairs and artifact.manifest.facts.get("pairs") != WHOLE_PAIRS:
        return "the corpus was made before a pair was one row"
    if artifact.manifest.facts.get("duplicates") != ALL_EQUAL:
        return "the corpus was made before records that differ in a field were kept"
    return None


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


def _write_corpus(job: Job, reader: Ingest) -> None:
    """Read all that the reader gives into the table `corpus` of the artifact that the job makes."""
    stretches: list[_Files] = []
    with ExitStack() as stack:
        table, schema = None, None
        for batch in reader.batches():
            if table is None or schema is None or not batch.schema.equals(schema, check_metadata=True):
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
