"""Building an index from a stream of vectors, widening its search until it finds enough, and the memory that this takes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from resource import getpagesize
from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.errors import BudgetError, InputError
from wordpipe.runtime import StopFlag, peak_memory_bytes
from wordpipe.search.kinds import KINDS, Flat, Width, kind_names
from wordpipe.search.recall import ExactNeighbours, HeldOut, Measurement, Tuning, measure
from wordpipe.search.settings import IndexSettings
from wordpipe.search.vectors import Blocks, checked_blocks, faiss_threads, sample_rows

__all__ = ["BuildStep", "Built", "IndexBuilder", "Plan", "draw_rows", "fill", "finished", "resident_bytes", "tuned"]

_QUERIES = 1_000  # recall is then known to about 0.003
_WITHHELD = 10  # but never more than one row in ten is withheld
_TIMED = 100  # queries that an exact index is timed on: all of them take minutes on millions of vectors
_READING = 64 << 20  # bytes: a row group, its batches and what Arrow keeps of them
_STREAM = 0x5EA2  # separates these draws from every other use of the seed

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Plan:
    """The memory that a build will take, from the sizes of its parts.

    Attributes:
        kind: the kind of index.
        memory_bytes: the process at its peak.
        index_bytes: the finished index, in memory and on the disk.
    """

    kind: str
    memory_bytes: int
    index_bytes: int

    @classmethod
    def of_build(cls, kind: Flat, later_bytes: int = 0) -> "Plan":
        """Predict a build.

        Args:
            kind: what is to be built.
            later_bytes: memory that what follows needs when the index has been written and is no longer held.
        """
        training = 2 * kind.training_rows * kind.dim * 4
        most = max(training, kind.index_bytes + kind.filling_bytes) + _READING
        return cls(kind.name, resident_bytes() + max(most, later_bytes), kind.index_bytes)

    @classmethod
    def of_update(cls, kind: Flat) -> "Plan":
        """Predict an update to what `kind` will be."""
        return cls(kind.name, resident_bytes() + kind.index_bytes + _READING, kind.index_bytes)

    def refuse_above(self, bound: int | None) -> None:
        """Refuse to build what needs more than the bound.

        Raises:
            BudgetError: it does.
        """
        if bound is not None and self.memory_bytes > bound:
            raise BudgetError(
                f"a {self.kind} index is predicted to need more memory than allowed",
                where="max_memory",
                got=f"{self.memory_bytes / 1e6:,.0f} MB, of which {self.index_bytes / 1e6:,.0f} MB stay",
                expected=f"at most {bound / 1e6:,.0f} MB",
                hint="allow more with --max-memory, or build vectors of fewer numbers: "
                "wordpipe embed … --transform whiten --dims 128",
            )


def resident_bytes() -> int:
    """What this process holds in memory now, in bytes; where the system does not say (macOS), its peak so far."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()
    except (OSError, ValueError, IndexError):
        return peak_memory_bytes()


