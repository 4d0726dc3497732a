"""A byte-pair encoding model of single pre-tokens, compiled: spelling a unit in letters' ids, then merging them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wordpipe.compiled import kernel
from wordpipe.tokens.models.bpe_merges import SHORT, MergeTable, build_merges, merge_long, merge_short
from wordpipe.tokens.models.trie import Trie, build_trie, find
from wordpipe.tokens.models.unit_model import CODE_POINTS, Bytes, UnitModel, fallback_ids, letter_codes, token_bytes
from wordpipe.tokens.models.utf8 import code_point

__all__ = ["DROPPED", "MISSING", "BpeModel"]

DROPPED = -1
"""No unknown token is named: unknown letters leave no trace."""
MISSING = -2
"""The unknown token that is named has no id: a unit with an unknown letter is an error."""


class Spelling(NamedTuple):
    """How letters become ids.

    Attributes:
        bytes: how a unit's bytes become letters.
        ids: int32 [1 or 4, code points], the id of a letter or -1. Four rows where a prefix or suffix marks the place in the
            unit: a letter that is first and not last, first and last, neither, last and not first.
        unknown: id of the unknown token, DROPPED or MISSING.
        fuse: unknown letters side by side are one unknown token.
    """

    bytes: Bytes
    ids: NDArray[np.int32]
    unknown: int
    fuse: bool


class BpeModel(UnitModel):
    """Byte-pair encoding.

    Args:
        vocabulary: token to id; no two tokens share an id.
        merges: pairs of tokens, the most important first.
        unknown: id of the unknown token, DROPPED or MISSING.
        fuse_unknown: unknown letters side by side are one unknown token.
        byte_fallback: an unknown letter becomes the tokens `<0xNN>` of its UTF-8, if they are all there.
        whole_words: a unit that is a token is that token, whatever its merges say.
        prefix: marks a token that does not begin a unit.
        suffix: marks a token that ends a unit.
        byte_level: the vocabulary is written in byte letters.

    Raises:
        KeyError: a merge is of, or makes, a token that the vocabulary does not have.
    """

    def __init__(
        self,
        vocabulary: Mapping[str, int],
        merges: Sequence[tuple[str, str]],
        *,
        unknown: int = DROPPED,
        fuse_unknown: bool = False,
        byte_fallback: bool = False,
        whole_words: bool = False,
        prefix: str = "",
        suffix: str = "",
        byte_level: bool,
    ) -> None:
        if byte_level and byte_fallback:
            self.ids_per_byte = 2  # a byte's letter has up to two bytes of its own
        source = Bytes(byte_level, letter_codes(), fallback_ids(vocabulary, wanted=byte_fallback))
        spelling = Spelling(source, _letter_ids(vocabulary, prefix, suffix), unknown, fuse_unknown)
        table = build_merges(_numbered(vocabulary, merges, len(prefix.encode())))
        # tokenizers takes an outdated entry of its heap for good if the pair that stands there now makes the same token. That
        # cannot be where every merge makes a longer token: then its order is plainly that of the ranks, and a scan finds it.
        scan_up_to = SHORT if not prefix and "" not in vocabulary else 1
        whole = vocabulary.items() if whole_words else ()
        texts = ((token_bytes(token, byte_level=byte_level), number) for token, number in whole)
        words = build_trie((text, number) for text, number in texts if text)
        super().__init__(_encode_bpe, spelling, table, words, scan_up_to)


def _letter_ids(vocabulary: Mapping[str, int], prefix: str, suffix: str) -> NDArray[np.int32]:
    ids = np.full((4 if prefix or suffix else 1, CODE_POINTS), -1, np.int32)
    affixes = [("", ""), ("", suffix), (prefix, ""), (prefix, suffix)]
    for row, (before, after) in zip(ids, affixes, strict=False):
        length = len(before) + len(after) + 1
        for token, number in vocabulary.items():
            if len(token) == length and token.startswith(before) and token.endswith(after):
                row[ord(token[len(before)])] = number
    return ids


def _numbered(
    vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]], prefix_bytes: int
) -> list[tuple[int, int, int]]:
    if not prefix_bytes:
        return [(vocabulary[left], vocabulary[right], vocabulary[left + right]) for left, right in merges]
    return [
        (vocabulary[left], vocabulary[right], vocabulary[left + right.encode()[prefix_bytes:].decode()])
        for left, right in merges
    ]


@kernel
def _fall_back(
    data: NDArray[np.uint8], at: int, length: int, code: int, source: Bytes, symbols: NDArray[np.int32], count: int
) -> int:
    """Add the byte tokens of a letter; returns how many there are: 0 if one is missing."""
    if not source.byte_level:
        for offset in range(length):
            symbols[count + offset] = source.fallback[data[at + offset]]
            if symbols[count + offset] < 0:
                return 0
        return length
    if code < 0x80:
        symbols[count] = source.fallback[code]
        return 1 if symbols[count] >= 0 else 0
    symbols[count] = source.fallback[0xC0 | (code >> 6)]
    symbols[count + 1] = source.fallback[0x80 | (code & 0x3F)]
    return 2 if symbols[count] >= 0 and symbols[count + 1] >= 0 else 0


@kernel
def _spell(data: NDArray[np.uint8], start: int, end: int, spelling: Spelling, symbols: NDArray[np.int32]) -> int:
    """Write the ids of a unit's letters; returns how many there are, or -1 where tokenizers raises an error.

    An unknown token is held back until the next letter shows whether it is fused, and byte tokens do not count as a letter:
    they overtake it, as they do in tokenizers.
    """
    source = spelling.bytes
    marked = len(spelling.ids) > 1
    count, held, at = 0, False, start
    while at < end:
        code, length = int(source.letters[data[at]]), 1
        if not source.byte_level:
            code, length = code_point(data, at, end)
            if code < 0:
                return -1
        row = (2 * (at > start) + (at + length >= end)) if marked else 0
        known = spelling.ids[row, code]
        if known >= 0:
            if held:
                symbols[count] = spelling.unknown
                count += 1
                held = False
            symbols[count] = known
            count += 1
        else:
            added = _fall_back(data, at, length, code, source, symbols, count)
            count += added
            if added == 0 and spelling.unknown == MISSING:
                return -1
            if added == 0 and spelling.unknown != DROPPED:
                if held and not spelling.fuse:
                    symbols[count] = spelling.unknown
                    count += 1
                held = True
        at += length
    if held:
        symbols[count] = spelling.unknown
        count += 1
    return count


@kernel
def _encode_bpe(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    spelling: Spelling,
    merges: MergeTable,
    words: Trie,
    scan_up_to: int,
    ids: NDArray[np.uint32],
    offsets: NDArray[np.int64],
    unsure: NDArray[np.bool_],
) -> None:
    longest = 0
    for unit in range(len(starts)):
        longest = max(longest, ends[unit] - starts[unit])
    symbols = np.empty(2 * longest + 4, np.int32)
    best = np.empty(SHORT, np.int64)
    heap = np.empty(0, np.int64)
    whole_words = len(words.ids) > 1
    written = 0
    for unit in range(len(starts)):
        start, end = starts[unit], ends[unit]
        word = find(words, data, start, end) if whole_words else -1
        if word >= 0:
            symbols[0], count = word, 1
        else:
            count = _spell(data, start, end, spelling, symbols)
        if count > scan_up_to:
            if len(heap) < 2 * count:
                heap = np.empty(2 * count, np.int64)
            count = merge_long(merges, symbols, count, heap)
        elif count > 1:
            count = merge_short(merges.pairs, symbols, count, best)
        elif count < 0:
            unsure[unit], count = True, 0
        for at in range(count):
            ids[written + at] = symbols[at]
        written += count
        offsets[unit + 1] = written
