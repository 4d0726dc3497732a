"""`wordpipe index`: sentences or words → index."""

from dataclasses import replace
from typing import Any

from wordpipe.artifacts.manifest import ENCODER, INDEX_FILE, TOKENIZER
from wordpipe.artifacts.reader import Artifact
from wordpipe.runtime import StopFlag, keep_freed_memory
from wordpipe.search.build import Built, IndexBuilder
from wordpipe.search.files import read_lists, write_index
from wordpipe.search.held_out import HeldOut
from wordpipe.search.kinds import KINDS, Width
from wordpipe.search.plan import update_plan
from wordpipe.search.settings import IndexSettings
from wordpipe.search.update import IndexUpdater
from wordpipe.stages.index_figures import index_facts, note_built, note_lexical, note_plan
from wordpipe.stages.index_rows import carry_rows
from wordpipe.stages.index_update import Earlier, earlier_index
from wordpipe.stages.index_vectors import IndexVectors, carry_keys, later_bytes
from wordpipe.stages.lexical import carry_lexical
from wordpipe.stages.making import Job, Made, PathLike, RunOptions, making

__all__ = ["index"]

HELD_OUT = "held_out.npy"
_AS_BEFORE = 0.02  # of recall: two samples of 200 queries differ by so much


def index(vectors: PathLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any) -> Made:
    """Build a FAISS index over the vectors of a sentences or words artifact, or bring the one at the output up to date.

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
    keep_freed_memory()  # every block of vectors was mapped and zeroed anew: 2.2 s of an update's 3.8 s, and now 0.9 of 2.7
    with making("index", "index", output, chosen, run) as job:
        job.libraries = ("faiss-cpu", "numpy", "pyarrow", "PyStemmer")
        source = job.open_input(vectors, ["sentences", "words"])
        updating = chosen.update and not job.run.fresh
        table = IndexVectors(source)
        earlier = earlier_index(job, source, table, chosen) if updating else None
        built = _updated(job, table, earlier, chosen) if earlier and earlier.in_place else None
        in_place = built is not None
        built = built or _watched(job, IndexBuilder(table.blocks, table.count, table.dim, chosen, later_bytes(source)))
        note_built(job, built)
        with job.draft.create(INDEX_FILE) as file:
            write_index(built.index, file)
        built = replace(built, index=None)  # what follows needs the memory
        carry_rows(job, source)
        carry_keys(job, table)
        if built.held is not None:
            job.write(HELD_OUT, built.held.to_bytes())
        for name in _encoder_files(source):
            job.write(name, source.read(name))
        job.facts = index_facts(job, source, built, chosen)
        job.facts |= {"built_for": table.count, "changed_since_built": 0}
        if in_place and earlier:
            job.facts |= {
                "built_for": earlier.artifact.manifest.facts["built_for"], "changed_since_built": earlier.changed,
            }  # fmt: skip
        _carry_lexical(job, source, earlier, chosen)
        _record(job, built, table.count, earlier, in_place=in_place)
    return job.made


def _updated(job: Job, table: IndexVectors, earlier: Earlier, settings: IndexSettings) -> Built | None:
    """The old index, changed; None where it no longer reaches the recall, or missed it before and now finds less."""
    old = earlier.artifact
    size = next(entry.bytes for entry in old.manifest.outputs if entry.path == INDEX_FILE)
    update_plan(KINDS[earlier.kind], table.count, table.dim, settings).refuse_above(settings.max_memory_bytes)
    with old.open(INDEX_FILE) as file:
        found = read_lists(file, size=size, where=str(old.path / INDEX_FILE))
    held = None
    if old.names(HELD_OUT):
        held = HeldOut.from_bytes(old.read(HELD_OUT), earlier.old_count, table.dim, str(old.path / HELD_OUT))
    width = Width(int(old.manifest.facts["search_width"]), int(old.manifest.facts["refine"]))
    updater = IndexUpdater(
        found, earlier.kind, table.blocks, earlier.old_rows, earlier.old_count, settings, width, held
    )
    built = _watched(job, updater)
    missed = not old.manifest.facts.get("recall_met", True)  # a rebuild would too
    if built.recall_met or (missed and built.recall_at_10 >= earlier.recall_at_10 - _AS_BEFORE):
        return built
    job.note(f"changed in place it finds only {built.recall_at_10:.3f} of the true 10 nearest: building anew")
    return None


def _watched(job: Job, work: IndexBuilder | IndexUpdater) -> Built:
    for step in work.steps(StopFlag()):  # a stop signal unwinds: there is nothing to save
        if step.plan is not None:
            note_plan(job, step.plan)
        else:
            job.report(step.phase, step.done, step.total, step.unit)
    assert work.built is not None
    return work.built


def _carry_lexical(job: Job, source: Artifact, earlier: Earlier | None, settings: IndexSettings) -> None:
    previous, old_rows = (earlier.artifact, earlier.old_rows) if earlier else (None, None)
    if lexical := carry_lexical(job, source, settings, previous=previous, old_rows=old_rows):
        job.facts["lexical"] = lexical
        if earlier is None:  # which would have handed its own on
            note_lexical(job, lexical)


def _encoder_files(source: Artifact) -> list[str]:
    """What a query needs: the encoder of the sentences, or the tokenizer that cuts words, and their n-grams."""
    if source.kind == "sentences":
        return source.names(ENCODER)
    return [*source.names(TOKENIZER), *source.names("ngrams-")]


def _record(job: Job, built: Built, rows: int, earlier: Earlier | None, *, in_place: bool) -> None:
    job.threads, job.bitwise = built.threads, built.bitwise and not in_place
    job.counts = {"vectors": rows, **(earlier.counts if earlier else {})}
    job.metrics = {"recall_at_10": round(built.recall_at_10, 4)}
    job.facts["recall_met"] = built.recall_met
    job.rates = {
        "queries_per_s": round(built.queries_per_s, 1),
        "vectors_per_s": round(rows / max(job.clock.seconds, 1e-9), 1),
    }
    if built.exact_queries_per_s is not None:
        job.rates["exact_queries_per_s"] = round(built.exact_queries_per_s, 1)
    asked = str(getattr(job.settings, "type", "auto"))
    if asked not in ("auto", built.kind):
        job.note(f"{rows:,} vectors are too few for {asked}: the index is flat, which is exact")
    if not built.recall_met:
        wanted = getattr(job.settings, "recall", None)
        job.warn(f"the index finds {built.recall_at_10:.3f} of the true 10 nearest, less than the {wanted} asked for")
