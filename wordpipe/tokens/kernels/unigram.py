"""Unigram language models of single pre-tokens, compiled.

In a unigram language model (Kudo 2018, Subword Regularization, section 3.2) tokens are independent, so the likeliest
segmentation is found by Viterbi's algorithm. The order in which candidates are met and compared is that of tokenizers, so
that ties end alike.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from wordpipe.compiled import kernel
from wordpipe.tokens.kernels.pretoken_model import (
    ByteReading,
    PretokenModel,
    Trie,
    byte_reading,
    fall_back,
    find,
    step,
    trie_of,
)
from wordpipe.tokens.vocabulary import F64, I32, I64, U8, U32, Flags

_UNKNOWN_PENALTY = 10.0  # how much worse than the worst token a character that no token covers is


def unigram_model(model: Mapping[str, Any], byte_level: bool) -> PretokenModel:
    """Viterbi decoding, from its part of a `tokenizer.json`; of equal tokens the last one counts.

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
    """In bytes; by `character`, which reads the letter too, Chinese took 10 % longer."""
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
            target, length = last + 1 - start, last + 1 - at
            score = scores[token] + so_far
            if lengths[target] == 0 or score > best[target]:
                best[target], lengths[target], tokens[target] = score, length, token
            covered = covered or length == letter
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
        start, end = starts[pretoken], ends[pretoken]
        size = end - start
        if not _best_cut(
            data, start, end, trie, scores, unknown, unknown_score, source.byte_level, best, lengths, tokens
        ):
            unsure[pretoken] = True
            offsets[pretoken + 1] = written
            continue
        # The cut is known from its end. Turn it round in place: a position is to hold what begins there.
        at, length, token = size, 0, np.int32(0)
        while at > 0:
            length, lengths[at] = int(lengths[at]), length
            token, tokens[at] = tokens[at], token
            at -= length
        lengths[0], tokens[0] = length, token
        at = 0
        while at < size:
            token, after = tokens[at], at + lengths[at]
            if token == unknown:
                while after < size and tokens[after] == unknown:
                    after += lengths[after]
                # Unknown text side by side is one piece, and looked up once more as a whole.
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
