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
from wordpipe.search.kinds import KINDS, Width
from wordpipe.search.recall import ExactNeighbours
from wordpipe.search.settings import IndexSettings
from wordpipe.search.tuning import Tuning
from wordpipe.search.vectors import Blocks, faiss_threads, sample_rows

__all__ = ["IndexUpdater", "can_be_updated"]

_QUERIES = 50  # recall is then known to about 0.015; the exact answers to 100 were a fifth of an update's work
_STREAM = 0x0DA7E  # separates these draws from every other use of the seed


def can_be_updated(kind: str) -> bool:
    """Whether rows of this kind of index can come and go."""
    return KINDS[kind].family in ("lists", "graph")


@dataclass
class IndexUpdater:
    """Brings an index up to date.

    Lists lose the rows that are gone and get the new ones; centroids and codes stay as they were learned. A graph loses the
    links to what is gone. The queries that measure the recall are taken out and added again, like new rows.

    Args:
        index: the old index, M rows; it is changed.
        kind: its kind, one that can be updated.
        blocks: gives all vectors of the new rows, in their order.
        old_rows: for each new row its row in the old index, -1 for one to be added; no old row stands twice.
        settings: those that the index was built with.
        width: how wide it searched so far.

    Attributes:
        built: the result, once `steps` has run out.
    """

    index: Any
    kind: str
    blocks: Blocks
    old_rows: npt.NDArray[np.int64]
    settings: IndexSettings
    width: Width
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
            query_rows = draw_rows(np.random.default_rng([self.settings.seed, _STREAM]), n, _QUERIES)
            (queries_QD,) = sample_rows(self.blocks, n, [query_rows])
            kept_N = self.old_rows >= 0
            kept_N[query_rows] = False
            growth = self._without_the_others(kept_N)
            truth = ExactNeighbours(queries_QD)
            yield from fill(growth, self.blocks, ~kept_N, query_rows, truth, flag)
            tuning = Tuning(kind, self.index, n, self.settings, truth)
            yield from tuned(tuning, flag, self.width)
            growth.close(query_rows, queries_QD)
            self.built = finished(tuning, growth, threads, (), None)

    def _without_the_others(self, kept_N: npt.NDArray[np.bool_]) -> Growth:
        """The old index with the rows that stay, under their new numbers."""
        new_of_old_M = np.full(self.index.ntotal, -1, dtype=np.int64)
        new_of_old_M[self.old_rows[kept_N]] = np.flatnonzero(kept_N)
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
