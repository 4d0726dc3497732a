"""Matrices of which each row has few numbers that are not 0, such as the counts of words in texts, and their products.

A row's numbers stand in the order of their columns and are added up in that order: a product has the bytes that scipy's has.
scipy is 143 MB installed. Its products of 40,000 texts of 60 words take 0.9 times as long as these by a matrix of 4 columns,
1.7 times by one of 300 (`tests/test_sparse.py` compares the bytes).

Shapes: N rows, F columns, M numbers that are not 0, D columns of a dense matrix.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wordpipe.compiled import kernel, read_only

Floats = NDArray[Any]
"""float32 or float64."""


@dataclass(frozen=True)
class SparseRows:
    """A sparse matrix, (N, F): the numbers of row n are `values[bounds[n]:bounds[n + 1]]`.

    Attributes:
        values: (M,), float32 or float64.
        columns: where they stand, (M,) int32, ascending within a row, each once.
        bounds: (N + 1,) int64.
        width: F.
    """

    values: Floats
    columns: NDArray[np.int32]
    bounds: NDArray[np.int64]
    width: int

    @classmethod
    def counted(cls, numbers: NDArray[Any], bounds: ArrayLike, width: int) -> "SparseRows":
        """Return how often each number stands in each row, float32.

        Args:
            numbers: of all rows, from 0 to `width` - 1, in any order.
            bounds: where each row's begin, and where the last one's end.
            width: F.
        """
        given = cls(np.ones(len(numbers), np.float32), numbers.astype(np.int32), np.asarray(bounds, np.int64), width)
        ordered = given.turned().turned()
        rows, columns = ordered.row_of, ordered.columns
        is_first = np.ones(len(columns), np.bool_)
        is_first[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
        counts = np.diff(np.flatnonzero(is_first), append=len(columns)).astype(np.float32)
        return cls(counts, columns[is_first], _bounds_of(rows[is_first], given.shape[0]), width)

    @property
    def shape(self) -> tuple[int, int]:
        """N and F."""
        return len(self.bounds) - 1, self.width

    @property
    def _parts(self) -> tuple[Floats, NDArray[np.int32], NDArray[np.int64]]:
        return read_only(self.values), read_only(self.columns), read_only(self.bounds)

    @property
    def row_of(self) -> NDArray[np.int64]:
        """The row of each number that is not 0, (M,)."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.bounds))

    def with_values(self, values: Floats) -> "SparseRows":
        """Return a matrix with other numbers at the same places."""
        return SparseRows(values, self.columns, self.bounds, self.width)

    def squares(self) -> Floats:
        """Return the sum of squares of each row, (N,) float64."""
        return np.bincount(self.row_of, weights=np.square(self.values), minlength=self.shape[0])

    def picked(self, rows: NDArray[np.integer]) -> "SparseRows":
        """Return some of the rows, in the order of `rows`."""
        sizes = np.diff(self.bounds)[rows]
        bounds = np.concatenate([[0], np.cumsum(sizes)])
        at = np.arange(bounds[-1]) + np.repeat(self.bounds[rows] - bounds[:-1], sizes)
        return SparseRows(self.values[at], self.columns[at], bounds, self.width)

    def narrowed(self, columns: NDArray[np.integer]) -> "SparseRows":
        """Return some of the columns, ascending; the first of them becomes column 0."""
        place_F = np.full(self.width, -1, np.int32)
        place_F[columns] = np.arange(len(columns))
        places = place_F[self.columns]
        kept = places >= 0
        return SparseRows(self.values[kept], places[kept], _bounds_of(self.row_of[kept], self.shape[0]), len(columns))

    def turned(self) -> "SparseRows":
        """Return the transpose, (F, N)."""
        bounds = np.concatenate([[0], np.cumsum(np.bincount(self.columns, minlength=self.width))])
        values, columns = np.empty_like(self.values), np.empty_like(self.columns)
        _turn(*self._parts, bounds[:-1].copy(), values, columns)
        return SparseRows(values, columns, bounds, self.shape[0])

    def __matmul__(self, dense_FD: Floats) -> Floats:
        """Return the product with a dense matrix of the same number format, (N, D)."""
        dense_FD = np.ascontiguousarray(dense_FD)
        if self.width != len(dense_FD) or self.values.dtype != dense_FD.dtype:
            given = f"{self.shape} {self.values.dtype} and {dense_FD.shape} {dense_FD.dtype}"
            raise ValueError(f"these matrices cannot be multiplied: {given}")
        product_ND = np.zeros((self.shape[0], dense_FD.shape[1]), dense_FD.dtype)
        _multiply(*self._parts, read_only(dense_FD), product_ND)
        return product_ND

    def gram(self) -> Floats:
        """Return the products of all columns with each other, (F, F)."""
        gram_FF = np.zeros((self.width, self.width), self.values.dtype)
        _add_outer(*self._parts, gram_FF)
        return gram_FF

    def with_rows_of(self, other: "SparseRows") -> Floats:
        """Return the product of each row with the same row of a matrix of the same shape, (N,) float64."""
        assert self.shape == other.shape
        keys, others = (one.row_of * max(self.width, 1) + one.columns for one in (self, other))
        both, at, there = np.intersect1d(keys, others, assume_unique=True, return_indices=True)
        products = self.values[at].astype(np.float64) * other.values[there]
        return np.bincount(both // max(self.width, 1), weights=products, minlength=self.shape[0])


def _bounds_of(rows: NDArray[np.integer], n_rows: int) -> NDArray[np.int64]:
    """Return where the numbers of each row begin and end, (N + 1,), by the row of each number."""
    return np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_rows))])


