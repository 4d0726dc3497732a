"""The values of an array as bytes, block by block, so that a file of it is written and read without a second copy."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["array_blocks"]

_BLOCK = 1 << 20  # bytes; so few that they are still in the processor's cache when they are hashed


def array_blocks(array: NDArray[Any]) -> Iterator[memoryview]:
    """The array's own memory as views of at most 1 MiB, the first row first, each value in the array's byte order.

    Nothing is copied: who writes into a view writes into the array. An array without values has no blocks.

    Args:
        array: any shape and any dtype of fixed size, C-contiguous.
    """
    assert array.flags.c_contiguous, "only rows that lie one after the other are a run of bytes"
    assert not array.dtype.hasobject, f"an array of {array.dtype} holds addresses, not values"
    data = array.reshape(-1).view(np.uint8).data
    for start in range(0, len(data), _BLOCK):
        yield data[start : start + _BLOCK]
