"""Contrastive learning of a static table: vectors of words whose sums are near for texts that belong together.

A step adds up the rows of its texts, compares the sums by InfoNCE, and changes the rows that took part, by Adam: it costs
what its texts have, not what the table has. On two cores that is thousands of pairs a second, so a corpus takes minutes.

A row's moments rest while no text has its word, as in the sparse Adam of torch; the correction of their beginning follows the
steps of the training, which all rows share. Source: Kingma & Ba 2015, algorithm 1.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from wordpipe.compiled import kernel
from wordpipe.encoders import sum_texts
from wordpipe.runtime import cpu_count, keep_freed_memory, one_thread_a_product
from wordpipe.tokens import offsets_of
from wordpipe.training.contrastive.contrast_of_sums import Threads, contrast, found_share, same_texts
from wordpipe.training.contrastive.pairs import Pairs
from wordpipe.training.contrastive.settings import StaticSettings
from wordpipe.training.plan import Plan
from wordpipe.training.snapshot import Tensors
from wordpipe.training.steps import Gradients, Measured

Matrix = npt.NDArray[np.float32]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

_EPSILON = 1e-8  # of Adam


class StaticExecution:
    """The execution of a static table's training: NumPy and compiled loops on the CPU.

    Args:
        threads: 0 = one per core.
    """

    device, bitwise, is_on_cpu = "cpu", True, True
    library: ClassVar[Literal["numpy"]] = "numpy"

    def __init__(self, threads: int) -> None:
        self.threads = threads or cpu_count()

    def sums(self, values: Sequence[float]) -> npt.NDArray[np.float32]:
        """Return numbers as float32."""
        return np.array(values, np.float32)

    def settle(self) -> None:
        """Wait for nothing: a CPU has done what it was given."""

    def running(self, threads: int) -> AbstractContextManager[None]:
        """Return the context in which a table is trained; its threads are those of `Threads`, however many."""
        del threads
        keep_freed_memory()
        return one_thread_a_product()

    def facts(self) -> dict[str, Any]:
        """Return the facts that the last bits of a table depend on."""
        return {"device": "cpu", "dtype": "float32", "numpy": np.__version__}


class StaticLearner:
    """Learner of a static encoder: learns a table of vectors from pairs.

    Args:
        pairs: of the training documents.
        table_VD: where it starts, float32; changed in place.
        settings: everything else.
        held_out: pairs of held-out documents, one batch of which is looked at; None: there are none.

    Attributes:
        table: (V, D) float32, as it is now.
        execution: on the CPU; the number of threads does not change a bit.
        optimiser: of its rows.
    """

    def __init__(
        self, pairs: Pairs, table_VD: Matrix, settings: StaticSettings, *, held_out: Pairs | None = None
    ) -> None:
        self.table, self._pairs, self._settings = table_VD, pairs, settings
        self._held_out = None if held_out is None else held_out.batch(0)
        self.execution = StaticExecution(settings.threads or 0)
        self.optimiser = RowAdam(
            table_VD, _paces(table_VD), beta1=settings.beta1, beta2=settings.beta2, threads=self.execution.threads
        )
        self._texts = np.zeros(0, np.int32), np.zeros(0, np.int64)  # of the step: ids and lengths
        self._gradient_BD = np.zeros((0, table_VD.shape[1]), np.float32)

    def gradients(self, step: int) -> Gradients:
        """Return the gradients of the static table's rows."""
        batch = self._pairs.batch(step)
        ids = np.concatenate([batch.first.ids, batch.second.ids])
        lengths = np.concatenate([batch.first.lengths, batch.second.lengths])
        loss, self._gradient_BD = contrast(
            self.optimiser.sums(ids, lengths), temperature=self._settings.temperature,
            same_BB=same_texts(batch) if self._settings.false_negatives == "drop" else None,
            max_similarity=self._settings.max_similarity, threads=self.optimiser.threads,
        )  # fmt: skip
        self._texts = ids, lengths
        return Gradients(loss, 1.0, len(ids))

    def take(self, step: int, gradients: Gradients, lr: float) -> npt.NDArray[np.float32]:
        ids, lengths = self._texts
        self.optimiser.update(ids, lengths, self._gradient_BD, lr=lr, step=step + 1)
        return self.execution.sums((gradients.loss, gradients.n_targets, float(np.linalg.norm(self._gradient_BD))))

    def validate(self) -> Measured | None:
        """Measure the static table as it learns: how well matching texts are found among held-out pairs."""
        if (batch := self._held_out) is None:
            return None
        sums_BD = np.concatenate([self.optimiser.sums(side.ids, side.lengths) for side in (batch.first, batch.second)])
        loss, _ = contrast(  # without false negatives, whatever is trained on, so that runs compare
            sums_BD, temperature=self._settings.temperature, same_BB=same_texts(batch), threads=self.optimiser.threads
        )
        metrics = {"valid_loss": loss, "valid_nearest": found_share(sums_BD), "valid_pairs": len(batch.document)}
        return Measured(loss, len(batch.first.ids) + len(batch.second.ids), metrics)

    @property
    def is_done(self) -> bool:
        return False

    def replan(self, plan: Plan) -> None:
        """Go on by another plan: nothing to do, see `Learner.replan`."""

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        return {"state": self._arrays()}, {}

    def load(self, tensors: Tensors, log: Mapping[str, Any]) -> None:
        """Restore the table and the optimiser's moments, see `Learner.load`.

        Raises:
            ValueError: it is of another table.
        """
        for name, array in self._arrays().items():
            found = tensors["state"][name]
            if found.shape != array.shape:
                raise ValueError(f"the array {name} has the shape {found.shape} instead of {array.shape}")
            array[:] = found

    def _arrays(self) -> dict[str, npt.NDArray[np.float32]]:
        """Return the table and the optimiser's moments by name."""
        of_rows = self.optimiser
        return {"table": self.table, "mean": of_rows.mean_VD, "square": of_rows.square_VD, "pace": of_rows.pace_V}


