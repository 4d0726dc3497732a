"""`wordpipe embed`: model or words, and a corpus → sentences.

Three readings of the corpus, a few thousand rows at a time: the texts are compared (each is embedded once, and with
`--update` none whose vector is there already); those left over are encoded, in pieces that a killed run finds again; then
the vectors are transformed and written beside their texts.

Shapes: U units of the corpus, D numbers before the transform, K after it.
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wordpipe.artifacts import (
    CORPUS,
    Artifact,
    ResumeCache,
    library_versions,
    read_batches,
    read_schema,
    row_count,
    sentences_schema,
    vector_column,
)
from wordpipe.errors import DivergedError, InputError
from wordpipe.runtime import Stopwatch, stop_signal
from wordpipe.sentences import (
    CROWDED,
    Crowding,
    EncodedBatch,
    Moments,
    StoredVectors,
    TextEncoder,
    Transform,
    UnitBatch,
    UnitCutter,
    VectorPlan,
    check_directions,
    chunks_of,
    learned_from_pairs,
    no_keys,
    plan_vectors,
    text_keys,
    transform_kind,
)
from wordpipe.sentences.settings import EmbedSettings
from wordpipe.stages.inputs import open_corpus
from wordpipe.stages.job import Job, Made, PathLike, RunOptions, open_job
from wordpipe.stages.loaders import bundle_encoder, device_and_threads, open_encoder
from wordpipe.stages.search.embed_update import Earlier, encoder_facts, open_earlier

_AS_EVER = {name: EmbedSettings.model_fields[name].default for name in ("update", "checkpoint_seconds")}
_FIGURES = ("texts", "without_vector", "in_windows", "words_unknown")
_MANY_DROPPED = 0.05  # of the units
_WHY_DROPPED = {
    "words": "words of it that are in the table; train the words on text like this, or with a smaller --min-count",
    "model": "tokens that it knows; train on text like this",
}


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
    with open_job("sentences", "embed", output, chosen, run) as job:
        job.libraries = ("torch", "numpy", "pyarrow", "tokenizers")
        origin = job.open_input(encoder, ["model", "words"])
        raw = open_encoder(origin, chosen.model_copy(update=_AS_EVER))  # how it is run now is no part of the encoder
        components = chosen.components if chosen.transform == "remove-components" else 0
        check_directions(raw.dim, components=components, dims=chosen.dims)
        source = _Source(job, open_corpus(job, corpus), UnitCutter(chosen, raw))  # text that is no corpus is read now
        job.device, job.threads = device_and_threads(raw, chosen)
        updating = chosen.update and not job.run.fresh
        plan, earlier = _planned(job, source, open_earlier(job, origin, raw, chosen) if updating else None)
        after = "" if earlier is None else f" after {earlier.artifact.digest}"  # which decides what is encoded
        recipe = f"{job.recipe} {job.device} {job.threads} threads {library_versions(*job.libraries)}{after}"
        texts = (units.embedded.filter(pa.array(encode)) for units, encode in source.units("", plan.encode))
        encoded = _encode(job, ResumeCache(job.partial, recipe), raw, texts, plan.to_encode, chosen.checkpoint_seconds)
        vectors = _Vectors.of(job, plan, encoded, earlier)
        transform, fit = _fitted(vectors, raw, chosen)
        _write(job, source, vectors, transform)
        _warn(job, origin, chosen)
        bundle_encoder(job, raw.with_transform(transform), origin)
        exact = not plan.reused or (earlier is not None and earlier.exact and transform.kind == "none")
        job.bitwise = job.device == "cpu" and exact
        job.facts = {
            "dim": transform.dim,
            "encoder": encoder_facts(origin, raw),
            "transform": transform.kind,
            "keep_case": origin.manifest.facts.get("keep_case", False),
            **({"fit": fit} if fit else {}),
        }
    return job.made


@dataclass(frozen=True)
class _Source:
    """The units of a corpus, to be read again and again."""

    job: Job
    artifact: Artifact
    cutter: UnitCutter

    def units(
        self, phase: str, beside: NDArray[Any] | None = None, *, whole: bool = False
    ) -> Iterator[tuple[UnitBatch, NDArray[Any]]]:
        """All units, each batch with its part of an array (U, …), reported as the phase goes on; an empty phase is silent.

        Args:
            phase: what is being done.
            beside: the array; without it the units' numbers.
            whole: with all columns of the corpus, not only those that units are cut by.
        """
        first = 0
        for units in self.cutter.read(self._rows(phase, None if whole else self.cutter.columns)):
            last = first + len(units)
            yield units, np.arange(first, last) if beside is None else beside[first:last]
            first = last

    def _rows(self, phase: str, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        done, total = 0, row_count(self.artifact, "corpus")
        for batch in read_batches(self.artifact, "corpus", columns, expected=CORPUS):
            yield batch
            done += len(batch)
            if phase:
                self.job.report(phase, done, total, "sentences")


def _planned(job: Job, source: _Source, earlier: Earlier | None) -> tuple[VectorPlan, Earlier | None]:
    """Which texts are embedded, and what is taken from the earlier artifact."""
    keys_U2 = np.concatenate([no_keys(), *(text_keys(units.embedded) for units, _ in source.units("comparing"))])
    plan = plan_vectors(no_keys() if earlier is None else earlier.keys, keys_U2)
    if earlier is not None and not earlier.keeps_transform(plan) and not earlier.transform.can_undo:
        job.note("too much has changed for the transform, and it cannot be undone: all texts are embedded again")
        earlier, plan = None, plan_vectors(no_keys(), keys_U2)
    job.counts |= {"units": len(keys_U2), "texts_embedded": plan.to_encode, "texts_repeated": plan.repeated}
    if earlier is not None:
        job.counts |= {"units_reused": plan.reused, "units_gone": plan.gone}
        job.note(f"texts: {plan.to_encode:,} new, {plan.reused:,} with their vectors already, {plan.gone:,} gone")
    return plan, earlier


def _encode(
    job: Job, shelf: ResumeCache, raw: TextEncoder, texts: Iterable[pa.StringArray], total: int, seconds: float
) -> StoredVectors:
    """A raw vector for each text, zero where it has none, beginning with those of a killed run of the same recipe.

    Args:
        job: told how far the work is.
        shelf: keeps finished pieces, files of whole chunks.
        raw: the encoder, without a transform.
        texts: all texts, string arrays.
        total: how many they are.
        seconds: how long to work on a piece.

    Raises:
        DivergedError: a vector is not finite.
        Stopped: a stop signal came; finished pieces are kept.
    """
    counts, figures, clock = list[int](), dict.fromkeys(_FIGURES, 0), Stopwatch()
    while (found := shelf.figures(_piece(len(counts)))) is not None:
        counts.append(found["texts"])
        figures = {name: figures[name] + found[name] for name in _FIGURES}
    if before := figures["texts"]:
        job.note(f"continuing a stopped run: {before:,} of {total:,} texts were embedded before")
    chunks = _encoded(raw, chunks_of(texts, before))
    with stop_signal(lambda _: job.note("stopping after this chunk, saving (press again to stop now)")) as flag:
        while figures["texts"] < total:
            piece, found = Stopwatch(), dict.fromkeys(_FIGURES, 0)
            with shelf.piece(_piece(len(counts)), found) as file:
                for chunk in chunks:
                    file.write(np.ascontiguousarray(chunk.vectors, dtype=np.float32).data)
                    for name, count in zip(_FIGURES, _figures_of(chunk), strict=True):
                        found[name] += count
                        figures[name] += count
                    speed = (figures["texts"] - before) / max(clock.seconds, 1e-9)
                    job.report("embedding", figures["texts"], total, "texts", **{"texts/s": f"{speed:,.0f}"})
                    job.rates = {"sentences_per_s": round(speed, 1)}
                    if piece.seconds >= seconds or flag.signum is not None:
                        break
            assert found["texts"], "there were fewer texts than were counted"
            counts.append(found["texts"])
            flag.raise_if_set(saved=f"{figures['texts']:,} of {total:,} texts are embedded; run it again to go on")
    return StoredVectors([shelf.path / _piece(number) for number in range(len(counts))], counts, raw.dim, figures)


def _piece(number: int) -> str:
    return f"vectors-{number:05d}.f32"


def _figures_of(chunk: EncodedBatch) -> tuple[int, ...]:
    """What `_FIGURES` counts."""
    empty, windows = int(chunk.empty.sum()), int((chunk.windows > 1).sum())
    return len(chunk.vectors), empty, windows, sum(map(len, chunk.unknown))


def _encoded(raw: TextEncoder, chunks: Iterator[list[str]]) -> Iterator[EncodedBatch]:
    for texts in chunks:
        batch = raw.encode(texts)
        bad = np.flatnonzero(~np.isfinite(batch.vectors).all(axis=1))
        if len(bad):
            raise DivergedError(
                f"the encoder gave vectors that are not finite for {len(bad)} of {len(texts)} texts",
                where="; ".join(repr(texts[number][:60]) for number in bad[:3]),
                hint="train it again",
            )
        yield batch


@dataclass(frozen=True)
class _Vectors:
    """The vector of each unit, from where the plan says.

    Attributes:
        plan: what comes from where.
        encoded: raw vectors, one for each text that was encoded.
        reused: those of the earlier artifact, as it has them where its transform is kept, else raw.
        kept: the earlier artifact's transform, where it is kept.
        fit: how many texts that was fitted on, and how many came or went since.
    """

    plan: VectorPlan
    encoded: StoredVectors
    reused: StoredVectors
    kept: Transform | None
    fit: dict[str, int]

    @classmethod
    def of(cls, job: Job, plan: VectorPlan, encoded: StoredVectors, earlier: Earlier | None) -> "_Vectors":
        """Lay out what is taken from the earlier artifact, and count."""
        found = encoded.figures
        job.counts |= {"units_read_in_windows": found["in_windows"], "words_unknown": found["words_unknown"]}
        if earlier is None:
            return cls(plan, encoded, StoredVectors([], [], encoded.dim), None, {})
        keeps, changed = earlier.keeps_transform(plan), earlier.changed_with(plan)
        if (kind := earlier.transform.kind) != "none":
            was = "as it was fitted" if keeps else "fitted anew"
            job.note(f"the transform ({kind}) is {was}: {changed:,} of {earlier.fitted_on:,} texts changed")
        rows = np.unique(plan.earlier[plan.earlier >= 0])
        place = np.where(plan.earlier < 0, -1, np.searchsorted(rows, plan.earlier))
        reused = earlier.stored(job, rows, raw=not keeps)
        fit = {} if kind == "none" else {"texts": earlier.fitted_on, "changed": changed}
        return cls(replace(plan, earlier=place), encoded, reused, earlier.transform if keeps else None, fit)

    def __len__(self) -> int:
        """Texts that have a vector, each counted once."""
        return len(self.encoded) - self.encoded.figures["without_vector"] + len(self.reused)

    def take(self, numbers: NDArray[np.int64], transform: Transform) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Vectors of these units, (len(numbers), K), transformed, and which of them have none."""
        new, old = self.plan.new[numbers], self.plan.earlier[numbers]
        vectors_UK = np.zeros((len(numbers), transform.dim), np.float32)
        empty_U = np.zeros(len(numbers), np.bool_)
        if (is_new := new >= 0).any():
            vectors_UK[is_new], empty_U[is_new] = transform.apply(self.encoded.take(new[is_new]))
        if (is_old := old >= 0).any():
            reused = self.reused.take(old[is_old])
            if self.kept is not None or transform.kind == "none":  # to the bit what they were
                vectors_UK[is_old] = reused
            else:
                vectors_UK[is_old], empty_U[is_old] = transform.apply(reused)
        return vectors_UK, empty_U


