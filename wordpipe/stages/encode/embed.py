"""`wordpipe embed`: model, words or an index that carries an encoder, and a corpus → sentences.

    compare   the texts are hashed: each is encoded once, and with `--update` none whose vector is there already
    encode    those left over become raw vectors, shard by shard, in files that a killed run finds again
    fit       the transform, on the vectors in these files
    write     the vectors, transformed, beside their texts

An update takes vectors over as they are: where the previous transform fits still, or where there was none. The transform of an
encoder that an index carries is never fitted anew.

Comparing, encoding and writing each stream the corpus, a few thousand rows at a time. They are not one reading: how many texts
are new decides, before the first is encoded, which previous vectors and which transform are kept; and texts that are
encoded together may stand far apart where others repeat, so that all rows between them would wait in the memory. A reading
takes 0.1 of the 3 seconds in which a static model embeds 300,000 sentences.

Shapes: U units of the corpus, D numbers before the transform, K after it.
"""

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wordpipe.artifacts import (
    CORPUS,
    DOUBLES_FILE,
    ENCODER,
    MANIFEST,
    ROWS_WITHOUT_VECTOR,
    Artifact,
    ResumeCache,
    Store,
    array_data,
    library_versions,
    matrix_of,
    read_batches,
    read_fact,
    read_schema,
    row_count,
    sentences_schema,
    vector_column,
)
from wordpipe.encoders import (
    MAX_MEAN_COSINE,
    MIN_TEXTS,
    TRANSFORM_FILE,
    Moments,
    StoredVectors,
    TextEncoder,
    Transform,
    UnitBatch,
    UnitCutter,
    VectorPlan,
    check_directions,
    mean_cosine_of_sum,
    no_keys,
    plan_vectors,
    read_after_title,
    text_keys,
    transform_kind,
)
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.errors import InputError
from wordpipe.runtime import Stopwatch, ahead
from wordpipe.stages.encode.embed_shards import (
    LIBRARIES,
    EmbedShards,
    Opened,
    ShardCutter,
    vectors_name,
)
from wordpipe.stages.encoders import bundle_encoder, bundled_settings, is_transformer, open_encoder
from wordpipe.stages.inputs import open_corpus
from wordpipe.stages.job import Job, Made, PathLike, RunOptions, open_job
from wordpipe.stages.python_calls import public
from wordpipe.stages.search.row_facts import FILE_NAMES, has_file_names
from wordpipe.stages.sources import SourceLike

_REFIT_SHARE = 0.2  # of the texts that a transform was fitted on, changed since: then it is fitted anew
_OF_TRANSFORM = ("transform", "components", "dims")
_NOT_OF_VECTORS = {"unit", "with_title", *_OF_TRANSFORM, "batch_tokens", "device"}  # untransformed ones
_OF_ORIGIN = ("origin", "licence")  # of an encoder from elsewhere: who uses its vectors has to know them
_EXACT = "float32"  # what vectors are before they are stored
_AHEAD = 4  # batches of units: what one thread is at work on, and what keeps the other busy
_MANY_WITHOUT = 0.05  # of the units
_Fit = tuple[Transform, dict[str, int]]
"""A transform, and on how many texts it was fitted; nothing where there is none, or nobody knows."""


