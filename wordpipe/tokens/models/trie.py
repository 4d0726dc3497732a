"""A trie over bytes in two flat arrays: which tokens does a text begin with?

The edges are an open-addressing table from (node, byte) to the child, one int64 each, so a step is most often one load.
A vocabulary of 256,000 tokens takes about a tenth of a second to build.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wordpipe.compiled import kernel
from wordpipe.tokens.ragged import offsets_of

__all__ = ["MAX_BYTES", "Trie", "build_trie", "find", "step"]

_CHILD_BITS = 27
_CHILD = (1 << _CHILD_BITS) - 1
_MIX = -7046029254386353131  # 2^64 / golden ratio, as a signed number
MAX_BYTES = 1 << _CHILD_BITS
"""Tokens of less than this many bytes together fit a trie."""


class Trie(NamedTuple):
    """Nodes are numbers from 0, the root.

    Attributes:
        edges: int64 [power of two], (node << 8 | byte) << 27 | child; 0 is an empty slot, because no edge leads to the root.
        ids: int32 [nodes], the id of the token that ends at a node, or -1.
    """

    edges: NDArray[np.int64]
    ids: NDArray[np.int32]


def build_trie(tokens: Iterable[tuple[bytes, int]]) -> Trie:
    """A trie of tokens and their ids (int32); of equal tokens the last one counts.

    The tokens have less than MAX_BYTES bytes together.
    """
    texts, ids = [], []
    for text, number in tokens:
        texts.append(text)
        ids.append(number)
    offsets = offsets_of([len(text) for text in texts])
    data = np.frombuffer(b"".join(texts), np.uint8)
    return Trie(*_build(data, offsets, np.array(ids, np.int32)))


@kernel
def step(edges: NDArray[np.int64], node: int, byte: int) -> int:
    """The child of a node, or 0 if it has none for this byte."""
    child: int = edges[_slot(edges, (node << 8) | byte)] & _CHILD
    return child


@kernel
def find(trie: Trie, data: NDArray[np.uint8], start: int, end: int) -> int:
    """The id of the token that is the whole span, or -1."""
    node = 0
    for at in range(start, end):
        node = step(trie.edges, node, int(data[at]))
        if node == 0:
            return -1
    return int(trie.ids[node])


@kernel
def _slot(edges: NDArray[np.int64], key: int) -> int:
    """Where the edge is, or the empty slot in which it belongs."""
    mask = len(edges) - 1
    slot = ((key * _MIX) >> 29) & mask
    while edges[slot] != 0 and edges[slot] >> _CHILD_BITS != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def _grown(edges: NDArray[np.int64]) -> NDArray[np.int64]:
    larger = np.zeros(2 * len(edges), np.int64)
    for edge in edges:
        if edge != 0:
            larger[_slot(larger, edge >> _CHILD_BITS)] = edge
    return larger


@kernel
def _build(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], ids: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    edges = np.zeros(1 << 10, np.int64)
    token_ids = np.full(len(data) + 1, -1, np.int32)
    nodes = 1
    for token in range(len(ids)):
        node = 0
        for at in range(offsets[token], offsets[token + 1]):
            key = (node << 8) | int(data[at])
            slot = _slot(edges, key)
            if edges[slot] == 0:
                if 3 * nodes > len(edges):
                    edges = _grown(edges)
                    slot = _slot(edges, key)
                edges[slot] = (key << _CHILD_BITS) | nodes
                nodes += 1
            node = edges[slot] & _CHILD
        token_ids[node] = ids[token]
    return edges, token_ids[:nodes].copy()
