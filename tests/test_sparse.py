"""Sparse matrices: scipy is the oracle, to the last bit; groups of linked rows are the components of a graph."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from tests.support.sparse_matrices import as_scipy
from wordpipe.sparse import SparseRows, join_linked, lowest_linked


def drawn(seed, dtype=np.float32):
    """A matrix of counts by chance, some rows and columns empty, with other values in their place; and one in scipy."""
    rng = np.random.default_rng(seed)
    n_rows, width = rng.integers(0, 9), rng.integers(1, 8)
    sizes = rng.integers(0, 7, n_rows)
    numbers, bounds = rng.integers(0, width, sizes.sum()), np.concatenate([[0], np.cumsum(sizes)])
    ours = SparseRows.counted(numbers, bounds, int(width))
    theirs = csr_array((np.ones(len(numbers), np.float32), numbers, bounds), shape=(n_rows, width))
    theirs.sum_duplicates()
    same(ours, theirs)
    theirs = theirs.astype(dtype)
    theirs.data = rng.standard_normal(len(theirs.data)).astype(dtype)
    return ours.with_values(theirs.data), theirs, rng


def same(ours, theirs):
    assert ours.shape == theirs.shape
    for one, other in ((ours.columns, theirs.indices), (ours.bounds, theirs.indptr), (ours.values, theirs.data)):
        assert np.array_equal(one, other)
    assert ours.values.dtype == theirs.dtype


@given(seed=st.integers(0, 10**6), dtype=st.sampled_from([np.float32, np.float64]), columns=st.integers(0, 9))
def test_products_are_those_of_scipy(seed, dtype, columns):
    ours, theirs, rng = drawn(seed, dtype)
    dense = rng.standard_normal((ours.width, columns)).astype(dtype)
    assert np.array_equal(ours @ dense, theirs @ dense)
    other = rng.standard_normal((columns, ours.shape[0])).astype(dtype).T  # not in C's order
    assert np.array_equal(ours.turned() @ other, csr_array(theirs.T) @ other)
    assert np.array_equal(ours.gram(), (csr_array(theirs.T) @ theirs).toarray())


@given(seed=st.integers(0, 10**6))
def test_rows_columns_and_the_transpose_are_those_of_scipy(seed):
    ours, theirs, rng = drawn(seed)
    same(ours.turned(), csr_array(theirs.T))
    assert np.allclose(ours.squares(), theirs.astype(np.float64).multiply(theirs).sum(axis=1), rtol=1e-6)
    rows = rng.integers(0, ours.shape[0], 5 if ours.shape[0] else 0)
    same(ours.picked(rows), theirs[rows])
    columns = np.flatnonzero(rng.integers(0, 2, ours.width))
    narrowed = theirs[:, columns]
    narrowed.sort_indices()
    same(ours.narrowed(columns), narrowed)
    others = rng.permutation(ours.shape[0])
    products = theirs.astype(np.float64).multiply(theirs[others]).sum(axis=1)
    assert np.allclose(ours.with_rows_of(ours.picked(others)), products)


@pytest.mark.parametrize("dense", [np.zeros((2, 3), np.float32), np.zeros((4, 3), np.float64)])
def test_what_does_not_fit_is_refused(dense):
    """A loop without bounds would read past the end."""
    matrix = SparseRows.counted(np.array([0, 3]), [0, 1, 2], 4)
    with pytest.raises(ValueError, match=r"\(2, 4\) float32"):
        matrix @ dense


def test_a_matrix_is_what_it_was_counted_from():
    matrix = SparseRows.counted(np.array([2, 0, 2, 1]), [0, 3, 3, 4], 4)
    assert as_scipy(matrix).toarray().tolist() == [[1, 0, 2, 0], [0, 0, 0, 0], [0, 1, 0, 0]]


@given(rows=st.integers(1, 30), seed=st.integers(0, 10**6), parts=st.integers(1, 4))
def test_groups_are_the_components_of_a_graph(rows, seed, parts):
    rng = np.random.default_rng(seed)
    one, other = rng.integers(0, rows, (2, rng.integers(0, rows)))
    graph = coo_array((np.ones(len(one)), (one, other)), shape=(rows, rows))
    number_N = connected_components(graph, directed=False)[1]
    lower_N = np.arange(rows)
    for ends in zip(np.array_split(one, parts), np.array_split(other, parts), strict=True):
        join_linked(lower_N, *ends)
    assert lowest_linked(lower_N).tolist() == [int(np.flatnonzero(number_N == number)[0]) for number in number_N]