@public(EmbedSettings)
def embed(
    encoder: PathLike,
    corpus: SourceLike,
    *,
    output: PathLike,
    run: RunOptions | None = None,
    **settings: Any,
) -> Made:
    """Turn the sentences, documents or windows of a corpus into unit vectors.

    Args:
        encoder: a model or words artifact; or an index, whose encoder, transform and settings are then used.
        corpus: a corpus artifact, or whatever `ingest` takes, which is then ingested with the default settings.
        output: folder of the sentences artifact.
        run: progress, fresh start, verification.
        settings: fields of `EmbedSettings`.

    Raises:
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> made = wordpipe.embed("run/words", "run/corpus", output="new/sentences", unit="document")
        >>> made.kind, made.counts["units"]
        ('sentences', 165)
    """
    chosen = EmbedSettings.make(settings)
    with open_job("sentences", output, chosen, run) as job:
        job.libraries = LIBRARIES
        job.threads = job.engine_options.threads
        # Inputs: the encoder and the corpus.
        origin = job.open_input(encoder, ["model", "words", "index"])
        if origin.kind == "index":
            job.asked, job.settings = chosen, bundled_settings(origin, chosen)
            chosen = job.settings
            job.is_usual = False  # estimates go by the size of a model or words
        # Each thread of a static encoder, or of words, has a shard of its own.
        own = job.threads if is_transformer(origin) else 1
        found = open_encoder(origin, chosen.model_copy(update={"threads": own}))
        bundled = found.transform if origin.kind == "index" else None  # which is never fitted anew
        raw = found.untransformed
        components = chosen.components if chosen.transform == "remove-components" else 0
        check_directions(raw.dim, components=components, dims=chosen.dims)
        texts = open_corpus(job, corpus)  # text that is no corpus is read now
        job.note_first_texts(texts)
        source = _Source(job, texts, UnitCutter(chosen, raw))
        job.device = getattr(raw, "device", "cpu")
        # What has a vector already, in the artifact at the output, is not encoded again.
        brought = {name: origin.manifest.facts[name] for name in _OF_ORIGIN if name in origin.manifest.facts}
        made_by = {"kind": origin.kind, "digest": origin.digest, "pooling": raw.pooling, **brought}
        if bundled is not None:  # that of which the index was made
            made_by = origin.fact("encoder", dict)
        previous = _open_previous(job, made_by, chosen, bundled) if chosen.update and not job.run.fresh else None
        cutter = ShardCutter(raw, job.device, row_count(texts, "corpus"))
        plan, previous = _compare(source, previous, cutter)
        # Encode the rest, in shards that a killed run finds again.
        after = "" if previous is None else f" after {previous.artifact.digest}"
        way = f"{job.device} {own} threads {library_versions(*job.libraries)}{after} {cutter.least} units"
        cache, opened = ResumeCache(job.partial, f"{job.recipe} {way}"), Opened(raw, texts)
        on_device = chosen.model_copy(update={"device": job.device})
        shards = EmbedShards.of(origin, opened, cache, on_device, cutter, plan.encode, source.cutter.windows)
        encoded = _encode(job, cache, shards, opened)
        # Fit the transform on all vectors where it is not known, and write these, transformed, beside their texts.
        vectors = _UnitVectors.of(job, plan, encoded, previous)
        known = None if bundled is None else (bundled, origin.fact("fit", dict, {}))
        transform, fit = _fit(job, vectors, raw, chosen, known)
        _write(source, vectors, transform, chosen.store)
        _warn(job, origin, chosen)
        # What readers of the artifact need: where else texts stand, the encoder, the transform.
        for name in texts.names(DOUBLES_FILE):
            job.writer.share(texts, name)
        bundle_encoder(job, raw.with_transform(transform), origin)
        job.bitwise = job.device == "cpu" and not plan.reused
        job.facts = {
            "dim": transform.dim,
            "store": chosen.store,
            "encoder": made_by,
            "transform": transform.kind,
            "keep_case": origin.manifest.facts.get("keep_case", False),
            FILE_NAMES: has_file_names(texts.manifest.settings),
            **({"fit": fit} if fit else {}),
        }
    return job.made


@dataclass(frozen=True)
class _Source:
    """The units of a corpus that `embed` reads, again and again."""

    job: Job
    artifact: Artifact
    cutter: UnitCutter

    @property
    def waiting(self) -> int:
        """Batches that a thread of their own makes ahead: none where one thread is all that is to work."""
        options = self.job.engine_options
        return 0 if options.engine == "local" and options.threads == 1 else _AHEAD

    def units(self, *, whole: bool = False) -> Iterator[tuple[slice, UnitBatch]]:
        """Yield the place of each batch of units to embed among all units, and the batch.

        `whole` reads all columns of the corpus, not only those that units are cut by.
        """
        columns, done = None if whole else self.cutter.columns, 0
        for units in self.cutter.read(read_batches(self.artifact, "corpus", columns, expected=CORPUS)):
            yield slice(done, done + len(units)), units
            done += len(units)


@dataclass(frozen=True)
class _Previous:
    """A sentences artifact whose vectors this encoder would give again.

    Attributes:
        artifact: it, open.
        keys: uint64 (R, 2), of the text that each of its vectors was made of.
        transform: what its vectors went through.
        keeps_transform: whether these settings ask for that again, and it fits well enough still.
        is_fixed: whether the transform is the encoder's, and kept however much the texts change.
        fitted_on: how many texts that was fitted on.
        changed: texts that came or went since.
    """

    artifact: Artifact
    keys: NDArray[np.uint64]
    transform: Transform
    keeps_transform: bool
    is_fixed: bool
    fitted_on: int
    changed: int

    def changed_by(self, plan: VectorPlan) -> "_Previous":
        """Return the previous sentences of `embed --update` with texts that come and go counted as changed."""
        known = self.artifact.manifest.counts.get("dropped_without_vector", 0)  # encoded again, and no news
        changed = self.changed + max(0, plan.to_encode - known) + plan.gone
        keeps = self.keeps_transform and (self.is_fixed or changed <= _REFIT_SHARE * self.fitted_on)
        return replace(self, changed=changed, keeps_transform=keeps)


