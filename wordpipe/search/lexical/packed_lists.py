"""Lists of ascending numbers with their counts, packed into bytes: of postings and of the terms of texts.

A number takes a byte for every seven bits, the low ones first; all its bytes but the last have the high bit (LEB128, as in
Lucene and Protocol Buffers). A list of pairs (number, count) is

    each pair      the step from the number before (the first: from -1) less one, times four, plus the count, but 3 at most
    behind them    of each count from 3 on, in their order: the count less 3

Of 100 MB of Wikipedia (9.5 million pairs in 147,000 texts) the postings take 14 MB so, and 48 as numbers of 4 bytes and counts
of 1. A query unpacks what it reads.

Shapes: L lists, P pairs of all lists, R lists that are read, M numbers, B bytes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.errors import ArtifactError, DamageError

LEXICAL = "lexical/"  # the folder of the files of a lexical index within an index artifact
BUILD_AGAIN = "build the index again: wordpipe index"
_AT_ONCE = 1 << 20  # pairs that are packed or unpacked together: temporary arrays have 8 bytes for each
_MOST_BITS = 35  # of a number: 2³¹ texts or terms, times four
_LARGE = 3  # a count that does not fit beside the number

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Counts = npt.NDArray[np.unsignedinteger[Any]]
Pairs = tuple[Int32s, Counts]


def strangers() -> ArtifactError:
    """Return the error for files of a lexical index that do not belong together."""
    return DamageError("the files of the lexical index do not match each other", where=LEXICAL, hint=BUILD_AGAIN)


def within(numbers: npt.NDArray[np.integer[Any]], count: int) -> bool:
    """True if all numbers of terms or rows are from 0 to `count` - 1; those that a query reads are checked at first use."""
    return not len(numbers) or bool(numbers.min() >= 0 and numbers.max() < count)


def packed(numbers_M: npt.NDArray[np.integer[Any]]) -> Bytes:
    """Return numbers from 0 on as bytes, (B,)."""
    largest = int(numbers_M.max(initial=0))
    if largest < 128:
        return numbers_M.astype(np.uint8)
    width = -(-largest.bit_length() // 7)
    sevens_MW = numbers_M[:, None].astype(np.int64) >> 7 * np.arange(width)
    is_used_MW = sevens_MW > 0
    is_used_MW[:, 0] = True
    bytes_MW = (sevens_MW & 127).astype(np.uint8)
    bytes_MW[:, :-1] |= is_used_MW[:, 1:].astype(np.uint8) << 7
    return bytes_MW[is_used_MW]


def unpacked(data_B: Bytes) -> Ints:
    """Return the numbers that `packed` made bytes of, (M,). Raises ArtifactError: these are none."""
    return _numbers(data_B)[0]


def _numbers(data_B: Bytes) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return the numbers of packed bytes, (M,), and which bytes begin one, (B,). Raises ArtifactError: these are none."""
    is_first_B = np.ones(len(data_B), np.bool_)
    is_first_B[1:] = data_B[:-1] < 128
    if len(data_B) and data_B[-1] >= 128:
        raise strangers()
    firsts_M = data_B[is_first_B]
    numbers_M = (firsts_M & 127).astype(np.int64)
    longer, places, shift = np.flatnonzero(firsts_M >= 128), np.flatnonzero(is_first_B & (data_B >= 128)), 0
    while len(longer):  # few have many bytes
        shift, places = shift + 7, places + 1
        if shift == _MOST_BITS:
            raise strangers()
        next_bytes = data_B[places]
        numbers_M[longer] |= (next_bytes & 127).astype(np.int64) << shift
        goes_on = next_bytes >= 128
        longer, places = longer[goes_on], places[goes_on]
    return numbers_M, is_first_B


