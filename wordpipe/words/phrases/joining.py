"""Pairs of neighbours put in the place of two words: greedy from left to right, as word2phrase does."""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from wordpipe.compiled import kernel, read_only
from wordpipe.words.phrases.pairs import key_of_pair
from wordpipe.words.text import Words

__all__ = ["PairJoiner"]

_BEGINS, _ENDS = np.uint8(1), np.uint8(2)


class PairJoiner:
    """Joins known pairs.

    Args:
        left: the first id of each pair, int64.
        right: its second id, int64.
        joined: what stands in its place, int64.
        size: every id of the text is below it.
    """

    def __init__(self, left: NDArray[np.int64], right: NDArray[np.int64], joined: NDArray[np.int64], size: int) -> None:
        self._roles = np.zeros(size, np.uint8)
        self._roles[left] |= _BEGINS
        self._roles[right] |= _ENDS
        bits = max(2 * len(left), 1).bit_length()  # at most half full
        self._keys, self._values = np.zeros(1 << bits, np.uint64), np.full(1 << bits, -1, np.int32)
        _fill(left, right, joined, self._keys, self._values, bits)
        self._bits = bits

    def join(self, blocks: Iterable[Words]) -> Iterator[Words]:
        """The text with the pairs joined: a block for every block, and one more where the last word was still waiting.

        A pair is joined across the border of two blocks, but not across that of two texts.
        """
        waiting = -1  # the last word of the block before, where it could begin a pair
        for block in blocks:
            ids, starts = np.empty(len(block.ids) + 1, np.int32), np.empty_like(block.starts)
            size, waiting = _join(
                read_only(block.ids), read_only(block.starts), waiting,
                self._roles, self._keys, self._values, self._bits, ids, starts,
            )  # fmt: skip
            yield Words(ids[:size], starts)
        if waiting >= 0:
            yield Words(np.array([waiting], np.int32), np.zeros(0, np.int64))


@kernel
def _fill(
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    joined: NDArray[np.int64],
    keys: NDArray[np.uint64],
    values: NDArray[np.int32],
    bits: int,
) -> None:
    for pair in range(len(left)):
        key = key_of_pair(left[pair], right[pair])
        slot = np.int64(key >> np.uint64(64 - bits))
        while values[slot] >= 0:
            slot = (slot + 1) & (len(keys) - 1)
        keys[slot], values[slot] = key, joined[pair]


@kernel
def _join(
    ids: NDArray[np.int32],
    starts: NDArray[np.int64],
    waiting: int,
    roles: NDArray[np.uint8],
    keys: NDArray[np.uint64],
    values: NDArray[np.int32],
    bits: int,
    out: NDArray[np.int32],
    out_starts: NDArray[np.int64],
) -> tuple[int, int]:
    """Write the joined text; gives its length, and the word that waits for the next block or -1."""
    size = text = 0
    for at in range(len(ids) + 1):
        while text < len(starts) and starts[text] == at:
            if waiting >= 0:
                out[size] = waiting
                size += 1
                waiting = -1
            out_starts[text] = size
            text += 1
        if at == len(ids):
            break
        word = int(ids[at])
        role = roles[word]
        if waiting >= 0:
            value = -1
            if role & _ENDS:
                key = key_of_pair(waiting, word)
                slot = np.int64(key >> np.uint64(64 - bits))
                while values[slot] >= 0 and keys[slot] != key:
                    slot = (slot + 1) & (len(keys) - 1)
                value = int(values[slot])
            if value >= 0:
                out[size] = value
                size += 1
                waiting = -1
                continue
            out[size] = waiting
            size += 1
            waiting = -1
        if role & _BEGINS:
            waiting = word
        else:
            out[size] = word
            size += 1
    return size, waiting
