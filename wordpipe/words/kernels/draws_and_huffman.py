"""Random draws that depend on nothing but a key and a counter; and the tree of hierarchical softmax, which needs none.

Whether a word is skipped, how far its window reaches and which noise words it meets are functions of (seed, epoch, position in
the text). So the order in which chunks are trained, and where a run was stopped, change no draw.

In the tree a word is found by as many turns as it is rare. Each inner node has a vector, and a word's likelihood is the
product of those of its turns: logarithmically many instead of one score for every word.

Source: Morin and Bengio 2005, "Hierarchical Probabilistic Neural Network Language Model"; with Huffman's tree, which makes the
mean path as short as can be: Mikolov et al. 2013, "Distributed Representations of Words and Phrases and their
Compositionality".
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wordpipe.compiled import inlined, kernel, read_only, scrambled

_STEP = np.uint64(0x9E3779B97F4A7C15)
_LOW = np.uint64(0xFFFFFFFF)


@inlined
def mixed(key: np.uint64, counter: int) -> np.uint64:
    """Return 64 random bits to draw by: the `counter`-th number of the stream `key`.

    Source: Steele, Lea, Flood 2014, "Fast Splittable Pseudorandom Number Generators", SplitMix64.
    """
    return scrambled(key + np.uint64(counter) * _STEP)


@kernel
def _mixed(key: np.uint64, counter: int) -> np.uint64:
    return mixed(key, counter)


def key_of(seed: int, epoch: int, purpose: int) -> np.uint64:
    """Return the key of one epoch's draws for one purpose."""
    key = np.uint64(seed)
    for number in (epoch, purpose):
        key = np.uint64(_mixed(key, number + 1))
    return key


@dataclass(frozen=True, slots=True)
class Noise:
    """A distribution over rows, drawn from in two look-ups.

    Attributes:
        limits: (V,) uint32: a draw that falls into cell i stands for row i below this limit, else for `others[i]`.
        others: (V,) int32.

    Source: Walker 1977, "An Efficient Method for Generating Discrete Random Variables with General Distributions"; Vose 1991.
    """

    limits: npt.NDArray[np.uint32]
    others: npt.NDArray[np.int32]

    @classmethod
    def of(cls, weights: npt.NDArray[np.float64]) -> "Noise":
        """Make the table of random draws of rows with probabilities in proportion to `weights` (V,)."""
        share = weights * (len(weights) / weights.sum())
        limits = np.empty(len(weights), dtype=np.uint32)
        others = np.empty(len(weights), dtype=np.int32)
        _fill_cells(share, limits, others)
        return cls(limits, others)


@kernel
def _fill_cells(share: npt.NDArray[np.float64], limits: npt.NDArray[np.uint32], others: npt.NDArray[np.int32]) -> None:
    """Fill, for random draws, the rest of every cell that is not full from one that has too much."""
    lacking, abundant = np.empty(len(share), dtype=np.int32), np.empty(len(share), dtype=np.int32)
    n_lacking = n_abundant = 0
    for row in range(len(share)):
        limits[row], others[row] = np.uint32(0xFFFFFFFF), row
        if share[row] < 1:
            lacking[n_lacking] = row
            n_lacking += 1
        else:
            abundant[n_abundant] = row
            n_abundant += 1
    while n_lacking and n_abundant:
        n_lacking -= 1
        row, giver = lacking[n_lacking], abundant[n_abundant - 1]
        limits[row], others[row] = np.uint32(share[row] * 2.0**32), giver
        share[giver] -= 1 - share[row]
        if share[giver] < 1:
            n_abundant -= 1
            lacking[n_lacking] = giver
            n_lacking += 1


@inlined
def draw_noise(bits: np.uint64, limits: npt.NDArray[np.uint32], others: npt.NDArray[np.int32]) -> np.int64:
    """Return the row that 64 random bits stand for."""
    cell = np.int64(((bits >> np.uint64(32)) * np.uint64(len(limits))) >> np.uint64(32))
    return cell if np.uint32(bits & _LOW) < limits[cell] else np.int64(others[cell])


def keep_limits(keep_V: npt.NDArray[np.float64]) -> npt.NDArray[np.uint32]:
    """Return probabilities as the largest 32-bit draw that keeps a word, (V,) uint32."""
    limits: npt.NDArray[np.uint32] = (np.clip(keep_V, 0, 1) * (2.0**32 - 1)).astype(np.uint32)
    return limits


