"""`wordpipe ingest`: sources → corpus."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from wordpipe.artifacts.layout import SOURCES
from wordpipe.corpus.ingest import Ingest, corpus_schema, gathered
from wordpipe.corpus.settings import IngestSettings
from wordpipe.corpus.sources import expand
from wordpipe.stages.ingest_earlier import SourceNotes, open_earlier
from wordpipe.stages.making import Job, Made, PathLike, RunOptions, making
from wordpipe.stages.sources import as_list, entries_of, fingerprints, listed_entries, refuse_artifacts

__all__ = ["ingest"]

_LONG = 500  # sentences


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
    """
    chosen = IngestSettings.make(settings)
    names = as_list(sources)
    refuse_artifacts(names)
    with making("corpus", "ingest", output, chosen, run) as job:
        job.libraries = ("pyarrow", "zstandard")
        found = expand(names, read_as=chosen.format)
        streams = [source for source in found if source.kind == "stream"]  # they are hashed while they are read
        prints = fingerprints([source for source in found if source.kind != "stream"])
        digests = dict.fromkeys((source.name for source in found), "")
        digests |= {str(entry["name"]): str(entry["blake3"]) for entry in prints}
        schema = corpus_schema(found, chosen)
        updating = chosen.update and not job.run.fresh
        earlier = open_earlier(job, chosen, schema, digests) if updating else None
        with job.table("corpus", schema) as table, job.table("sources", SOURCES, single=True, log=True) as log:
            notes, report = SourceNotes(log, digests), partial(_report, job, 0 if streams else found.bytes)
            reader = Ingest(found, chosen, on_bytes=report, on_source=notes.add, earlier=earlier)
            for batch in gathered(reader.batches()):
                table.write(batch)
            notes.flush()
        job.inputs = entries_of(found) if streams else listed_entries(prints)
        _record(job, reader, updated=earlier is not None)
    return job.made


def _record(job: Job, reader: Ingest, *, updated: bool) -> None:
    job.counts = {**reader.counts, **(reader.changes if updated else {})}
    for text in [*reader.warnings, *_one_document(reader)]:
        job.warn(text)
    read = job.counts.get("bytes_read", 0) - reader.bytes_copied
    job.rates = {"mb_per_s": round(read / 1e6 / job.clock.seconds, 3)}


def _one_document(reader: Ingest) -> Iterator[str]:
    """A warning where a whole book is one document: what compares documents then has nothing to compare."""
    sentences = reader.counts.get("sentences", 0)
    if reader.counts.get("documents_kept") == 1 and sentences >= _LONG:
        yield (
            f"all {sentences:,} sentences are one document: none is held out, train contrastive has no negatives, and a "
            "search per document has one answer; --documents block parts text at blank lines, line at every line"
        )


def _report(job: Job, total: int, done: int) -> None:
    """Bytes read of all on disk, as far as anyone knows how many there are."""
    speed = done / 1e6 / max(job.clock.seconds, 1e-9)
    job.report("reading", round(done / 1e6, 1), round(total / 1e6, 1) or None, "MB", **{"MB/s": f"{speed:.1f}"})