def _open_previous(
    job: Job, made_by: dict[str, str], settings: EmbedSettings, bundled: Transform | None
) -> _Previous | None:
    """Open the sentences at the output of `embed`, if their vectors can be used; else a note says why not.

    `bundled`: the transform of an encoder that an index carries.
    """
    artifact = job.previous_artifact("all texts are embedded")
    if artifact is None:
        return None
    # The vectors are of use if the same encoder, settings and device made them.
    made, facts = artifact.manifest, artifact.manifest.facts
    before = made.settings
    stored = before.get("store", _EXACT)  # of exact ones any other are made
    found = {**before, "encoder": facts.get("encoder"), "device": made.device}
    found["store"] = settings.store if stored == _EXACT else stored
    wanted = {"encoder": made_by, "device": job.device}
    wanted |= {name: value for name, value in settings.recipe().items() if name not in _NOT_OF_VECTORS}
    if other := [name for name, value in wanted.items() if value != found.get(name)]:
        job.note(f"{job.target} was made with other settings ({', '.join(other)}), so all texts are embedded again")
        return None
    # The keys of its texts, as they were embedded.
    keys, done, rows = [no_keys()], 0, row_count(artifact, "sentences")
    for batch in read_batches(artifact, "sentences", ["title", "text"]):
        text = batch.column("text")
        if before["with_title"] and before["unit"] != "sentence":
            text = read_after_title(text, batch.column("title"))
        keys.append(text_keys(text))
        done += len(batch)
        job.report("reading the previous texts", done, rows, "texts")
    # Its transform, and how far the texts have changed since that was fitted.
    fit = artifact.fact("fit", dict, {"texts": rows, "changed": 0})
    kind: Any = artifact.fact("transform", str)
    with artifact.damage_of(ENCODER + TRANSFORM_FILE):
        transform = Transform.from_bytes(artifact.read(ENCODER + TRANSFORM_FILE), kind)
    if bundled is not None:
        keeps = transform.to_bytes() == bundled.to_bytes()
    else:
        keeps = all(settings.manifest()[name] == before[name] for name in _OF_TRANSFORM)
    return _Previous(
        artifact,
        np.concatenate(keys),
        transform,
        keeps_transform=keeps,
        is_fixed=bundled is not None,
        fitted_on=read_fact(fit, "texts", int, artifact.path / MANIFEST, least=0),
        changed=read_fact(fit, "changed", int, artifact.path / MANIFEST, least=0),
    )


def _compare(source: _Source, previous: _Previous | None, cutter: ShardCutter) -> tuple[VectorPlan, _Previous | None]:
    """Plan which texts are embedded and which vectors are taken over, and cut the corpus into shards.

    Returns:
        The plan, and the previous artifact; None where nothing is taken over.
    """
    job, keys, done, total = source.job, [no_keys()], 0, row_count(source.artifact, "corpus")
    for _, units in ahead(source.units(), source.waiting):
        keys.append(text_keys(units.embedded))
        cutter.add(len(units.rows), len(units))
        done += len(units.rows)
        job.report("comparing", done, total, "sentences")
    # Plan; a previous transform that cannot be kept makes the previous vectors useless.
    keys_U2 = np.concatenate(keys)
    plan = plan_vectors(no_keys() if previous is None else previous.keys, keys_U2)
    if previous is not None:
        previous = previous.changed_by(plan)
        if not previous.keeps_transform and previous.transform.kind != "none":
            job.note("the previous transform cannot be kept and cannot be undone, so all texts are embedded again")
            previous, plan = None, plan_vectors(no_keys(), keys_U2)
    # Say what was found.
    job.counts |= {"units": len(keys_U2), "texts_embedded": plan.to_encode, "texts_repeated": plan.repeated}
    if previous is not None:
        job.counts |= {"units_reused": plan.reused, "units_gone": plan.gone}
        job.note(f"texts: {plan.to_encode:,} new, {plan.reused:,} with reused vectors, {plan.gone:,} removed")
        if (kind := previous.transform.kind) != "none":
            job.note(
                f"the transform ({kind}) is kept; it was fitted on {previous.fitted_on:,} texts, and {previous.changed:,} "
                "texts have changed since"
            )
    return plan, previous


