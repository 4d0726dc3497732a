"""`wordpipe embed`: model or words, and a corpus → sentences."""

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.schemas import CORPUS, sentences_schema
from wordpipe.artifacts.tables import read_batches, read_schema, row_count
from wordpipe.artifacts.vectors import vector_column
from wordpipe.errors import InputError
from wordpipe.sentences.encoder import transform_kind
from wordpipe.sentences.settings import EmbedSettings
from wordpipe.sentences.transforms import Moments, Transform
from wordpipe.sentences.units import Unit, read_units
from wordpipe.stages.encoders import Encoder, carry_encoder, device_and_threads, open_encoder
from wordpipe.stages.making import Job, Made, PathLike, RunOptions, making
from wordpipe.stages.texts import open_corpus

__all__ = ["embed"]

_CHUNK = 4096  # units encoded at a time; sorted by length within


def embed(
    encoder: PathLike,
    corpus: PathLike | Iterable[PathLike],
    *,
    output: PathLike,
    run: RunOptions | None = None,
    **settings: Any,
) -> Made:
    """Turn the sentences, documents or windows of a corpus into unit vectors.

    Args:
        encoder: a model or words artifact.
        corpus: a corpus artifact, or sources of text, which are then ingested with the default settings.
        output: folder of the sentences artifact.
        run: progress, fresh start, verification.
        settings: fields of `EmbedSettings`.

    Raises:
        WordpipeError: see wordpipe/errors.py.
    """
    chosen = EmbedSettings.make(settings)
    with making("sentences", "embed", output, chosen, run) as job:
        job.libraries = ("torch", "numpy", "pyarrow", "tokenizers")
        origin = job.open_input(encoder, ["model", "words"])
        source = open_corpus(job, corpus)
        raw = open_encoder(origin, chosen)
        job.device, job.threads = device_and_threads(raw, chosen)
        job.bitwise = job.device == "cpu"
        with (job.scratch / "vectors.f32").open("w+b") as scratch:
            kept, moments = _encode(job, raw, source, chosen, scratch)
            transform = _fit(raw, moments, chosen)
            _write(job, raw, source, chosen, (scratch, kept), transform)
        carry_encoder(job, raw.with_transform(transform), origin)
        job.facts = {
            "dim": raw.dim,
            "encoder": {"kind": origin.kind, "digest": origin.digest, "pooling": raw.pooling},
            "transform": transform.kind,
            "keep_case": origin.manifest.facts.get("keep_case", False),
        }
    return job.made


def _units(raw: Encoder, source: Artifact, settings: EmbedSettings) -> Iterator[list[Unit]]:
    """The corpus as lists of units to embed."""
    batches = read_batches(source, "corpus", expected=CORPUS)
    chunk: list[Unit] = []
    for unit in read_units(batches, settings, raw):
        chunk.append(unit)
        if len(chunk) == _CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _encode(
    job: Job, raw: Encoder, source: Artifact, settings: EmbedSettings, scratch: BinaryIO
) -> tuple[list[npt.NDArray[np.bool_]], Moments]:
    """Encode everything once, untransformed, into the scratch file; note which units have a vector."""
    moments, kept = Moments(raw.dim), []
    total, rows, unknown, windows, units = row_count(source, "corpus"), 0, 0, 0, 0
    for chunk in _units(raw, source, settings):
        encoded = raw.encode([unit.embedded for unit in chunk])
        kept.append(~encoded.empty)
        vectors = encoded.vectors[~encoded.empty]
        moments.add(vectors)
        scratch.write(np.ascontiguousarray(vectors, dtype=np.float32).tobytes())
        units += len(chunk)
        rows += sum(unit.rows for unit in chunk)
        unknown += sum(map(len, encoded.unknown))
        windows += int((encoded.windows > 1).sum())
        speed = units / max(job.clock.seconds, 1e-9)
        job.report("embedding", rows, total, "sentences", **{f"{settings.unit}s/s": f"{speed:,.0f}"})
        job.rates = {"sentences_per_s": round(speed, 1)}
    if not moments.count:
        raise InputError("no text of the corpus has a vector", got=f"{units} {settings.unit}s", hint="embed other text")
    job.counts |= {"units": units, "units_read_in_windows": windows, "words_unknown": unknown}
    return kept, moments


def _fit(raw: Encoder, moments: Moments, settings: EmbedSettings) -> Transform:
    return moments.fit(transform_kind(settings, raw.kind, moments.count), settings.components)


def _write(
    job: Job,
    raw: Encoder,
    source: Artifact,
    settings: EmbedSettings,
    vectors: tuple[BinaryIO, list[npt.NDArray[np.bool_]]],
    transform: Transform,
) -> None:
    """Transform the vectors and write them beside their texts."""
    scratch, kept = vectors
    metadata = pa.schema(list(read_schema(source, "corpus", CORPUS))[len(CORPUS) :])
    schema = sentences_schema(raw.dim, metadata)
    scratch.seek(0)
    written = lost = 0
    with job.table("sentences", schema) as table:
        for chunk, keep in zip(_units(raw, source, settings), kept, strict=True):
            size = int(keep.sum()) * raw.dim
            raw_ND = np.frombuffer(scratch.read(size * 4), dtype=np.float32).reshape(-1, raw.dim)
            vectors_ND, empty = transform.apply(raw_ND)
            units = [unit for unit, keeps in zip(chunk, keep, strict=True) if keeps]
            units = [unit for unit, no_direction in zip(units, empty, strict=True) if not no_direction]
            lost += len(chunk) - len(units)
            table.write(_rows(units, vectors_ND[~empty], written, schema))
            written += len(units)
            job.report("writing", written, job.counts["units"] - lost, f"{settings.unit}s")
    if not written:
        raise InputError("nothing is left of the vectors after the transform", hint="use --transform none")
    job.counts |= {"sentences": written, "dropped_without_vector": lost}


def _rows(units: list[Unit], vectors_ND: npt.NDArray[np.float32], first: int, schema: pa.Schema) -> pa.RecordBatch:
    columns: dict[str, Any] = {
        "id": np.arange(first, first + len(units), dtype=np.int64),
        "doc_id": [unit.doc_id for unit in units],
        "title": [unit.title for unit in units],
        "text": [unit.text for unit in units],
        "source": [unit.source for unit in units],
        "line": [unit.line for unit in units],
        "vector": vector_column(vectors_ND),
    }
    for name in schema.names[len(columns) :]:
        columns[name] = [unit.metadata[name] for unit in units]
    arrays = [v if isinstance(v, pa.Array) else pa.array(v, schema.field(n).type) for n, v in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
