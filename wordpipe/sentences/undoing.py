"""Back from transformed vectors to those that the encoder gave, where that can be done."""

import numpy as np
from numpy.typing import NDArray

from wordpipe.sentences.transforms import Transform

__all__ = ["can_undo", "undone"]


def can_undo(transform: Transform) -> bool:
    """Whether `undone` can: nothing was taken away but the mean. What lay in a removed direction is lost."""
    return transform.kind in ("none", "centre")


def undone(transform: Transform, vectors_ND: NDArray[np.float32]) -> NDArray[np.float32]:
    """The unit vectors x that `transform.apply` makes these of, (N, D) float32, to rounding.

    Of y = (x - m) / |x - m| with |x| = 1 and the mean |m| < 1, x = m + t y, where t > 0 solves |m + t y| = 1:
    t = sqrt((m·y)² + 1 - |m|²) - m·y.

    Args:
        transform: none or centre.
        vectors_ND: (N, D) unit vectors, as it gave them.
    """
    assert can_undo(transform)
    if transform.kind == "none":
        return vectors_ND
    wide_ND, mean_D = vectors_ND.astype(np.float64), transform.mean.astype(np.float64)
    along_N = wide_ND @ mean_D
    lengths_N = np.sqrt(np.maximum(along_N**2 + 1 - mean_D @ mean_D, 0)) - along_N
    raw_ND: NDArray[np.float32] = (mean_D + lengths_N[:, None] * wide_ND).astype(np.float32)
    return raw_ND