@dataclass(frozen=True, slots=True)
class PackedLists:
    """L lists of ascending numbers from 0 on, each with a count."""

    sizes: Int32s  # (L,) int32, the pairs of each list
    ends: Ints  # (L,) int64, where the bytes of each end
    data: Bytes  # (B,) uint8
    largest: int  # count of all

    @classmethod
    def of(
        cls, sizes_L: npt.NDArray[np.integer[Any]], numbers_P: npt.NDArray[Any], counts_P: npt.NDArray[Any]
    ) -> "PackedLists":
        """Pack the lists of so many pairs each, one list after the other."""
        parts, bytes_L = [np.zeros(0, np.uint8)], [np.zeros(0, np.int64)]
        for lists, pairs in _blocks(sizes_L):
            data_B, of_lists = _packed_pairs(sizes_L[lists], numbers_P[pairs], counts_P[pairs])
            parts.append(data_B)
            bytes_L.append(of_lists)
        ends_L = np.cumsum(np.concatenate(bytes_L))
        data_B = np.concatenate(parts)
        data_B.flags.writeable = False  # as it is when it was read, for which loops are compiled once
        return cls(sizes_L.astype(np.int32), ends_L, data_B, int(counts_P.max(initial=0)))

    @classmethod
    def stored(cls, largest: int, sizes: Bytes, bytes_: Bytes, data: Bytes) -> "PackedLists":
        """Return the lists of stored arrays: the pairs and the bytes of each list, both packed, and the bytes."""
        return cls(unpacked(sizes).astype(np.int32), np.cumsum(unpacked(bytes_)), data, largest)

    def arrays(self) -> tuple[Bytes, Bytes, Bytes]:
        """Return what `stored` takes, without the largest count."""
        return packed(self.sizes), packed(np.diff(self.ends, prepend=0)), self.data

    @property
    def fits(self) -> bool:
        """True if the lists fill the bytes, and none has more pairs than bytes; what these say is not checked."""
        bytes_L = np.diff(self.ends, prepend=0)
        whole = len(self.sizes) == len(self.ends) and int(self.ends[-1] if len(self.ends) else 0) == len(self.data)
        return whole and bool((bytes_L >= self.sizes).all() and (self.sizes >= 0).all() and 0 <= self.largest < 1 << 32)

    @property
    def kind(self) -> np.dtype[Any]:
        """The numbers of counts: as narrow as the largest allows."""
        return np.min_scalar_type(self.largest)

    def __len__(self) -> int:
        return len(self.sizes)

    def one(self, number: int, loops: Any) -> Pairs:
        """Return the numbers and the counts of a list; `loops` has an `unpack` like the one below."""
        begin, end = int(self.ends[number - 1]) if number else 0, int(self.ends[number])
        found = np.empty(self.sizes[number], np.int32), np.empty(self.sizes[number], self.kind)
        if not loops.unpack(self.data[begin:end], *found):
            raise strangers()
        return found

    def some(self, lists_R: Ints, loops: Any) -> tuple[Ints, Int32s, Counts]:
        """Return the pairs of R lists, one list after the other: at which of the R each stands, its number and its count.

        By NumPy, or by compiled `loops`.
        """
        sizes_R, kind = self.sizes[lists_R], self.kind
        if loops.unpack is not unpack:
            n = int(sizes_R.sum())
            found = np.empty(n, np.int64), np.empty(n, np.int32), np.empty(n, kind)
            if not loops.unpack_some(lists_R, self.sizes, self.ends, self.data, *found):
                raise strangers()
            return found
        ends_R = self.ends[lists_R]
        bytes_R = ends_R - np.where(lists_R > 0, self.ends[lists_R - 1], 0)
        at = np.repeat(ends_R - np.cumsum(bytes_R), bytes_R) + np.arange(bytes_R.sum())
        numbers, counts = _unpacked_pairs(self.data[at], sizes_R, bytes_R)
        return np.repeat(np.arange(len(lists_R)), sizes_R), numbers.astype(np.int32), counts.astype(kind)

    def all(self) -> Pairs:
        """Return the numbers, (P,), and the counts of all lists."""
        n = int(self.sizes.sum(dtype=np.int64))
        numbers_P, counts_P = np.empty(n, np.int32), np.empty(n, self.kind)
        for lists, pairs in _blocks(self.sizes):
            if pairs.start == pairs.stop:
                continue
            first = int(self.ends[lists.start - 1]) if lists.start else 0
            ends_R = self.ends[lists]
            some = self.data[first : int(ends_R[-1])]
            numbers_P[pairs], counts_P[pairs] = _unpacked_pairs(some, self.sizes[lists], np.diff(ends_R, prepend=first))
        return numbers_P, counts_P


