"""`wordpipe ingest`: sources → corpus."""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from wordpipe import __version__
from wordpipe.artifacts import CORPUS, SOURCES, Artifact, read_batches, read_schema, row_count
from wordpipe.corpus import DOCUMENT_COLUMNS, Ingest, PreviousCorpus, SourceSummary, corpus_schema, expand
from wordpipe.corpus.settings import IngestSettings
from wordpipe.stages.calls import public
from wordpipe.stages.job import Job, Made, PathLike, RunOptions, open_job
from wordpipe.stages.sources import as_list, entries_of, fingerprints, listed_entries, refuse_artifacts

_MANY_SENTENCES = 500  # too many for one document
_SOURCES_AT_ONCE = 1000  # rows of sources.parquet written at a time


@public(IngestSettings)
def ingest(
    sources: PathLike | Iterable[PathLike], *, output: PathLike, run: RunOptions | None = None, **settings: Any
) -> Made:
    """Read text into a corpus of documents and sentences.

    Args:
        sources: files, folders, globs, "-" for standard input, or "python:PACKAGE".
        output: folder of the corpus artifact.
        run: progress, fresh start, verification.
        settings: fields of `IngestSettings`.

    Raises:
        WordpipeError: see wordpipe/errors.py.

    Example:
        >>> made = wordpipe.ingest("notes/*.txt", output="new/corpus", documents="block", first_line_title=True)
        >>> made.kind, made.counts["documents_kept"]
        ('corpus', 165)
    """
    chosen = IngestSettings.make(settings)
    names = as_list(sources)
    refuse_artifacts(names)
    with open_job("corpus", output, chosen, run) as job:
        job.libraries = ("pyarrow", "zstandard")
        found = expand(names, read_as=chosen.format)
        streams = [source for source in found if source.kind == "stream"]  # they are hashed while they are read
        prints = fingerprints([source for source in found if source.kind != "stream"])
        digests = dict.fromkeys((source.name for source in found), "")
        digests |= {str(entry["name"]): str(entry["blake3"]) for entry in prints}
        schema = corpus_schema(found, chosen)
        previous = _open_previous(job, chosen, schema, digests) if chosen.update and not job.run.fresh else None
        total = 0 if streams else found.bytes

        def report(done: int) -> None:
            """Bytes read of all on disk, as far as anyone knows how many there are."""
            speed = done / 1e6 / max(job.clock.seconds, 1e-9)
            job.report("reading", round(done / 1e6, 1), round(total / 1e6, 1) or None, "MB", **{"MB/s": f"{speed:.1f}"})

        with job.table("corpus", schema) as table, job.table("sources", SOURCES, single=True, log=True) as log:
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
            for batch in reader.batches():
                table.write(batch)
            write_given()
        job.inputs = entries_of(found) if streams else listed_entries(prints)
        job.counts = {**reader.counts, **(reader.changes if previous is not None else {})}
        for text in reader.warnings:
            job.warn(text)
        if job.counts.get("documents_kept") == 1 and (sentences := job.counts.get("sentences", 0)) >= _MANY_SENTENCES:
            job.warn(  # a whole book is one document: what compares documents then has nothing to compare
                f"all {sentences:,} sentences are one document: none is held out, train contrastive has no negatives, and a "
                "search per document has one answer; --documents block parts text at blank lines, line at every line"
            )
        read = job.counts.get("bytes_read", 0) - reader.bytes_copied
        job.rates = {"mb_per_s": round(read / 1e6 / job.clock.seconds, 3)}
    return job.made


def _open_previous(
    job: Job, settings: IngestSettings, schema: pa.Schema, digests: Mapping[str, str]
) -> PreviousCorpus | None:
    """The corpus at the job's output, if it was made as this one is; else a note says why it is not used.

    Args:
        job: the job.
        settings: how sources are read now.
        schema: the columns of the corpus that is made.
        digests: content hash of each source by name; empty for a stream.
    """
    artifact = job.previous_artifact("all sources are read")
    if artifact is None:
        return None
    if (reason := _unusable(artifact, settings, schema)) is not None:
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
    return PreviousCorpus(summaries, digests, rows, read_batches(artifact, "corpus", DOCUMENT_COLUMNS, expected=CORPUS))


def _unusable(artifact: Artifact, settings: IngestSettings, schema: pa.Schema) -> str | None:
    """Why the rows of a previous corpus are not those that would be read now; None where they are."""
    before, now = artifact.manifest.settings, settings.recipe()
    if changed := [name for name in now if before.get(name) != now[name]]:
        return f"{changed[0]} was {before.get(changed[0])} and is {now[changed[0]]}"
    if artifact.manifest.wordpipe != __version__:
        return f"the corpus was made by wordpipe {artifact.manifest.wordpipe}"
    if "sources.parquet" not in artifact.names():
        return "the corpus does not say what came from which source"
    if not read_schema(artifact, "corpus").equals(schema):
        return "the columns of the corpus have changed"
    return None
