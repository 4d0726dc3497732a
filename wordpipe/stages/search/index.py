"""`wordpipe index`: sentences or words → index."""

import io
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from shutil import copyfileobj
from typing import Any, BinaryIO

import numpy as np

from wordpipe.artifacts import (
    ENCODER,
    INDEX_FILE,
    ROWS_WITHOUT_VECTOR,
    TOKENIZER,
    Artifact,
    OutputEntry,
    part_names,
    row_count,
)
from wordpipe.runtime import keep_freed_memory
from wordpipe.search import (
    Built,
    Measurement,
    Plan,
    Width,
    build_index,
    kind_names,
    kind_of,
    read_held_out,
    update_index,
    vector_share,
    write_index,
)
from wordpipe.search.settings import IndexSettings
from wordpipe.stages.job import Job, Made, PathLike, RunOptions, open_job
from wordpipe.stages.python_calls import public
from wordpipe.stages.search.index_lexical import QUERIES_MEASURED, TOO_ALIKE, bundle_lexical
from wordpipe.stages.search.index_shards import LIBRARIES, IndexParts
from wordpipe.stages.search.previous_index import (
    IndexVectors,
    PreviousIndex,
    bundle_keys,
    bytes_after_build,
    lineage_of,
    previous_index,
)

HELD_OUT = "held_out.npy"
_RECALL_NOISE = 0.02  # of recall: two samples of 200 queries differ by so much
_BLOCK = 4 << 20  # bytes copied at a time
_USUAL_WORDS = 8  # of a query, for people to see what the vectors have of a score


@public(IndexSettings)
def index(vectors: PathLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any) -> Made:
    """Build a FAISS index over the vectors of a sentences or words artifact, or bring the one at the output up to date.

    The index artifact holds the rows in index order and the query encoder too, so the folder can be moved and queried.

    Args:
        vectors: a sentences or words artifact.
        output: folder of the index artifact.
        run: progress, fresh start, verification.
        settings: fields of `IndexSettings`.

    Raises:
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> made = wordpipe.index("run/words", output="new/index", type="flat")
        >>> [hit["word"] for hit in wordpipe.query(made, "water", k=2)] != []
        True
    """
    chosen = IndexSettings.make(settings)
    keep_freed_memory()  # every block of vectors was mapped and zeroed anew: 2.2 s of an update's 3.8 s, and now 0.9 of 2.7
    with open_job("index", output, chosen, run) as job:
        job.libraries = (*LIBRARIES, "PyStemmer")
        if job.engine_options.engine == "local":
            chosen = chosen.model_copy(update={"threads": job.engine_options.threads})
        # Inputs: the vectors, and the index at the output.
        source = job.open_input(vectors, ["sentences", "words"])
        updating = chosen.update and not job.run.fresh
        table = IndexVectors(source)
        previous = previous_index(job, source, table, chosen) if updating else None
        # Change that index, or build a new one.
        built = _updated(job, table, previous, chosen) if previous and previous.in_place else None
        in_place = built is not None
        _note_whole(job, chosen, table.count, in_place=in_place)
        parts = IndexParts(job, source, table.with_vector)
        built = built or build_index(
            table.blocks, table.count, table.dim, chosen, job.run.report, bytes_after_build(source), parts
        )
        for line in _curve_lines(built):
            job.note(line)
        # Write it, its rows, and what queries and the next update need.
        with job.writer.create(INDEX_FILE) as file:
            write_index(built.index, file)
        built = replace(built, index=None)  # what follows needs the memory
        _bundle_rows(job, source)
        bundle_keys(job, table)
        if built.held is not None:
            np.save(held := io.BytesIO(), built.held, allow_pickle=False)
            job.write(HELD_OUT, held.getvalue())
        # the encoder of the sentences, or the tokenizer that cuts words, and their n-grams
        encoder = (ENCODER,) if source.kind == "sentences" else (TOKENIZER, "ngrams-")
        for name in [name for one in (*encoder, ROWS_WITHOUT_VECTOR) for name in source.names(one)]:
            job.write(name, source.read(name))
        job.facts = _facts(source, built)
        built_for = previous.artifact.fact("built_for", int, table.count) if in_place and previous else table.count
        job.facts |= {"built_for": built_for, "changed_since_built": previous.changed if in_place and previous else 0}
        # Of texts the words are indexed too, and it is measured what finds more.
        before = (previous.artifact, previous.old_rows) if previous else (None, None)
        if lexical := bundle_lexical(job, source, chosen, *before):
            job.facts |= {"lexical": lexical, "language": _language_said(lexical, chosen.language)}
            if previous is None:  # which would have handed its own on
                job.note(f"language of the words: {job.facts['language']}")
                _note_lexical(job, lexical)
        _record(job, built, table, previous, in_place=in_place)
    return job.made


def _note_whole(job: Job, settings: IndexSettings, rows: int, *, in_place: bool) -> None:
    """Note where building an index leaves nothing to other machines; not yet known where lists may find too little."""
    if job.engine_options.engine == "ray" and (in_place or kind_of(kind_names(settings, rows)[0]).is_exact):
        flat = f"an index of {rows:,} vectors is flat, so this process builds the index without shards"
        job.note("this process updates the existing index without shards" if in_place else flat)


