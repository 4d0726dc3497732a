"""Code points of UTF-8, for compiled loops."""

import numpy as np
from numpy.typing import NDArray

from wordpipe.compiled import kernel

__all__ = ["code_point"]


@kernel
def code_point(data: NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
    """The code point that begins at `at` and its length in bytes; (-1, 1) where the span breaks off inside of it."""
    first = int(data[at])
    if first < 0x80:
        return first, 1
    length = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    if first < 0xC2 or first > 0xF4 or at + length > end:
        return -1, 1
    code = first & (0xFF >> (length + 1))
    for offset in range(1, length):
        follower = int(data[at + offset])
        if follower & 0xC0 != 0x80:
            return -1, 1
        code = (code << 6) | (follower & 0x3F)
    if code > 0x10FFFF:
        return -1, 1
    return code, length
