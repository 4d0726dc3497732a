"""The scanner of character tokenizers: every character is a pre-token."""

import numpy as np
from numpy.typing import NDArray

from wordpipe.compiled import kernel

__all__ = ["scan_characters"]


@kernel
def scan_characters(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    classes: NDArray[np.uint8],
    starts: NDArray[np.int32],
    ends: NDArray[np.int32],
    row_ends: NDArray[np.int64],
) -> int:
    """As the scanners in `scanning`; the classes of code points make no difference."""
    spans = 0
    for row in range(len(offsets) - 1):
        for at in range(offsets[row], offsets[row + 1]):
            if data[at] & 0xC0 != 0x80:
                starts[spans] = at
                spans += 1
            ends[spans - 1] = at + 1
        row_ends[row] = spans
    return spans
