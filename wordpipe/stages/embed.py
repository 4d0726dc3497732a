"""`wordpipe embed`: model or words, and a corpus → sentences.

Three readings of the corpus, a few thousand rows at a time: the texts are compared (each is embedded once, and with
`--update` none whose vector is there already); those left over are encoded, in pieces that a killed run finds again; then
the vectors are transformed and written beside their texts.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from wordpipe.artifacts.manifest import library_versions
from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.schemas import CORPUS
from wordpipe.artifacts.shelf import Shelf
from wordpipe.artifacts.tables import read_batches, row_count
from wordpipe.sentences.reuse import VectorPlan, no_keys, plan_vectors, text_keys
from wordpipe.sentences.settings import EmbedSettings
from wordpipe.sentences.transforms import check_directions
from wordpipe.sentences.units import UnitBatch, UnitCutter
from wordpipe.stages.embed_earlier import Earlier, encoder_facts, open_earlier
from wordpipe.stages.embed_vectors import encode_texts
from wordpipe.stages.embed_warnings import warn_of_vectors
from wordpipe.stages.embed_writing import PlannedVectors, fitted, write_sentences
from wordpipe.stages.encoders import carry_encoder, device_and_threads, open_encoder
from wordpipe.stages.making import Job, Made, PathLike, RunOptions, making
from wordpipe.stages.texts import open_corpus

__all__ = ["embed"]

_AS_EVER = {name: EmbedSettings.model_fields[name].default for name in ("update", "checkpoint_seconds")}


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
        raw = open_encoder(origin, chosen.model_copy(update=_AS_EVER))  # how it is run now is no part of the encoder
        components = chosen.components if chosen.transform == "remove-components" else 0
        check_directions(raw.dim, components=components, dims=chosen.dims)
        source = _Source(job, open_corpus(job, corpus))  # last: text that is no corpus yet is read now
        job.device, job.threads = device_and_threads(raw, chosen)
        cutter = UnitCutter(chosen, raw)
        updating = chosen.update and not job.run.fresh
        earlier = open_earlier(job, origin, raw, chosen) if updating else None
        plan, earlier = _plan(job, source, cutter, earlier)
        shelf = Shelf(job.partial, _recipe(job, earlier))
        texts = _texts_to_encode(source, cutter, plan)
        encoded = encode_texts(job, shelf, raw, texts, plan.to_encode, chosen.checkpoint_seconds)
        vectors = PlannedVectors.of(job, plan, encoded, earlier)
        transform, fit = fitted(vectors, raw, chosen)
        write_sentences(job, source.artifact, cutter.read(source.rows("writing", None)), vectors, transform)
        warn_of_vectors(job, origin, chosen)
        carry_encoder(job, raw.with_transform(transform), origin)
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


class _Source:
    """The corpus, to be read again and again."""

    def __init__(self, job: Job, artifact: Artifact) -> None:
        self.artifact, self._job = artifact, job
        self._total = row_count(artifact, "corpus")

    def rows(self, phase: str, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """All rows of these columns, reported as the phase goes on; an empty phase is silent."""
        done = 0
        for batch in read_batches(self.artifact, "corpus", columns, expected=CORPUS):
            yield batch
            done += len(batch)
            if phase:
                self._job.report(phase, done, self._total, "sentences")


def _plan(job: Job, source: _Source, cutter: UnitCutter, earlier: Earlier | None) -> tuple[VectorPlan, Earlier | None]:
    """Which texts are embedded, and what is taken from the earlier artifact."""
    batches = cutter.read(source.rows("comparing", cutter.columns))
    keys_U2 = np.concatenate([no_keys(), *(text_keys(units.embedded) for units in batches)])
    plan = plan_vectors(no_keys() if earlier is None else earlier.keys, keys_U2)
    if earlier is not None and not earlier.keeps_transform(plan) and not earlier.transform.can_undo:
        job.note("too much has changed for the transform, and it cannot be undone: all texts are embedded again")
        earlier, plan = None, plan_vectors(no_keys(), keys_U2)
    job.counts |= {"units": len(keys_U2), "texts_embedded": plan.to_encode, "texts_repeated": plan.repeated}
    if earlier is not None:
        job.counts |= {"units_reused": plan.reused, "units_gone": plan.gone}
        job.note(f"texts: {plan.to_encode:,} new, {plan.reused:,} with their vectors already, {plan.gone:,} gone")
    return plan, earlier


def _recipe(job: Job, earlier: Earlier | None) -> str:
    """What the pieces on the shelf are pieces of: which texts are encoded depends on the earlier artifact too."""
    after = "" if earlier is None else f" after {earlier.artifact.digest}"
    return f"{job.recipe} {job.device} {job.threads} threads {library_versions(*job.libraries)}{after}"


def _texts_to_encode(source: _Source, cutter: UnitCutter, plan: VectorPlan) -> Iterator[pa.StringArray]:
    for first, units in _numbered(cutter.read(source.rows("", cutter.columns))):
        yield units.embedded.filter(pa.array(plan.encode[first : first + len(units)]))


def _numbered(batches: Iterable[UnitBatch]) -> Iterator[tuple[int, UnitBatch]]:
    """Each batch with the number of its first unit."""
    first = 0
    for units in batches:
        yield first, units
        first += len(units)
