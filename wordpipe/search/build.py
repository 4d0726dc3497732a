"""Building an index from a stream of vectors: sampled, trained, filled, and its search widened until it finds enough.

How much it finds is measured by rows that it does not hold, which are searched for in it and compared with all others. These
held-out queries are kept with their true neighbours, so that an update need not look for them again (see `update`).
"""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from resource import getpagesize
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from wordpipe.artifacts import unit_vectors
from wordpipe.errors import ArtifactError, BudgetError, DivergedError, InputError
from wordpipe.metrics import recall_at_k
from wordpipe.runtime import Progress, Report, peak_memory_bytes, quiet
from wordpipe.search.hits import Mask, Rows, Vectors
from wordpipe.search.settings import IndexSettings
from wordpipe.search.vectors.faiss_index import Codes, Flat, K, Width, codes_of, faiss_threads, kind_names, kind_of
from wordpipe.search.vectors.knn import DEPTH, Blocks, ExactNeighbours

_QUERIES = 1_000  # recall is then known to about 0.003
_WITHHELD = 10  # but never more than one row in ten is withheld
_TIMED = 100  # queries that an exact index is timed on: all of them take minutes on millions of vectors
_MATRIX = 3.0  # how much cheaper a byte is to an exact search of many queries, which is a product of matrices
_WORTH_TELLING = 100e6  # bytes of index: below nobody plans anything
_READING = 64 << 20  # bytes: a row group, its batches and what Arrow keeps of them
_STREAM = 0x5EA2  # separates these draws from every other use of the seed
_FEWEST, _MOST, _PER_QUERY = 200, 1_000, 1_000  # 200 know the recall to about 0.007; one more for every thousand rows
_STEPS = 3  # halvings between a width that is too narrow and one that is wide enough
_STALLED = 0.002  # twice the width that brings less than this has come to the end of what the candidates allow

Records = npt.NDArray[np.void]
"""Q rows of an index that are its held-out queries, ascending: see `held_out_record`."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The memory that a build will take, from the sizes of its parts."""

    kind: str  # the kind of index
    memory_bytes: int  # the process at its peak
    index_bytes: int  # the finished index in memory

    @classmethod
    def of_build(cls, kind: Flat, later_bytes: int = 0, encoding_bytes: int = 0) -> "Plan":
        """Predict the memory of building an index.

        Args:
            kind: what is built.
            later_bytes: that what follows needs when the index has been written and is no longer held.
            encoding_bytes: that rows in parts need before they are filled in, see `Parts`.
        """
        training = 2 * kind.training_rows * kind.dim * 4
        most = max(training, encoding_bytes, kind.index_bytes + kind.filling_bytes) + _READING
        return cls(kind.name, resident_bytes() + max(most, later_bytes), kind.index_bytes)

    @classmethod
    def of_update(cls, kind: Flat) -> "Plan":
        """Predict the memory of updating an index to what `kind` will be."""
        return cls(kind.name, resident_bytes() + kind.index_bytes + _READING, kind.index_bytes)

    def refuse_above(self, bound: int | None) -> None:
        """Refuse to build an index that needs more memory than the bound. Raises BudgetError: it does."""
        if bound is not None and self.memory_bytes > bound:
            shorter = "make shorter vectors with: wordpipe embed … --transform whiten --dims 128"
            raise BudgetError(
                f"the predicted memory of the {self.kind} index is above the limit", where="max_memory",
                got=f"{self.memory_bytes / 1e6:,.0f} MB ({self.index_bytes / 1e6:,.0f} MB when the index is finished)",
                expected=f"at most {bound / 1e6:,.0f} MB", hint=f"raise the limit with --max-memory, or {shorter}",
            )  # fmt: skip


def resident_bytes() -> int:
    """Return the memory of this process while an index is built, in bytes; macOS: its peak so far.

    If the system does not say (macOS), its peak so far.
    """
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()
    except (OSError, ValueError, IndexError):
        return peak_memory_bytes()


@dataclass(frozen=True, slots=True)
class Measurement:
    """One width of search, measured."""

    width: Width  # how wide
    recall_at_10: float  # share of the true ten nearest found
    queries_per_s: float  # searched for in one batch


