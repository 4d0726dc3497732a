"""How loops over bytes and numbers are compiled: by numba, without the GIL, once per machine.

A kernel takes and gives NumPy arrays and plain numbers. The machine code is kept in `__pycache__` beside the source (or in
numba's own cache where that folder cannot be written), so only the first run after an installation waits for the compiler.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba

__all__ = ["kernel"]

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` when it is first called; threads may run it side by side."""
    compiled: Callable[P, R] = numba.njit(nogil=True, cache=True)(function)
    return compiled
