"""Models of single pre-tokens, compiled: the trie over the bytes of a vocabulary; WordPiece, word-level and unigram models.

A model that is compiled for raw text has a byte-level vocabulary turned back into bytes, so that no text is ever turned into
letters. A trie over bytes in two flat arrays says which tokens a text begins with. Its edges are an open-addressing table from
(node, byte) to the child, one int64 each, so a step is most often one load. A vocabulary of 256,000 tokens takes about a tenth
of a second to build.

WordPiece (Schuster and Nakajima 2012; Devlin et al. 2019) takes the longest token that a word begins with, then the longest
marked one (`##`) that the rest begins with, and so on; a word that cannot be cut like this, or has too many characters, is
the unknown token. A word-level model knows whole words alone.

In a unigram language model (Kudo 2018, Subword Regularization, section 3.2) tokens are independent, so the likeliest
segmentation is found by Viterbi's algorithm. The order in which candidates are met and compared is that of tokenizers, so
that ties end alike. Byte-pair encoding has a file of its own (`bpe_encode`).
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from wordpipe.compiled import kernel, read_only
from wordpipe.tokens.vocabulary import F64, I32, I64, U8, U32, Flags, byte_letters, offsets_of, token_bytes

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
    """Return a trie of the bytes of tokens, of less than MAX_BYTES together; without the empty token unless `empty`."""
    texts = ((token_bytes(token, byte_level=byte_level), number) for token, number in vocabulary.items())
    tokens = [(text, number) for text, number in texts if text or (empty and text is not None)]
    data = np.frombuffer(b"".join(text for text, _ in tokens), np.uint8)
    ids = np.array([number for _, number in tokens], np.int32)
    return Trie(*_build(data, offsets_of([len(text) for text, _ in tokens]), ids))


@kernel
def step(edges: I64, node: int, byte: int) -> int:
    """Return the child of a node, or 0 if it has none for this byte."""
    child: int = edges[_slot(edges, (node << 8) | byte)] & _CHILD
    return child


@kernel
def find(trie: Trie, data: U8, start: int, end: int) -> int:
    """Return the id of the token in the trie that is the whole span, or -1."""
    node = 0
    for at in range(start, end):
        node = step(trie.edges, node, int(data[at]))
        if node == 0:
            return -1
    return int(trie.ids[node])


@kernel
def _slot(edges: I64, key: int) -> int:
    """Return the slot of an edge of the trie, or the empty slot in which it belongs."""
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
    """Build the trie of a model of pre-tokens."""
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
    """The way in which the bytes of a pre-token are read.

    Attributes:
        byte_level: each byte is a letter of its own; otherwise the pre-token is UTF-8 and a letter is a code point.
        letters: int32 [256], the code point of each byte's letter; used when `byte_level`.
        fallback: int32 [256], the id of the token `<0xNN>` of each byte or -1; all are -1 without byte fallback.
    """

    byte_level: bool
    letters: I32
    fallback: I32


class PretokenModel:
    """Encodes pre-tokens, each by itself, to the ids of Hugging Face tokenizers. Threads may share one.

    Args:
        kernel: called with data, starts, ends, the parts, and the arrays to fill: ids, offsets and unsure of `encode`.
        parts: the model, as the kernel takes it.
        ids_per_byte: a pre-token of n bytes has at most max(1, n * ids_per_byte) ids.
    """

    def __init__(self, kernel: Callable[..., None], *parts: object, ids_per_byte: int = 1) -> None:
        self._kernel, self._parts, self.ids_per_byte = kernel, parts, ids_per_byte

    def encode(self, data: U8, starts: I64, ends: I64) -> tuple[U32, I64, Flags]:
        """Encode pre-tokens of a text by a model of single pre-tokens.

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
    """Return how the bytes of pre-tokens are read for a vocabulary, with or without byte fallback."""
    letters = np.array([ord(letter) for letter in byte_letters()], np.int32)
    names = (f"<0x{byte:02X}>" for byte in range(256))
    fallback = np.fromiter((vocabulary.get(name, -1) if falls_back else -1 for name in names), np.int32, 256)
    return ByteReading(byte_level, letters, fallback)


