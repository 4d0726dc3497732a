"""A byte-pair encoding model of single pre-tokens, compiled: a pre-token is spelled in ids of letters, then ids are merged.

The pair of lowest rank is merged first, the leftmost among equals (Sennrich et al. 2016). A short pre-token is searched again
after every merge; a long one has its pairs in a heap, so that ten million letters take n log n steps.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wordpipe.compiled import character, kernel
from wordpipe.tokens.kernels.pretoken_models import (
    MIX,
    ByteReading,
    PretokenModel,
    Trie,
    byte_reading,
    fall_back,
    find,
    trie_of,
)
from wordpipe.tokens.kernels.scan import CODE_POINTS
from wordpipe.tokens.vocabulary import I32, I64, U8, U32, Flags

SHORT = 40
"""Units of at most this many letters are searched anew after each merge."""

_NO_MERGE = (1 << 63) - 1
_RANK = 32
_NEW = (1 << 32) - 1


class MergeTable(NamedTuple):
    """Merges by their pair of ids.

    Attributes:
        pairs: int64 [2 * power of two], open addressing: left << 32 | right, then rank << 32 | new id; -1 is an empty slot.
        news: int32 [merges], the new id of each rank.
    """

    pairs: I64
    news: I32


def build_merges(merges: Sequence[tuple[int, int, int]]) -> MergeTable:
    """Return the table of merges (left id, right id, new id), given in the order of ranks."""
    flat = np.array(merges, np.int64).reshape(-1, 3)
    pairs = np.full(2 << (3 * len(flat) + 16).bit_length(), -1, np.int64)
    _fill(pairs, flat)
    return MergeTable(pairs, flat[:, 2].astype(np.int32))


@kernel
def _merge_slot(pairs: I64, key: int) -> int:
    mask = len(pairs) // 2 - 1
    slot = ((key * MIX) >> 33) & mask
    while pairs[2 * slot] != key and pairs[2 * slot] != -1:
        slot = (slot + 1) & mask
    return 2 * slot


@kernel
def _fill(pairs: I64, merges: I64) -> None:
    for rank in range(len(merges)):
        key = (merges[rank, 0] << 32) | merges[rank, 1]
        slot = _merge_slot(pairs, key)
        pairs[slot] = key
        pairs[slot + 1] = (rank << _RANK) | merges[rank, 2]


@kernel
def _merge_of(pairs: I64, left: int, right: int) -> int:
    """Return rank << 32 | new id of a pair of ids, or _NO_MERGE: comparing two compares their ranks."""
    key = (int(left) << 32) | int(right)
    slot = _merge_slot(pairs, key)
    return pairs[slot + 1] if pairs[slot] == key else _NO_MERGE


@kernel
def merge_short(pairs: I64, symbols: I32, count: int, best: I64) -> int:
    """Encode a short pre-token: merge `symbols[:count]` in place. Returns how many are left.

    `best` is scratch of at least `count` elements. Returns how many are left.
    """
    for at in range(count - 1):
        best[at] = _merge_of(pairs, symbols[at], symbols[at + 1])
    while count > 1:
        lowest, where = _NO_MERGE, 0
        for at in range(count - 1):
            if best[at] < lowest:
                lowest, where = best[at], at
        if lowest == _NO_MERGE:
            break
        symbols[where] = lowest & _NEW
        count -= 1
        for at in range(where + 1, count):
            symbols[at] = symbols[at + 1]
            best[at - 1] = best[at]
        if where > 0:
            best[where - 1] = _merge_of(pairs, symbols[where - 1], symbols[where])
        if where + 1 < count:
            best[where] = _merge_of(pairs, symbols[where], symbols[where + 1])
    return count


@kernel
def merge_long(  # noqa: C901  (one thought: a heap of pairs over a linked list)
    table: MergeTable, symbols: I32, count: int, heap: I64
) -> int:
    """Encode a long pre-token: merge `symbols[:count]` in place, by a heap. Returns how many are left.

    `heap` is scratch of at least `2 * count` elements. Returns how many are left.

    An entry of the heap is rank << 32 | position. It may be out of date when its turn comes. tokenizers takes an entry for
    good if the pair that stands there now makes the same token, so this does too.
    """
    # a linked list of symbols, and a heap of all pairs that have a merge
    previous = np.arange(-1, count - 1).astype(np.int32)
    following = np.arange(1, count + 1).astype(np.int32)
    following[count - 1] = -1
    size = 0
    for at in range(count - 1):
        merge = _merge_of(table.pairs, symbols[at], symbols[at + 1])
        if merge != _NO_MERGE:
            heap[size] = (merge >> _RANK << _RANK) | at
            size += 1
    for hole in range((size + 2) // 4 - 1, -1, -1):
        _sink(heap, size, hole, heap[hole])
    # the lowest rank first
    while size > 0:
        top = heap[0]
        size -= 1
        if size > 0:
            _sink(heap, size, 0, heap[size])
        # an entry out of date is passed over
        at, new = top & _NEW, table.news[top >> _RANK]
        if symbols[at] < 0 or following[at] < 0:
            continue
        right = following[at]
        merge = _merge_of(table.pairs, symbols[at], symbols[right])
        if merge == _NO_MERGE or merge & _NEW != new:
            continue
        # the right symbol leaves the list; its neighbours make new pairs
        symbols[at] = new
        symbols[right] = -1
        after, before = following[right], previous[at]
        following[at] = after
        if after >= 0:
            previous[after] = at
        # with the symbol before, and with the symbol after
        if before >= 0:
            merge = _merge_of(table.pairs, symbols[before], new)
            if merge != _NO_MERGE:
                _float(heap, size, (merge >> _RANK << _RANK) | before)
                size += 1
        if after >= 0:
            merge = _merge_of(table.pairs, new, symbols[after])
            if merge != _NO_MERGE:
                _float(heap, size, (merge >> _RANK << _RANK) | at)
                size += 1
    # the symbols that are left, side by side
    left = 0
    for at in range(count):
        if symbols[at] >= 0:
            symbols[left] = symbols[at]
            left += 1
    return left


@kernel
def _sink(heap: I64, size: int, hole: int, entry: int) -> None:
    """Put an entry into a hole of the heap of merges that encoding uses, or below the hole."""
    while True:
        child = 4 * hole + 1
        if child >= size:
            break
        least = child
        for other in range(child + 1, min(child + 4, size)):
            if heap[other] < heap[least]:
                least = other
        if heap[least] >= entry:
            break
        heap[hole] = heap[least]
        hole = least
    heap[hole] = entry


@kernel
def _float(heap: I64, hole: int, entry: int) -> None:
    """Put an entry at the end of the heap of merges that encoding uses, or above the end."""
    while hole > 0:
        parent = (hole - 1) // 4
        if heap[parent] <= entry:
            break
        heap[hole] = heap[parent]
        hole = parent
    heap[hole] = entry


DROPPED = -1
"""No unknown token is named: unknown letters leave no trace."""
MISSING = -2
"""The unknown token that is named has no id: a pre-token with an unknown letter is an error."""


class Spelling(NamedTuple):
    """The way from letters to ids.

    Attributes:
        bytes: how a pre-token's bytes become letters.
        ids: int32 [1 or 4, code points], the id of a letter or -1. Four rows where a prefix or suffix marks the place in the
            pre-token: a letter that is first and not last, first and last, neither, last and not first.
        unknown: id of the unknown token, DROPPED or MISSING.
        fuse: unknown letters side by side are one unknown token.
    """

    bytes: ByteReading
    ids: I32
    unknown: int
    fuse: bool


def bpe_model(model: Mapping[str, Any], byte_level: bool) -> PretokenModel | None:
    """Return a model of byte-pair encoding, from its part of a `tokenizer.json`; None with an option that is not proven.

    `fuse_unk`: unknown letters side by side are one unknown token; `byte_fallback`: one becomes the tokens `<0xNN>` of its
    UTF-8, if they are all there; `ignore_merges`: a pre-token that is a token is that token, whatever its merges say. A prefix
    marks a token that does not begin a pre-token, a suffix one that ends it.
    """
    vocabulary, merges, unknown, falls_back = (
        model[name] for name in ("vocab", "merges", "unk_token", "byte_fallback")
    )
    prefix, suffix = model["continuing_subword_prefix"] or "", model["end_of_word_suffix"] or ""
    if model["dropout"] or (falls_back and (prefix or suffix)):
        return None
    unknown_id = DROPPED if unknown is None else vocabulary.get(unknown, MISSING)
    source = byte_reading(vocabulary, byte_level, falls_back=falls_back)
    spelling = Spelling(source, _letter_ids(vocabulary, prefix, suffix), unknown_id, model["fuse_unk"])
    try:
        table = build_merges(_numbered(vocabulary, merges, len(prefix.encode())))
    except (KeyError, UnicodeDecodeError):  # the file does not hold what its own loader asks for
        return None
    # tokenizers takes an outdated entry of its heap for good if the pair that stands there now makes the same token. That
    # cannot be where every merge makes a longer token: then its order is plainly that of the ranks, and a scan finds it.
    scan_up_to = SHORT if not prefix and "" not in vocabulary else 1
    words = trie_of(vocabulary if model["ignore_merges"] else {}, byte_level, empty=False)
    twice = byte_level and falls_back  # a byte's letter has up to two bytes of its own
    return PretokenModel(_encode_bpe, spelling, table, words, scan_up_to, ids_per_byte=2 if twice else 1)


def _letter_ids(vocabulary: Mapping[str, int], prefix: str, suffix: str) -> I32:
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
    return [
        (vocabulary[left], vocabulary[right], vocabulary[left + right.encode()[prefix_bytes:].decode()])
        for left, right in merges
    ]


@kernel
def _spell(data: U8, start: int, end: int, spelling: Spelling, symbols: I32) -> int:
    """Write the ids of the letters of a pre-token to encode; -1 where tokenizers raises an error.

    Returns how many there are, or -1 where tokenizers raises an error.

    An unknown token is held back until the next letter shows whether it is fused, and byte tokens do not count as a letter:
    they overtake it, as they do in tokenizers.
    """
    source = spelling.bytes
    marked = len(spelling.ids) > 1
    count, held, at = 0, False, start
    while at < end:
        # the id of the letter: by its byte, or by its code point and its place in the pre-token
        code, length = int(source.letters[data[at]]), 1
        if not source.byte_level:
            code, after = character(data, at)
            length = after - at
        row = (2 * (at > start) + (at + length >= end)) if marked else 0
        known = spelling.ids[row, code]
        # a known letter lets go the unknown token that is held back; an unknown letter becomes bytes, or is held back
        if known >= 0:
            if held:
                symbols[count] = spelling.unknown
                count += 1
                held = False
            symbols[count] = known
            count += 1
        else:
            added = fall_back(data, at, at + length, source, symbols, count)
            count += added
            # bytes have been written, or the letter needs an unknown token
            if added == 0 and spelling.unknown == MISSING:
                return -1
            if added == 0 and spelling.unknown != DROPPED:
                if held and not spelling.fuse:
                    symbols[count] = spelling.unknown
                    count += 1
                held = True
        at += length
    # the unknown token of the end
    if held:
        symbols[count] = spelling.unknown
        count += 1
    return count


@kernel
def _encode_bpe(
    data: U8, starts: I64, ends: I64, spelling: Spelling, merges: MergeTable, words: Trie, scan_up_to: int, ids: U32,
    offsets: I64, unsure: Flags,
) -> None:  # fmt: skip
    """Encode one pre-token by byte-pair merges."""
    # scratch for the longest pre-token
    longest = 0
    for pretoken in range(len(starts)):
        longest = max(longest, ends[pretoken] - starts[pretoken])
    symbols = np.empty(2 * longest + 4, np.int32)
    best = np.empty(SHORT, np.int64)
    heap = np.empty(0, np.int64)
    whole_words = len(words.ids) > 1
    written = 0
    for pretoken in range(len(starts)):
        # a pre-token that is a token, or its letters
        start, end = starts[pretoken], ends[pretoken]
        word = find(words, data, start, end) if whole_words else -1
        if word >= 0:
            symbols[0], count = word, 1
        else:
            count = _spell(data, start, end, spelling, symbols)
        # few letters are merged by scanning all pairs, many with a heap
        if count > scan_up_to:
            if len(heap) < 2 * count:
                heap = np.empty(2 * count, np.int64)
            count = merge_long(merges, symbols, count, heap)
        elif count > 1:
            count = merge_short(merges.pairs, symbols, count, best)
        elif count < 0:
            unsure[pretoken], count = True, 0
        for at in range(count):
            ids[written + at] = symbols[at]
        written += count
        offsets[pretoken + 1] = written
