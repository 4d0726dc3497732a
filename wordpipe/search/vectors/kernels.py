"""Compiled loops over vectors that are stored as int8, for an index that stays open for many queries.

Shapes: M stored vectors of D numbers, R of them, Q queries.
"""

import numpy as np
import numpy.typing as npt

from wordpipe.compiled import summing_kernel

Floats = npt.NDArray[np.float32]
Stored = npt.NDArray[np.uint8]


@summing_kernel
def add_up(
    stored_MB: Stored, scale_M: Floats, rows_R: npt.NDArray[np.int64], queries_QD: Floats, scores_QR: Floats
) -> None:
    """Write the products of queries with stored vectors (compiled kernel).

    Each is summed up alone, so that equal vectors have equal scores, and a query has the same ones alone and among others.

    Args:
        stored_MB: (M, 4 + D), the scale and the numbers of each; see `artifacts.vectors`.
        scale_M: the scale of each.
        rows_R: from 0 to M - 1.
        queries_QD: of length 1.
        scores_QR: out.
    """
    for at in range(len(rows_R)):
        row = rows_R[at]
        for query in range(len(queries_QD)):
            total = np.float32(0)
            for d in range(queries_QD.shape[1]):
                total += np.float32(np.int8(stored_MB[row, 4 + d])) * queries_QD[query, d]
            scores_QR[query, at] = total * scale_M[row]
