"""Widening a search until it finds enough, and no further.

Which width is best is judged by the work that a search does, not by the clock: the same vectors and settings give the same
index on a busy machine too. The speeds in the curve are measured.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from wordpipe.search.kinds import Kind, Reach, Width, list_count
from wordpipe.search.recall import ExactNeighbours, K, Measurement, measure
from wordpipe.search.settings import IndexSettings

__all__ = ["Tuning", "work"]

_STEPS = 3  # halvings between a width that is too narrow and one that is wide enough
_STALLED = 0.002  # twice the width that brings less than this has come to the end of what the candidates allow
_RANDOM_READ = 4.0  # how much dearer a byte of a candidate's vector is than one of a list that is read in order
_MATRIX = 3.0  # how much cheaper a byte is to an exact search of many queries, which is a product of matrices


@dataclass
class Tuning:
    """The search for the cheapest width that reaches the recall.

    Args:
        kind: the kind of the index.
        index: the faiss index; it is left at the width chosen.
        n: vectors in it.
        settings: the settings.
        truth: the queries and their true neighbours.

    Attributes:
        curve: every width measured, in the order it was tried.
    """

    kind: Kind
    index: Any
    n: int
    settings: IndexSettings
    truth: ExactNeighbours
    curve: list[Measurement] = field(default_factory=list)

    def steps(self) -> Iterator[int]:
        """Try widths; yields how many were tried so far."""
        reach = self.kind.reach(self.n, self.settings)
        for refine in reach.refines:
            yield from self._widen(reach, refine)
            if self._settled(refine):
                break
        best = self.best
        self.kind.tune(self.index, best.width)

    def steps_from(self, width: Width) -> Iterator[int]:
        """Like `steps`, but try a width that was enough before, and a little wider, and all others only if that is not."""
        widest = self.kind.reach(self.n, self.settings).wide
        for eighths in (8, 10, 13, 16):
            found = self._measure(Width(min(width.search * eighths // 8, widest), width.refine))
            yield len(self.curve)
            if found >= self.settings.recall:
                self.kind.tune(self.index, self.best.width)
                return
        yield from self.steps()

    @property
    def best(self) -> Measurement:
        """The cheapest that reaches the recall, or else the one that finds most."""
        enough = [point for point in self.curve if point.recall_at_10 >= self.settings.recall]
        if enough:
            return min(enough, key=lambda point: self._work(point.width))
        return max(self.curve, key=lambda point: (point.recall_at_10, -self._work(point.width)))

    @property
    def worth_it(self) -> bool:
        """Whether the best does less than half the work of an exact search."""
        return bool(self._work(self.best.width) < 2 * self.n * self.index.d / _MATRIX)

    def _widen(self, reach: Reach, refine: int) -> Iterator[int]:
        """Double the width until it is enough, or brings nothing more; then halve the last step."""
        search, before = reach.narrow, -1.0
        while True:
            found = self._measure(Width(search, refine))
            yield len(self.curve)
            if found >= self.settings.recall or search >= reach.wide or (refine and found - before < _STALLED):
                break
            search, before = min(2 * search, reach.wide), found
        if found < self.settings.recall or search == reach.narrow:
            return
        low, high = search // 2, search
        for _ in range(_STEPS):
            if high - low < 2 or high - low < high // 8:
                return
            middle = (low + high) // 2
            if self._measure(Width(middle, refine)) >= self.settings.recall:
                high = middle
            else:
                low = middle
            yield len(self.curve)

    def _measure(self, width: Width) -> float:
        self.kind.tune(self.index, width)
        self.curve.append(measure(self.index, width, self.truth))
        return self.curve[-1].recall_at_10

    def _settled(self, refine: int) -> bool:
        """Whether enough was found, and with more candidates not more cheaply."""
        return self.best.recall_at_10 >= self.settings.recall and self.best.width.refine != refine

    def _work(self, width: Width) -> float:
        return work(self.kind, width, self.n, self.index.d, self.settings)


def work(kind: Kind, width: Width, n: int, dim: int, settings: IndexSettings) -> float:
    """What one query costs at this width, in bytes read in order.

    Args:
        kind: the kind of index.
        width: how wide the search is.
        n: vectors in the index.
        dim: their width.
        settings: the settings.
    """
    if kind.family != "lists":
        return width.search * 4.0 * dim * settings.hnsw_m * _RANDOM_READ
    stored = kind.vector_bytes(dim, settings) - (4 * dim if width.refine else 0)
    return width.search * n / list_count(n, settings) * stored + width.refine * K * 4 * dim * _RANDOM_READ