def join_linked(lower_N: NDArray[np.int64], one: NDArray[np.int64], other: NDArray[np.int64]) -> None:
    """Join the groups of rows that are linked: the components of the graph of a sparse matrix's rows.

    Args:
        lower_N: a lower row of each row's group, the row itself where none is lower; before any link 0 to N - 1. Changed.
        one: an end of each link.
        other: the other end.

    Source: Tarjan and van Leeuwen 1984, "Worst-case analysis of set union algorithms" (halving of paths).
    """
    _join(lower_N, read_only(one), read_only(other))


def lowest_linked(lower_N: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the lowest row of each row's group, (N,), after `join_linked`."""
    lowest_N = lower_N.copy()
    while not np.array_equal(lowest_N, further_N := lowest_N[lowest_N]):
        lowest_N = further_N
    return lowest_N


@kernel
def _join(lower_N: NDArray[np.int64], ones: NDArray[np.int64], others: NDArray[np.int64]) -> None:
    """Join the groups of linked rows."""
    for at in range(len(ones)):
        one, other = ones[at], others[at]
        while lower_N[one] != one:
            lower_N[one] = lower_N[lower_N[one]]
            one = lower_N[one]
        while lower_N[other] != other:
            lower_N[other] = lower_N[lower_N[other]]
            other = lower_N[other]
        lower_N[max(one, other)] = min(one, other)


@kernel
def _multiply(
    values: Floats, columns: NDArray[np.int32], bounds: NDArray[np.int64], dense_FD: Floats, product_ND: Floats
) -> None:
    """Add the product of a sparse and a dense matrix to a third."""
    for row in range(len(bounds) - 1):
        for at in range(bounds[row], bounds[row + 1]):
            value, column = values[at], columns[at]
            for place in range(dense_FD.shape[1]):
                product_ND[row, place] += value * dense_FD[column, place]


@kernel
def _turn(
    values: Floats, columns: NDArray[np.int32], bounds: NDArray[np.int64], next_F: NDArray[np.int64],
    turned: Floats, rows: NDArray[np.int32],
) -> None:  # fmt: skip
    """Write a sparse matrix's numbers and their rows by columns; `next_F` is where each column's begin, and is used up."""
    for row in range(len(bounds) - 1):
        for at in range(bounds[row], bounds[row + 1]):
            place = next_F[columns[at]]
            next_F[columns[at]] = place + 1
            turned[place], rows[place] = values[at], row


@kernel
def _add_outer(values: Floats, columns: NDArray[np.int32], bounds: NDArray[np.int64], gram_FF: Floats) -> None:
    """Add the products of each row's numbers with each other."""
    for row in range(len(bounds) - 1):
        for one in range(bounds[row], bounds[row + 1]):
            for other in range(bounds[row], bounds[row + 1]):
                gram_FF[columns[one], columns[other]] += values[one] * values[other]
