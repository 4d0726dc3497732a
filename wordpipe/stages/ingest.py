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
        reader = Ingest(found, chosen)
        known = all(source.kind != "stream" for source in found)
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
            mb = reader.counts.get("bytes_read", 0) / 1e6
            job.report("reading", round(mb, 1), None, "MB", **{"MB/s": f"{mb / max(job.clock.seconds, 1e-9):.1f}"})
