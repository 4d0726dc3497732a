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
from collections.abc import Iterator
from dataclasses import dataclass, field, fields

import faiss
import numpy as np
import numpy.typing as npt

from wordpipe.errors import ArtifactError
from wordpipe.metrics.recall import recall_at_k
from wordpipe.search.kinds import Flat, K, Reach, Width

__all__ = ["DEPTH", "ExactNeighbours", "HeldOut", "Measurement", "Tuning", "measure"]

DEPTH = 2 * K
_FEWEST, _MOST, _PER_QUERY = 200, 1_000, 1_000  # 200 know the recall to about 0.007; one more for every thousand rows
_LEFT = 0.5  # of the queries; with fewer of them new ones are drawn
_HINT = "build it again: wordpipe index … --fresh"

_STEPS = 3  # halvings between a width that is too narrow and one that is wide enough
_STALLED = 0.002  # twice the width that brings less than this has come to the end of what the candidates allow
_MATRIX = 3.0  # how much cheaper a byte is to an exact search of many queries, which is a product of matrices

Rows = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Measurement:
    """One width of search, measured.

    Attributes:
        width: how wide.
        recall_at_10: share of the true ten nearest found.
        queries_per_s: answered in one batch.
    """

    width: Width
    recall_at_10: float
    queries_per_s: float


