"""InfoNCE of a static table's sums, by NumPy: the loss, its gradient by the sums, and what is measured on held-out pairs.

With u_i the sums of the first texts at length 1, v_j those of the second ones, s_ij = u_i . v_j / t, p = softmax of a row of s
and q = softmax of a column, both without what is masked, the loss of `info_nce` and its gradients are

    loss    = mean_i (-log p_ii - log q_ii) / 2
    dloss/ds = (p + q - 2 I) / 2B
    dloss/du = dloss/ds v / t,  dloss/dv = (dloss/ds)' u / t
    dloss/dx = (g - u (u . g)) / |x|,  where u = x / |x| and g = dloss/du

Matrices are worked on in stripes of `_STRIPE` rows or columns, each by one thread, so the number of threads changes no bit.

Source: van den Oord et al. 2018, equation 4, in both directions; the oracle of the tests is `info_nce`, by torch's gradients.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from wordpipe.training.contrastive.pairs import PairBatch, same_pairs

Matrix = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]

_STRIPE = 128
_SHORTEST = np.float32(1e-3)  # of a sum; those of training texts begin with a length of about 1


class Threads:
    """Threads that share the work of a static table's training, where `one_thread_a_product` is.

    Args:
        threads: at work side by side.
    """

    def __init__(self, threads: int) -> None:
        self.threads, self._pool = threads, ThreadPoolExecutor(threads)  # its threads begin with the first work

    def parts(self, n: int, work: Callable[[int, int], None]) -> None:
        """Do some work on 0 … n-1, each thread on an equal part."""
        cuts = [n * i // self.threads for i in range(self.threads + 1)]
        self._do(work, [*pairwise(cuts)])

    def stripes(self, n: int, work: Callable[[int, int], None]) -> None:
        """Do some work on 0 … n-1, stripe by stripe; the stripes do not depend on the number of threads."""
        self._do(work, [(first, min(first + _STRIPE, n)) for first in range(0, n, _STRIPE)])

    def _do(self, work: Callable[[int, int], None], parts: list[tuple[int, int]]) -> None:
        if self.threads == 1:
            for first, last in parts:
                work(first, last)
            return
        for done in [self._pool.submit(work, first, last) for first, last in parts]:
            done.result()


def contrast(
    sums_BD: Matrix, *, temperature: float, same_BB: Bools | None, max_similarity: float = 1.0, threads: Threads
) -> tuple[float, Matrix]:
    """Return InfoNCE of the sums of B pairs, and its gradient by the sums.

    Args:
        sums_BD: (2B, D) float32: of the first texts, then of the second ones.
        temperature: divides the cosines.
        same_BB: symmetric bool: pairs (i, j) that are no negatives of each other; pair (i, i) always stays.
        max_similarity: a negative with a cosine above it is left out too; 1 = none is.
        threads: that compute.

    Returns:
        The mean over the pairs and both directions, in nats; (2B, D) float32.
    """
    sides = [_unit(side_BD) for side_BD in np.split(sums_BD, 2)]
    (first_BD, _), (second_BD, _) = sides
    n, partner_B = len(first_BD), np.arange(len(first_BD))
    logits_BB = _logits(first_BD, second_BD, temperature, same_BB, max_similarity, threads)
    # how large the sums of a row's and a column's exponentials are
    over_rows_B, over_columns_B = (np.empty((n, 1), np.float32) for _ in range(2))
    threads.stripes(n, lambda a, b: _log_sums(logits_BB[a:b], over_rows_B[a:b]))
    threads.stripes(n, lambda a, b: _log_sums(logits_BB[:, a:b].T, over_columns_B[a:b]))
    own_B = logits_BB[partner_B, partner_B].astype(np.float64)
    loss = float(((over_rows_B[:, 0] - own_B) + (over_columns_B[:, 0] - own_B)).mean() / 2)
    # by the cosines, then by the unit vectors
    slope_BB, own_slope = np.empty_like(logits_BB), np.float32(2)
    scale = np.float32(1 / (2 * n * temperature))
    by_first_BD, by_second_BD = np.empty_like(first_BD), np.empty_like(second_BD)

    def of_rows(a: int, b: int) -> None:
        slope_BB[a:b] = np.exp(logits_BB[a:b] - over_rows_B[a:b])
        slope_BB[a:b] += np.exp(logits_BB[a:b] - over_columns_B.T)
        slope_BB[partner_B[a:b], partner_B[a:b]] -= own_slope
        slope_BB[a:b] *= scale
        np.matmul(slope_BB[a:b], second_BD, out=by_first_BD[a:b])

    def of_columns(a: int, b: int) -> None:
        np.matmul(slope_BB[:, a:b].T, first_BD, out=by_second_BD[a:b])

    threads.stripes(n, of_rows)
    threads.stripes(n, of_columns)
    gradients = [
        _by_sums(unit_BD, length_B1, by_BD)
        for (unit_BD, length_B1), by_BD in zip(sides, (by_first_BD, by_second_BD), strict=True)
    ]
    return loss, np.concatenate(gradients)


def found_share(sums_BD: Matrix) -> float:
    """Measure InfoNCE's task: the share of first texts whose partner is nearer than all other second texts; a tie is none.

    Args:
        sums_BD: (2B, D) float32: of the first texts, then of the second ones.
    """
    (first_BD, _), (second_BD, _) = (_unit(side_BD) for side_BD in np.split(sums_BD, 2))
    cosine_BB = first_BD @ second_BD.T
    partner_B = cosine_BB.diagonal().copy()
    np.fill_diagonal(cosine_BB, -np.inf)
    return float((partner_B > cosine_BB.max(axis=1)).mean())


def same_texts(batch: PairBatch) -> Bools:
    """Return InfoNCE's mask of false negatives as an array; see `same_pairs`."""
    same_BB: Bools = same_pairs(batch.document, batch.first.hashes(), batch.second.hashes())
    return same_BB


