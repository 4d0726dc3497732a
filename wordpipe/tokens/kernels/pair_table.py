"""What merge training starts from: letters, pre-tokens as symbols in one array, and the table of their pairs.

**Letters.** Seen characters, the limit on them, and GPT-2's letters for bytes.

**Slots.** All pre-tokens lie in one int32 array, a separator `END` before, between and after them. A token of one
symbol is its id. A token of L >= 2 symbols is its id, then L - 1 negative slots of which the first and the last hold
-L, so that both neighbours of a token are found in one step and a merge rewrites three slots, however long the
pre-token is. One bit per slot says where separators are; counting bits gives the pre-token of a slot, and so its count.

**Records.** A record is what Hugging Face's queue holds: a pair and the places where one step of training made it
(`positions[start[r] : start[r + 1]]`). The count of a pair (`pairs[r, 1]`; `pairs[r, 0]` is the pair, left id << 32 | right
id) is kept by its first record, its `owner`, which a hash table finds by pair.

**Queue.** A lazy heap of records, the commonest pair first. Hugging Face's queue may hold several entries of one pair with
one count, and which comes first there hangs on how its heap happens to lie. Here it is the one that was queued first, as there
in nearly all cases: of 12,000 random sets of words made of "#" and letters, with `##`, in which a third of all results had
such pairs, six were different.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from wordpipe.compiled import kernel, read_only
from wordpipe.errors import ConfigError
from wordpipe.tokens.counting import Pretokens
from wordpipe.tokens.ragged import I32, I64, U8
from wordpipe.tokens.vocabulary import byte_letters

CODE_POINTS = 0x110000
LAST = np.int64(CODE_POINTS - 1)


@dataclass(frozen=True)
class Alphabet:
    """The vocabulary before the first merge, and which token each character of a pre-token is.

    Attributes:
        tokens: special tokens, then letters by code point, then continuing letters (`##c`) by code point.
        letters: int32 [256], the code point of each byte's letter; empty where characters are read as UTF-8.
        first_ids: int32 [0x110000], the token of a code point that opens a pre-token; -1: dropped.
        next_ids: int32 [0x110000], the same for all later characters.
        dropped_letters: distinct characters that `limit_alphabet` left out.
        dropped_occurrences: how often these occur in the text.
    """

    tokens: list[str]
    letters: I32
    first_ids: I32
    next_ids: I32
    dropped_letters: int
    dropped_occurrences: int


@kernel
def code_point(data: U8, at: int, end: int) -> tuple[np.int64, int]:
    """The character of valid UTF-8 at `at`, and where the next one begins; `end` and U+10FFFF are never passed."""
    lead = np.int64(data[at])
    if lead < 0x80:
        return lead, at + 1
    length = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    point = lead & (0x7F >> length)
    stop = min(at + length, end)
    for i in range(at + 1, stop):
        point = (point << 6) | (np.int64(data[i]) & 0x3F)
    return min(point, LAST), stop


@kernel
def _count_letters(data: U8, offsets: I64, counts: I64, letters: I32, seen: I64, inside: U8) -> None:
    """Add up how often each code point occurs, and mark those that occur after the first place of a pre-token."""
    for row in range(len(counts)):
        at, end = int(offsets[row]), int(offsets[row + 1])
        first = True
        while at < end:
            if len(letters) > 0:
                point = np.int64(letters[data[at]])
                at += 1
            else:
                point, at = code_point(data, at, end)
            seen[point] += counts[row]
            if not first:
                inside[point] = 1
            first = False


def alphabet_of(
    pretokens: Pretokens,
    *,
    special_tokens: Sequence[str],
    initial_alphabet: Sequence[str],
    byte_level: bool,
    limit_alphabet: int | None,
    continuing_prefix: str,
) -> Alphabet:
    """The tokens that training starts from, in the order of Hugging Face's trainer.

    Where that order hangs on a hash table there (continuing letters; which of equally common characters the limit cuts), code
    points decide here: continuing letters are sorted, and of equally common characters the lower code points stay.

    Raises:
        ConfigError: an entry of `initial_alphabet` is not one character.
    """
    wanted = _points(initial_alphabet)
    letters = np.array([ord(letter) for letter in byte_letters()] if byte_level else [], np.int32)
    seen, inside = np.zeros(CODE_POINTS, np.int64), np.zeros(CODE_POINTS, np.uint8)
    data, offsets, counts = read_only(pretokens.data), read_only(pretokens.offsets), read_only(pretokens.counts)
    _count_letters(data, offsets, counts, letters, seen, inside)
    kept = _keep(seen, wanted, limit_alphabet)

    ids = {token: row for row, token in enumerate(dict.fromkeys(special_tokens))}
    for point in kept:
        ids.setdefault(chr(point), len(ids))
    first_ids, next_ids = np.full(CODE_POINTS, -1, np.int32), np.full(CODE_POINTS, -1, np.int32)
    for point in np.flatnonzero(seen).tolist():  # a character cut by the limit stays if it is a special token
        if (letter := chr(point)) in ids:
            first_ids[point] = ids[letter]
            if inside[point]:
                next_ids[point] = ids.setdefault(continuing_prefix + letter, len(ids))
    lost = (seen > 0) & (first_ids < 0)
    return Alphabet(list(ids), letters, first_ids, next_ids, int(lost.sum()), int(seen[lost].sum()))


def _points(initial_alphabet: Sequence[str]) -> I64:
    """Code points of the wished letters, each once, in order."""
    for letter in initial_alphabet:
        if len(letter) != 1:
            raise ConfigError(
                "an initial alphabet is made of single characters", where="initial_alphabet", got=repr(letter)
            )
    return np.array(sorted({ord(letter) for letter in initial_alphabet}), np.int64)


def _keep(seen: I64, wanted: I64, limit: int | None) -> list[int]:
    """Code points of the alphabet in order: wished ones first to stay, then the commonest, then the lowest."""
    rank = seen.copy()
    rank[wanted] = np.iinfo(np.int64).max
    points = np.flatnonzero(rank)
    if limit is not None and len(points) > limit:
        points = np.sort(points[np.argsort(-rank[points], kind="stable")[:limit]])
    kept: list[int] = points.tolist()
    return kept


END = np.int32(2**31 - 1)
ONE = np.uint64(1)
Bytes: TypeAlias = NDArray[np.uint8]
Ints: TypeAlias = NDArray[np.int32]
Longs: TypeAlias = NDArray[np.int64]
Bits: TypeAlias = NDArray[np.uint64]


class State(IntEnum):
    """Places of the numbers that a paused training continues from, in one int64 array."""

    RECORDS = 0  # records made so far
    HEAP = 1  # entries of the heap
    POSITIONS = 2  # positions in use
    TOKENS = 3  # size of the vocabulary
    MERGES = 4  # merges made so far
    VOCAB_SIZE = 5  # stop at this vocabulary
    MIN_FREQUENCY = 6  # stop at pairs rarer than this
    PREFIX = 7  # bytes of the continuing prefix, which the spellings begin with
    NEED = 8  # occurrences that the next merge may touch, when it does not fit
    AT = 9  # slot, and
    WORD = 10  # pre-token, where counting pairs goes on
    TICKS = 11  # entries queued so far


@kernel
def lay_out(
    data: Bytes, offsets: Longs, counts: Longs, letters: Ints, first_ids: Ints, next_ids: Ints, slots: Ints, kept: Longs
) -> tuple[int, int]:
    """Write the symbols of all pre-tokens with at least two symbols; returns (slots used, pre-tokens kept).

    `slots` has room for a symbol per byte and a separator per pre-token and one; `kept` receives the counts.
    """
    slots[0] = END
    used, words = 1, 0
    for row in range(len(counts)):
        at, end, begin = int(offsets[row]), int(offsets[row + 1]), used
        first = True
        while at < end:
            if len(letters) > 0:
                point = np.int64(letters[data[at]])
                at += 1
            else:
                point, at = code_point(data, at, end)
            symbol = first_ids[point] if first else next_ids[point]
            first = False
            if symbol >= 0:
                slots[used] = symbol
                used += 1
        if used - begin < 2:
            used = begin
            continue
        slots[used] = END
        used += 1
        kept[words] = counts[row]
        words += 1
    return used, words


@kernel
def mark_ends(slots: Ints, used: int, bits: Bits, before: Ints) -> None:
    """Set one bit per separator, and for each 64 slots the number of separators in front of them."""
    ends = 0
    for block in range(len(bits)):
        before[block] = ends
        word = np.uint64(0)
        for i in range(block * 64, min(block * 64 + 64, used)):
            if slots[i] == END:
                word |= ONE << np.uint64(i & 63)
                ends += 1
        bits[block] = word


@kernel
def hash_of(key: int, mask: int) -> np.int64:
    """Where a pair's search begins in the table."""
    x = np.uint64(key)
    x = (x ^ (x >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(x >> np.uint64(32)) & mask


@kernel
def find(table: Ints, pairs: Longs, key: int) -> np.int64:
    """The slot of the table that holds a pair's owner, or the empty one (-1) where it belongs."""
    mask = len(table) - 1
    at = hash_of(key, mask)
    while table[at] >= 0 and pairs[table[at], 0] != key:
        at = (at + 1) & mask
    return at


@kernel
def rehash(table: Ints, pairs: Longs, owner: Ints, records: int) -> None:
    """Fill a table with the owners among the records."""
    table[:] = -1
    for record in range(records):
        if owner[record] == record:
            table[find(table, pairs, pairs[record, 0])] = record


@kernel
def count_pairs(
    slots: Ints, used: int, counts: Longs, table: Ints, pairs: Longs, owner: Ints, found: Longs, state: Longs
) -> bool:
    """Count the pairs of untouched symbols; False when records ran out: make room and call again.

    `found` receives how many places each pair has.
    """
    at, word, records = int(state[State.AT]), int(state[State.WORD]), int(state[State.RECORDS])
    done = True
    while at < used - 2:
        left, right = int(slots[at]), int(slots[at + 1])
        if right == END:
            at += 2
            word += 1
            continue
        key = (left << 32) | right
        place = find(table, pairs, key)
        record = table[place]
        if record < 0:
            if records == len(owner):
                done = False
                break
            record = records
            records += 1
            table[place] = record
            owner[record] = record
            pairs[record, 0] = key
            pairs[record, 1] = 0
            found[record] = 0
        pairs[record, 1] += counts[word]
        found[record] += 1
        at += 1
    state[State.AT], state[State.WORD], state[State.RECORDS] = at, word, records
    return done


@kernel
def fill_positions(slots: Ints, used: int, table: Ints, pairs: Longs, cursor: Longs, positions: Ints) -> None:
    """Write the places of each initial pair, ascending, from where its cursor stands."""
    for at in range(1, used - 1):
        if slots[at] != END and slots[at + 1] != END:
            record = table[find(table, pairs, (int(slots[at]) << 32) | int(slots[at + 1]))]
            positions[cursor[record]] = at
            cursor[record] += 1


@kernel
def precedes(count: int, record: int, other_count: int, other: int, pairs: Longs, queued: Ints) -> bool:
    """Whether a heap entry comes before another: higher count, then lower pair, then queued earlier."""
    if count != other_count:
        return count > other_count
    key, other_key = pairs[record, 0], pairs[other, 0]
    if key != other_key:
        return bool(key < other_key)
    return bool(queued[record] < queued[other])


@kernel
def sift_up(heap_count: Longs, heap_record: Ints, at: int, pairs: Longs, queued: Ints) -> None:
    """Let the entry at the end of the heap rise."""
    count, record = heap_count[at], heap_record[at]
    while at > 0:
        parent = (at - 1) >> 2
        if not precedes(count, record, heap_count[parent], heap_record[parent], pairs, queued):
            break
        heap_count[at], heap_record[at] = heap_count[parent], heap_record[parent]
        at = parent
    heap_count[at], heap_record[at] = count, record


@kernel
def sift_down(
    heap_count: Longs, heap_record: Ints, size: int, count: int, record: int, pairs: Longs, queued: Ints
) -> None:
    """Put an entry at the top of a heap whose top is free, and let it sink."""
    at = 0
    while 4 * at + 1 < size:
        best = 4 * at + 1
        for child in range(best + 1, min(best + 4, size)):
            if precedes(heap_count[child], heap_record[child], heap_count[best], heap_record[best], pairs, queued):
                best = child
        if not precedes(heap_count[best], heap_record[best], count, record, pairs, queued):
            break
        heap_count[at], heap_record[at] = heap_count[best], heap_record[best]
        at = best
    heap_count[at], heap_record[at] = count, record


@kernel
def push_records(
    heap_count: Longs, heap_record: Ints, pairs: Longs, owner: Ints, queued: Ints, first: int, state: Longs
) -> None:
    """Queue the records from `first` on with what their pairs count now; pairs that have gone already are left out."""
    size = state[State.HEAP]
    for record in range(first, state[State.RECORDS]):
        count = pairs[owner[record], 1]
        if count > 0:
            heap_count[size], heap_record[size] = count, record
            queued[record] = state[State.TICKS]
            state[State.TICKS] += 1
            sift_up(heap_count, heap_record, size, pairs, queued)
            size += 1
    state[State.HEAP] = size