@kernel
def fall_back(data: U8, start: int, end: int, source: ByteReading, ids: U32 | I32, written: int) -> int:
    """Add the byte tokens of unknown text in a pre-token; return how many: 0 if one is missing."""
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


def wordpiece_model(model: Mapping[str, Any], byte_level: bool) -> PretokenModel:
    """Return a model of greedy longest match; without an unknown token, words that need it are unsure."""
    vocabulary, prefix = model["vocab"], model["continuing_subword_prefix"]
    continuing = {token[len(prefix) :]: number for token, number in vocabulary.items() if token.startswith(prefix)}
    unknown, longest = vocabulary.get(model["unk_token"], -1), min(model["max_input_chars_per_word"], 1 << 62)
    tries = trie_of(vocabulary, byte_level), trie_of(continuing, byte_level)
    return PretokenModel(_encode_wordpiece, *tries, unknown, longest, byte_level)


def word_level_model(model: Mapping[str, Any], byte_level: bool) -> PretokenModel:
    """Return a model of whole words; without an unknown token, unknown words are unsure."""
    vocabulary = model["vocab"]
    return PretokenModel(_encode_words, trie_of(vocabulary, byte_level), vocabulary.get(model["unk_token"], -1))


@kernel
def _longest(trie: Trie, data: U8, start: int, end: int) -> tuple[int, int]:
    """Return the id of the longest token that the span begins with, and its end, in WordPiece's model.

    (-1, start) if there is none.
    """
    best, best_end = -1, start
    node = 0
    for at in range(start, end):
        node = step(trie.edges, node, int(data[at]))
        if node == 0:
            break
        if trie.ids[node] >= 0:
            best, best_end = int(trie.ids[node]), at + 1
    return best, best_end


@kernel
def _too_long(data: U8, start: int, end: int, max_characters: int, byte_level: bool) -> bool:
    if end - start <= max_characters:
        return False
    if byte_level:
        return True
    characters = 0
    for at in range(start, end):
        characters += (data[at] & 0xC0) != 0x80
    return characters > max_characters


@kernel
def _encode_wordpiece(
    data: U8, starts: I64, ends: I64, first: Trie, following: Trie, unknown: int, max_characters: int, byte_level: bool,
    ids: U32, offsets: I64, unsure: Flags,
) -> None:  # fmt: skip
    written = 0
    for pretoken in range(len(starts)):
        start, end = starts[pretoken], ends[pretoken]
        at, count = start, written
        bad = _too_long(data, start, end, max_characters, byte_level)
        while at < end and not bad:
            token, at = _longest(first if at == start else following, data, at, end)
            if token < 0:
                bad = True
            else:
                ids[count] = token
                count += 1
        if bad:
            count = written
            unsure[pretoken] = unknown < 0
            if unknown >= 0:
                ids[count] = unknown
                count += 1
        written = count
        offsets[pretoken + 1] = written


@kernel
def _encode_words(
    data: U8, starts: I64, ends: I64, words: Trie, unknown: int, ids: U32, offsets: I64, unsure: Flags
) -> None:
    written = 0
    for pretoken in range(len(starts)):
        token = find(words, data, starts[pretoken], ends[pretoken])
        token = unknown if token < 0 else token
        if token < 0:
            unsure[pretoken] = True
        else:
            ids[written] = token
            written += 1
        offsets[pretoken + 1] = written


_UNKNOWN_PENALTY = 10.0  # how much worse than the worst token a character that no token covers is