def _encode(job: Job, cache: ResumeCache, shards: EmbedShards, opened: Opened) -> StoredVectors:
    """Return a raw vector for each text to embed, zero where it has none, after those of a killed run.

    The vectors go through files of the job's resume cache: a killed run goes on from them, a text that comes again finds its
    vector there, and a transform is fitted on them before the first is written.

    Args:
        job: whose engine encodes.
        cache: where the files are.
        shards: the texts.
        opened: the encoder and the corpus, as this process has them.

    Raises:
        DivergedError: a vector is not finite.
    """
    total, clock = sum(shards.texts), Stopwatch()
    numbers = [number for number, texts in enumerate(shards.texts) if texts]
    missing = [number for number in numbers if cache.figures(vectors_name(number)) is None]
    to_do = sum(shards.texts[number] for number in missing)
    if before := total - to_do:
        job.note(f"continuing a stopped run: {before:,} of {total:,} texts are already embedded")
    job.make_shards(shards, missing, total, cache, opened)
    if to_do:
        job.rates = {"sentences_per_s": round(to_do / max(clock.seconds, 1e-9), 1)}
    totals = Counter[str]()
    for number in numbers:
        totals.update(cache.made_figures(vectors_name(number)))
    assert totals["texts"] == total, "fewer texts were embedded than counted"
    job.counts |= {"units_read_in_windows": totals["in_windows"], "words_unknown": totals["words_unknown"]}
    paths = [cache.path / vectors_name(number) for number in numbers]
    return StoredVectors(
        paths, [shards.texts[number] for number in numbers], opened.encoder.dim, totals["without_vector"]
    )


