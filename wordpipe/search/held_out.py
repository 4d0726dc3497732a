"""The queries that an index is measured by, kept with their true neighbours, so that an update need not look for them again.

A list of true neighbours is complete down to its last score. Rows that go leave it complete; rows that come are compared with
the queries, and those above that score belong in it. So the truth of a changed table is known exactly from the rows that came,
as long as ten are left of twenty: finding it anew among 180,000 vectors took a seventh of an update's time.

Of the rows that come, too, some become queries, as many of them as of the old: of 6,000 rows and 1,100 unlike them an index of
codes found 0.90, and by old rows alone 0.96 was measured.
"""

import io
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from wordpipe.errors import ArtifactError
from wordpipe.search.recall import ExactNeighbours, K

__all__ = ["DEPTH", "HeldOut"]

DEPTH = 2 * K
_FEWEST, _MOST, _PER_QUERY = 200, 1_000, 1_000  # 200 know the recall to about 0.007; one more for every thousand rows
_HINT = "build it again: wordpipe index … --fresh"
_LEFT = 0.5  # of the queries; with fewer of them new ones are drawn

Rows = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]


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
        return HeldOut(
            new_of_old_M[self.rows[stay]], *_sorted(near_QM, self.scores[stay]), self.floor[stay], self.vectors[stay]
        )

    def truth(self) -> ExactNeighbours:
        """The neighbours so far, to be shown the rows that came."""
        found = ExactNeighbours(np.ascontiguousarray(self.vectors), depth=DEPTH)
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