@dataclass(frozen=True, slots=True)
class Built:
    """A finished index."""

    index: Any  # the faiss index; its search width is set and travels with it
    kind: str  # its kind
    chosen: Measurement  # recall, speed and width, measured on queries held out; an exact index finds all
    recall_met: bool  # whether that reaches the target
    # of an exact search over the same vectors; None where an update compared those that came alone
    exact_queries_per_s: float | None
    curve: Sequence[Measurement]  # every width tried; empty for an exact index
    held_out: bool  # whether the queries were no rows of the index when it was searched for them
    queries: int  # how many there were
    threads: int  # threads that built it
    held: Records | None  # the queries that an update is measured by; None where rows are not withheld
    tried: Sequence[str] = ()  # kinds that were built before and missed the target, or were not worth it
    plan: Plan | None = None  # what was predicted; None where nothing was, as in an update
    in_parts: bool = False  # whether its rows were encoded in parts, by one thread each

    @property
    def bitwise(self) -> bool:
        """True if the same vectors and settings give the same bytes again."""
        return self.threads == 1 or not self.held_out or self.in_parts


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """Codes and near rows of some rows, computed apart (in any process) for a kind that learns in parts."""

    rows: Rows  # their numbers, but for those that are held-out queries
    codes: Codes  # of these rows
    truth: ExactNeighbours  # which of them are nearest to each query


class Parts(Protocol):
    """The rows of a table of vectors in parts, each encoded by itself.

    Attributes:
        memory_bytes: that this process needs for those that it encodes at once.
    """

    @property
    def memory_bytes(self) -> int:
        """Bytes that this process needs for the parts that it encodes at once."""

    def learned(self) -> Any:
        """Return the lists without rows that a stopped run has learned; None where there are none."""

    def encoded(self, lists: Any, query_rows: Rows, queries_QD: Vectors) -> Iterator[EncodedPart]:
        """Yield the result of `encode_part` for every part of an index to build, in the order of the rows.

        Args:
            lists: learned, without rows.
            query_rows: the numbers of the held-out queries, ascending.
            queries_QD: these queries.
        """


def build_index(
    blocks: Blocks, n: int, dim: int, settings: IndexSettings, report: Report = quiet, later_bytes: int = 0,
    parts: Parts | None = None,
) -> Built:  # fmt: skip
    """Build an index; memory holds the index, one block and the samples.

    Args:
        blocks: gives the vectors, from the beginning at each call, in blocks of thousands.
        n: how many there are.
        dim: their width.
        settings: the settings.
        report: is called with how far it is.
        later_bytes: memory that the caller will need when it has let go of the index, for the prediction.
        parts: the same vectors in parts, by which a kind that learns in parts is filled; None: block by block, here.

    Raises:
        InputError: there are no vectors.
        DivergedError: a vector is zero or not finite.
        ArtifactError: the blocks do not hold `n` vectors.
        BudgetError: more memory would be needed than is allowed.
    """
    if n == 0:
        raise InputError("there are no vectors to index", hint="embed some text first")
    tried: list[str] = []
    with faiss_threads(settings.threads) as threads:
        while True:
            kind = kind_of(kind_names(settings, n)[len(tried)])(n, dim, settings)
            built = replace(_built(kind, blocks, threads, report, later_bytes, parts), tried=tuple(tried))
            half_of_exact = 2 * n * dim / _MATRIX
            worth_it = not built.curve or kind.work(built.chosen.width) < half_of_exact
            if len(tried) + 1 == len(kind_names(settings, n)) or (built.recall_met and worth_it):
                return built
            tried.append(kind.name)
            del kind, built  # it would lie in memory beside the next


