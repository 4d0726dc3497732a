"""How much of the truth an index finds, and how wide its search has to be: rows that it does not hold, asked both ways.

The queries are kept with their true neighbours, so that an update need not look for them again. A list of true neighbours is
complete down to its last score. Rows that go leave it complete; rows that come are compared with the queries, and those above
that score belong in it. So the truth of a changed table is known exactly from the rows that came, as long as ten are left of
twenty: finding it anew among 180,000 vectors took a seventh of an update's time.

Of the rows that come, too, some become queries, as many of them as of the old: of 6,000 rows and 1,100 unlike them an index of
codes found 0.90, and by old rows alone 0.96 was measured.
"""

import io
import time
from collections.abc import Sequence
from dataclasses import dataclass

import faiss
import numpy as np
import numpy.typing as npt

from wordpipe.errors import ArtifactError
from wordpipe.metrics import recall_at_k
from wordpipe.runtime import Progress, Report
from wordpipe.search.kinds import Flat, K, Width

DEPTH = 2 * K
_FEWEST, _MOST, _PER_QUERY = 200, 1_000, 1_000  # 200 know the recall to about 0.007; one more for every thousand rows
_LEFT = 0.5  # of the queries; with fewer of them new ones are drawn
_HINT = "build it again: wordpipe index … --fresh"

_STEPS = 3  # halvings between a width that is too narrow and one that is wide enough
_STALLED = 0.002  # twice the width that brings less than this has come to the end of what the candidates allow

Rows = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]
Records = npt.NDArray[np.void]
"""Q rows of an index that are its queries, ascending: see `_record`."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One width of search, measured."""

    width: Width  # how wide
    recall_at_10: float  # share of the true ten nearest found
    queries_per_s: float  # answered in one batch


class ExactNeighbours:
    """The true nearest rows of some queries (unit vectors, no rows of what streams by), found while the vectors stream by.

    Attributes:
        scores: (Q, depth) float32, the largest first; -inf where there are not so many.
        near: (Q, depth) int64, their rows; -1 there.
        timed: whether all rows were looked at; where some were known already, the speed tells nothing.
    """

    def __init__(self, queries_QD: Vectors, *, depth: int = DEPTH) -> None:
        self.queries = queries_QD
        self.scores = np.full((len(queries_QD), depth), -np.inf, dtype=np.float32)
        self.near = np.full((len(queries_QD), depth), -1, dtype=np.int64)
        self.timed = True
        self._seconds = 0.0

    def look_at(self, rows_B: Rows, block_BD: Vectors) -> None:
        """Take the vectors of these rows into account."""
        if not len(block_BD):
            return
        start, depth = time.perf_counter(), self.near.shape[1]
        most = min(depth + 1, len(block_BD))
        scores_QK, found_QK = faiss.knn(self.queries, block_BD, most, metric=faiss.METRIC_INNER_PRODUCT)
        scores_QM = np.concatenate([self.scores, scores_QK], axis=1)
        near_QM = np.concatenate([self.near, rows_B[found_QK]], axis=1)
        best_QM = np.argsort(-scores_QM, axis=1, kind="stable")[:, :depth]
        self.scores = np.take_along_axis(scores_QM, best_QM, axis=1)
        self.near = np.where(np.isneginf(self.scores), -1, np.take_along_axis(near_QM, best_QM, axis=1))
        self._seconds += time.perf_counter() - start

    @property
    def queries_per_s(self) -> float | None:
        """The speed of the exact search; None where there was none over all rows."""
        return len(self.queries) / self._seconds if self.timed and self._seconds else None


def measure(kind: Flat, width: Width, truth: ExactNeighbours) -> Measurement:
    """Ask the index the same queries at a width, and compare."""
    kind.tune(width)
    start = time.perf_counter()
    scores_QK, rows_QK = kind.index.search(truth.queries, K)
    seconds = time.perf_counter() - start
    scores_QK = np.where(rows_QK < 0, np.float32(-np.inf), scores_QK)
    recall = recall_at_k(-np.sort(-scores_QK, axis=1), truth.scores[:, :K])
    return Measurement(width, recall, len(truth.queries) / max(seconds, 1e-9))


def tuned(kind: Flat, truth: ExactNeighbours, report: Report, known: Width | None = None) -> list[Measurement]:
    """Widen the search until it finds enough, and leave the index at the cheapest width that does.

    Which width is best is judged by the work that a search does, not by the clock: the same vectors and settings give the
    same index on a busy machine too. The speeds are measured.

    Args:
        kind: the index.
        truth: the queries and their true neighbours.
        report: told how many widths were tried.
        known: a width that was enough before: it is tried, and a little wider, and all others only if that is not.

    Returns:
        Every width measured, in the order it was tried.
    """
    (narrow, wide, refines), wanted = kind.reach(), kind.settings.recall
    curve: list[Measurement] = []

    def enough(search: int, refine: int) -> bool:
        curve.append(measure(kind, Width(search, refine), truth))
        report(Progress("tuning", len(curve), None, "widths"))
        return curve[-1].recall_at_10 >= wanted

    def widen(refine: int) -> None:
        """Double the width until it is enough, or brings nothing more; then halve the last step."""
        search, before = narrow, -1.0
        while not (found := enough(search, refine)):
            now = curve[-1].recall_at_10
            if search >= wide or (refine and now - before < _STALLED):
                break
            search, before = min(2 * search, wide), now
        low, high = search // 2, search
        for _ in range(_STEPS if found and search > narrow else 0):
            if high - low < 2 or high - low < high // 8:
                break
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle, refine) else (middle, high)

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
    """The cheapest that reaches the recall, or else the one that finds most."""
    enough = [point for point in curve if point.recall_at_10 >= kind.settings.recall]
    if enough:
        return min(enough, key=lambda point: kind.work(point.width))
    return max(curve, key=lambda point: (point.recall_at_10, -kind.work(point.width)))


