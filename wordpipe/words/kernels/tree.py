"""The tree of hierarchical softmax: a word is found in it by as many turns as it is rare.

Each inner node has a vector, and a word's likelihood is the product of those of its turns: logarithmically many instead of one
score for every word.

Source: Morin and Bengio 2005, "Hierarchical Probabilistic Neural Network Language Model"; with Huffman's tree, which makes the
mean path as short as can be: Mikolov et al. 2013, "Distributed Representations of Words and Phrases and their
Compositionality".
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wordpipe.compiled import kernel, read_only


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
        """Huffman's tree of words with these counts, descending. A single word has an empty path.

        Of equally light subtrees words are joined before inner nodes and later rows before earlier ones, so equal counts
        always give the same tree, and no path is longer than it must be. Eight bytes for every turn of every word: about
        200 bytes per word with a vocabulary of millions.
        """
        assert len(counts_V), "a tree of no word"
        assert (np.diff(counts_V) <= 0).all(), "counts are not descending"
        parents, signs = _join(read_only(np.ascontiguousarray(counts_V, dtype=np.int64)))
        path_starts = _measure(parents, len(counts_V))
        path_nodes = np.empty(path_starts[-1], dtype=np.int32)
        path_signs = np.empty(path_starts[-1], dtype=np.float32)
        _write_paths(parents, signs, path_starts, path_nodes, path_signs)
        return cls(path_starts, path_nodes, path_signs)


@kernel
def _join(counts: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int8]]:
    """Join the two lightest subtrees until one is left.

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
    """Where the path of each of `n` words begins, and the end of the last, when they lie one after the other."""
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
    """Follow every word up to the root, filling its path from the end. The last node joined, the root, is row 0."""
    for word in range(len(starts) - 1):
        at = word
        for turn in range(starts[word + 1] - 1, starts[word] - 1, -1):
            path_signs[turn] = signs[at]
            at = parents[at]
            path_nodes[turn] = len(parents) - 1 - at
