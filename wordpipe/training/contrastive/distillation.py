"""A static table learned from another encoder: sums of its rows are near the vectors that the teacher gives whole texts.

The teacher reads each word alone, e_v (unit length), and some texts of the corpus, t_n (unit length). A row begins as
g_v · e_v, where g_v is the word's weight by smooth inverse frequency. That alone loses nearly all: the teacher says little of
a word without its surroundings, and a sum of words is not what it makes of a text. So the rows are fitted to its texts, and
held near their beginning in proportion to their weights:

    minimise over W    sum_n | x_n W / l_n - t_n |²  +  ridge · sum_v | (W_v - g_v e_v) / g_v |²

x_n (V,) counts the words of text n, and l_n = | x_n W | of the table before, so that sums enter with length 1, as an encoder
gives them out. A rare word, of which the texts say little, stays what the teacher says of it alone. Each of `_ROUNDS` problems
is linear and is solved by conjugate gradients, preconditioned by the diagonal: no learning rate, no random number.

Shapes: N texts, V words or tokens, D numbers of a row.

Source: Hoerl and Kennard 1970, ridge regression towards a prior; Shewchuk 1994, "Without the Agonizing Pain", B3 (the
solver); SIF weights of Arora et al. 2017; model2vec begins in the same way and takes the rows as they are.
"""

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from wordpipe.sparse import SparseRows

Matrix = npt.NDArray[np.float32]
Weights = npt.NDArray[np.float32]

_RIDGE = 0.03
"""On Cranfield, CISI and CACM the table of all-MiniLM-L6-v2 alone found with nDCG@10 of 44.7 in the mean at 0.1, 45.4 at 0.03
and 44.6 at 0.01, and 0.03 is the best of each two of them, too. Tried at 0.03 and left out: words by a = 1e-2 in place of
1e-3, 42.8; without the mean of all words, 44.1; without their first component, 43.9. Sentences beside the passages brought
it nearer to the teacher's vectors of questions (0.84 in place of 0.79), and it found less: what is searched has to be near."""
_ROUNDS, _ITERATIONS = 2, 10
_LEAST = 1e-6  # of a sum


def held_words(ids: Sequence[Sequence[int]], n_words: int) -> SparseRows:
    """Return how often each text has each word that a teacher's table has a row for, (N, V) float32."""
    bounds = np.cumsum([0, *map(len, ids)])
    return SparseRows.counted(np.fromiter(chain.from_iterable(ids), np.int32, int(bounds[-1])), bounds, n_words)


def distilled_table(
    words_VD: Matrix, weights_V: Weights, held_NV: SparseRows, taught_ND: Matrix, watch: Callable[[float], None]
) -> Matrix:
    """Return the static table whose unit sums are near a teacher's vectors of texts, (V, D) float32.

    Args:
        words_VD: what the teacher says of each word alone, unit rows.
        weights_V: of the words, above 0.
        held_NV: counts of the words in each text.
        taught_ND: the teacher's unit vectors of the texts.
        watch: is told the share that is done.
    """
    first_VD = words_VD * weights_V[:, None]
    table_VD, ridge_V = first_VD, (_RIDGE / np.square(weights_V)).astype(np.float32)
    for round_ in range(_ROUNDS):
        length_N = np.linalg.norm(held_NV @ table_VD, axis=1)
        some_N = length_N > _LEAST
        scale_N = np.where(some_N, 1 / np.maximum(length_N, _LEAST), 0).astype(np.float32)
        scaled_NV = held_NV.with_values(held_NV.values * scale_N[held_NV.row_of])
        table_VD = _solved(
            scaled_NV, np.where(some_N[:, None], taught_ND, np.float32(0)), ridge_V, first_VD, table_VD,
            lambda done, before=round_: watch((before + done) / _ROUNDS),  # type: ignore[misc]
        )  # fmt: skip
    return table_VD


def _solved(
    held_NV: SparseRows, taught_ND: Matrix, ridge_V: Weights, first_VD: Matrix, begun_VD: Matrix,
    watch: Callable[[float], None],
) -> Matrix:  # fmt: skip
    """Return a better solution of the linear problem of a distilled table than the one it begins with, (V, D).

    Columns are independent of each other, each with steps of its own.
    """
    of_words_VN = held_NV.turned()
    ridge_V1 = ridge_V[:, None]
    eased_V1 = (1 / (of_words_VN.squares() + ridge_V)).astype(np.float32)[:, None]
    table_VD = begun_VD.copy()
    left_VD = of_words_VN @ (taught_ND - held_NV @ table_VD) - ridge_V1 * (table_VD - first_VD)
    way_VD = eased_V1 * left_VD
    size_D = (left_VD * way_VD).sum(axis=0)
    for number in range(_ITERATIONS):
        bent_VD = of_words_VN @ (held_NV @ way_VD) + ridge_V1 * way_VD
        step_D = size_D / np.maximum((way_VD * bent_VD).sum(axis=0), np.float32(1e-20))
        table_VD += step_D * way_VD
        left_VD -= step_D * bent_VD
        eased_VD = eased_V1 * left_VD
        before_D, size_D = size_D, (left_VD * eased_VD).sum(axis=0)
        way_VD *= size_D / np.maximum(before_D, np.float32(1e-20))
        way_VD += eased_VD
        watch((number + 1) / _ITERATIONS)
    return table_VD.astype(np.float32, copy=False)


def nearness(table_VD: Matrix, held_NV: SparseRows, taught_ND: Matrix) -> float:
    """Measure a distilled table: the mean cosine of its texts with the teacher's vectors; 0 where a text has no word."""
    sums_ND = held_NV @ table_VD
    length_N = np.maximum(np.linalg.norm(sums_ND, axis=1), _LEAST)
    return float(((sums_ND * taught_ND).sum(axis=1) / length_N).mean())