@dataclass(frozen=True, slots=True)
class BuildStep:
    """One report of the building.

    Attributes:
        phase: sampling, planned, training, adding or tuning.
        done: vectors looked at, or widths tried.
        total: of how many.
        unit: vectors or widths.
        plan: what the building will need, in the step "planned".
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
        names = kind_names(self.settings, self.n)
        with faiss_threads(self.settings.threads) as threads:
            for number, name in enumerate(names):
                self.built = None  # the one before, rejected, would lie in memory beside this one
                tuning = yield from self._build(
                    KINDS[name](self.n, self.dim, self.settings), flag, threads, names[:number]
                )
                assert self.built is not None
                if self.built.recall_met and (not tuning.curve or tuning.worth_it):
                    return

    def _build(self, kind: Flat, flag: StopFlag, threads: int, tried: Sequence[str]) -> Any:
        """Sample, predict, train, fill and tune one kind."""
        yield BuildStep("sampling", 0, self.n)
        rng = np.random.default_rng([self.settings.seed, _STREAM])
        query_rows = draw_rows(rng, self.n, _QUERIES)
        training_rows = np.sort(rng.choice(self.n, size=kind.training_rows, replace=False))
        queries_QD, training_TD = sample_rows(self.blocks, self.n, [query_rows, training_rows])
        flag.raise_if_set()

        plan = Plan.of_build(kind, self.later_bytes)
        yield BuildStep("planned", 0, None, plan=plan)
        plan.refuse_above(self.settings.max_memory_bytes)
        if len(training_rows):
            yield BuildStep("training", 0, len(training_rows))
            kind.learn(training_TD)
        del training_TD

        truth = ExactNeighbours(queries_QD)
        every_N = np.ones(self.n, dtype=bool)
        yield from fill(kind, self.blocks, every_N, query_rows, [(truth, every_N)] if kind.withholds else [], flag)
        tuning = Tuning(kind, truth)
        yield from tuned(tuning, flag)
        kind.close(query_rows, queries_QD)
        held = HeldOut.of(query_rows, truth, self.n) if kind.withholds else None
        self.built = finished(tuning, threads, tuple(tried), plan, held)
        return tuning


def draw_rows(rng: np.random.Generator, n: int, most: int) -> Rows:
    """Rows to ask for: at most so many, and no more than one in ten; ascending."""
    return np.sort(rng.choice(n, size=min(most, max(1, n // _WITHHELD)), replace=False))


def fill(
    kind: Flat,
    blocks: Blocks,
    missing_N: Mask,
    query_rows: Rows,
    truths: Sequence[tuple[ExactNeighbours, Mask]],
    flag: StopFlag,
) -> Iterator[BuildStep]:
    """Stream all vectors into the index but for the queries, and make it searchable.

    Args:
        kind: takes the vectors.
        blocks: gives them.
        missing_N: the rows that the index does not hold yet.
        query_rows: the rows to withhold, where the index can.
        truths: of some queries each, and (N,) the rows that it is to look at; those withheld it does not see.
        flag: stops the work between two blocks.
    """
    n = len(missing_N)
    asked_N = np.zeros(n, dtype=bool)
    asked_N[query_rows] = kind.withholds
    kind.begin()
    for first, block in checked_blocks(blocks, n):
        flag.raise_if_set()
        rows = slice(first, first + len(block))
        kind.add(first, block, missing_N[rows] & ~asked_N[rows])
        for truth, wanted_N in truths:
            seen = np.flatnonzero(wanted_N[rows] & ~asked_N[rows])
            truth.look_at(first + seen, block[seen])
        yield BuildStep("adding", first + len(block), n)
    kind.ready()


def tuned(tuning: Tuning, flag: StopFlag, known: Width | None = None) -> Iterator[BuildStep]:
    """Widen the search until it finds enough, from a known width if there is one; nothing to do for an exact index."""
    for tried in tuning.steps(known) if tuning.kind.withholds else ():
        flag.raise_if_set()
        yield BuildStep("tuning", tried, None, "widths")


def finished(tuning: Tuning, threads: int, tried: tuple[str, ...], plan: Plan | None, held: HeldOut | None) -> Built:
    """What came of it."""
    kind, truth = tuning.kind, tuning.truth
    if tuning.curve:
        chosen, exact = tuning.best, truth.queries_per_s
    else:
        timed = measure(kind, Width(), ExactNeighbours(truth.queries[:_TIMED]))
        chosen, exact = Measurement(Width(), 1.0, timed.queries_per_s), timed.queries_per_s
    return Built(
        index=kind.index,
        kind=kind.name,
        recall_at_10=chosen.recall_at_10,
        recall_met=chosen.recall_at_10 >= kind.settings.recall,
        queries_per_s=chosen.queries_per_s,
        exact_queries_per_s=exact,
        curve=tuple(tuning.curve),
        chosen=chosen,
        held_out=kind.withholds,
        queries=len(truth.queries),
        tried=tried,
        threads=threads,
        bitwise=not kind.withholds or threads == 1,
        plan=plan,
        held=held,
    )