def _paces(table_VD: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the pace at which each row of the static table learns: the root mean square at the start, (V,).

    For a row of zeros the median of the other rows.

    A step of Adam is as long for every row. The rows of common words, which begin a hundred times shorter than those of rare
    ones, would be made noise in a few steps, and the weights of the words would be lost.
    """
    size_V: npt.NDArray[np.float32] = np.sqrt(np.square(table_VD, dtype=np.float32).mean(axis=1))
    filled_V = size_V > 0
    size_V[~filled_V] = np.median(size_V[filled_V]) if filled_V.any() else 1.0
    return size_V


class RowAdam:
    """Adam for the rows of a table: the table, its moments, and the threads that change both.

    Each row is changed by one thread, and its gradient is added up in the order of the texts, so the number of threads does
    not change a bit.

    Args:
        table_VD: float32, changed in place.
        pace_V: what a learning rate of 1 means to each row, (V,) float32.
        beta1: memory of gradients.
        beta2: memory of squared gradients.
        threads: at work side by side.

    Attributes:
        threads: those.
    """

    def __init__(
        self, table_VD: Matrix, pace_V: npt.NDArray[np.float32], *, beta1: float, beta2: float, threads: int
    ) -> None:
        self.table_VD, self.pace_V = table_VD, pace_V
        self.mean_VD = np.zeros_like(table_VD)
        self.square_VD = np.zeros_like(table_VD)
        self._beta1, self._beta2 = beta1, beta2
        self.threads = Threads(threads)

    def sums(self, ids: Int32s, lengths: Int64s) -> Matrix:
        """Return the sum of each text's rows in the table that learns, (B, D) float32."""
        sums_BD = np.empty((len(lengths), self.table_VD.shape[1]), np.float32)
        offsets = offsets_of(lengths)
        self.threads.parts(
            len(lengths), lambda first, last: sum_texts(self.table_VD, ids, offsets, first, last, sums_BD)
        )
        return sums_BD

    def update(self, ids: Int32s, lengths: Int64s, gradient_BD: Matrix, *, lr: float, step: int) -> None:
        """Learn: change the static table's rows of a step's texts.

        Args:
            ids: (S,) of all texts.
            lengths: (B,).
            gradient_BD: of the loss by each text's sum.
            lr: learning rate.
            step: its number, from 1 on.
        """
        order = np.argsort(ids, kind="stable")
        touched, begins = np.unique(ids[order], return_index=True)
        bounds = np.append(begins, len(ids)).astype(np.int64)
        texts = np.repeat(np.arange(len(lengths)), lengths)[order]
        rate = lr * math.sqrt(1 - self._beta2**step) / (1 - self._beta1**step)
        self.threads.parts(
            len(touched),
            lambda first, last: _update(
                self.table_VD, self.mean_VD, self.square_VD, self.pace_V, touched, bounds, texts, gradient_BD,
                np.float32(rate), np.float32(self._beta1), np.float32(self._beta2), first, last,
            ),
        )  # fmt: skip


@kernel
def _update(
    table_VD: Matrix, mean_VD: Matrix, square_VD: Matrix, pace_V: npt.NDArray[np.float32], touched: Int32s,
    bounds: Int64s, texts: Int64s, gradient_BD: Matrix, rate: np.float32, beta1: np.float32, beta2: np.float32,
    first: int, last: int,
) -> None:  # fmt: skip
    """Learn: change the touched rows `first` to `last` of the static table by Adam."""
    dim = table_VD.shape[1]
    total = np.empty(dim, np.float32)
    one, epsilon = np.float32(1), np.float32(_EPSILON)
    for place in range(first, last):
        total[:] = np.float32(0)
        for at in range(bounds[place], bounds[place + 1]):
            gradient = gradient_BD[texts[at]]
            for d in range(dim):
                total[d] += gradient[d]
        row, own_rate = table_VD[touched[place]], rate * pace_V[touched[place]]
        mean, square = mean_VD[touched[place]], square_VD[touched[place]]
        for d in range(dim):
            mean[d] = beta1 * mean[d] + (one - beta1) * total[d]
            square[d] = beta2 * square[d] + (one - beta2) * total[d] * total[d]
            row[d] -= own_rate * mean[d] / (np.sqrt(square[d]) + epsilon)
