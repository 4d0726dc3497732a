"""The compiled sum of the rows of texts."""

import numpy as np
import numpy.typing as npt

from wordpipe.compiled import kernel


@kernel
def sum_texts(
    table_VD: npt.NDArray[np.float32],
    ids: npt.NDArray[np.int32],
    offsets: npt.NDArray[np.int64],
    first: int,
    last: int,
    sums_ND: npt.NDArray[np.float32],
) -> None:
    """Write the sums of the rows of texts `first` to `last`, added up in the order of the words; negative ids are passed over.

    Args:
        table_VD: the rows.
        ids: of all texts.
        offsets: (N + 1,) where each text begins in `ids`.
        first: the first text.
        last: the one after the last.
        sums_ND: out.
    """
    dim = table_VD.shape[1]
    for text in range(first, last):
        total = sums_ND[text]
        total[:] = np.float32(0)
        for at in range(offsets[text], offsets[text + 1]):
            if ids[at] >= 0:
                row = table_VD[ids[at]]
                for d in range(dim):
                    total[d] += row[d]


@kernel
def unit_texts(
    table_VD: npt.NDArray[np.float32],
    ids: npt.NDArray[np.int32],
    offsets: npt.NDArray[np.int64],
    unit_ND: npt.NDArray[np.float32],
    norms_N: npt.NDArray[np.float32],
) -> None:
    """Write the sums of all texts at length 1, zero for an empty one, and how long they were.

    One pass while a sum lies in the cache: by NumPy the sum, its square, the root and the division took a third of the time of
    encoding.
    """
    dim = table_VD.shape[1]
    for text in range(len(norms_N)):
        sum_texts(table_VD, ids, offsets, text, text + 1, unit_ND)
        total = unit_ND[text]
        square = np.float32(0)
        for d in range(dim):
            square += total[d] * total[d]
        norms_N[text] = np.sqrt(square)
        if square > 0:
            scale = np.float32(1) / norms_N[text]
            for d in range(dim):
                total[d] *= scale
