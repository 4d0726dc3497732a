"""The column `vector` of an artifact's tables, to and from matrices."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["matrix_of", "vector_column"]


def matrix_of(vectors: pa.FixedSizeListArray) -> NDArray[np.float32]:
    """The rows of a column, (N, D), without a copy."""
    matrix_ND: NDArray[np.float32] = (
        vectors.flatten().to_numpy(zero_copy_only=False).reshape(-1, vectors.type.list_size)
    )
    return matrix_ND


def vector_column(matrix_ND: NDArray[np.float32]) -> pa.FixedSizeListArray:
    """A column of rows, none of them null."""
    values = np.ascontiguousarray(matrix_ND, dtype=np.float32)
    item = pa.field("item", pa.float32(), nullable=False)
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), type=pa.list_(item, values.shape[1]))