def _updated(job: Job, table: IndexVectors, previous: PreviousIndex, settings: IndexSettings) -> Built | None:
    """Return the old index, changed by `index --update`; None where it finds too little now."""
    old = previous.artifact
    size = next(entry.bytes for entry in old.manifest.outputs if entry.path == INDEX_FILE)
    kind = kind_of(previous.kind)(table.count, table.dim, settings)
    Plan.of_update(kind).refuse_above(settings.max_memory_bytes)
    with old.open(INDEX_FILE) as file:
        found = kind.read_to_grow(file, size=size, where=str(old.path / INDEX_FILE))
    held, vectors = None, previous.old_vectors(table.with_vector)
    if old.names(HELD_OUT):
        held = read_held_out(old.read(HELD_OUT), vectors[1], table.dim, str(old.path / HELD_OUT))
    width = Width(old.fact("search_width", int, least=0), old.fact("refine", int, least=0))
    built = update_index(kind, found, table.blocks, *vectors, width, held, job.run.report)
    missed = not old.fact("recall_met", bool, True)  # a rebuild would too
    before = old.manifest.metrics.get("recall_at_10", 0.0)
    if built.recall_met or (missed and built.chosen.recall_at_10 >= before - _RECALL_NOISE):
        return built
    job.note(f"recall@10 of the updated index is only {built.chosen.recall_at_10:.3f}, so a new index is built")
    return None


def _record(job: Job, built: Built, table: IndexVectors, previous: PreviousIndex | None, *, in_place: bool) -> None:
    """Record counts, metrics and rates of `index` in the job, and warn where the recall is missed."""
    rows = table.count
    job.threads, job.bitwise = built.threads, built.bitwise and not in_place
    job.counts = {"vectors": rows, **(previous.counts if previous else {})}
    if without := table.rows - rows:
        job.counts["without_vector"] = without
        job.note(
            f"{without:,} of {table.rows:,} texts have no vector, so a search finds these texts only by words, id or condition"
        )
    job.metrics = {"recall_at_10": round(built.chosen.recall_at_10, 4)}
    job.facts["recall_met"] = built.recall_met
    job.rates = {
        **_query_rates(built.chosen.queries_per_s, job.facts.get("lexical")),
        "vectors_per_s": round(rows / max(job.clock.seconds, 1e-9), 1),
    }
    if built.exact_queries_per_s is not None:
        job.rates["exact_queries_per_s"] = round(built.exact_queries_per_s, 1)
    wanted = str(getattr(job.settings, "type", "auto"))
    if wanted not in ("auto", built.kind):
        job.note(
            f"{rows:,} vectors are too few for an index of type {wanted}: the index is flat, and its search is exact"
        )
    if not built.recall_met:
        found, recall = f"{built.chosen.recall_at_10:.3f}", getattr(job.settings, "recall", None)
        job.warn(f"recall@10 of the index is {found}, which is less than the target of {recall}")


_SEARCHES = {"dense": 1, "hybrid": 2, "lexical": 0}  # by vectors, of a query


def _query_rates(by_vectors: float, lexical: dict[str, Any] | None) -> dict[str, float]:
    """Return queries that the new index answers in a second; and searches by vectors alone.

    What a query does was timed in parts, which are added up: its vector and its words on the queries that measured the modes,
    the search by vectors on held-out rows.
    """
    searches = round(by_vectors, 1)
    if not lexical:
        return {"queries_per_s": searches}  # words, which are looked up
    if (beside := lexical.get("seconds_beside_vectors")) is None:
        return {"vector_searches_per_s": searches}
    seconds = beside + _SEARCHES[lexical["mode"]] / max(by_vectors, 1e-9)
    return {"queries_per_s": round(1 / max(seconds, 1e-9), 1), "vector_searches_per_s": searches}


def _language_said(lexical: Mapping[str, Any], asked: str) -> str:
    """Return for `index` the language of an index's words, and whether it was recognised; `lexical` is what its facts have."""
    language, stems = str(lexical.get("language", "none")), lexical.get("stems", True)
    if language == "none":
        return (
            "none detected, so word endings are kept (choose a language with --language)" if asked == "auto" else "none"
        )
    if asked != "auto":
        return language
    how = "word endings are removed" if stems else "word endings are kept"
    if (found := lexical.get("endings")) is None:
        return f"{language} (detected), {how}"
    figures = f"nDCG@10 {found['stems']:.3f} without endings, {found['words']:.3f} with endings"
    doubt = "" if found["kept"] or found["interval"][1] < 0 else ", no clear difference"
    return f"{language} (detected), {how} ({figures}{doubt})"