def _fitted(vectors: _Vectors, raw: TextEncoder, settings: EmbedSettings) -> tuple[Transform, dict[str, int]]:
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
        return vectors.kept, vectors.fit
    kind = transform_kind(settings, raw.kind, raw.dim, len(vectors), contrastive=learned_from_pairs(raw))
    if kind == "none":
        return Transform.none(raw.dim), {}
    moments = Moments(raw.dim)
    for stored in (vectors.reused, vectors.encoded):
        for block in stored.blocks():
            moments.add(block)
    return moments.fit(kind, settings.components, dims=settings.dims), {"texts": moments.count, "changed": 0}


def _write(job: Job, source: _Source, vectors: _Vectors, transform: Transform) -> None:
    """Write the vectors beside their texts, count them, and say how crowded they are.

    Raises:
        InputError: no vector is left.
    """
    metadata = pa.schema(list(read_schema(source.artifact, "corpus", CORPUS))[len(CORPUS) :])
    schema = sentences_schema(transform.dim, metadata)
    crowding, written, dropped = Crowding(transform.dim), 0, 0
    with job.table("sentences", schema) as table:
        for units, numbers in source.units("writing", whole=True):
            vectors_UK, empty_U = vectors.take(numbers, transform)
            kept_NK, mask = vectors_UK[~empty_U], pa.array(~empty_U)
            crowding.add(kept_NK)
            own = {
                "id": pa.array(np.arange(written, written + len(kept_NK), dtype=np.int64)),
                "text": units.text.filter(mask),
                "vector": vector_column(kept_NK),
            }
            arrays = [own[name] if name in own else units.column(name).filter(mask) for name in schema.names]
            table.write(pa.RecordBatch.from_arrays(arrays, schema=schema))
            written += len(kept_NK)
            dropped += int(empty_U.sum())
    if not written:
        raise InputError("nothing is left of the vectors after the transform", hint="use --transform none")
    job.counts |= {"sentences": written, "dropped_without_vector": dropped}
    if (cosine := crowding.mean_cosine) is not None:
        job.metrics["mean_cosine"] = round(cosine, 4)


def _warn(job: Job, origin: Artifact, chosen: EmbedSettings) -> None:
    """Warn of what a search would suffer from: texts that fell out, and a space in which all look alike."""
    dropped, units = job.counts["dropped_without_vector"], job.counts["units"]
    if dropped > _MANY_DROPPED * units:
        job.warn(
            f"{dropped:,} of {units:,} {chosen.unit}s ({dropped / units:.0%}) have no vector and are left out: they hold no "
            f"{_WHY_DROPPED[origin.kind]}"
        )
    cosine = job.metrics.get("mean_cosine", 0.0)
    if cosine > CROWDED:
        cure = ""
        if origin.manifest.command == "train word2vec":  # crowded while they have hardly been trained
            cure = f"the word vectors may need more --epochs than {origin.manifest.facts['epochs']}, or more text; "
        job.warn(
            f"all texts look alike: the mean cosine of two is {cosine:.2f}, where 0 is healthy; {cure}what mends it: "
            f"wordpipe doctor {shlex.quote(str(job.output))}"
        )
