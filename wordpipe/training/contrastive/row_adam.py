"""Adam on the rows of a table that a step touched, and on no other: a step costs what its texts have, not what the table has.

A row's moments rest while no text has its word, as in the sparse Adam of torch; the correction of their beginning follows the
steps of the training, which all rows share. Source: Kingma & Ba 2015, algorithm 1.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from wordpipe.compiled import kernel
from wordpipe.sentences import sum_texts
from wordpipe.tokens import offsets_of

Matrix = npt.NDArray[np.float32]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

_EPSILON = 1e-8


class RowAdam:
    """The table, its moments, and the threads that change them.

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
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None

    def sums(self, ids: Int32s, lengths: Int64s) -> Matrix:
        """The sum of each text's rows, (B, D) float32."""
        sums_BD = np.empty((len(lengths), self.table_VD.shape[1]), np.float32)
        offsets = offsets_of(lengths)
        self._side_by_side(
            len(lengths), lambda first, last: sum_texts(self.table_VD, ids, offsets, first, last, sums_BD)
        )
        return sums_BD

    def update(self, ids: Int32s, lengths: Int64s, gradient_BD: Matrix, *, lr: float, step: int) -> None:
        """Change the rows of a step's texts.

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

    def close(self) -> None:
        """End the threads; the next call begins new ones."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _side_by_side(self, n: int, work: Callable[[int, int], None]) -> None:
        if self._threads == 1:
            work(0, n)
            return
        self._pool = self._pool or ThreadPoolExecutor(self._threads)
        cuts = [n * i // self._threads for i in range(self._threads + 1)]
        for done in [self._pool.submit(work, a, b) for a, b in pairwise(cuts)]:
            done.result()


@kernel
def _update(
    table_VD: Matrix, mean_VD: Matrix, square_VD: Matrix, pace_V: npt.NDArray[np.float32], touched: Int32s,
    bounds: Int64s, texts: Int64s, gradient_BD: Matrix, rate: np.float32, beta1: np.float32, beta2: np.float32,
    first: int, last: int,
) -> None:  # fmt: skip
    """See `RowAdam.update`, for touched rows `first` to `last`."""
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
