"""Building an index from a stream of vectors, and widening its search until it finds enough."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wordpipe.errors import InputError
from wordpipe.runtime import StopFlag
from wordpipe.search.kinds import Kind, candidate_kinds
from wordpipe.search.recall import ExactNeighbours, Measurement, measure
from wordpipe.search.settings import IndexSettings
from wordpipe.search.vectors import Blocks, checked_blocks, faiss_threads, sample_rows

__all__ = ["BuildStep", "Built", "IndexBuilder"]

_QUERIES = 1_000  # recall is then known to about 0.003
_STREAM = 0x5EA2  # separates these draws from every other use of the seed


@dataclass(frozen=True, slots=True)
class BuildStep:
    """One report of the building.

    Attributes:
        phase: sampling, training, adding or tuning.
        done: vectors looked at, or widths tried.
        total: of how many.
        unit: vectors or widths.
    """

    phase: str
    done: int
    total: int
    unit: str = "vectors"


@dataclass(frozen=True, slots=True)
class Built:
    """A finished index.

    Attributes:
        index: the faiss index; its search width is set and travels with it.
        kind: flat, hnsw or ivf.
        recall_at_10: measured on a sample; 1 for an exact index.
        recall_met: whether that reaches the target.
        width: efSearch or nprobe; 0 for an exact index.
        queries_per_s: of the index at that width, in one batch.
        exact_queries_per_s: of an exact search over the same vectors.
        curve: every width tried.
        tried: kinds that were built before and missed the target.
        threads: threads that built it.
        bitwise: whether the same vectors and settings give the same bytes again.
    """

    index: Any
    kind: str
    recall_at_10: float
    recall_met: bool
    width: int
    queries_per_s: float
    exact_queries_per_s: float
    curve: tuple[Measurement, ...]
    tried: tuple[str, ...]
    threads: int
    bitwise: bool


@dataclass
class IndexBuilder:
    """Builds one index; memory holds the index, one block and the samples.

    Args:
        blocks: gives the vectors, from the beginning at each call, in blocks of thousands.
        n: how many there are.
        dim: their width.
        settings: the settings.

    Attributes:
        built: the result, once `steps` has run out.
    """

    blocks: Blocks
    n: int
    dim: int
    settings: IndexSettings
    built: Built | None = field(default=None, init=False)

    def steps(self, flag: StopFlag) -> Iterator[BuildStep]:
        """Build, reporting as it goes.

        Raises:
            InputError: there are no vectors.
            DivergedError: a vector is zero or not finite.
            ArtifactError: the blocks do not hold `n` vectors.
            Stopped: the flag rose.
        """
        if self.n == 0:
            raise InputError("there are no vectors to index", hint="embed some text first")
        with faiss_threads(self.settings.threads) as threads:
            tried: list[str] = []
            for kind in candidate_kinds(self.settings, self.n):
                yield from self._build(kind, threads, tuple(tried), flag)
                assert self.built is not None
                if self.built.recall_met:
                    return
                tried.append(kind.name)

    def _build(self, kind: Kind, threads: int, tried: tuple[str, ...], flag: StopFlag) -> Iterator[BuildStep]:
        """Sample, train, add and tune one kind."""
        index = kind.make(self.dim, self.n, self.settings)
        widths = kind.widths(self.n, self.settings)

        yield BuildStep("sampling", 0, self.n)
        rng = np.random.default_rng([self.settings.seed, _STREAM])
        query_rows, training_rows = (
            np.sort(rng.choice(self.n, size=size, replace=False))
            for size in (min(self.n, _QUERIES), kind.training_rows(self.n, self.settings))
        )
        queries_QD, training_TD = sample_rows(self.blocks, self.n, [query_rows, training_rows])
        flag.raise_if_set()

        if len(training_rows):
            yield BuildStep("training", 0, len(training_rows))
            index.train(training_TD)
        del training_TD

        truth = ExactNeighbours(queries_QD, query_rows)
        for first, block in checked_blocks(self.blocks, self.n):
            flag.raise_if_set()
            index.add(block)
            if widths:
                truth.look_at(first, block)
            yield BuildStep("adding", first + len(block), self.n)

        curve: list[Measurement] = []
        for number, width in enumerate(widths, start=1):
            flag.raise_if_set()
            kind.tune(index, width)
            curve.append(measure(index, width, truth))
            yield BuildStep("tuning", number, len(widths), "widths")
            if curve[-1].recall_at_10 >= self.settings.recall:
                break
        self.built = self._finished(index, kind, truth, curve, tried, threads)

    def _finished(
        self,
        index: Any,
        kind: Kind,
        truth: ExactNeighbours,
        curve: list[Measurement],
        tried: tuple[str, ...],
        threads: int,
    ) -> Built:
        exact = not curve
        last = curve[-1] if curve else _speed(index, truth)
        return Built(
            index=index,
            kind=kind.name,
            recall_at_10=last.recall_at_10,
            recall_met=last.recall_at_10 >= self.settings.recall,
            width=last.width,
            queries_per_s=last.queries_per_s,
            exact_queries_per_s=last.queries_per_s if exact else truth.queries_per_s,
            curve=tuple(curve),
            tried=tried,
            threads=threads,
            bitwise=exact or threads == 1,
        )


def _speed(index: Any, truth: ExactNeighbours) -> Measurement:
    """An exact index, timed on a tenth of the sample (all of it takes minutes on millions of vectors)."""
    few = ExactNeighbours(truth.queries[:100], truth.rows[:100])
    timed = measure(index, 0, few)
    return Measurement(0, 1.0, timed.queries_per_s)