def _unit(sums_BD: Matrix) -> tuple[Matrix, Matrix]:
    """Return the sums at length 1, and their lengths, (B, 1).

    Where rows cancel out or are zero, the gradient of a direction has no bound; such sums are divided by `_SHORTEST` instead.
    """
    length_B1 = np.linalg.norm(sums_BD, axis=1, keepdims=True)
    return sums_BD / np.maximum(length_B1, _SHORTEST), length_B1


def _by_sums(unit_BD: Matrix, length_B1: Matrix, gradient_BD: Matrix) -> Matrix:
    """Return the gradient of InfoNCE by the sums from that by the unit vectors."""
    along_B1 = np.einsum("bd,bd->b", unit_BD, gradient_BD)[:, None]
    along_B1[length_B1 < _SHORTEST] = 0  # where the divisor is a constant
    by_sums: Matrix = (gradient_BD - along_B1 * unit_BD) / np.maximum(length_B1, _SHORTEST)
    return by_sums


def _logits(
    first_BD: Matrix, second_BD: Matrix, temperature: float, same_BB: Bools | None, most: float, threads: Threads
) -> Matrix:
    """Return InfoNCE's scaled cosines, (B, B) float32; -inf where a text is left out of the negatives."""
    n = len(first_BD)
    logits_BB, second_DB = np.empty((n, n), np.float32), second_BD.T
    partner_B, by = np.arange(n), np.float32(temperature)

    def stripe(a: int, b: int) -> None:
        rows = np.matmul(first_BD[a:b], second_DB, out=logits_BB[a:b])
        left_out = None if same_BB is None else same_BB[a:b].copy()
        if most < 1:
            left_out = rows > most if left_out is None else left_out | (rows > most)
        rows /= by
        if left_out is not None:
            left_out[partner_B[: b - a], partner_B[a:b]] = False  # the partner itself
            rows[left_out] = -np.inf

    threads.stripes(n, stripe)
    return logits_BB


def _log_sums(logits: Matrix, found_1: Matrix) -> None:
    """Write the logarithm of the sum of each row's exponentials of InfoNCE."""
    largest = logits.max(axis=1, keepdims=True)
    np.add(np.log(np.exp(logits - largest).sum(axis=1, keepdims=True)), largest, out=found_1)
