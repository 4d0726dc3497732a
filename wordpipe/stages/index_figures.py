"""What an index says of itself: predictions and measurements for the screen, facts for its manifest."""

from collections.abc import Iterator
from typing import Any

from wordpipe.artifacts.manifest import ENCODER, TOKENIZER
from wordpipe.artifacts.reader import Artifact
from wordpipe.search.build import Built
from wordpipe.search.plan import Plan
from wordpipe.search.recall import Measurement
from wordpipe.search.settings import IndexSettings
from wordpipe.stages.making import Job

__all__ = ["curve_lines", "index_facts", "lineage_of", "note_built", "note_lexical", "note_plan"]


_WORTH_TELLING = 5.0, 100e6  # seconds, bytes of index: below both nobody plans anything
_DRAWN = {
    "rows": "rows that look for their document",
    "titles": "titles that look for their text",
    "cuts": "cuts of texts",
}


def note_plan(job: Job, plan: Plan) -> None:
    """Say what the building is predicted to need, where it is much; the manifest has it in any case."""
    if plan.seconds < _WORTH_TELLING[0] and plan.index_bytes < _WORTH_TELLING[1]:
        return
    job.note(
        f"predicted for {plan.kind.name}: {plan.memory_bytes / 1e6:,.0f} MB of memory at the peak, an index of "
        f"{plan.index_bytes / 1e6:,.0f} MB, about {max(plan.seconds, 1):,.0f} s"
    )


def note_built(job: Job, built: Built) -> None:
    """Say what was measured: recall against speed, and what was chosen."""
    for line in curve_lines(built):
        job.note(line)


def note_lexical(job: Job, lexical: dict[str, Any]) -> None:
    """Say how queries will be asked, where it was measured.

    Args:
        job: the index in the making.
        lexical: what `carry_lexical` gave.
    """
    if (measured := lexical.get("measured")) is None:
        return
    found = measured["ndcg_at_10"]
    weight = float(lexical["weight"])
    ways = {"hybrid": f"both (vectors {weight:.0%}, words {1 - weight:.0%})", "dense": "vectors alone"}
    job.note(
        f"--mode auto answers by {ways[lexical['mode']]}: nDCG@10 {found['dense']:.3f} by vectors, {found['lexical']:.3f} "
        f"by words, {found['hybrid']:.3f} by both, on {measured['queries']} {_DRAWN[measured['by']]}"
    )


def curve_lines(built: Built) -> Iterator[str]:
    """A table of the widths that no other beats in both recall and speed, and of the chosen one; empty for an exact index."""
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
    """What finds more than all that is faster, and what was chosen; what finds most first."""
    most, kept = -1.0, []
    for point in sorted(built.curve, key=lambda point: (-point.queries_per_s, -point.recall_at_10)):
        if point.recall_at_10 > most or point is built.chosen:
            most = max(most, point.recall_at_10)
            kept.append(point)
    return sorted(kept, key=lambda point: -point.recall_at_10)


def lineage_of(source: Artifact) -> dict[str, str]:
    """What vectors come from, by digest: the vectors themselves and every file of their encoder.

    Two artifacts of the same encoder, tokenizer, pooling and transform differ in `vectors` alone.
    """
    files = {entry.path: entry.blake3 for entry in source.manifest.outputs}
    carried = {path.removeprefix(ENCODER): digest for path, digest in files.items() if path.startswith(ENCODER)}
    if source.kind == "words":  # the table is its own encoder
        carried = {path: digest for path, digest in files.items() if path == TOKENIZER}
    return {"vectors": source.digest, **carried}


def index_facts(job: Job, source: Artifact, built: Built, settings: IndexSettings) -> dict[str, Any]:
    """The facts of the manifest that a reader of the index needs, and the measured curve."""
    facts, plan = source.manifest.facts, built.plan
    return {
        "dim": int(facts["dim"]),
        "type": built.kind,
        "search_width": built.width,
        "refine": built.chosen.width.refine,
        "of": source.kind,
        "curve": [
            [point.width.search, point.width.refine, round(point.recall_at_10, 4), round(point.queries_per_s, 1)]
            for point in built.curve
        ],
        "held_out": built.held_out,
        "queries": built.queries,
        "tried": list(built.tried),
        "predicted": {
            "memory_bytes": plan.memory_bytes,
            "index_bytes": plan.index_bytes,
            "seconds": round(plan.seconds, 1),
        }
        if plan
        else None,
        "lineage": lineage_of(source),
        "encoder": facts.get("encoder"),
        "keep_case": facts.get("keep_case", False),
        **{name: facts[name] for name in ("min_n", "max_n") if name in facts},
    }
