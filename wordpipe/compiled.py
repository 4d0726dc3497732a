"""Compiled loops over bytes and numbers: by numba, without the GIL, once per machine; a mixing hash and UTF-8 for loops.

A kernel takes and gives NumPy arrays and plain numbers. The machine code is kept in `__pycache__` beside the source (or in
numba's own cache where that folder cannot be written), so only the first run after an installation waits for the compiler.
"""

import os.path
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

# numba would take settings from a file of the working folder, among them the place of its cache: pickles, which it loads
_OF_NUMBA = ".numba_config.yaml"
_exists = os.path.exists
os.path.exists = lambda path: path != _OF_NUMBA and _exists(path)
try:
    import numba
    from llvmlite import ir
    from numba import types
    from numba.core import config, event
    from numba.extending import intrinsic
finally:
    os.path.exists = _exists
config._config_fname = ""  # it looks again whenever it compiles
config.reload_config()  # type: ignore[no-untyped-call]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=np.generic)
Bits = TypeVar("Bits", np.uint64, NDArray[np.uint64])


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` when it is first called; threads may run it side by side."""
    compiled: Callable[P, R] = numba.njit(nogil=True, cache=True)(function)
    return compiled


def short_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` like `kernel`, for some microseconds of work: the interpreter's lock is kept.

    A thread that gives the lock up for so short a time often has to wait until another one does so, too.
    """
    compiled: Callable[P, R] = numba.njit(cache=True)(function)
    return compiled


def summing_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` like `kernel`; it may add numbers up several at a time, in the same order whenever it is called.

    Such a sum of 384 products takes a tenth of the time; it differs by rounding from that of one after the other.
    """
    compiled: Callable[P, R] = numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})(function)
    return compiled


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a function as a part of kernels, which numba compiles into each kernel that calls the part.

    numba compiles a kernel anew when the kernel's own file has changed. After an edit of a part in another file, remove
    `__pycache__/*.nbi` (the tests do).

    A call that passes arrays counts references to each of them, atomically: a table looked up 190 MB of text a second with
    its calls, and 240 without.
    """
    part: Callable[P, R] = numba.njit(nogil=True, inline="always")(function)
    return part


def mixed_bits(bits: Bits) -> Bits:
    """Hash a 64-bit number, or each of an array: every bit that is given changes about half of the bits returned.

    Source: SplitMix64's finaliser, Steele, Lea, Flood 2014, "Fast Splittable Pseudorandom Number Generators".
    """
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


scrambled: Callable[[np.uint64], np.uint64] = inlined(mixed_bits)
"""`mixed_bits` for kernels."""


@inlined
def character(data: NDArray[np.uint8], at: int) -> tuple[int, int]:
    """Return the code point at `at` of valid UTF-8, and where the next begins; inlined in compiled kernels."""
    lead = int(data[at])
    if lead < 0x80:
        return lead, at + 1
    point = int(data[at + 1]) & 0x3F
    if lead < 0xE0:
        return (lead & 0x1F) << 6 | point, at + 2
    point = point << 6 | int(data[at + 2]) & 0x3F
    if lead < 0xF0:
        return (lead & 0x0F) << 12 | point, at + 3
    return (lead & 0x07) << 18 | point << 6 | int(data[at + 3]) & 0x3F, at + 4


@contextmanager
def watch_compilation(report: Callable[[], None]) -> Iterator[None]:
    """Call `report` once if numba compiles a kernel in the block, which takes seconds; kernels in the cache do not count."""
    with event.install_listener("numba:compile", _FirstEvent(report)):
        yield


class _FirstEvent(event.Listener):
    def __init__(self, report: Callable[[], None]) -> None:
        self._report: Callable[[], None] | None = report

    def on_start(self, _: object) -> None:
        report, self._report = self._report, None
        if report is not None:
            report()

    def on_end(self, _: object) -> None:
        pass


def read_only(array: NDArray[T]) -> NDArray[T]:
    """Return a read-only view of an array for kernels: Arrow's buffers and our arrays then have one type, compiled once."""
    if not array.flags.writeable:
        return array
    view = array[:]
    view.flags.writeable = False
    return view


def _load_eight(_: Any, array: Any, at: Any) -> Any:
    """Load eight bytes of a uint8 array in a kernel, from `at`, as one number, the first byte lowest; nothing is checked.

    Hashing and comparing eight bytes at a time took look-ups from 130 to 150 MB/s, and NumPy has no view that begins anywhere.
    """

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        buffer = context.make_array(signature.args[0])(context, builder, values[0])
        place = builder.gep(buffer.data, [values[1]])
        number = builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()))
        number.align = 1
        return number

    return types.uint64(array, types.intp), code


load_eight: Callable[[NDArray[np.uint8], int], np.uint64] = intrinsic(_load_eight)  # type: ignore[assignment]