def _built(kind: Flat, blocks: Blocks, threads: int, report: Report, later_bytes: int, parts: Parts | None) -> Built:
    """Sample, predict, train, fill and tune one kind of index."""
    # sample: held-out queries, and rows to learn from, unless a stopped run has learned already
    n, settings = kind.n, kind.settings
    report(Progress("sampling", 0, n, "vectors"))
    rng = np.random.default_rng([settings.seed, _STREAM])
    query_rows = draw_rows(rng, n, _QUERIES)
    training_rows = np.sort(rng.choice(n, size=kind.training_rows, replace=False))
    parts = parts if kind.learns_in_parts else None
    learned = parts.learned() if parts else None
    if learned is not None:
        kind.go_on_with(learned)
        training_rows = training_rows[:0]
    queries_QD, training_TD = sample_rows(blocks, n, [query_rows, training_rows])

    # predict the memory, then learn
    plan = Plan.of_build(kind, later_bytes, parts.memory_bytes if parts else 0)
    if plan.index_bytes >= _WORTH_TELLING:
        memory, size = (f"{count / 1e6:,.0f} MB" for count in (plan.memory_bytes, plan.index_bytes))
        report(
            Progress(
                "note",
                note=f"predicted memory of the {plan.kind} index: {memory} while it is built, {size} when it is finished",
            )
        )
    plan.refuse_above(settings.max_memory_bytes)
    if len(training_rows):
        report(Progress("training", 0, len(training_rows), "vectors"))
        kind.learn(training_TD)
    del training_TD

    # fill in all rows but the queries, whose true neighbours are found on the way
    truth = ExactNeighbours(queries_QD)
    every_N = np.ones(n, dtype=bool)
    if parts:
        kind.put(_looked_at(parts.encoded(kind.learned, query_rows, queries_QD), truth, threads))
        fill(kind, blocks, ~every_N, query_rows, [], report)
    else:
        fill(kind, blocks, every_N, query_rows, [(truth, every_N)] if kind.withholds else [], report)
    # tune by the queries, then add these, too
    built = finished(kind, truth, threads, report)
    kind.close(query_rows, queries_QD)
    held = some_held_out(query_rows, truth, n) if kind.withholds else None
    return replace(built, plan=plan, held=held, in_parts=parts is not None)


def _looked_at(parts: Iterable[EncodedPart], truth: ExactNeighbours, threads: int) -> Iterator[tuple[Rows, Codes]]:
    """Yield the rows of encoded parts and their codes; on the way `truth` learns which rows are near the queries."""
    for part in parts:
        truth.take(part.truth, at_once=threads)
        yield part.rows, part.codes


def encode_part(
    lists: Any, blocks: Iterable[Vectors], first: int, query_rows: Rows, queries_QD: Vectors
) -> EncodedPart:
    """Encode some rows of an index to build: their codes, and which of them are nearest to the queries.

    With one thread always the same bytes.

    Args:
        lists: learned, without rows.
        blocks: the vectors of the rows.
        first: the number of the first.
        query_rows: the numbers of the held-out queries, ascending, among all rows.
        queries_QD: these queries.

    Raises:
        DivergedError: a vector is zero or not finite.
    """
    truth, rows, codes = ExactNeighbours(queries_QD), [], []
    for block in blocks:
        block_BD = unit_vectors(block, first=first)
        within_B = rows_within(first, len(block_BD), query_rows)
        rows.append(within_B)
        codes.append(codes_of(lists, block_BD := block_BD[within_B - first]))
        truth.look_at(within_B, block_BD)
        first += len(block)
    return EncodedPart(np.concatenate(rows), np.concatenate(codes), truth)


def rows_within(first: int, count: int, query_rows: Rows) -> Rows:
    """Return the numbers of `count` rows from `first` on that are no held-out queries."""
    within_B = np.ones(count, dtype=bool)
    within_B[query_rows[slice(*np.searchsorted(query_rows, (first, first + count)))] - first] = False
    return first + np.flatnonzero(within_B)


