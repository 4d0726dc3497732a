"""The arithmetic of rows, against NumPy."""

import numpy as np
import numpy.typing as npt
import pytest

from wordpipe.compiled import kernel
from wordpipe.words.kernels.simd import (
    LANES,
    WIDE,
    add_difference,
    add_row,
    copy_row,
    dots,
    fetch,
    mean_row,
    padded,
    update,
)

Floats = npt.NDArray[np.float32]


@kernel
def _addresses(rows: Floats, room: int) -> npt.NDArray[np.int64]:
    """Addresses of rows, filled up by repeating the last."""
    found = np.empty(room, dtype=np.int64)
    for i in range(room):
        found[i] = rows.ctypes.data + 4 * rows.shape[1] * min(i, len(rows) - 1)
    return found


@kernel
def _dots(rows: Floats, columns: Floats, at: npt.NDArray[np.int64], to: npt.NDArray[np.int64], scores: Floats) -> None:
    dots(at.ctypes.data, len(rows), to.ctypes.data, len(columns), rows.shape[1], scores.ctypes.data, scores.shape[1])


@kernel
def _update(rows: npt.NDArray[np.int64], sums: npt.NDArray[np.int64], columns: npt.NDArray[np.int64], weights: Floats,
            dim: int) -> None:  # fmt: skip
    update(
        rows.ctypes.data, sums.ctypes.data, len(rows), columns.ctypes.data, weights.ctypes.data, weights.shape[1], dim
    )


@kernel
def _rows(target: Floats, a: Floats, b: Floats, scale: np.float32, which: int, at: npt.NDArray[np.int64]) -> None:
    dim = len(target)
    if which == 0:
        add_row(target.ctypes.data, a.ctypes.data, scale, dim)
    elif which == 1:
        copy_row(target.ctypes.data, a.ctypes.data, dim)
    elif which == 2:
        add_difference(target.ctypes.data, a.ctypes.data, b.ctypes.data, dim)
    else:
        fetch(target.ctypes.data, dim)
        mean_row(target.ctypes.data, at.ctypes.data, len(at), scale, dim)


def random(*shape: int) -> Floats:
    return np.random.default_rng().normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("dim", [1, 7, 8, 9, 100, 300])
def test_rows_are_padded_to_whole_vector_registers(dim: int) -> None:
    assert padded(dim) % LANES == 0
    assert dim <= padded(dim) < dim + LANES


@pytest.mark.parametrize(("rows", "columns", "dim"), [(1, 1, 8), (2, 3, 16), (5, 6, 104), (10, 13, 24)])
def test_dot_products(rows: int, columns: int, dim: int) -> None:
    x, y = random(rows, dim), random(columns, dim)
    scores = np.zeros((rows + 1, columns + 2), dtype=np.float32)
    _dots(x, y, _addresses(x, rows + 1), _addresses(y, columns + 2), scores)
    np.testing.assert_allclose(scores[:rows, :columns], x @ y.T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 4, 10])
def test_update_is_from_the_values_before(rows: int) -> None:
    dim = 40
    x, y, weights = random(rows, dim), random(WIDE, dim), random(rows, WIDE + 2)
    wanted_x, wanted_y = x + weights[:, :WIDE] @ y, y + weights[:, :WIDE].T @ x
    new_x, new_y = x.copy(), y.copy()
    _update(_addresses(new_x, rows), _addresses(new_x, rows), _addresses(new_y, WIDE), weights, dim)
    np.testing.assert_allclose(new_x, wanted_x, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(new_y, wanted_y, rtol=1e-4, atol=1e-4)
    sums, new_y = random(rows, dim), y.copy()
    begun = sums.copy()
    _update(_addresses(x, rows), _addresses(sums, rows), _addresses(new_y, WIDE), weights, dim)
    np.testing.assert_allclose(sums, begun + weights[:, :WIDE] @ y, rtol=1e-4, atol=1e-4)


def test_operations_on_single_rows() -> None:
    dim = 48
    target, a, b = random(3, dim)
    none = np.zeros(0, dtype=np.int64)
    for which, wanted in enumerate([target + np.float32(0.3) * a, a.copy(), target + (a - b)]):
        result = target.copy()
        _rows(result, a, b, np.float32(0.3), which, none)
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)
    some = random(5, dim)
    _rows(target, a, b, np.float32(0.2), 3, _addresses(some, 5))
    np.testing.assert_allclose(target, some.mean(axis=0), rtol=1e-4, atol=1e-5)