def held_out(query_rows: Rows, truth: ExactNeighbours) -> Records:
    """The queries asked, (Q,) rows, and what is known of them."""
    records = np.empty(len(query_rows), dtype=_record(truth.queries.shape[1]))
    records["row"], records["near"], records["score"] = query_rows, truth.near, truth.scores
    records["floor"], records["vector"] = truth.scores[:, -1], truth.queries
    return records


def some_held_out(query_rows: Rows, truth: ExactNeighbours, n: int) -> Records:
    """As many of the (A,) queries asked as an update of n rows needs, their true neighbours among all rows but themselves."""
    wanted = min(len(query_rows), _MOST, max(_FEWEST, n // _PER_QUERY))
    kept = np.unique(np.linspace(0, len(query_rows) - 1, wanted).astype(np.int64))
    others = np.setdiff1d(np.arange(len(query_rows)), kept)
    part = ExactNeighbours(truth.queries[kept])
    part.scores, part.near = truth.scores[kept], truth.near[kept]
    part.look_at(query_rows[others], truth.queries[others])
    return held_out(query_rows[kept], part)


def moved(held_Q: Records, new_of_old_M: Rows) -> Records | None:
    """The queries under new numbers, (M,) of every old row and -1 for one that is gone; None where too little is left."""
    stay = held_Q[new_of_old_M[held_Q["row"]] >= 0]
    stay["row"] = new_of_old_M[stay["row"]]
    stay = np.sort(stay, order="row")
    near_QM = np.where(stay["near"] >= 0, new_of_old_M[stay["near"]], -1)
    if len(stay) < _LEFT * len(held_Q) or ((near_QM >= 0).sum(axis=1) < K).any():
        return None
    stay["near"], stay["score"] = _sorted(near_QM, stay["score"])
    return stay


def truth_of(held_Q: Records) -> ExactNeighbours:
    """The neighbours so far, to be shown the rows that came."""
    found = ExactNeighbours(np.ascontiguousarray(held_Q["vector"]))
    found.near, found.scores, found.timed = held_Q["near"], held_Q["score"], False
    return found


def completed(held_Q: Records, truth: ExactNeighbours) -> Records:
    """With the rows that came, as far down as all are known."""
    known_QM = truth.scores >= held_Q["floor"][:, None]
    done = held_Q.copy()
    done["near"], done["score"] = _sorted(np.where(known_QM, truth.near, -1), truth.scores)
    done["floor"] = np.maximum(held_Q["floor"], done["score"][:, -1])
    return done


def read_held_out(data: bytes, n: int, dim: int, where: str) -> Records:
    """Read the .npy file of the queries of an index of n rows of this width; errors name `where` it stood.

    Raises:
        ArtifactError: it is something else.
    """
    try:
        records: Records = np.load(io.BytesIO(data), allow_pickle=False)
        if records.dtype != _record(dim):
            raise ValueError(f"{records.dtype}")
    except (ValueError, EOFError) as error:
        raise ArtifactError("no queries of an index", where=where, got=error, hint=_HINT) from None
    rows = records["row"]
    if max(rows.max(initial=-1), records["near"].max(initial=-1)) >= n or rows.min(initial=0) < 0:
        raise ArtifactError("queries of another index", where=where, expected=f"rows below {n}", hint=_HINT)
    return records


def _sorted(near_QM: Rows, scores_QM: Vectors) -> tuple[Rows, Vectors]:
    """The rows that are there, the best first."""
    scores_QM = np.where(near_QM >= 0, scores_QM, np.float32(-np.inf))
    order = np.argsort(-scores_QM, axis=1, kind="stable")
    return np.take_along_axis(near_QM, order, axis=1), np.take_along_axis(scores_QM, order, axis=1)


def _record(dim: int) -> np.dtype[np.void]:
    """Of a query that is a row of the index.

    row: its number. near: the 20 rows nearest to it among all that are no queries, -1 where no more are known. score: their
    inner products, the largest first, -inf there. floor: the score down to which all neighbours are known, -inf where all
    rows are. vector: itself, so that it need not be looked for either.
    """
    numbers = [("near", "<i8", (DEPTH,)), ("score", "<f4", (DEPTH,)), ("floor", "<f4"), ("vector", "<f4", (dim,))]
    return np.dtype([("row", "<i8"), *numbers])
