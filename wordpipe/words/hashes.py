"""Words and pieces of them by 64-bit hashes: which row of a table they are.

Two of n different strings share a hash with odds of about n² / 2**65: one in ten thousand for 60 million n-grams, and a word
that is not among five million is taken for one of them once in 4e12 look-ups. So a hash stands for its string.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.compiled import inlined, kernel, read_only
from wordpipe.words.arrow_words import arrow_words

__all__ = ["HASH_OF_NOTHING", "HashRows", "code_points", "hashed", "hashes_of", "text_of"]

HASH_OF_NOTHING = np.uint64(0x9E3779B97F4A7C15)
"""Where every hash begins."""

_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@inlined
def hashed(before: np.uint64, code_point: int) -> np.uint64:
    """The hash of a string that has one character more than that of hash `before`.

    For equal `before` different characters never meet. Source: the mixing function of SplitMix64, Steele, Lea, Flood 2014.
    """
    bits = before ^ np.uint64(code_point)
    bits = (bits ^ (bits >> np.uint64(30))) * _FIRST
    bits = (bits ^ (bits >> np.uint64(27))) * _SECOND
    return bits ^ (bits >> np.uint64(31))


@inlined
def code_points(data: npt.NDArray[np.uint8], begin: int, end: int, points: npt.NDArray[np.int32], n: int) -> int:
    """Write the characters of UTF-8 bytes `begin` to `end` to `points` from place `n` on; returns the place after the last."""
    at = begin
    while at < end:
        byte = np.int32(data[at])
        if byte < 0x80:
            points[n] = byte
            at += 1
        elif byte < 0xE0:
            points[n] = (byte & 0x1F) << 6 | np.int32(data[at + 1]) & 0x3F
            at += 2
        elif byte < 0xF0:
            points[n] = (byte & 0x0F) << 12 | (np.int32(data[at + 1]) & 0x3F) << 6 | np.int32(data[at + 2]) & 0x3F
            at += 3
        else:
            points[n] = (byte & 0x07) << 18 | (np.int32(data[at + 1]) & 0x3F) << 12
            points[n] |= (np.int32(data[at + 2]) & 0x3F) << 6 | np.int32(data[at + 3]) & 0x3F
            at += 4
        n += 1
    return n


@kernel
def _write_hashes(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int32], hashes: npt.NDArray[np.uint64]) -> None:
    longest = 0
    for word in range(len(hashes)):
        longest = max(longest, offsets[word + 1] - offsets[word])
    points = np.empty(longest, dtype=np.int32)
    for word in range(len(hashes)):
        n = code_points(data, offsets[word], offsets[word + 1], points, 0)
        bits = HASH_OF_NOTHING
        for at in range(n):
            bits = hashed(bits, points[at])
        hashes[word] = bits


@kernel
def _row(word: npt.NDArray[np.uint8], hashes: npt.NDArray[np.uint64], slots: npt.NDArray[np.int32]) -> int:
    """The row of one word, given as UTF-8."""
    points = np.empty(len(word), dtype=np.int32)
    bits = HASH_OF_NOTHING
    for at in range(code_points(word, 0, len(word), points, 0)):
        bits = hashed(bits, points[at])
    mask = np.uint64(len(slots) - 1)
    slot = bits & mask
    while slots[slot] >= 0 and hashes[slots[slot]] != bits:
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slots[slot])  # type: ignore[return-value]


@kernel
def _fill(hashes: npt.NDArray[np.uint64], slots: npt.NDArray[np.int32]) -> None:
    """Put every row where its hash points to, or behind; of equal hashes the first row is found."""
    mask = np.uint64(len(slots) - 1)
    for row in range(len(hashes)):
        slot = hashes[row] & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = row


@kernel
def _look_up(
    wanted: npt.NDArray[np.uint64],
    hashes: npt.NDArray[np.uint64],
    slots: npt.NDArray[np.int32],
    rows: npt.NDArray[np.int32],
) -> None:
    mask = np.uint64(len(slots) - 1)
    for at in range(len(wanted)):
        slot = wanted[at] & mask
        while slots[slot] >= 0 and hashes[slots[slot]] != wanted[at]:
            slot = (slot + np.uint64(1)) & mask
        rows[at] = slots[slot]


class HashRows:
    """The row of each of n hashes, and of each of n strings by its hash.

    Args:
        hashes: (n,) uint64; 12 to 16 bytes are kept for each.
    """

    def __init__(self, hashes: npt.NDArray[np.uint64]) -> None:
        self._hashes = hashes
        self._slots = np.full(1 << max(1, int(2 * len(hashes)).bit_length()), -1, dtype=np.int32)
        _fill(hashes, self._slots)

    def rows_of(self, wanted: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
        """The rows of some hashes, (N,) int32; -1 for what is not there."""
        rows = np.empty(len(wanted), dtype=np.int32)
        _look_up(wanted, self._hashes, self._slots, rows)
        return rows

    def row_of(self, word: str) -> int:
        """The row of one string, -1 where it is not there: in two microseconds."""
        return int(_row(np.frombuffer(word.encode("utf-8", "surrogatepass"), np.uint8), self._hashes, self._slots))


def text_of(words: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """The bytes of `arrow_words`, uint8, and where in them each word begins and the last ends, (N + 1,) int32; not copied."""
    _, offsets, data = words.buffers()
    if not len(words) or data is None:
        return read_only(np.zeros(0, dtype=np.uint8)), read_only(np.zeros(len(words) + 1, dtype=np.int32))
    some = np.frombuffer(offsets, dtype=np.int32)[words.offset : words.offset + len(words) + 1]
    return read_only(np.frombuffer(data, dtype=np.uint8)), read_only(some)


def hashes_of(words: "pa.Array | Sequence[str]") -> npt.NDArray[np.uint64]:
    """The hash of every word, (N,) uint64."""
    data, offsets = text_of(arrow_words(words))
    hashes = np.empty(len(offsets) - 1, dtype=np.uint64)
    _write_hashes(data, offsets, hashes)
    return hashes