def unigram_model(model: Mapping[str, Any], byte_level: bool) -> PretokenModel:
    """Return a model of Viterbi decoding; of equal tokens the last one counts.

    Without an unknown token (-1) a pre-token that needs it is left unsure. `byte_fallback`: unknown text becomes the tokens
    `<0xNN>` of its UTF-8, if they are all there.
    """
    unknown, falls_back = -1 if model["unk_id"] is None else model["unk_id"], model["byte_fallback"]
    vocabulary = {token: number for number, (token, _) in enumerate(model["vocab"])}
    source = byte_reading(vocabulary, byte_level, falls_back=falls_back)
    scores = np.array([score for _, score in model["vocab"]], np.float64)
    unknown_score = float(scores.min(initial=np.inf)) - _UNKNOWN_PENALTY
    trie = trie_of(vocabulary, byte_level, empty=False)
    twice = byte_level and falls_back  # a byte's letter has up to two bytes of its own
    return PretokenModel(_encode_unigram, trie, scores, unknown, unknown_score, source, ids_per_byte=2 if twice else 1)


@kernel
def _letter_length(data: U8, at: int, end: int) -> int:
    """Return the bytes of a letter; by `character`, which reads the letter too, Chinese took 10 % longer."""
    first = data[at]
    length = 1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    return min(length, end - at)


@kernel
def _best_cut(
    data: U8, start: int, end: int, trie: Trie, scores: F64, unknown: int, unknown_score: float, byte_level: bool,
    best: F64, lengths: I32, tokens: I32,
) -> bool:  # fmt: skip
    """Fill, for each position of a pre-token, the best score up to it and the token that ends there. False: no answer."""
    lengths[: end - start + 1] = 0
    best[0] = 0.0
    at = start
    while at < end:
        # all tokens that begin here, each a better way to its end or not
        letter = 1 if byte_level else _letter_length(data, at, end)
        so_far = best[at - start]
        covered = False
        node = 0
        for last in range(at, end):
            node = step(trie.edges, node, int(data[last]))
            if node == 0:
                break
            token = trie.ids[node]
            if token < 0:
                continue
            # of equal scores the first way stays
            target, length = last + 1 - start, last + 1 - at
            score = scores[token] + so_far
            if lengths[target] == 0 or score > best[target]:
                best[target], lengths[target], tokens[target] = score, length, token
            covered = covered or length == letter
        # a letter that no token covers is unknown
        if not covered:
            target = at - start + letter
            score = unknown_score + so_far
            if lengths[target] == 0 or score > best[target]:
                if unknown < 0:
                    return False
                best[target], lengths[target], tokens[target] = score, letter, unknown
        at += letter
    return True


@kernel
def _encode_unigram(
    data: U8, starts: I64, ends: I64, trie: Trie, scores: F64, unknown: int, unknown_score: float, source: ByteReading,
    ids: U32, offsets: I64, unsure: Flags,
) -> None:  # fmt: skip
    longest = 0
    for pretoken in range(len(starts)):
        longest = max(longest, ends[pretoken] - starts[pretoken])
    best = np.empty(longest + 1, np.float64)
    lengths = np.empty(longest + 1, np.int32)
    tokens = np.empty(longest + 1, np.int32)
    written = 0
    for pretoken in range(len(starts)):
        # the best cut; without an answer the pre-token is unsure
        start, end = starts[pretoken], ends[pretoken]
        size = end - start
        if not _best_cut(
            data, start, end, trie, scores, unknown, unknown_score, source.byte_level, best, lengths, tokens
        ):
            unsure[pretoken] = True
            offsets[pretoken + 1] = written
            continue
        # the cut is known from its end; it is turned round in place, so that a position holds what begins there
        at, length, token = size, 0, np.int32(0)
        while at > 0:
            length, lengths[at] = int(lengths[at]), length
            token, tokens[at] = tokens[at], token
            at -= length
        lengths[0], tokens[0] = length, token
        # the tokens from the beginning; unknown text side by side is one piece, and looked up once more as a whole
        at = 0
        while at < size:
            token, after = tokens[at], at + lengths[at]
            if token == unknown:
                while after < size and tokens[after] == unknown:
                    after += lengths[after]
                # a token, its bytes, or the unknown token
                token = np.int32(find(trie, data, start + at, start + after))
                if token < 0:
                    count = fall_back(data, start + at, start + after, source, ids, written)
                    written += count
                    at = after
                    if count > 0:
                        continue
                    token = np.int32(unknown)
            ids[written] = token
            written += 1
            at = after
        offsets[pretoken + 1] = written