@kernel
def subsample(
    text: npt.NDArray[np.int32], position: int, keep: npt.NDArray[np.uint32], key: np.uint64,
    rows: npt.NDArray[np.int32], places: npt.NDArray[np.int64], firsts: npt.NDArray[np.bool_],
) -> int:  # fmt: skip
    """Draw the words of a chunk that subsampling leaves, to be trained in this epoch.

    Args:
        text: rows, the first word of a text as `~row`.
        position: where in the whole text the chunk begins.
        keep: for every row the largest draw that keeps it.
        key: of this epoch's skipping.
        rows: room for as many as there are words; filled with the rows of the words left.
        places: the same; filled with their positions in the whole text.
        firsts: the same; whether no word left of the same text comes before in the chunk.

    Returns:
        how many are left.
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


@dataclass(frozen=True, slots=True)
class Tree:
    """The paths from the root to V words.

    Attributes:
        path_starts: (V + 1,) int64: word r takes turns `path_starts[r]` to `path_starts[r + 1]`, the root's first.
        path_nodes: the inner node of each turn, int32 from 0, the root, to V - 2; roughly the heavier the lower.
        path_signs: float32, 1 where the turn is to the rarer side, -1 to the commoner one.
    """

    path_starts: npt.NDArray[np.int64]
    path_nodes: npt.NDArray[np.int32]
    path_signs: npt.NDArray[np.float32]

    @classmethod
    def of(cls, counts_V: npt.NDArray[np.int64]) -> "Tree":
        """Make Huffman's tree of words with these counts, descending. A single word has an empty path.

        Of equally light subtrees words are joined before inner nodes and later rows before earlier ones, so equal counts
        always give the same tree, and no path is longer than it must be. Eight bytes for every turn of every word: about
        200 bytes per word with a vocabulary of millions.
        """
        assert len(counts_V), "the tree needs at least one word"
        assert (np.diff(counts_V) <= 0).all(), "counts are not descending"
        parents, signs = _join(read_only(np.ascontiguousarray(counts_V, dtype=np.int64)))
        path_starts = _measure(parents, len(counts_V))
        path_nodes = np.empty(path_starts[-1], dtype=np.int32)
        path_signs = np.empty(path_starts[-1], dtype=np.float32)
        _write_paths(parents, signs, path_starts, path_nodes, path_signs)
        return cls(path_starts, path_nodes, path_signs)


@kernel
def _join(counts: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int8]]:
    """Join the two lightest subtrees of Huffman's tree until one is left.

    Words are sorted, and joined subtrees come out in the order of their weights, so the lightest is at the head of one of
    two queues: linear time.

    Returns:
        for words 0 to V - 1 and then inner nodes in the order they were joined, the place of the parent in this list
        (itself for the root), and the sign of the turn that leads there.

    Source: van Leeuwen 1976, "On the construction of Huffman trees".
    """
    n = len(counts)
    parents = np.empty(2 * n - 1, dtype=np.int32)
    signs = np.zeros(2 * n - 1, dtype=np.int8)
    weights = np.empty(max(n - 1, 1), dtype=np.int64)
    parents[2 * n - 2] = 2 * n - 2
    leaf, inner = n - 1, 0  # heads of the queues
    for node in range(n - 1):
        weight = np.int64(0)
        for sign in (1, -1):
            if leaf >= 0 and (inner == node or counts[leaf] <= weights[inner]):
                child = leaf
                weight += counts[leaf]
                leaf -= 1
            else:
                child = n + inner
                weight += weights[inner]
                inner += 1
            parents[child], signs[child] = n + node, sign
        weights[node] = weight
    return parents, signs


@kernel
def _measure(parents: npt.NDArray[np.int32], n: int) -> npt.NDArray[np.int64]:
    """Return where the Huffman path of each of `n` words begins, and the end of the last."""
    depths = np.zeros(len(parents), dtype=np.int32)
    for at in range(len(parents) - 2, -1, -1):
        depths[at] = depths[parents[at]] + 1
    starts = np.zeros(n + 1, dtype=np.int64)
    for word in range(n):
        starts[word + 1] = starts[word] + depths[word]
    return starts


@kernel
def _write_paths(
    parents: npt.NDArray[np.int32], signs: npt.NDArray[np.int8], starts: npt.NDArray[np.int64],
    path_nodes: npt.NDArray[np.int32], path_signs: npt.NDArray[np.float32],
) -> None:  # fmt: skip
    """Follow every word up to the root of Huffman's tree, filling its path from the end."""
    for word in range(len(starts) - 1):
        at = word
        for turn in range(starts[word + 1] - 1, starts[word] - 1, -1):
            path_signs[turn] = signs[at]
            at = parents[at]
            path_nodes[turn] = len(parents) - 1 - at
