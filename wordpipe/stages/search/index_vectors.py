"""`wordpipe index SENTENCES|WORDS`: an index over vectors, and over the words of texts too."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from wordpipe.artifacts import (
    DOUBLES_FILE,
    ENCODER,
    INDEX_FILE,
    ROWS_WITHOUT_VECTOR,
    TOKENIZER,
    Artifact,
    array_data,
)
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
    write_index,
)
from wordpipe.search.settings import IndexSettings
from wordpipe.stages.job import Job
from wordpipe.stages.search.index_lexical import QUERIES_MEASURED, TOO_ALIKE, bundle_lexical
from wordpipe.stages.search.index_rows import bundle_rows
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


def index_vectors(job: Job, source: Artifact, chosen: IndexSettings) -> None:
    """Make the index of a job over the vectors of a sentences or words artifact; of sentences over their words too.

    Raises:
        WordpipeError: its class and its hint say what to do.
    """
    source.fact("dim", int, least=1)
    job.libraries = (*LIBRARIES, "PyStemmer")
    if job.engine_options.engine == "local":
        chosen = chosen.model_copy(update={"threads": job.engine_options.threads})
    # Inputs: the vectors, and the index at the output.
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
        write_index(built.index, file, vectors=False)  # the rows have them
    built = replace(built, index=None)  # what follows needs the memory
    bundle_rows(job, source)
    bundle_keys(job, table)
    if built.held is not None:
        job.write(HELD_OUT, array_data(built.held))
    # the encoder of the sentences, or the tokenizer that cuts words, and their n-grams
    encoder = (ENCODER,) if source.kind == "sentences" else (TOKENIZER, "ngrams-")
    for name in [name for one in (*encoder, ROWS_WITHOUT_VECTOR, DOUBLES_FILE) for name in source.names(one)]:
        job.writer.share(source, name)
    job.facts = _facts(source, built)
    built_for = previous.artifact.fact("built_for", int, table.count) if in_place and previous else table.count
    job.facts |= {"built_for": built_for, "changed_since_built": previous.changed if in_place and previous else 0}
    # Of texts the words are indexed too, and it is measured what finds more.
    before = (previous.artifact, previous.old_rows) if previous else (None, None)
    lexical = bundle_lexical(job, source, chosen, *before)
    if "seconds" in lexical and built.chosen.queries_per_s:
        lexical["seconds"]["search"] = round(1 / built.chosen.queries_per_s, 6)
    if lexical and previous is None:
        for line in lines_of_parts(lexical):
            job.note(line)
        job.note(_worth_of_vectors(lexical))
    _record(job, built, table, previous, in_place=in_place)


def _note_whole(job: Job, settings: IndexSettings, rows: int, *, in_place: bool) -> None:
    """Note where building an index leaves nothing to other machines; not yet known where lists may find too little."""
    if job.engine_options.engine == "ray" and (in_place or kind_of(kind_names(settings, rows)[0]).is_exact):
        flat = f"an index of {rows:,} vectors is flat, so this process builds the index without shards"
        job.note("this process updates the existing index without shards" if in_place else flat)


def _updated(job: Job, table: IndexVectors, previous: PreviousIndex, settings: IndexSettings) -> Built | None:
    """Return the old index, changed by `index --update`; None where it finds too little now."""
    old = previous.artifact
    kind = kind_of(previous.kind)(table.count, table.dim, settings)
    Plan.of_update(kind).refuse_above(settings.max_memory_bytes)
    with old.open(INDEX_FILE) as file:
        found = kind.read_to_grow(file, size=old.entry(INDEX_FILE).bytes, where=str(old.path / INDEX_FILE))
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


_PARTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "lexical": ("words", ("words",)),
    "lexical_twice": ("words, 2 searches", ("words", "feedback")),
    "dense": ("vectors", ("encoding", "search")),
    "hybrid": ("words and vectors", ("encoding", "words", "feedback", "search", "search")),
    "random_vectors": ("words and random vectors", ()),
}
"""Name of what is measured, and the parts of its queries that take time; a control has none."""


def _query_rates(by_vectors: float, lexical: dict[str, Any] | None) -> dict[str, float]:
    """Return queries that the new index answers in a second; and searches by vectors alone.

    What a query does was timed in parts, which are added up: its vector and its words on the queries that measured the modes,
    the search by vectors on held-out rows.
    """
    searches = round(by_vectors, 1)
    if not lexical:
        return {"queries_per_s": searches}  # words, which are looked up
    mode = "lexical_twice" if lexical.get("feedback") else lexical["mode"]
    if (seconds := _seconds_of(mode, lexical.get("seconds", {}))) is None:
        return {"vector_searches_per_s": searches}
    return {"queries_per_s": round(1 / max(seconds, 1e-9), 1), "vector_searches_per_s": searches}


def _seconds_of(mode: str, seconds: Mapping[str, float]) -> float | None:
    """Return the seconds of a query in a mode, the sum of its parts; None where one was not timed, or of a control."""
    parts = _PARTS[mode][1]
    return sum(seconds[name] for name in parts) if parts and all(name in seconds for name in parts) else None


def lines_of_parts(lexical: Mapping[str, Any]) -> Iterator[str]:
    """Yield a table of what words, feedback and vectors find on the texts of an index, and what each costs a query.

    Args:
        lexical: what an index has in its facts, or `measure_some` has found; nothing is yielded where nothing was measured.
    """
    measured, seconds = lexical.get("measured"), lexical.get("seconds", {})
    if measured is None:
        return
    above_words = measured.get("above_words", {})  # which an index of before does not know
    yield f"{'search by':<26}nDCG@10   above words (95 %)         {'ms a query' if seconds else ''}".rstrip()
    for mode, (name, _) in _PARTS.items():
        if mode not in (found := measured["ndcg_at_10"]):
            continue
        above = ""
        if mode in above_words:
            apart, low, high = above_words[mode]
            above = f"{apart:+.3f} ({low:+.3f} to {high:+.3f})"
        taken = _seconds_of(mode, seconds)
        yield f"  {name:<24}{found[mode]:7.3f}   {above:<25}{'' if taken is None else f'{1e3 * taken:12.2f}'}".rstrip()


def _worth_of_vectors(lexical: Mapping[str, Any]) -> str:
    """Return in one sentence whether vectors help to find these texts, with the measured figures, and how `query` asks.

    Args:
        lexical: what `bundle_lexical` gave of an index with vectors.
    """
    mode, measured = lexical["mode"], lexical.get("measured")
    asks = {"hybrid": "both", "dense": "vectors alone", "lexical": "words alone"}[mode]
    asks += ", and searches twice (feedback)" if lexical.get("feedback") else ""
    if measured is None:
        why = TOO_ALIKE if lexical.get("alike") else "there are too few texts"
        return f"whether vectors help was not measured, because {why}; query uses {asks}"
    # words that are asked twice are the fair rival of words and vectors, whose search is repeated too
    found: Mapping[str, float] = measured["ndcg_at_10"]
    once, twice, chance = found["lexical"], found.get("lexical_twice", 0.0), found.get("random_vectors", 0.0)
    words, how = (once, "words alone") if once >= twice else (twice, "words alone searched twice")
    other, what = (found["dense"], "vectors alone") if mode == "dense" else (found["hybrid"], "words and vectors")
    rival = f"{words:.2f} by {how}"
    if mode == "lexical" and words <= other <= chance:
        rival = f"{chance:.2f} with random vectors instead"
    # a gain that may be chance is none: they are used, as they cost no answer, but nothing is promised
    is_sure = measured.get("above_words", {}).get(mode, (0.0, 1.0))[1] > 0
    helps = "do not help" if mode == "lexical" else "help" if is_sure else "change little"
    by = f"{measured['queries']} queries: {QUERIES_MEASURED[measured['by']]}"
    leave = "" if mode != "lexical" else "; to leave the vectors out, index the corpus"
    return f"vectors {helps} here: nDCG@10 {other:.2f} by {what}, {rival} ({by}); query uses {asks}{leave}"


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
        **{name: facts[name] for name in ("min_n", "max_n", "fit") if name in facts},
    }