def unpack(data_B: Bytes, numbers_P: Int32s, counts_P: Counts) -> bool:
    """Write the pairs of one list, by NumPy: of 100,000 in 1 ms, as `kernels.unpack` does; False if it is damaged."""
    try:
        values_M, _ = _numbers(data_B)
    except ArtifactError:
        return False
    pairs_P, large = values_M[: len(numbers_P)], values_M[len(numbers_P) :]
    found_P = pairs_P & _LARGE
    is_large = np.flatnonzero(found_P == _LARGE)
    if len(pairs_P) != len(numbers_P) or len(is_large) != len(large):
        return False
    found_P[is_large] += large
    numbers_P[:], counts_P[:] = np.cumsum((pairs_P >> 2) + 1) - 1, found_P
    return True


def _blocks(sizes_L: npt.NDArray[np.integer[Any]]) -> Iterator[tuple[slice, slice]]:
    """Yield runs of lists with about so many pairs each, and the place of their pairs among all."""
    ends_L = np.cumsum(sizes_L, dtype=np.int64)
    first, begun = 0, 0
    while first < len(sizes_L):
        last = max(first + 1, int(np.searchsorted(ends_L, begun + _AT_ONCE, "right")))
        yield slice(first, last), slice(begun, int(ends_L[last - 1]))
        first, begun = last, int(ends_L[last - 1])


def _packed_pairs(
    sizes_L: npt.NDArray[np.integer[Any]], numbers_P: npt.NDArray[Any], counts_P: npt.NDArray[Any]
) -> tuple[Bytes, Ints]:
    """Return the bytes of some lists, and how many of them are of each list."""
    numbers_P, large = numbers_P.astype(np.int64), np.flatnonzero(counts_P >= _LARGE)
    firsts = np.cumsum(sizes_L) - sizes_L
    before_P = np.append(-1, numbers_P[:-1])
    before_P[firsts[sizes_L > 0]] = -1
    pairs_P = (numbers_P - before_P - 1) * 4 + np.minimum(counts_P, _LARGE)
    # the large counts behind the pairs of their list
    of_large = np.searchsorted(firsts + sizes_L, large, "right")
    large_L = np.bincount(of_large, minlength=len(sizes_L))
    values_M = np.insert(pairs_P, (firsts + sizes_L)[of_large], counts_P[large].astype(np.int64) - _LARGE)
    ends_L = np.cumsum(sizes_L + large_L)
    bytes_M = 1 + sum((values_M >= 1 << 7 * step).astype(np.int64) for step in range(1, _MOST_BITS // 7))
    until_M = np.append(0, np.cumsum(bytes_M))
    return packed(values_M), np.diff(until_M[ends_L], prepend=0)


def _unpacked_pairs(data_B: Bytes, sizes_R: npt.NDArray[np.integer[Any]], bytes_R: Ints) -> tuple[Ints, Ints]:
    """Return the numbers and the counts of lists whose bytes stand one after the other.

    Raises:
        ArtifactError: the bytes are none of such lists.
    """
    values_M, is_first_B = _numbers(data_B)
    until_R = np.append(0, np.cumsum(is_first_B))[np.cumsum(bytes_R)]  # values up to the end of each list
    large_R = np.diff(until_R, prepend=0) - sizes_R
    if (large_R < 0).any():
        raise strangers()
    large, pairs_P = np.zeros(0, np.int64), values_M
    if large_R.any():
        is_pair_M = np.repeat(np.tile([True, False], len(sizes_R)), np.column_stack([sizes_R, large_R]).ravel())
        large, pairs_P = values_M[~is_pair_M], values_M[is_pair_M]
    counts_P = pairs_P & _LARGE
    is_large = np.flatnonzero(counts_P == _LARGE)
    if len(is_large) != len(large):
        raise strangers()
    counts_P[is_large] += large
    # the steps added up, from the beginning of each list
    numbers_P = np.cumsum((pairs_P >> 2) + 1)
    ends = np.cumsum(sizes_R)
    before_R = np.append(0, numbers_P)[ends - sizes_R]
    return numbers_P - np.repeat(before_R, sizes_R) - 1, counts_P
