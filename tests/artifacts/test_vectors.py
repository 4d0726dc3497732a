"""Vectors in tables."""

import numpy as np
import pytest

from wordpipe.artifacts import matrix_of, vector_column, vectors_schema


@pytest.mark.parametrize(("rows", "dim"), [(0, 3), (1, 1), (7, 4)])
def test_a_matrix_comes_back_from_its_column(rows, dim):
    matrix = np.random.default_rng().normal(size=(rows, 2 * dim)).astype(np.float32)[:, ::2]
    column = vector_column(matrix)
    assert column.type == vectors_schema(dim).field("vector").type
    np.testing.assert_array_equal(matrix_of(column), matrix)
    np.testing.assert_array_equal(matrix_of(column.slice(1)), matrix[1:])
