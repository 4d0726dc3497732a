"""An index brought up to date: rows taken out, rows renumbered, rows added, and the recall measured again."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from wordpipe.runtime import StopFlag
from wordpipe.search.build import BuildStep, Built, draw_rows, fill, finished, tuned
from wordpipe.search.graphs import renumber
from wordpipe.search.growth import GraphGrowth, Growth, ListGrowth
from wordpipe.search.held_out import DEPTH, HeldOut
from wordpipe.search.kinds import KINDS, Width
from wordpipe.search.recall import ExactNeighbours
from wordpipe.search.settings import IndexSettings
from wordpipe.search.tuning import Tuning
from wordpipe.search.vectors import Blocks, faiss_threads, sample_rows

__all__ = ["IndexUpdater", "can_be_updated"]

_QUERIES = 1_000  # drawn anew, where those of the build are gone
_STREAM = 0x0DA7E  # separates these draws from every other use of the seed


def can_be_updated(kind: str) -> bool:
    """Whether rows of this kind of index can come and go."""
    return KINDS[kind].family in ("lists", "graph")


@dataclass
class IndexUpdater:
    """Brings an index up to date.

    Lists lose the rows that are gone and get the new ones; centroids and codes stay as they were learned. A graph loses the
    links to what is gone. The queries that measure the recall are taken out and added again, like new rows; some of the new
    rows become such queries too.

    Args:
        index: the old index, M rows; it is changed. Vectors beside its lists are not needed: they are taken from `blocks`.
        kind: its kind, one that can be updated.
        blocks: gives all vectors of the new rows, in their order.
        old_rows: for each new row its row in the old index, -1 for one to be added; no old row stands twice.
        old_count: M.
        settings: those that the index was built with.
        width: how wide it searched so far.
        held: the queries that it was measured by, where they are known.

    Attributes:
        built: the result, once `steps` has run out.
    """

    index: Any
    kind: str
    blocks: Blocks
    old_rows: npt.NDArray[np.int64]
    old_count: int
    settings: IndexSettings
    width: Width
    held: HeldOut | None = None
    built: Built | None = field(default=None, init=False)

    def steps(self, flag: StopFlag) -> Iterator[BuildStep]:
        """Change the index, reporting as it goes.

        Raises:
            DivergedError: a vector is zero or not finite.
            ArtifactError: the blocks do not hold as many vectors as there are rows.
            Stopped: the flag rose.
        """
        n, kind = len(self.old_rows), KINDS[self.kind]
        with faiss_threads(self.settings.threads) as threads:
            yield BuildStep("sampling", 0, n)
            held = self.held.moved(self._new_of_old(self.old_rows >= 0)) if self.held else None
            drawn = self._like_them(held) if held else self._drawn()
            query_rows = np.union1d(held.rows, drawn) if held else drawn
            kept_N = self.old_rows >= 0
            kept_N[query_rows] = False
            growth = self._without_the_others(kept_N)
            truth, known = self._unknown_truth(drawn), held.truth() if held else None
            truths = [(truth, np.ones(n, dtype=bool))] if len(drawn) else []
            truths += [(known, self.old_rows < 0)] if known else []
            yield from fill(growth, self.blocks, ~kept_N, query_rows, truths, flag)
            if held and known:
                held = held.completed(known).joined(HeldOut.all_of(drawn, truth))
                truth = held.truth()
            tuning = Tuning(kind, growth.index, n, self._as_it_is(growth), truth)
            yield from tuned(tuning, flag, self.width)
            growth.close(query_rows, truth.queries)
            self.built = finished(tuning, growth, threads, (), None, held or HeldOut.of(query_rows, truth, n))

    def _drawn(self) -> npt.NDArray[np.int64]:
        """Rows to ask for, where those of the build are gone."""
        return draw_rows(np.random.default_rng([self.settings.seed, _STREAM]), len(self.old_rows), _QUERIES)

    def _like_them(self, held: HeldOut) -> npt.NDArray[np.int64]:
        """Of the rows that came as many as of the others are asked for; other ones wherever other rows came."""
        coming, old = np.flatnonzero(self.old_rows < 0), int((self.old_rows >= 0).sum())
        rng = np.random.default_rng([self.settings.seed, _STREAM, int(coming.sum())])
        return coming[rng.random(len(coming)) * old < len(held.rows)]

    def _unknown_truth(self, query_rows: npt.NDArray[np.int64]) -> ExactNeighbours:
        """Of queries drawn anew nothing is known."""
        if not len(query_rows):
            return ExactNeighbours(np.zeros((0, self.index.d), dtype=np.float32), depth=DEPTH)
        (queries_QD,) = sample_rows(self.blocks, len(self.old_rows), [query_rows])
        return ExactNeighbours(queries_QD, depth=DEPTH)

    def _as_it_is(self, growth: Growth) -> IndexSettings:
        """The settings with the number of lists that there are: a table that has grown would be given more of them."""
        if not isinstance(growth, ListGrowth):
            return self.settings
        return self.settings.model_copy(update={"nlist": min(growth.lists.nlist, len(self.old_rows))})

    def _new_of_old(self, kept_N: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """(M,) the new number of every old row that is kept, -1 of the others."""
        new_of_old_M = np.full(self.old_count, -1, dtype=np.int64)
        new_of_old_M[self.old_rows[kept_N]] = np.flatnonzero(kept_N)
        return new_of_old_M

    def _without_the_others(self, kept_N: npt.NDArray[np.bool_]) -> Growth:
        """The old index with the rows that stay, under their new numbers."""
        new_of_old_M = self._new_of_old(kept_N)
        if KINDS[self.kind].family == "graph":
            stay_M = new_of_old_M >= 0
            renumber(self.index, np.where(stay_M, np.cumsum(stay_M) - 1, -1))
            return GraphGrowth(self.index, new_of_old_M[stay_M])
        growth = ListGrowth(self.index, len(self.old_rows))
        growth.lists.remove_ids(faiss.IDSelectorBatch(np.flatnonzero(new_of_old_M < 0)))
        _renumber_lists(growth.lists, new_of_old_M)
        return growth


def _renumber_lists(lists: Any, new_of_old_M: npt.NDArray[np.int64]) -> None:
    """Write the new row numbers into every list, in place."""
    inverted = lists.invlists
    for number in range(lists.nlist):
        if size := inverted.list_size(number):
            held: Any = faiss
            rows = held.rev_swig_ptr(inverted.get_ids(number), size)
            rows[:] = new_of_old_M[rows]
