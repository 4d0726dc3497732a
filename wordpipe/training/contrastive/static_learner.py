"""Contrastive learning of a static table: vectors of words whose sums are near for texts that belong together.

A step adds up the rows of its texts, compares the sums by InfoNCE, and changes the rows that took part, by Adam: it costs
what its texts have, not what the table has. On two cores that is thousands of pairs a second, so a corpus takes minutes.

A row's moments rest while no text has its word, as in the sparse Adam of torch; the correction of their beginning follows the
steps of the training, which all rows share. Source: Kingma & Ba 2015, algorithm 1.
"""

import math
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wordpipe.compiled import kernel
from wordpipe.encoders import sum_texts
from wordpipe.runtime import cpu_count
from wordpipe.tokens import offsets_of
from wordpipe.training.contrastive.info_nce import measured, pair_loss
from wordpipe.training.contrastive.pairs import Pairs
from wordpipe.training.contrastive.settings import StaticSettings
from wordpipe.training.execution import Execution
from wordpipe.training.plan import Plan
from wordpipe.training.snapshot import Tensors
from wordpipe.training.trainer import Gradients, Measured

Matrix = npt.NDArray[np.float32]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

_SHORTEST = 1e-3  # of a sum; those of training texts begin with a length of about 1
_EPSILON = 1e-8  # of Adam


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
        threads = settings.threads or cpu_count()
        self.execution = Execution(torch.device("cpu"), torch.float32, threads, compiled=False, bitwise=True)
        self.optimiser = RowAdam(
            table_VD, _paces(table_VD), beta1=settings.beta1, beta2=settings.beta2, threads=threads
        )
        self._texts = np.zeros(0, np.int32), np.zeros(0, np.int64)  # of the step: ids and lengths
        self._gradient_BD = np.zeros((0, table_VD.shape[1]), np.float32)

    def gradients(self, step: int) -> Gradients:
        """Return the gradients of the static table's rows."""
        batch = self._pairs.batch(step)
        ids = np.concatenate([batch.first.ids, batch.second.ids])
        lengths = np.concatenate([batch.first.lengths, batch.second.lengths])
        sums_BD = torch.from_numpy(self.optimiser.sums(ids, lengths)).requires_grad_()
        first_BD, second_BD = _unit(sums_BD).chunk(2)
        loss = pair_loss(first_BD, second_BD, batch, self._settings)
        loss.backward()  # type: ignore[no-untyped-call]
        assert sums_BD.grad is not None
        self._texts, self._gradient_BD = (ids, lengths), sums_BD.grad.numpy()
        return Gradients(loss.detach(), torch.ones(()), len(ids))

    def take(self, step: int, gradients: Gradients, lr: float) -> Tensor:
        ids, lengths = self._texts
        self.optimiser.update(ids, lengths, self._gradient_BD, lr=lr, step=step + 1)
        norm = torch.linalg.vector_norm(torch.from_numpy(self._gradient_BD))
        return torch.stack((gradients.loss, gradients.n_targets, norm))

    def validate(self) -> Measured | None:
        """Measure the static table as it learns: how well matching texts are found among held-out pairs."""
        if (batch := self._held_out) is None:
            return None
        sums = [torch.from_numpy(self.optimiser.sums(side.ids, side.lengths)) for side in (batch.first, batch.second)]
        first_BD, second_BD = (_unit(side) for side in sums)
        return measured(first_BD, second_BD, batch, self._settings)

    @property
    def is_done(self) -> bool:
        return False

    def replan(self, plan: Plan) -> None:
        """Go on by another plan: nothing to do, see `Learner.replan`."""

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        return {"state": {name: torch.from_numpy(array) for name, array in self._arrays().items()}}, {}

    def load(self, tensors: Tensors, log: Mapping[str, Any]) -> None:
        """Restore the table and the optimiser's moments, see `Learner.load`.

        Raises:
            ValueError: it is of another table.
        """
        for name, array in self._arrays().items():
            found = tensors["state"][name].numpy()
            if found.shape != array.shape:
                raise ValueError(f"the array {name} has the shape {found.shape} instead of {array.shape}")
            array[:] = found

    def _arrays(self) -> dict[str, npt.NDArray[np.float32]]:
        """Return the table and the optimiser's moments by name."""
        of_rows = self.optimiser
        return {"table": self.table, "mean": of_rows.mean_VD, "square": of_rows.square_VD, "pace": of_rows.pace_V}


def _unit(sums_BD: Tensor) -> Tensor:
    """Return the static table's sums of rows at length 1, as it learns.

    Where rows cancel out or are zero, the gradient of a direction has no bound; such sums are divided by `_SHORTEST` instead.
    """
    return torch.nn.functional.normalize(sums_BD, dim=1, eps=_SHORTEST)


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
    """

    def __init__(
        self, table_VD: Matrix, pace_V: npt.NDArray[np.float32], *, beta1: float, beta2: float, threads: int
    ) -> None:
        self.table_VD, self.pace_V = table_VD, pace_V
        self.mean_VD = np.zeros_like(table_VD)
        self.square_VD = np.zeros_like(table_VD)
        self._beta1, self._beta2 = beta1, beta2
        self._threads, self._pool = (
            threads,
            ThreadPoolExecutor(threads),
        )  # threads begin with the first work

    def sums(self, ids: Int32s, lengths: Int64s) -> Matrix:
        """Return the sum of each text's rows in the table that learns, (B, D) float32."""
        sums_BD = np.empty((len(lengths), self.table_VD.shape[1]), np.float32)
        offsets = offsets_of(lengths)
        self._side_by_side(
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
        self._side_by_side(
            len(touched),
            lambda first, last: _update(
                self.table_VD, self.mean_VD, self.square_VD, self.pace_V, touched, bounds, texts, gradient_BD,
                np.float32(rate), np.float32(self._beta1), np.float32(self._beta2), first, last,
            ),
        )  # fmt: skip

    def _side_by_side(self, n: int, work: Callable[[int, int], None]) -> None:
        """Do some work of the static learner on 0 … n-1 in several threads, each on a part."""
        if self._threads == 1:
            work(0, n)
            return
        cuts = [n * i // self._threads for i in range(self._threads + 1)]
        for done in [self._pool.submit(work, a, b) for a, b in pairwise(cuts)]:
            done.result()


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
