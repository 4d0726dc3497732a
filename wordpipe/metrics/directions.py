"""The directions of vectors: what cosines compare.

Shapes: N vectors, D numbers each.
"""

import numpy as np
import numpy.typing as npt

__all__ = ["has_direction", "unit_rows"]


def has_direction(vectors_ND: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Which vectors are finite and not zero, (N,)."""
    norms_N = np.linalg.norm(vectors_ND, axis=-1)
    found: npt.NDArray[np.bool_] = np.isfinite(norms_N) & (norms_N > 0)
    return found


def unit_rows(
    vectors_ND: npt.NDArray[np.float32], *, least: float = 0.0
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """The vectors at length 1, (N, D) float32, zero where one is not finite or no longer than `least`; and which are not."""
    norms_N1 = np.linalg.norm(vectors_ND, axis=1, keepdims=True)
    valid_N1 = np.isfinite(norms_N1) & (norms_N1 > least)
    unit_ND = np.zeros_like(vectors_ND, dtype=np.float32)
    np.divide(vectors_ND, norms_N1, out=unit_ND, where=valid_N1)
    return unit_ND, valid_N1[:, 0]
