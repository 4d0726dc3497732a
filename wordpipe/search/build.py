"""Building an index from a stream of vectors, and widening its search until it finds enough."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.errors import InputError
from wordpipe.runtime import StopFlag
from wordpipe.search.growth import Growth, growth_of
from wordpipe.search.held_out import DEPTH, HeldOut
from wordpipe.search.kinds import Kind, Width, candidate_kinds
from wordpipe.search.learning import learn
from wordpipe.search.plan import Plan, plan_of
from wordpipe.search.recall import ExactNeighbours, Measurement, measure
from wordpipe.search.settings import IndexSettings
from wordpipe.search.tuning import Tuning
from wordpipe.search.vectors import Blocks, checked_blocks, faiss_threads, sample_rows

__all__ = ["BuildStep", "Built", "IndexBuilder", "draw_rows", "fill", "finished", "tuned"]

_QUERIES = 1_000  # recall is then known to about 0.003
_WITHHELD = 10  # but never more than one row in ten is withheld
_PROBE = 4_096  # rows that the prediction is made from
_STREAM = 0x5EA2  # separates these draws from every other use of the seed


@dataclass(frozen=True, slots=True)
class BuildStep:
    """One report of the building.

    Attributes:
        phase: sampling, planned, training, adding or tuning.
        done: vectors looked at, or widths tried.
        total: of how many.
        unit: vectors or widths.
        plan: what the building will cost, in the step "planned".
    """

    phase: str
    done: int
    total: int | None
    unit: str = "vectors"
    plan: Plan | None = None


@dataclass(frozen=True, slots=True)
class Built:
    """A finished index.

    Attributes:
        index: the faiss index; its search width is set and travels with it.
        kind: its kind.
        recall_at_10: measured on queries held out; 1 for an exact index.
        recall_met: whether that reaches the target.
        queries_per_s: of the index at its width, in one batch.
        exact_queries_per_s: of an exact search over the same vectors; None where an update compared those that came alone.
        curve: every width tried; the last entry is not always the one chosen.
        chosen: the measurement of the width chosen.
        held_out: whether the queries were no rows of the index when they were asked.
        queries: how many there were.
        tried: kinds that were built before and missed the target, or were not worth it.
        threads: threads that built it.
        bitwise: whether the same vectors and settings give the same bytes again.
        plan: what was predicted; None where nothing was, as in an update.
        held: the queries that an update is measured by; None where rows are not withheld.
    """

    index: Any
    kind: str
    recall_at_10: float
    recall_met: bool
    queries_per_s: float
    exact_queries_per_s: float | None
    curve: tuple[Measurement, ...]
    chosen: Measurement
    held_out: bool
    queries: int
    tried: tuple[str, ...]
    threads: int
    bitwise: bool
    plan: Plan | None
    held: HeldOut | None

    @property
    def width(self) -> int:
        """efSearch, nprobe or search_L; 0 for an exact index."""
        return self.chosen.width.search


@dataclass
class IndexBuilder:
    """Builds one index; memory holds the index, one block and the samples.

    Args:
        blocks: gives the vectors, from the beginning at each call, in blocks of thousands.
        n: how many there are.
        dim: their width.
        settings: the settings.
        later_bytes: memory that the caller will need when it has let go of the index, for the prediction.

    Attributes:
        built: the result, once `steps` has run out.
    """

    blocks: Blocks
    n: int
    dim: int
    settings: IndexSettings
    later_bytes: int = 0
    built: Built | None = field(default=None, init=False)

    def steps(self, flag: StopFlag) -> Iterator[BuildStep]:
        """Build, reporting as it goes.

        Raises:
            InputError: there are no vectors.
            DivergedError: a vector is zero or not finite.
            ArtifactError: the blocks do not hold `n` vectors.
            BudgetError: more memory would be needed than is allowed.
            Stopped: the flag rose.
        """
        if self.n == 0:
            raise InputError("there are no vectors to index", hint="embed some text first")
        with faiss_threads(self.settings.threads) as threads:
            tried: list[str] = []
            candidates = candidate_kinds(self.settings, self.n)
            for kind in candidates:
                self.built = None  # the one before, rejected, would lie in memory beside this one
                worth_it = yield from self._build(kind, threads, tuple(tried), flag)
                assert self.built is not None
                if self.built.recall_met and (worth_it or kind is candidates[-1]):
                    return
                tried.append(kind.name)

    def _build(
        self, kind: Kind, threads: int, tried: tuple[str, ...], flag: StopFlag
    ) -> Generator[BuildStep, None, bool]:
        """Sample, predict, train, fill and tune one kind; gives whether it is much cheaper than an exact search."""
        index = kind.make(self.dim, self.n, self.settings)
        yield BuildStep("sampling", 0, self.n)
        rng = np.random.default_rng([self.settings.seed, _STREAM])
        query_rows = draw_rows(rng, self.n, _QUERIES)
        training_rows = np.sort(rng.choice(self.n, size=kind.training_rows(self.n, self.settings), replace=False))
        probe_rows = np.sort(rng.choice(self.n, size=min(self.n, _PROBE), replace=False))
        queries_QD, training_TD, probe_PD = sample_rows(self.blocks, self.n, [query_rows, training_rows, probe_rows])
        flag.raise_if_set()

        plan = plan_of(kind, self.n, probe_PD, self.settings, self.later_bytes)
        yield BuildStep("planned", 0, None, plan=plan)
        plan.refuse_above(self.settings.max_memory_bytes)
        del probe_PD
        if len(training_rows):
            yield BuildStep("training", 0, len(training_rows))
            learn(index, training_TD)
        del training_TD

        growth = growth_of(kind, index, self.n)
        truth = ExactNeighbours(queries_QD, None if growth.withholds else query_rows, depth=DEPTH)
        every_N = np.ones(self.n, dtype=bool)
        yield from fill(
            growth, self.blocks, every_N, query_rows, [(truth, every_N)] if kind.family != "flat" else [], flag
        )
        tuning = Tuning(kind, index, self.n, self.settings, truth)
        yield from tuned(tuning, flag)
        growth.close(query_rows, queries_QD)
        held = HeldOut.of(query_rows, truth, self.n) if growth.withholds else None
        self.built = finished(tuning, growth, threads, tried, plan, held)
        return not tuning.curve or tuning.worth_it


def draw_rows(rng: np.random.Generator, n: int, most: int) -> npt.NDArray[np.int64]:
    """Rows to ask for: at most so many, and no more than one in ten; ascending."""
    return np.sort(rng.choice(n, size=min(most, max(1, n // _WITHHELD)), replace=False))


def fill(
    growth: Growth,
    blocks: Blocks,
    missing_N: npt.NDArray[np.bool_],
    query_rows: npt.NDArray[np.int64],
    truths: Sequence[tuple[ExactNeighbours, npt.NDArray[np.bool_]]],
    flag: StopFlag,
) -> Iterator[BuildStep]:
    """Stream all vectors into the index but for the queries, and make it searchable.

    Args:
        growth: takes the vectors.
        blocks: gives them.
        missing_N: the rows that the index does not hold yet.
        query_rows: the rows to withhold, where the index can.
        truths: of some queries each, and (N,) the rows that it is to look at; those withheld it does not see.
        flag: stops the work between two blocks.
    """
    n = len(missing_N)
    asked_N = np.zeros(n, dtype=bool)
    asked_N[query_rows] = growth.withholds
    for first, block in checked_blocks(blocks, n):
        flag.raise_if_set()
        rows = slice(first, first + len(block))
        growth.add(first, block, missing_N[rows] & ~asked_N[rows])
        for truth, wanted_N in truths:
            seen = np.flatnonzero(wanted_N[rows] & ~asked_N[rows])
            truth.look_at(first + seen, block[seen])
        yield BuildStep("adding", first + len(block), n)
    growth.ready()


def tuned(tuning: Tuning, flag: StopFlag, known: Width | None = None) -> Iterator[BuildStep]:
    """Widen the search until it finds enough, from a known width if there is one; nothing to do for an exact index."""
    if tuning.kind.family == "flat":
        return
    for tried in tuning.steps() if known is None else tuning.steps_from(known):
        flag.raise_if_set()
        yield BuildStep("tuning", tried, None, "widths")


def finished(
    tuning: Tuning, growth: Growth, threads: int, tried: tuple[str, ...], plan: Plan | None, held: HeldOut | None
) -> Built:
    """What came of it."""
    kind, truth = tuning.kind, tuning.truth
    chosen = tuning.best if tuning.curve else _speed(growth.index, truth)
    return Built(
        index=growth.index,
        kind=kind.name,
        recall_at_10=chosen.recall_at_10,
        recall_met=chosen.recall_at_10 >= tuning.settings.recall,
        queries_per_s=chosen.queries_per_s,
        exact_queries_per_s=truth.queries_per_s if tuning.curve else chosen.queries_per_s,
        curve=tuple(tuning.curve),
        chosen=chosen,
        held_out=growth.withholds,
        queries=len(truth.queries),
        tried=tried,
        threads=threads,
        bitwise=kind.family == "flat" or threads == 1,
        plan=plan,
        held=held,
    )


def _speed(index: Any, truth: ExactNeighbours) -> Measurement:
    """An exact index, timed on a tenth of the sample (all of it takes minutes on millions of vectors)."""
    few = ExactNeighbours(truth.queries[:100])
    timed = measure(index, Width(), few)
    return Measurement(Width(), 1.0, timed.queries_per_s)
