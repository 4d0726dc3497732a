"""The writing part of `wordpipe embed`: vectors find their texts again, are transformed, and become the table of sentences."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.schemas import CORPUS, sentences_schema
from wordpipe.artifacts.tables import read_schema
from wordpipe.artifacts.vectors import vector_column
from wordpipe.errors import InputError
from wordpipe.sentences.encoder import TextEncoder, learned_from_pairs, transform_kind
from wordpipe.sentences.reuse import VectorPlan
from wordpipe.sentences.settings import EmbedSettings
from wordpipe.sentences.transforms import Crowding, Moments, Transform
from wordpipe.sentences.units import UnitBatch
from wordpipe.stages.embed_earlier import Earlier
from wordpipe.stages.embed_vectors import StoredVectors
from wordpipe.stages.making import Job

__all__ = ["PlannedVectors", "fitted", "write_sentences"]


@dataclass(frozen=True)
class PlannedVectors:
    """The vector of each unit, from where the plan says.

    Attributes:
        plan: what comes from where.
        encoded: raw vectors, one for each text that was encoded.
        reused: those of the earlier artifact, as it has them where its transform is kept, else raw.
        kept: the earlier artifact's transform, where it is kept.
        changed: texts that came or went since that was fitted.
        fitted_on: how many texts it was fitted on.
    """

    plan: VectorPlan
    encoded: StoredVectors
    reused: StoredVectors
    kept: Transform | None
    changed: int
    fitted_on: int

    @classmethod
    def of(cls, job: Job, plan: VectorPlan, encoded: StoredVectors, earlier: Earlier | None) -> "PlannedVectors":
        """Lay out what is taken from the earlier artifact, and count."""
        found = encoded.figures
        job.counts |= {"units_read_in_windows": found["in_windows"], "words_unknown": found["words_unknown"]}
        if earlier is None:
            return cls(plan, encoded, StoredVectors([], [], encoded.dim), None, 0, 0)
        keeps, changed = earlier.keeps_transform(plan), earlier.changed_with(plan)
        if earlier.transform.kind != "none":
            was = "as it was fitted" if keeps else "fitted anew"
            job.note(
                f"the transform ({earlier.transform.kind}) is {was}: {changed:,} of {earlier.fitted_on:,} texts changed"
            )
        rows = np.unique(plan.earlier[plan.earlier >= 0])
        reused = earlier.stored(job, rows, raw=not keeps)
        place = np.searchsorted(rows, plan.earlier)
        plan = VectorPlan(np.where(plan.earlier < 0, -1, place), plan.new, plan.encode, plan.gone)
        return cls(plan, encoded, reused, earlier.transform if keeps else None, changed, earlier.fitted_on)

    def __len__(self) -> int:
        """Texts that have a vector, each counted once."""
        return len(self.encoded) - self.encoded.figures["without_vector"] + len(self.reused)

    def raw_blocks(self) -> Iterator[NDArray[np.float32]]:
        """The raw vectors of all texts, each once, (B, D) at a time; of texts without a vector zero."""
        assert self.kept is None
        yield from self.reused.blocks()
        yield from self.encoded.blocks()

    def take(self, first: int, stop: int, transform: Transform) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Vectors (U, K) of the units first … stop, transformed, and which of them have none."""
        new, old = self.plan.new[first:stop], self.plan.earlier[first:stop]
        vectors_UK = np.zeros((stop - first, transform.dim), np.float32)
        empty_U = np.zeros(stop - first, np.bool_)
        if (is_new := new >= 0).any():
            vectors_UK[is_new], empty_U[is_new] = transform.apply(self.encoded.take(new[is_new]))
        if (is_old := old >= 0).any():
            reused = self.reused.take(old[is_old])
            if self.kept is not None or transform.kind == "none":  # to the bit what they were
                vectors_UK[is_old] = reused
            else:
                vectors_UK[is_old], empty_U[is_old] = transform.apply(reused)
        return vectors_UK, empty_U


def fitted(vectors: PlannedVectors, raw: TextEncoder, settings: EmbedSettings) -> tuple[Transform, dict[str, int]]:
    """The transform, fitted on each text once, and on how many that was, with how many have changed since.

    Raises:
        InputError: no text has a vector, or too few for the transform.
    """
    if not len(vectors):
        raise InputError(
            "no text of the corpus has a vector",
            got=f"{len(vectors.plan.encode)} {settings.unit}s",
            hint="embed other text",
        )
    if vectors.kept is not None:
        known = vectors.kept.kind != "none"
        return vectors.kept, {"texts": vectors.fitted_on, "changed": vectors.changed} if known else {}
    kind = transform_kind(settings, raw.kind, raw.dim, len(vectors), contrastive=learned_from_pairs(raw))
    if kind == "none":
        return Transform.none(raw.dim), {}
    moments = Moments(raw.dim)
    for block in vectors.raw_blocks():
        moments.add(block)
    return moments.fit(kind, settings.components, dims=settings.dims), {"texts": moments.count, "changed": 0}


def write_sentences(
    job: Job, source: Artifact, batches: Iterable[UnitBatch], vectors: PlannedVectors, transform: Transform
) -> None:
    """Write the vectors beside their texts, count them, and say how crowded they are.

    Raises:
        InputError: no vector is left.
    """
    metadata = pa.schema(list(read_schema(source, "corpus", CORPUS))[len(CORPUS) :])
    schema = sentences_schema(transform.dim, metadata)
    crowding, written, done = Crowding(transform.dim), 0, 0
    with job.table("sentences", schema) as table:
        for units in batches:
            vectors_UK, empty_U = vectors.take(done, done + len(units), transform)
            crowding.add(vectors_UK[~empty_U])
            rows = _rows(units, vectors_UK, ~empty_U, written, schema)
            table.write(rows)
            written += len(rows)
            done += len(units)
    if not written:
        raise InputError("nothing is left of the vectors after the transform", hint="use --transform none")
    job.counts |= {"sentences": written, "dropped_without_vector": done - written}
    if (cosine := crowding.mean_cosine) is not None:
        job.metrics["mean_cosine"] = round(cosine, 4)


def _rows(
    units: UnitBatch, vectors_UK: NDArray[np.float32], keep_U: NDArray[np.bool_], first: int, schema: pa.Schema
) -> pa.RecordBatch:
    """Rows of the table for the units that are kept, numbered from `first`."""
    mask, count = pa.array(keep_U), int(keep_U.sum())
    own = {
        "id": pa.array(np.arange(first, first + count, dtype=np.int64)),
        "text": units.text.filter(mask),
        "vector": vector_column(vectors_UK[keep_U]),
    }
    arrays = [own[name] if name in own else units.column(name).filter(mask) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