def _note_lexical(job: Job, lexical: dict[str, Any]) -> None:
    """Note in `index` which mode auto is, where it was measured; `lexical` is what `bundle_lexical` gave."""
    # Where nothing was measured, say why.
    if (measured := lexical.get("measured")) is None:
        if lexical.get("alike"):
            job.note(
                f"--mode auto searches by words and vectors together; the modes were not compared, because {TOO_ALIKE}"
            )
        return
    # The mode, and what each mode found.
    found = measured["ndcg_at_10"]
    share = vector_share(float(lexical["agreement"]), _USUAL_WORDS)
    both = f"words and vectors together (if a query has {_USUAL_WORDS} words, vectors give {share:.0%} of the score)"
    words = "words alone, with a second search (feedback)" if lexical.get("feedback") else "words alone"
    modes = {"hybrid": both, "lexical": words, "dense": "vectors alone"}
    # The figures. Queries that are like the pairs of a training flatter its vectors.
    proof = (
        "; the figure for vectors is too optimistic, because the vectors were trained on pairs of this kind"
        if measured["learned_from_pairs"]
        else ""
    )
    tested = f"{measured['queries']} queries ({QUERIES_MEASURED[measured['by']]})"
    figures = (
        f"{found['lexical']:.3f} by words, {found['dense']:.3f} by vectors, {found['hybrid']:.3f} by words and vectors"
    )
    job.note(f"--mode auto searches by {modes[lexical['mode']]}. In a test with {tested}, nDCG@10 is {figures}{proof}")
    # What vectors bring to words that are asked twice.
    if "lexical_twice" in found:
        twice, chance = found["lexical_twice"], found["random_vectors"]
        gain = found["hybrid"] - twice
        bring = f"the vectors improve nDCG@10 by {gain:.3f}" if gain > 0 else "the vectors do not improve nDCG@10"
        job.note(
            f"for comparison, nDCG@10 is {twice:.3f} by words with a second search and "
            f"{chance:.3f} by words and random vectors, so {bring}"
        )


def _curve_lines(built: Built) -> Iterator[str]:
    """Yield for `index` a table of the widths that no other beats in recall and speed, and the chosen one.

    Empty for an exact index.
    """
    if not built.curve:
        return
    refined = any(point.width.refine for point in built.curve)
    yield f"{built.kind}: recall@10   queries/s   {'lists or candidates':>19}{'   compared per answer' if refined else ''}"
    for point in _worth_showing(built):
        mark = "  ← chosen" if point is built.chosen else ""
        compared = f"   {point.width.refine:>19}" if refined else ""
        yield (
            f"{'':{len(built.kind)}}     {point.recall_at_10:.3f}   {point.queries_per_s:>9,.0f}   "
            f"{point.width.search:>19}{compared}{mark}"
        )


def _worth_showing(built: Built) -> list[Measurement]:
    """Return for `index` the chosen width, and each that finds more than all faster ones; the one that finds most first."""
    most, kept = -1.0, []
    for point in sorted(built.curve, key=lambda point: (-point.queries_per_s, -point.recall_at_10)):
        if point.recall_at_10 > most or point is built.chosen:
            most = max(most, point.recall_at_10)
            kept.append(point)
    return sorted(kept, key=lambda point: -point.recall_at_10)


def _facts(source: Artifact, built: Built) -> dict[str, Any]:
    """Return the facts of the manifest that a reader of the index needs, and the measured curve."""
    facts, plan = source.manifest.facts, built.plan
    return {
        "dim": source.fact("dim", int, least=1),
        "type": built.kind,
        "search_width": built.chosen.width.search,
        "refine": built.chosen.width.refine,
        "of": source.kind,
        "curve": [
            [point.width.search, point.width.refine, round(point.recall_at_10, 4), round(point.queries_per_s, 1)]
            for point in built.curve
        ],
        "held_out": built.held_out,
        "queries": built.queries,
        "tried": list(built.tried),
        "predicted": {"memory_bytes": plan.memory_bytes, "index_bytes": plan.index_bytes} if plan else None,
        "lineage": lineage_of(source),
        "encoder": facts.get("encoder"),
        "keep_case": facts.get("keep_case", False),
        **{name: facts[name] for name in ("min_n", "max_n") if name in facts},
    }


def _bundle_rows(job: Job, source: Artifact) -> None:
    """Make the rows of a sentences or words artifact the table of the index that is made.

    A million rows of width 384 are 1.6 GB that need neither be written again nor lie on the disk twice: an artifact's files
    never change, so two may share them. Where the file system has no links, or the two lie on different ones, they are
    copied.
    """
    entries = {entry.path: entry for entry in source.manifest.outputs}
    rows, total = 0, row_count(source, source.kind)
    for name in part_names(source, source.kind):
        entry = entries[name].model_copy(update={"path": "index" + name.removeprefix(source.kind)})
        with source.open(name) as file:
            if not _linked(job, source, name, file, entry):
                copyfileobj(file, made := job.writer.open(entry.path), _BLOCK)
                job.writer.close(made, rows=entry.rows)
        rows += entry.rows or 0
        job.report("writing", rows, total, "rows")


def _linked(job: Job, source: Artifact, name: str, file: BinaryIO, entry: OutputEntry) -> bool:
    """Link a file of the source into the new index (`index`); False where that cannot be done."""
    path = job.scratch / entry.path
    try:
        os.link(source.path / name, path, follow_symlinks=False)
        if not os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return False
    except OSError:
        return False
    job.writer.adopt(path, entry)
    return True
