"""Vectors out of a stream of Arrow batches."""

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["stacked_vectors"]


def stacked_vectors(
    batches: Iterable[pa.RecordBatch], see: Callable[[pa.RecordBatch], object]
) -> npt.NDArray[np.float32]:
    """The column `vector` of all batches, (N, D) float32; (0, 0) where there is no row.

    The array grows by an eighth as vectors come, in place where the system can, so that they are never in memory a second
    time as the pieces they came in.

    Args:
        batches: with a column `vector`, a fixed-size list of float32.
        see: is shown every batch, to take what else it wants.
    """
    numbers, n, dim = np.empty(0, dtype=np.float32), 0, 0
    for batch in batches:
        see(batch)
        vector = batch.column("vector")
        dim = int(vector.type.list_size)
        some = vector.flatten().to_numpy(zero_copy_only=False)
        if n + len(some) > len(numbers):
            numbers.resize((n + len(some)) * 9 // 8, refcheck=False)
        numbers[n : n + len(some)] = some
        n += len(some)
    numbers.resize(n, refcheck=False)
    return numbers.reshape(-1, dim) if dim else numbers.reshape(0, 0)
