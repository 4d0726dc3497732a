"""Which words of a piece of text are trained: those that subsampling leaves."""

import numpy as np
import numpy.typing as npt

from wordpipe.compiled import kernel
from wordpipe.words.native.draws import mixed

__all__ = ["keep_limits", "survivors"]

_LOW = np.uint64(0xFFFFFFFF)


def keep_limits(keep_V: npt.NDArray[np.float64]) -> npt.NDArray[np.uint32]:
    """Probabilities as the largest 32-bit draw that keeps a word, (V,) uint32."""
    limits: npt.NDArray[np.uint32] = (np.clip(keep_V, 0, 1) * (2.0**32 - 1)).astype(np.uint32)
    return limits


@kernel
def survivors(
    text: npt.NDArray[np.int32],
    position: int,
    keep: npt.NDArray[np.uint32],
    key: np.uint64,
    rows: npt.NDArray[np.int32],
    places: npt.NDArray[np.int64],
    firsts: npt.NDArray[np.bool_],
) -> int:
    """The words of a piece that are trained in this epoch.

    Args:
        text: rows, the first word of a text as `~row`.
        position: where in the whole text the piece begins.
        keep: for every row the largest draw that keeps it.
        key: of this epoch's skipping.
        rows: room for as many as there are words; filled with the survivors' rows.
        places: the same; filled with their positions in the whole text.
        firsts: the same; whether no survivor of the same text comes before in the piece.

    Returns:
        how many survived.
    """
    kept = 0
    first = True
    for at in range(len(text)):
        row = text[at]
        if row < 0:
            row = ~row
            first = True
        if np.uint32(mixed(key, position + at) & _LOW) <= keep[row]:
            rows[kept], places[kept], firsts[kept] = row, position + at, first
            kept += 1
            first = False
    return kept
