"""`wordpipe index`: sentences or words → index."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.tables import read_batches, read_schema, row_count
from wordpipe.artifacts.vectors import matrix_of
from wordpipe.runtime import StopFlag
from wordpipe.search.build import Built, IndexBuilder
from wordpipe.search.files import write_index
from wordpipe.search.settings import IndexSettings
from wordpipe.stages.making import Job, Made, PathLike, RunOptions, making

__all__ = ["ENCODER", "index", "vector_blocks"]

ENCODER = "encoder/"  # files of the query encoder, carried from sentences to index


def index(vectors: PathLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any) -> Made:
    """Build a FAISS index over the vectors of a sentences or words artifact.

    The index artifact holds the rows in index order and the query encoder too, so the folder can be moved and asked.

    Args:
        vectors: a sentences or words artifact.
        output: folder of the index artifact.
        run: progress, fresh start, verification.
        settings: fields of `IndexSettings`.

    Raises:
        WordpipeError: see wordpipe/errors.py.
    """
    chosen = IndexSettings.make(settings)
    with making("index", "index", output, chosen, run) as job:
        job.libraries = ("faiss-cpu", "numpy", "pyarrow")
        source = job.open_input(vectors, ["sentences", "words"])
        rows = row_count(source, source.kind)
        dim = int(source.manifest.facts["dim"])
        built = _build(job, source, rows, dim, chosen)
        with job.draft.create("index.faiss") as file:
            write_index(built.index, file)
        _copy_rows(job, source, rows)
        for name in _encoder_files(source):
            job.write(name, source.read(name))
        _record(job, source, built, rows, dim)
    return job.made


def vector_blocks(source: Artifact) -> Iterator[npt.NDArray[np.float32]]:
    """The `vector` column of an artifact's main table, as (B, D) float32 blocks."""
    for batch in read_batches(source, source.kind, ["vector"]):
        yield matrix_of(batch.column("vector"))


def _build(job: Job, source: Artifact, rows: int, dim: int, settings: IndexSettings) -> Built:
    builder = IndexBuilder(lambda: vector_blocks(source), rows, dim, settings)
    for step in builder.steps(StopFlag()):  # a stop signal unwinds: there is nothing to save
        job.report(step.phase, step.done, step.total, step.unit)
    assert builder.built is not None
    return builder.built


def _copy_rows(job: Job, source: Artifact, rows: int) -> None:
    schema: pa.Schema = read_schema(source, source.kind)
    with job.table("index", schema) as table:
        done = 0
        for batch in read_batches(source, source.kind):
            table.write(batch)
            done += len(batch)
            job.report("writing", done, rows, "rows")


def _encoder_files(source: Artifact) -> list[str]:
    """What a query needs: the encoder of the sentences, or the tokenizer that cuts words, and their n-grams."""
    if source.kind == "sentences":
        return source.names(ENCODER)
    return [*source.names("tokenizer.json"), *source.names("ngrams-")]


def _record(job: Job, source: Artifact, built: Built, rows: int, dim: int) -> None:
    job.threads, job.bitwise = built.threads, built.bitwise
    job.counts = {"vectors": rows}
    job.metrics = {"recall_at_10": round(built.recall_at_10, 4)}
    job.rates = {
        "queries_per_s": round(built.queries_per_s, 1),
        "exact_queries_per_s": round(built.exact_queries_per_s, 1),
        "vectors_per_s": round(rows / max(job.clock.seconds, 1e-9), 1),
    }
    job.facts = {
        "dim": dim,
        "type": built.kind,
        "search_width": built.width,
        "of": source.kind,
        "curve": [[point.width, round(point.recall_at_10, 4)] for point in built.curve],
        "tried": list(built.tried),
        "encoder": source.manifest.facts.get("encoder"),
        "keep_case": source.manifest.facts.get("keep_case", False),
        **{name: source.manifest.facts[name] for name in ("min_n", "max_n") if name in source.manifest.facts},
    }
    if not built.recall_met:
        wanted = getattr(job.settings, "recall", None)
        job.warn(f"the index finds {built.recall_at_10:.3f} of the true 10 nearest, less than the {wanted} asked for")