class ExactNeighbours:
    """The true nearest rows of some queries, found while the vectors stream by.

    Args:
        queries_QD: unit vectors; no rows of what streams by.
        depth: how many are kept of each, at least ten.

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
        scores_QK, found_QK = faiss.knn(
            self.queries, block_BD, min(depth + 1, len(block_BD)), metric=faiss.METRIC_INNER_PRODUCT
        )
        scores_QM = np.concatenate([self.scores, scores_QK], axis=1)
        near_QM = np.concatenate([self.near, rows_B[found_QK]], axis=1)
        best_QM = np.argsort(-scores_QM, axis=1, kind="stable")[:, :depth]
        self.scores = np.take_along_axis(scores_QM, best_QM, axis=1)
        self.near = np.where(np.isneginf(self.scores), -1, np.take_along_axis(near_QM, best_QM, axis=1))
        self._seconds += time.perf_counter() - start

    def of(self, some: Rows) -> "ExactNeighbours":
        """What is known of some of the queries, by their places."""
        part = ExactNeighbours(self.queries[some], depth=self.near.shape[1])
        part.scores, part.near = self.scores[some], self.near[some]
        return part

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


@dataclass
class Tuning:
    """The search for the cheapest width that reaches the recall.

    Which width is best is judged by the work that a search does, not by the clock: the same vectors and settings give the
    same index on a busy machine too. The speeds in the curve are measured.

    Args:
        kind: the index, which is left at the width chosen.
        truth: the queries and their true neighbours.

    Attributes:
        curve: every width measured, in the order it was tried.
    """

    kind: Flat
    truth: ExactNeighbours
    curve: list[Measurement] = field(default_factory=list)

    def steps(self, known: Width | None = None) -> Iterator[int]:
        """Try widths; yields how many were tried so far.

        Args:
            known: a width that was enough before: it is tried, and a little wider, and all others only if that is not.
        """
        reach = self.kind.reach()
        for eighths in (8, 10, 13, 16) if known else ():
            assert known is not None
            enough = self._enough(Width(min(known.search * eighths // 8, reach.wide), known.refine))
            yield len(self.curve)
            if enough:
                break
        else:
            for refine in reach.refines:
                yield from self._widen(reach, refine)
                if self.best.recall_at_10 >= self._wanted and self.best.width.refine != refine:
                    break  # enough was found, and with more candidates not more cheaply
        self.kind.tune(self.best.width)

    @property
    def best(self) -> Measurement:
        """The cheapest that reaches the recall, or else the one that finds most."""
        enough = [point for point in self.curve if point.recall_at_10 >= self._wanted]
        if enough:
            return min(enough, key=lambda point: self.kind.work(point.width))
        return max(self.curve, key=lambda point: (point.recall_at_10, -self.kind.work(point.width)))

    @property
    def worth_it(self) -> bool:
        """Whether the best does less than half the work of an exact search."""
        return bool(self.kind.work(self.best.width) < 2 * self.kind.n * self.kind.dim / _MATRIX)

    @property
    def _wanted(self) -> float:
        return self.kind.settings.recall

    def _widen(self, reach: Reach, refine: int) -> Iterator[int]:
        """Double the width until it is enough, or brings nothing more; then halve the last step."""
        search, before = reach.narrow, -1.0
        while True:
            enough = self._enough(Width(search, refine))
            found = self.curve[-1].recall_at_10
            yield len(self.curve)
            if enough or search >= reach.wide or (refine and found - before < _STALLED):
                break
            search, before = min(2 * search, reach.wide), found
        if not enough or search == reach.narrow:
            return
        low, high = search // 2, search
        for _ in range(_STEPS):
            if high - low < 2 or high - low < high // 8:
                return
            middle = (low + high) // 2
            low, high = (low, middle) if self._enough(Width(middle, refine)) else (middle, high)
            yield len(self.curve)

    def _enough(self, width: Width) -> bool:
        self.curve.append(measure(self.kind, width, self.truth))
        return self.curve[-1].recall_at_10 >= self._wanted


@dataclass(frozen=True)
class HeldOut:
    """Q rows of an index that are its queries.

    Attributes:
        rows: (Q,) their numbers, ascending.
        near: (Q, 20) the rows nearest to each among all but these Q, -1 where no more are known.
        scores: (Q, 20) their inner products, the largest first; -inf there.
        floor: (Q,) the score down to which all neighbours are known; -inf where all rows are.
        vectors: (Q, D) the queries themselves, which need not be looked for either.
    """

    rows: Rows
    near: Rows
    scores: Vectors
    floor: Vectors
    vectors: Vectors

    @classmethod
    def of(cls, query_rows: Rows, truth: ExactNeighbours, n: int) -> "HeldOut":
        """As many of the queries as an update needs.

        Args:
            query_rows: (A,) the rows of the queries asked, ascending.
            truth: their true neighbours among all rows but themselves.
            n: rows of the index.
        """
        wanted = min(len(query_rows), _MOST, max(_FEWEST, n // _PER_QUERY))
        kept = np.unique(np.linspace(0, len(query_rows) - 1, wanted).astype(np.int64))
        others = np.setdiff1d(np.arange(len(query_rows)), kept)
        part = truth.of(kept)
        part.look_at(query_rows[others], truth.queries[others])
        return cls.all_of(query_rows[kept], part)

    @classmethod
    def all_of(cls, query_rows: Rows, truth: ExactNeighbours) -> "HeldOut":
        """The queries asked, (Q,) rows, and no other."""
        return cls(query_rows, truth.near, truth.scores, truth.scores[:, -1], truth.queries)

    def moved(self, new_of_old_M: Rows) -> "HeldOut | None":
        """The same under new numbers; None where too little of it is left.

        Args:
            new_of_old_M: (M,) the new number of every old row, -1 for one that is gone.
        """
        stay = np.flatnonzero(new_of_old_M[self.rows] >= 0)
        stay = stay[np.argsort(new_of_old_M[self.rows[stay]])]
        near_QM = np.where(self.near[stay] >= 0, new_of_old_M[self.near[stay]], -1)
        if len(stay) < _LEFT * len(self.rows) or ((near_QM >= 0).sum(axis=1) < K).any():
            return None
        rows_Q, found = new_of_old_M[self.rows[stay]], _sorted(near_QM, self.scores[stay])
        return HeldOut(rows_Q, *found, self.floor[stay], self.vectors[stay])

    def truth(self) -> ExactNeighbours:
        """The neighbours so far, to be shown the rows that came."""
        found = ExactNeighbours(np.ascontiguousarray(self.vectors))
        found.near, found.scores, found.timed = self.near, self.scores, False
        return found

    def completed(self, truth: ExactNeighbours) -> "HeldOut":
        """With the rows that came, as far down as all are known."""
        known_QM = truth.scores >= self.floor[:, None]
        near_QM, scores_QM = _sorted(np.where(known_QM, truth.near, -1), truth.scores)
        return HeldOut(self.rows, near_QM, scores_QM, np.maximum(self.floor, scores_QM[:, -1]), self.vectors)

    def joined(self, others: "HeldOut") -> "HeldOut":
        """With other queries; none of either is a neighbour of the other's."""
        order = np.argsort(np.concatenate([self.rows, others.rows]))
        return HeldOut(
            *(np.concatenate([getattr(self, at.name), getattr(others, at.name)])[order] for at in fields(self))
        )

    def to_bytes(self) -> bytes:
        """A .npy file of one record per query."""
        records = np.empty(len(self.rows), dtype=_record(self.vectors.shape[1]))
        records["row"], records["near"] = self.rows, self.near
        records["score"], records["floor"], records["vector"] = self.scores, self.floor, self.vectors
        buffer = io.BytesIO()
        np.save(buffer, records, allow_pickle=False)
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes, n: int, dim: int, where: str) -> "HeldOut":
        """Read what `to_bytes` wrote of an index of n rows of this width; errors name `where` it stood.

        Raises:
            ArtifactError: it is something else.
        """
        try:
            records = np.load(io.BytesIO(data), allow_pickle=False)
            if records.dtype != _record(dim):
                raise ValueError(f"{records.dtype}")
            found = cls(records["row"], records["near"], records["score"], records["floor"], records["vector"])
        except (ValueError, EOFError) as error:
            raise ArtifactError("no queries of an index", where=where, got=error, hint=_HINT) from None
        if max(found.rows.max(initial=-1), found.near.max(initial=-1)) >= n or found.rows.min(initial=0) < 0:
            raise ArtifactError("queries of another index", where=where, expected=f"rows below {n}", hint=_HINT)
        return found


def _sorted(near_QM: Rows, scores_QM: Vectors) -> tuple[Rows, Vectors]:
    """The rows that are there, the best first."""
    scores_QM = np.where(near_QM >= 0, scores_QM, np.float32(-np.inf))
    order = np.argsort(-scores_QM, axis=1, kind="stable")
    return np.take_along_axis(near_QM, order, axis=1), np.take_along_axis(scores_QM, order, axis=1)


def _record(dim: int) -> np.dtype[np.void]:
    numbers = [("near", "<i8", (DEPTH,)), ("score", "<f4", (DEPTH,)), ("floor", "<f4"), ("vector", "<f4", (dim,))]
    return np.dtype([("row", "<i8"), *numbers])
