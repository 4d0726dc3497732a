"""Which character n-grams words have, by their hashes, and which of them are worth a row.

The words of a dictionary of millions have tens of millions of different n-grams, most in one word alone. They are counted a
share of all hashes at a time, so that memory stays within a few hundred megabytes: each share goes over all words again,
which costs little, as hashing is fast and looking up is what takes the time.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wordpipe.compiled import inlined, kernel
from wordpipe.words.hashes import HASH_OF_NOTHING, code_points, hashed

__all__ = ["BEGIN", "END", "Block", "Commonest", "blocks", "commonest", "is_part", "occurrences_at_most"]

BEGIN, END = ord("<"), ord(">")
"""Stand before and after every word."""

_BLOCK = 1 << 20  # n-grams hashed at a time: 8 MB
_SHARE = 1 << 25  # n-grams counted at a time, of which perhaps a fifth are different


@inlined
def is_part(first: int, size: int, length: int) -> bool:
    """Whether `size` characters from the `first` on are an n-gram of a marked word: no mark alone and not the whole."""
    alone = size == 1 and (first == 0 or first == length - 1)
    return not alone and size < length


@dataclass(frozen=True, slots=True)
class Block:
    """The n-grams of consecutive words, from the first character on, the shorter first; repeated where a word repeats them.

    Attributes:
        first: row of the first word.
        starts: (N + 1,) int64: word first + i has those from `starts[i]` to `starts[i + 1]`.
        hashes: of each, uint64.
    """

    first: int
    starts: npt.NDArray[np.int64]
    hashes: npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Commonest:
    """The n-grams that are kept.

    Attributes:
        hashes: (G,) uint64, the commonest first.
        dropped: n-grams of several words that were too many.
        of_one_word: n-grams that only one word has.
    """

    hashes: npt.NDArray[np.uint64]
    dropped: int
    of_one_word: int


def occurrences_at_most(offsets: npt.NDArray[np.int32], min_n: int, max_n: int) -> npt.NDArray[np.int64]:
    """(N,) int64: n-grams of each word, if every byte were a character; a word has no more than that."""
    lengths = np.diff(offsets).astype(np.int64) + 2
    return sum(
        (np.maximum(lengths - n + 1, 0) for n in range(min_n, max_n + 1)), np.zeros(len(lengths), dtype=np.int64)
    )


def blocks(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int32], min_n: int, max_n: int) -> Iterator[Block]:
    """The n-grams of all words, about a million at a time."""
    ends = np.cumsum(occurrences_at_most(offsets, min_n, max_n))
    first = done = 0
    while first < len(ends):
        stop = max(first + 1, int(np.searchsorted(ends, done + _BLOCK, side="right")))
        hashes = np.empty(ends[stop - 1] - done, dtype=np.uint64)
        starts = np.zeros(stop - first + 1, dtype=np.int64)
        _write_hashes(data, offsets[first : stop + 1], min_n, max_n, starts, hashes)
        yield Block(first, starts, hashes[: starts[-1]])
        first, done = stop, int(ends[stop - 1])


@kernel
def _write_hashes(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int32], min_n: int, max_n: int,
    starts: npt.NDArray[np.int64], hashes: npt.NDArray[np.uint64],
) -> None:  # fmt: skip
    longest = 0
    for word in range(len(offsets) - 1):
        longest = max(longest, offsets[word + 1] - offsets[word])
    points = np.empty(longest + 2, dtype=np.int32)
    points[0] = BEGIN
    written = 0
    for word in range(len(offsets) - 1):
        length = code_points(data, offsets[word], offsets[word + 1], points, 1) + 1
        points[length - 1] = END
        for first in range(length):
            bits = HASH_OF_NOTHING
            for size in range(1, min(max_n, length - first) + 1):
                bits = hashed(bits, points[first + size - 1])
                if size >= min_n and is_part(first, size, length):
                    hashes[written] = bits
                    written += 1
        starts[word + 1] = written


def commonest(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int32],
    counts_V: npt.NDArray[np.int64],
    min_n: int,
    max_n: int,
    max_ngrams: int,
) -> Commonest:
    """The n-grams of two or more words that occur most often in the text, at most `max_ngrams`.

    Args:
        data: the words, see `hashes.text_of`.
        offsets: where each begins and the last ends.
        counts_V: how often each word occurs.
        min_n: characters of the shortest n-gram.
        max_n: of the longest.
        max_ngrams: how many are kept.
    """
    shares = 1 + int(occurrences_at_most(offsets, min_n, max_n).sum()) // _SHARE
    hashes, weights = np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
    shared = of_one_word = 0
    for share in range(shares):
        table = _counted(blocks(data, offsets, min_n, max_n), counts_V, share, shares)
        several = table[:, 2] < 0
        shared += int(several.sum())
        of_one_word += int((table[:, 2] > 0).sum())
        hashes = np.concatenate([hashes, table[several, 0].view(np.uint64)])
        weights = np.concatenate([weights, table[several, 1]])
        order = np.lexsort((hashes, -weights))[:max_ngrams]
        hashes, weights = hashes[order], weights[order]
    return Commonest(hashes, shared - len(hashes), of_one_word)


def _counted(some: Iterator[Block], counts_V: npt.NDArray[np.int64], share: int, shares: int) -> npt.NDArray[np.int64]:
    """Count the n-grams of one share of all hashes.

    Returns:
        a hash table, (slots, 3) int64: hash, occurrences in the text, and 1 + the row of the last word that has the n-gram,
        negative where it is not the only one, 0 where the slot is free.
    """
    table, used = np.zeros((1 << 12, 3), dtype=np.int64), 0
    for block in some:
        while len(table) < 2 * (used + len(block.hashes) // shares):
            table = _grown(table)
        used, done = _count(block.hashes, block.starts, block.first, counts_V, share, shares, table, used, 0)
        while done < len(block.starts) - 1:  # the share was larger than others
            table = _grown(table)
            used, done = _count(block.hashes, block.starts, block.first, counts_V, share, shares, table, used, done)
    return table


@kernel
def _count(
    hashes: npt.NDArray[np.uint64], starts: npt.NDArray[np.int64], first: int, counts: npt.NDArray[np.int64],
    share: int, shares: int, table: npt.NDArray[np.int64], used: int, done: int,
) -> tuple[int, int]:  # fmt: skip
    """Count words from the `done`-th on, until the table is nearly full; returns the slots in use and the words counted."""
    mask = np.uint64(len(table) - 1)
    for word in range(done, len(starts) - 1):
        if 10 * (used + starts[word + 1] - starts[word]) > 9 * len(table):
            return used, word
        owner = np.int64(first + word + 1)
        for at in range(starts[word], starts[word + 1]):
            bits = hashes[at]
            if np.int64(((bits >> np.uint64(32)) * np.uint64(shares)) >> np.uint64(32)) != share:
                continue
            key = np.int64(bits)
            slot = np.int64(bits & mask)
            while table[slot, 2] != 0 and table[slot, 0] != key:
                slot = np.int64(np.uint64(slot + 1) & mask)
            before = table[slot, 2]
            if before == 0:
                used += 1
                table[slot, 0], table[slot, 2] = key, owner
            elif before != owner:
                table[slot, 2] = -owner
            table[slot, 1] += counts[first + word]
    return used, len(starts) - 1


@kernel
def _grown(table: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The same in a table twice as large."""
    larger = np.zeros((2 * len(table), 3), dtype=np.int64)
    mask = np.uint64(len(larger) - 1)
    for row in range(len(table)):
        if table[row, 2] != 0:
            slot = np.int64(np.uint64(table[row, 0]) & mask)
            while larger[slot, 2] != 0:
                slot = np.int64(np.uint64(slot + 1) & mask)
            larger[slot] = table[row]
    return larger
