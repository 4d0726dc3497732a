"""Models of single pre-tokens, compiled: what all of them share, and the trie over the bytes of a vocabulary.

A model that is compiled for raw text has a byte-level vocabulary turned back into bytes, so that no text is ever turned into
letters. A trie over bytes in two flat arrays says which tokens a text begins with. Its edges are an open-addressing table from
(node, byte) to the child, one int64 each, so a step is most often one load. A vocabulary of 256,000 tokens takes about a tenth
of a second to build.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from wordpipe.compiled import kernel, read_only
from wordpipe.tokens.vocabulary import I32, I64, U8, U32, Flags, byte_letters, offsets_of, token_bytes

_CHILD_BITS = 27
_CHILD = (1 << _CHILD_BITS) - 1
MIX = -7046029254386353131  # 2^64 / golden ratio, as a signed number
MAX_BYTES = 1 << _CHILD_BITS  # tokens of less than this many bytes together fit a trie


class Trie(NamedTuple):
    """Nodes are numbers from 0, the root.

    Attributes:
        edges: int64 [power of two], (node << 8 | byte) << 27 | child; 0 is an empty slot, because no edge leads to the root.
        ids: int32 [nodes], the id of the token that ends at a node, or -1.
    """

    edges: I64
    ids: I32


def trie_of(vocabulary: Mapping[str, int], byte_level: bool, *, empty: bool = True) -> Trie:
    """A trie of the bytes of tokens, of less than MAX_BYTES together; the empty token is left out where it is not wanted."""
    texts = ((token_bytes(token, byte_level=byte_level), number) for token, number in vocabulary.items())
    tokens = [(text, number) for text, number in texts if text or (empty and text is not None)]
    data = np.frombuffer(b"".join(text for text, _ in tokens), np.uint8)
    ids = np.array([number for _, number in tokens], np.int32)
    return Trie(*_build(data, offsets_of([len(text) for text, _ in tokens]), ids))


@kernel
def step(edges: I64, node: int, byte: int) -> int:
    """The child of a node, or 0 if it has none for this byte."""
    child: int = edges[_slot(edges, (node << 8) | byte)] & _CHILD
    return child


@kernel
def find(trie: Trie, data: U8, start: int, end: int) -> int:
    """The id of the token that is the whole span, or -1."""
    node = 0
    for at in range(start, end):
        node = step(trie.edges, node, int(data[at]))
        if node == 0:
            return -1
    return int(trie.ids[node])


@kernel
def _slot(edges: I64, key: int) -> int:
    """Where the edge is, or the empty slot in which it belongs."""
    mask = len(edges) - 1
    slot = ((key * MIX) >> 29) & mask
    while edges[slot] != 0 and edges[slot] >> _CHILD_BITS != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def _grown(edges: I64) -> I64:
    larger = np.zeros(2 * len(edges), np.int64)
    for edge in edges:
        if edge != 0:
            larger[_slot(larger, edge >> _CHILD_BITS)] = edge
    return larger


@kernel
def _build(data: U8, offsets: I64, ids: I32) -> tuple[I64, I32]:
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


class ByteReading(NamedTuple):
    """How the bytes of a pre-token are read.

    Attributes:
        byte_level: each byte is a letter of its own; otherwise the pre-token is UTF-8 and a letter is a code point.
        letters: int32 [256], the code point of each byte's letter; used when `byte_level`.
        fallback: int32 [256], the id of the token `<0xNN>` of each byte or -1; all are -1 without byte fallback.
    """

    byte_level: bool
    letters: I32
    fallback: I32


class PretokenModel:
    """Encodes pre-tokens, each by itself, to the ids that Hugging Face tokenizers gives them. Threads may share it.

    Args:
        kernel: called with data, starts, ends, the parts, and the arrays to fill: ids, offsets and unsure of `encode`.
        parts: the model, as the kernel takes it.
        ids_per_byte: a pre-token of n bytes has at most max(1, n * ids_per_byte) ids.
    """

    def __init__(self, kernel: Callable[..., None], *parts: object, ids_per_byte: int = 1) -> None:
        self._kernel, self._parts, self.ids_per_byte = kernel, parts, ids_per_byte

    def encode(self, data: U8, starts: I64, ends: I64) -> tuple[U32, I64, Flags]:
        """Encode pre-tokens of a text.

        Args:
            data: uint8, contiguous, holds the pre-tokens' UTF-8: the text itself, also where the vocabulary is byte-level.
            starts: int64 [pretokens], where each pre-token begins in `data`.
            ends: int64 [pretokens], where it ends.

        Returns:
            ids: uint32, of all pre-tokens in order.
            offsets: int64 [pretokens + 1], pre-token p has `ids[offsets[p]:offsets[p + 1]]`.
            unsure: bool [pretokens], where there is no answer (and no ids): tokenizers raises an error for such a pre-token.
        """
        count = len(starts)
        ids = np.empty((int(np.sum(ends - starts)) + count) * self.ids_per_byte, np.uint32)
        offsets, unsure = np.zeros(count + 1, np.int64), np.zeros(count, np.bool_)
        self._kernel(read_only(data), read_only(starts), read_only(ends), *self._parts, ids, offsets, unsure)
        return ids[: offsets[count]].copy(), offsets, unsure


def byte_reading(vocabulary: Mapping[str, int], byte_level: bool, *, falls_back: bool) -> ByteReading:
    """How the bytes of pre-tokens are read for a vocabulary, with or without byte fallback."""
    letters = np.array([ord(letter) for letter in byte_letters()], np.int32)
    names = (f"<0x{byte:02X}>" for byte in range(256))
    fallback = np.fromiter((vocabulary.get(name, -1) if falls_back else -1 for name in names), np.int32, 256)
    return ByteReading(byte_level, letters, fallback)


@kernel
def fall_back(data: U8, start: int, end: int, source: ByteReading, ids: U32 | I32, written: int) -> int:
    """Add the byte tokens of unknown text; returns how many there are: 0 if one is missing."""
    count = 0
    for at in range(start, end):
        code = int(data[at])
        if source.byte_level:
            code = int(source.letters[code])
            if code >= 0x80:
                lead = source.fallback[0xC0 | (code >> 6)]
                if lead < 0:
                    return 0
                ids[written + count] = lead
                count += 1
                code = 0x80 | (code & 0x3F)
        token = source.fallback[code]
        if token < 0:
            return 0
        ids[written + count] = token
        count += 1
    return count
