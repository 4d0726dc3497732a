"""`wordpipe ingest`: sources → corpus."""

from collections.abc import Iterable
from typing import Any

from wordpipe.corpus.ingest import Ingest
from wordpipe.corpus.settings import IngestSettings
from wordpipe.corpus.sources import expand
from wordpipe.stages.making import Job, Made, PathLike, RunOptions, making
from wordpipe.stages.sources import as_list, entries_of, refuse_artifacts

__all__ = ["ingest"]


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
        known = all(source.kind != "stream" for source in found)
        reader = Ingest(found, chosen, on_bytes=lambda done: _report(job, done, found.bytes if known else 0))
        if known:  # a stream is hashed while it is read
            job.inputs = entries_of(found)
        _write(job, reader)
        if not known:
            job.inputs = entries_of(found)
        job.counts = dict(reader.counts)
        for text in reader.warnings:
            job.warn(text)
        job.rates = {"mb_per_s": round(job.counts.get("bytes_read", 0) / 1e6 / job.clock.seconds, 3)}
    return job.made


def _write(job: Job, reader: Ingest) -> None:
    with job.table("corpus", reader.schema) as table:
        for batch in reader.batches():
            table.write(batch)


def _report(job: Job, done: int, total: int) -> None:
    """Bytes read of all on disk, as far as anyone knows how many there are."""
    speed = done / 1e6 / max(job.clock.seconds, 1e-9)
    job.report("reading", round(done / 1e6, 1), round(total / 1e6, 1) or None, "MB", **{"MB/s": f"{speed:.1f}"})