def draw_rows(rng: np.random.Generator, n: int, most: int) -> Rows:
    """Draw the rows that are held-out queries: at most so many, and no more than one in ten; ascending."""
    return np.sort(rng.choice(n, size=min(most, max(1, n // _WITHHELD)), replace=False))


def fill(
    kind: Flat, blocks: Blocks, missing_N: Mask, query_rows: Rows, truths: Sequence[tuple[ExactNeighbours, Mask]],
    report: Report,
) -> None:  # fmt: skip
    """Stream all vectors into the index that is built but for the queries, and make it searchable.

    Those `missing` are the rows that the index does not hold yet; `query_rows` are withheld, where the index can. Each of the
    truths is of some queries, with (N,) the rows that it is to look at; those withheld it does not see.
    """
    n = len(missing_N)
    withheld_N = np.zeros(n, dtype=bool)
    withheld_N[query_rows] = kind.withholds
    kind.begin()
    for first, block in checked_blocks(blocks, n):
        rows = slice(first, first + len(block))
        kind.add(first, block, missing_N[rows] & ~withheld_N[rows])
        for truth, wanted_N in truths:
            seen = np.flatnonzero(wanted_N[rows] & ~withheld_N[rows])
            truth.look_at(first + seen, block[seen])
        report(Progress("adding", first + len(block), n, "vectors"))
    kind.ready()


def finished(kind: Flat, truth: ExactNeighbours, threads: int, report: Report, known: Width | None = None) -> Built:
    """Finish building an index: tune the search, and say what came of it; an exact index is only timed."""
    if kind.withholds:
        curve = tuned(kind, truth, report, known)
        chosen, exact = cheapest(kind, curve), truth.queries_per_s
    else:
        timed = measure(kind, Width(), ExactNeighbours(truth.queries[:_TIMED]))
        curve, chosen, exact = [], replace(timed, recall_at_10=1.0), timed.queries_per_s
    met = chosen.recall_at_10 >= kind.settings.recall
    return Built(
        kind.index, kind.name, chosen, met, exact, tuple(curve), kind.withholds, len(truth.queries), threads, held=None
    )


def checked_blocks(blocks: Blocks, n: int) -> Iterator[tuple[int, Vectors]]:
    """Yield unit vectors to build an index of block by block, each with the number of its first row.

    Raises:
        DivergedError: a vector is zero or not finite.
        ArtifactError: there are not `n` vectors.
    """
    row = 0
    for block in blocks():
        yield row, unit_vectors(block, first=row)
        row += len(block)
    _refuse_other_count(row, n)


def sample_rows(blocks: Blocks, n: int, samples: Sequence[Rows]) -> list[Vectors]:
    """Return samples to build an index from: unit vectors at several lists of row numbers, in one pass.

    Raises:
        DivergedError: one of them is zero or not finite; the others are not looked at.
        ArtifactError: there are not `n` vectors.
    """
    parts: list[list[Vectors]] = [[] for _ in samples]
    first = 0
    for block in blocks():
        for part, rows in zip(parts, samples, strict=True):
            inside = rows[np.searchsorted(rows, first) : np.searchsorted(rows, first + len(block))]
            part.append(_unit_rows(block, inside - first, first))
        first += len(block)
    _refuse_other_count(first, n)
    return [np.concatenate(part) for part in parts]


def _unit_rows(block_BD: Vectors, rows_R: Rows, first: int) -> Vectors:
    """Return some rows of a block to build an index of at length 1; rows without direction are errors.

    An error names all rows of the block that have no direction.
    """
    try:
        return unit_vectors(block_BD[rows_R])
    except DivergedError:
        return unit_vectors(block_BD, first=first)[rows_R]


def _refuse_other_count(found: int, n: int) -> None:
    """Refuse vectors of another number than announced (ArtifactError)."""
    if found != n:
        raise ArtifactError("the number of vectors is not the expected number", got=found, expected=n)


def measure(kind: Flat, width: Width, truth: ExactNeighbours) -> Measurement:
    """Search a built index at a width for its held-out queries, and measure recall and speed."""
    kind.tune(width)
    start = time.perf_counter()
    scores_QK, rows_QK = kind.search(truth.queries)
    seconds = time.perf_counter() - start
    scores_QK = np.where(rows_QK < 0, np.float32(-np.inf), scores_QK)
    recall = recall_at_k(-np.sort(-scores_QK, axis=1), truth.scores[:, :K])
    return Measurement(width, recall, len(truth.queries) / max(seconds, 1e-9))


def tuned(kind: Flat, truth: ExactNeighbours, report: Report, known: Width | None = None) -> list[Measurement]:
    """Tune a built index: widen its search until the recall is reached, and leave the index at the cheapest width.

    Which width is best is decided by the work that a search does, not by the clock: the same vectors and settings give the
    same index on a busy machine too. The speeds are measured.

    Args:
        kind: the index.
        truth: the queries and their true neighbours.
        report: is called with how many widths were tried, of how many at most.
        known: a width that was enough before: it is tried, and a little wider, and all others only if that is not.

    Returns:
        Every width measured, in the order it was tried.
    """
    (narrow, wide, refines), wanted = kind.reach(), kind.settings.recall
    curve: list[Measurement] = []
    most = len(refines) * (math.ceil(math.log2(max(wide, 1) / max(narrow, 1))) + 1 + _STEPS * (wide > narrow))

    def enough(search: int, refine: int) -> bool:
        curve.append(measure(kind, Width(search, refine), truth))
        report(Progress("tuning", len(curve), max(most, len(curve)), "widths at most"))
        return curve[-1].recall_at_10 >= wanted

    # for one factor of candidates
    def widen(refine: int) -> None:
        """Double the tuned width until it is enough, or brings nothing more; then halve the last step."""
        search, before = narrow, -1.0
        while not (found := enough(search, refine)):
            now = curve[-1].recall_at_10
            if search >= wide or (refine and now - before < _STALLED):
                break
            search, before = min(2 * search, wide), now
        # between the last width that was too narrow and the first that is enough
        low, high = search // 2, search
        for _ in range(_STEPS if found and search > narrow else 0):
            if high - low < 2 or high - low < high // 8:
                break
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle, refine) else (middle, high)

    # first the width that was enough before, and a little more; then, for each factor of candidates, from narrow to wide
    wider = [] if known is None else [min(known.search * eighths // 8, wide) for eighths in (8, 10, 13, 16)]
    if known is None or not any(enough(search, known.refine) for search in wider):
        for refine in refines:
            widen(refine)
            best = cheapest(kind, curve)
            if best.recall_at_10 >= wanted and best.width.refine != refine:
                break  # enough was found, and with more candidates not more cheaply
    kind.tune(cheapest(kind, curve).width)
    return curve


def cheapest(kind: Flat, curve: Sequence[Measurement]) -> Measurement:
    """Return the cheapest measured width of a built index that reaches the recall, or that finds most."""
    enough = [point for point in curve if point.recall_at_10 >= kind.settings.recall]
    if enough:
        return min(enough, key=lambda point: kind.work(point.width))
    return max(curve, key=lambda point: (point.recall_at_10, -kind.work(point.width)))


def held_out(query_rows: Rows, truth: ExactNeighbours) -> Records:
    """Return the records of queries held out of the built index, (Q,): row, neighbours, scores, vector."""
    records = np.empty(len(query_rows), dtype=held_out_record(truth.queries.shape[1]))
    records["row"], records["near"], records["score"] = query_rows, truth.near, truth.scores
    records["floor"], records["vector"] = truth.scores[:, -1], truth.queries
    return records


def some_held_out(query_rows: Rows, truth: ExactNeighbours, n: int) -> Records:
    """Return as many of the (A,) queries held out of the built index as an update of n rows needs.

    Their true neighbours are other rows.
    """
    wanted = min(len(query_rows), _MOST, max(_FEWEST, n // _PER_QUERY))
    kept = np.unique(np.linspace(0, len(query_rows) - 1, wanted).astype(np.int64))
    others = np.setdiff1d(np.arange(len(query_rows)), kept)
    part = ExactNeighbours(truth.queries[kept])
    part.scores, part.near = truth.scores[kept], truth.near[kept]
    with faiss_threads(1):  # for the same last digits every time
        part.look_at(query_rows[others], truth.queries[others])
    return held_out(query_rows[kept], part)


def held_out_record(dim: int) -> np.dtype[np.void]:
    """Return the dtype of the record of a query that is held out when an index is built.

    row: its number. near: the 20 rows nearest to it among all that are no queries, -1 where no more are known. score: their
    inner products, the largest first, -inf there. floor: the score down to which all neighbours are known, -inf where all
    rows are. vector: itself, so that it need not be looked for either.
    """
    numbers = [("near", "<i8", (DEPTH,)), ("score", "<f4", (DEPTH,)), ("floor", "<f4"), ("vector", "<f4", (dim,))]
    return np.dtype([("row", "<i8"), *numbers])