@dataclass(frozen=True)
class _UnitVectors:
    """The vector of each unit, encoded or reused, as the plan says.

    Attributes:
        plan: what comes from where.
        encoded: raw vectors, one for each text that was encoded.
        reused: those of the previous artifact, as it has them.
        previous: that artifact, where its transform is kept.
    """

    plan: VectorPlan
    encoded: StoredVectors
    reused: StoredVectors
    previous: _Previous | None

    @classmethod
    def of(cls, job: Job, plan: VectorPlan, encoded: StoredVectors, previous: _Previous | None) -> "_UnitVectors":
        """Return the vectors of the units to embed, the reused ones read from the previous sentences.

        It goes into a file of the job's, as units ask for it in another order, which Parquet cannot give.
        """
        if previous is None:
            return cls(plan, encoded, StoredVectors([], [], encoded.dim), None)
        rows = np.unique(plan.previous[plan.previous >= 0])
        place = np.where(plan.previous < 0, -1, np.searchsorted(rows, plan.previous))
        path, done, seen, empty = job.scratch / "previous.f32", 0, 0, 0
        with path.open("wb") as file:
            for batch in read_batches(previous.artifact, "sentences", ["vector"]):
                last = int(np.searchsorted(rows, seen + len(batch)))
                vectors_RK = np.ascontiguousarray(matrix_of(batch.column("vector"))[rows[done:last] - seen])
                empty += int((~vectors_RK.any(axis=1)).sum())
                file.write(vectors_RK.data)
                done, seen = last, seen + len(batch)
                job.report("reusing vectors", done, len(rows), "texts")
        reused = StoredVectors([path], [len(rows)], previous.transform.dim, empty)
        return cls(replace(plan, previous=place), encoded, reused, previous if previous.keeps_transform else None)

    def __len__(self) -> int:
        """Texts that have a vector, each counted once."""
        return sum(len(stored) - stored.n_empty for stored in (self.encoded, self.reused))

    def take(self, at: slice, transform: Transform) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return the embedded vectors of these units, (U, K), transformed, and which of them have none."""
        new, old = self.plan.new[at], self.plan.previous[at]
        vectors_UK = np.zeros((len(new), transform.dim), np.float32)
        empty_U = np.zeros(len(new), np.bool_)
        if (is_new := new >= 0).any():
            vectors_UK[is_new], empty_U[is_new] = transform.apply(self.encoded.take(new[is_new]))
        if (is_old := old >= 0).any():
            reused = self.reused.take(old[is_old])
            if self.previous is not None or transform.kind == "none":  # to the bit what they were
                vectors_UK[is_old], empty_U[is_old] = reused, ~reused.any(axis=1)
            else:
                vectors_UK[is_old], empty_U[is_old] = transform.apply(reused)
        return vectors_UK, empty_U


def _fit(job: Job, vectors: _UnitVectors, raw: TextEncoder, settings: EmbedSettings, known: _Fit | None) -> _Fit:
    """Return the transform of `embed`, fitted on each text once, and on how many that was; a known one is not fitted anew.

    Raises:
        InputError: no text has a vector, or too few for the transform.
    """
    if not len(vectors):
        raise InputError(
            "no text of the corpus has a vector",
            got=f"{len(vectors.plan.encode)} {settings.unit}s",
            hint="train the encoder on similar texts, or embed other texts",
        )
    if (kept := vectors.previous) is not None:
        fit = {} if kept.transform.kind == "none" else {"texts": kept.fitted_on, "changed": kept.changed}
        return kept.transform, fit
    if known is not None:
        return known
    kind = transform_kind(settings, raw, len(vectors))
    if kind == "none":
        return Transform.none(raw.dim), {}
    moments = Moments(raw.dim)
    for stored in (vectors.reused, vectors.encoded):
        for block in stored.blocks():
            moments.add(block)
            job.report("fitting the transform", moments.count, len(vectors), "texts")
    return moments.fit(kind, settings.components, dims=settings.dims), {"texts": moments.count, "changed": 0}


def _write(source: _Source, vectors: _UnitVectors, transform: Transform, store: Store) -> None:
    """Write the embedded sentences: vectors beside their texts; count them, and measure how alike they are.

    A text without a vector has zeros, and its row is listed: words, its id and conditions find it.

    Raises:
        InputError: no vector is left.
    """
    job = source.job
    further = list(read_schema(source.artifact, "corpus", CORPUS))[len(CORPUS) :]
    schema = sentences_schema(transform.dim, pa.schema(further), store)
    sum_K, done, total = np.zeros(transform.dim), 0, row_count(source.artifact, "corpus")
    without = [np.zeros(0, np.int64)]

    def made() -> Iterator[tuple[pa.RecordBatch, NDArray[np.float64], int]]:
        """Rows, the sum of their vectors, and how many rows of the corpus they come from."""
        for at, units in source.units(whole=True):
            vectors_UK, empty_U = vectors.take(at, transform)
            without.append(at.start + np.flatnonzero(empty_U))
            rows = units.as_rows(schema, at.start, vector_column(vectors_UK, store))
            yield rows, vectors_UK.sum(axis=0, dtype=np.float64), len(units.rows)

    # Write the rows.
    with job.table("sentences", schema) as table:
        for rows, sum_of_rows_K, n_read in ahead(made(), source.waiting):
            table.write(rows)
            sum_K += sum_of_rows_K
            done += n_read
            job.report("writing", done, total, "sentences")
    # Count them, and list those without a vector.
    without_M = np.concatenate(without)
    with_vector = table.rows - len(without_M)
    if not with_vector:
        raise InputError("no text has a vector after the transform", hint="use --transform none")
    job.counts |= {"sentences": table.rows, "without_vector": len(without_M)}
    if len(without_M):
        job.write(ROWS_WITHOUT_VECTOR, array_data(without_M))
    if with_vector >= MIN_TEXTS:  # of fewer it says little
        job.metrics["mean_cosine"] = round(mean_cosine_of_sum(sum_K, with_vector), 4)


def _warn(job: Job, origin: Artifact, chosen: EmbedSettings) -> None:
    """Warn in `embed` of texts without a vector, and of a space in which all look alike."""
    without, units = job.counts["without_vector"], job.counts["units"]
    if without:
        said = (
            f"{without:,} of {units:,} {chosen.unit}s ({without / units:.1%}) have no vector, because {origin.path} "
            "knows none of their words; a search finds these texts only by words, id or condition"
        )
        (job.warn if without > _MANY_WITHOUT * units else job.note)(said)
    cosine = job.metrics.get("mean_cosine", 0.0)
    if cosine > MAX_MEAN_COSINE:
        job.warn(
            f"the encoder gives all texts similar vectors (mean cosine of two texts: {cosine:.2f}); this is usual for short "
            "texts of the same form, and search results may still be in the right order; to test the search, run: "
            f"wordpipe doctor {shlex.quote(str(job.target))}"
        )
