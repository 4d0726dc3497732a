"""Our sparse matrices and scipy's, for tests in which scipy is the oracle."""

import numpy as np
from scipy.sparse import csr_array

from wordpipe.sparse import SparseRows


def as_scipy(matrix: SparseRows) -> csr_array:
    """The same matrix in scipy."""
    return csr_array((matrix.values, matrix.columns, matrix.bounds), shape=matrix.shape)


def from_scipy(matrix: csr_array) -> SparseRows:
    """The same matrix in ours."""
    matrix.sort_indices()
    return SparseRows(matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int64), matrix.shape[1])
