"""Byte-pair encoding and WordPiece, trained from counted pre-tokens.

The commonest pair of neighbouring tokens becomes a token, again and again (Sennrich et al., Neural Machine Translation of
Rare Words with Subword Units, 2016, algorithm 1). Vocabulary, ids and merges are those of the `BpeTrainer` of Hugging Face
tokenizers 0.23, and with the prefix `##` those of its `WordPieceTrainer`, except where these depend on the order of a hash
table or a heap there (`alphabet_of` and `bpe_train_loop` say what decides here). Counts have 64 bits; there, pairs have 32 and
overflow.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from wordpipe.compiled import character, kernel, read_only
from wordpipe.errors import BudgetError
from wordpipe.tokens.counting import StringCounts
from wordpipe.tokens.kernels.bpe_train_loop import (
    END,
    ONE,
    U64,
    State,
    count_pairs,
    fill_positions,
    merge_pairs,
    name_tokens,
    push_records,
    rehash,
)
from wordpipe.tokens.kernels.scan import CODE_POINTS
from wordpipe.tokens.vocabulary import I32, I64, U8, byte_letters

CHUNK = 500  # merges between two reports: a few hundredths of a second
Report = Callable[[int, int], None]
Number = TypeVar("Number", bound=np.generic)


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
def _count_letters(data: U8, offsets: I64, counts: I64, letters: I32, seen: I64, inside: U8) -> None:
    """Add up for BPE training how often each code point occurs, and mark those not only at a beginning."""
    for row in range(len(counts)):
        at, end = int(offsets[row]), int(offsets[row + 1])
        first = True
        while at < end:
            if len(letters) > 0:
                point = int(letters[data[at]])
                at += 1
            else:
                point, at = character(data, at)
            seen[point] += counts[row]
            if not first:
                inside[point] = 1
            first = False


def alphabet_of(
    pretokens: StringCounts,
    *,
    byte_level: bool,
    special_tokens: Sequence[str] = (),
    initial_alphabet: Sequence[str] = (),
    limit_alphabet: int | None = None,
    continuing_prefix: str = "",
) -> Alphabet:
    """Return the tokens that BPE training starts from, in the order of Hugging Face's trainer.

    Where that order depends on a hash table there (continuing letters; which of equally common characters the limit cuts),
    code points decide here: continuing letters are sorted, and of equally common characters the lower code points stay.
    """
    wanted = np.array(sorted({ord(letter) for letter in initial_alphabet}), np.int64)
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


def _keep(seen: I64, wanted: I64, limit: int | None) -> list[int]:
    """Return the code points of the alphabet of BPE training in order: wished ones stay first."""
    rank = seen.copy()
    rank[wanted] = np.iinfo(np.int64).max
    points = np.flatnonzero(rank)
    if limit is not None and len(points) > limit:
        points = np.sort(points[np.argsort(-rank[points], kind="stable")[:limit]])
    kept: list[int] = points.tolist()
    return kept


@kernel
def lay_out(
    data: U8, offsets: I64, counts: I64, letters: I32, first_ids: I32, next_ids: I32, slots: I32, kept: I64
) -> tuple[int, int]:
    """Write for BPE training the symbols of all pre-tokens with at least two symbols; returns (slots used, pre-tokens kept).

    `slots` has room for a symbol per byte and a separator per pre-token and one; `kept` receives the counts.
    """
    slots[0] = END
    used, words = 1, 0
    for row in range(len(counts)):
        at, end, begin = int(offsets[row]), int(offsets[row + 1]), used
        first = True
        # the symbols of the pre-token; dropped letters have none
        while at < end:
            if len(letters) > 0:
                point = int(letters[data[at]])
                at += 1
            else:
                point, at = character(data, at)
            symbol = first_ids[point] if first else next_ids[point]
            first = False
            if symbol >= 0:
                slots[used] = symbol
                used += 1
        # a single symbol has no pair: its place is used again
        if used - begin < 2:
            used = begin
            continue
        slots[used] = END
        used += 1
        kept[words] = counts[row]
        words += 1
    return used, words


@kernel
def mark_ends(slots: I32, used: int, bits: U64, before: I32) -> None:
    """Set for BPE training one bit per separator, and for each 64 slots the number in front."""
    ends = 0
    for block in range(len(bits)):
        before[block] = ends
        word = np.uint64(0)
        for i in range(block * 64, min(block * 64 + 64, used)):
            if slots[i] == END:
                word |= ONE << np.uint64(i & 63)
                ends += 1
        bits[block] = word


@dataclass(frozen=True)
class BpeResult:
    """A trained vocabulary.

    Attributes:
        tokens: all tokens; the place of a token is its id.
        history: int32 [merges made, 3], ids of left part, right part and result, in the order they were made. A result that is
            no new token repeats an older one; a pair can occur twice, and then its last place is its rank.
        dropped_letters: distinct characters that `limit_alphabet` left out.
        dropped_occurrences: how often these occur in the text.
    """

    tokens: list[str]
    history: I32
    dropped_letters: int
    dropped_occurrences: int

    @property
    def vocab(self) -> dict[str, int]:
        """Token → id."""
        return {token: row for row, token in enumerate(self.tokens)}

    @property
    def merges(self) -> list[tuple[str, str]]:
        """Pairs of tokens, the first to be merged first, each once."""
        rank: dict[tuple[int, int], None] = {}
        for left, right, _ in self.history.tolist():
            rank.pop((left, right), None)
            rank[left, right] = None
        return [(self.tokens[left], self.tokens[right]) for left, right in rank]


def train_bpe(
    pretokens: StringCounts,
    *,
    vocab_size: int,
    min_frequency: int,
    special_tokens: Sequence[str],
    initial_alphabet: Sequence[str] = (),
    byte_level: bool,
    limit_alphabet: int | None = None,
    continuing_prefix: str = "",
    report: Report | None = None,
) -> BpeResult:
    """Train byte-pair encoding: learn a vocabulary of `vocab_size` tokens.

    Fewer when pairs run out, more when the alphabet alone is larger.

    Args:
        pretokens: distinct pre-tokens and their counts.
        vocab_size: tokens wanted, special tokens and letters included.
        min_frequency: a pair that occurs less often is not merged.
        special_tokens: the first tokens; doubles count once.
        initial_alphabet: single characters that get a token, seen or not.
        byte_level: pre-tokens are bytes, and letters are the 256 of `byte_letters`; otherwise letters are characters.
        limit_alphabet: at most so many letters, `initial_alphabet` and then the commonest first; the others vanish from
            their pre-tokens.
        continuing_prefix: what marks tokens inside a word; `##` gives WordPiece.
        report: called with (tokens made by merging, tokens to make) every few hundred merges; may raise to stop.

    Raises:
        BudgetError: 2**31 symbols or more.
    """
    if (room := len(pretokens.data) + len(pretokens) + 1) >= END:
        raise BudgetError("too many pre-tokens to train on", got=room, expected=f"fewer than {END} bytes")
    alphabet = alphabet_of(
        pretokens,
        special_tokens=special_tokens,
        initial_alphabet=initial_alphabet,
        byte_level=byte_level,
        limit_alphabet=limit_alphabet,
        continuing_prefix=continuing_prefix,
    )
    training = _Training(pretokens, alphabet, vocab_size, min_frequency, continuing_prefix)
    training.run(report or (lambda done, total: None))
    return BpeResult(training.tokens(), training.made(), alphabet.dropped_letters, alphabet.dropped_occurrences)


def training_bytes(pretokens_bytes: int, n: int, vocab_size: int = 0) -> int:
    """Return the memory that training takes for `n` pre-tokens of so many bytes together, themselves not counted.

    English takes 24 bytes per symbol for 16,000 tokens and 33 for 64,000 (351,000 pre-tokens of 100 MB of text); random
    bytes, where each merge finds new pairs, 45. Each token's string and rows, and tables by code point, are added.
    """
    return 48 * (pretokens_bytes + n) + 200 * vocab_size + (32 << 20)


class _Training:
    """The arrays of one training (see `bpe_train_loop`), and their growth between calls of the kernel."""

    def __init__(
        self, pretokens: StringCounts, alphabet: Alphabet, vocab_size: int, min_frequency: int, prefix: str
    ) -> None:
        self.state = np.zeros(len(State), np.int64)
        self.base = len(alphabet.tokens)
        self.state[State.VOCAB_SIZE], self.state[State.MIN_FREQUENCY] = vocab_size, min_frequency
        self._lay_out(pretokens, alphabet)
        self._count_pairs()
        self._spell(alphabet.tokens, prefix, max(vocab_size, self.base) + 1)

    def _lay_out(self, pretokens: StringCounts, alphabet: Alphabet) -> None:
        room = len(pretokens.data) + len(pretokens) + 1
        slots, kept = np.empty(room, np.int32), np.empty(len(pretokens), np.int64)
        self.used, words = lay_out(
            read_only(pretokens.data), read_only(pretokens.offsets), read_only(pretokens.counts), alphabet.letters,
            alphabet.first_ids, alphabet.next_ids, slots, kept,
        )  # fmt: skip
        self.slots, self.counts = slots[: self.used], kept[:words]
        blocks = (self.used + 63) // 64
        self.bits, self.before = np.empty(blocks, np.uint64), np.empty(blocks, np.int32)
        mark_ends(self.slots, self.used, self.bits, self.before)

    def _count_pairs(self) -> None:
        """Count the pairs of symbols before BPE training's first merge."""
        # the pairs and their counts; the records grow until all fit
        self.pairs, self.start = np.empty((0, 2), np.int64), np.empty(1, np.int64)
        self.owner, self.queued = np.empty(0, np.int32), np.empty(0, np.int32)
        self.several = np.empty(0, np.uint8)
        self.heap_count, self.heap_record = np.empty(0, np.int64), np.empty(0, np.int32)
        found = np.empty(0, np.int64)
        # counted in as many calls as there is room for
        self._more_records(1 << 12)
        self.state[State.AT] = 1
        done = False
        while not done:
            found = _longer(found, len(self.owner))
            done = count_pairs(
                self.slots, self.used, self.counts, self.table, self.pairs, self.owner, found, self.state
            )
            if not done:
                self._more_records(len(self.owner))
        # the places of each pair, one after the other
        records = int(self.state[State.RECORDS])
        self.start[0] = 0
        np.cumsum(found[:records], out=self.start[1 : records + 1])
        self.several[:records] = 0
        places = int(self.start[records])
        # Each merge removes one of the `places` and makes at most two; pages that are never written cost nothing.
        self.positions = np.empty(3 * places, np.int32)
        self.state[State.POSITIONS] = places
        fill_positions(self.slots, self.used, self.table, self.pairs, self.start[:records].copy(), self.positions)
        push_records(self.heap_count, self.heap_record, self.pairs, self.owner, self.queued, 0, self.state)

    def _spell(self, tokens: list[str], prefix: str, most: int) -> None:
        spelt = [prefix.encode(), *(token.encode("utf-8", "surrogatepass") for token in tokens)]
        self.spellings = np.array(bytearray(b"".join(spelt)), np.uint8)
        self.starts = np.zeros(most + 1, np.int64)
        np.cumsum([len(text) for text in spelt], out=self.starts[: len(spelt)])
        self.names = np.empty(_power_of_two(2 * most), np.int32)
        name_tokens(self.spellings, self.starts, self.names, len(tokens))
        self.state[State.TOKENS], self.state[State.PREFIX] = len(tokens), len(spelt[0])
        self.history = np.empty((0, 3), np.int32)
        self.changes, self.found = np.zeros(2 * most, np.int64), np.zeros(2 * most, np.int32)
        self.cursor, self.touched = np.empty(2 * most, np.int64), np.empty(2 * most, np.int32)
        self.event_place, self.event_position = np.empty(0, np.int32), np.empty(0, np.int32)
        self._make_room()

    def _more_records(self, more: int) -> None:
        """Make room for `more` records than there is room for now."""
        room, records = len(self.owner) + more, int(self.state[State.RECORDS])
        self.pairs, self.start = _longer(self.pairs, room), _longer(self.start, room + 1)
        self.owner, self.queued = _longer(self.owner, room), _longer(self.queued, room)
        self.several = _longer(self.several, room)
        self.heap_count, self.heap_record = _longer(self.heap_count, room), _longer(self.heap_record, room)
        self.table = np.empty(_power_of_two(room + room // 3), np.int32)
        rehash(self.table, self.pairs, self.owner, records)

    def _make_room(self) -> None:
        """Make room for a merge that touches state[NEED] occurrences, and for some more merges."""
        state, need = self.state, int(self.state[State.NEED])
        if 2 * need > len(self.event_place):
            self.event_place, self.event_position = np.empty(2 * need, np.int32), np.empty(2 * need, np.int32)
        missing = int(state[State.RECORDS]) + 2 * min(need, int(state[State.TOKENS]) + 1) - len(self.owner)
        if missing > 0:
            self._more_records(max(missing, len(self.owner) // 2))
        if state[State.MERGES] == len(self.history):
            self.history = _longer(self.history, len(self.history) * 2 + CHUNK)
        used = int(self.starts[state[State.TOKENS]])
        longest = int(np.diff(self.starts[: state[State.TOKENS] + 1]).max(initial=0))
        if used + 2 * longest > len(self.spellings):
            self.spellings = _longer(self.spellings, 2 * used + 2 * longest + (1 << 16))

    def run(self, report: Report) -> None:
        """Run BPE training: merge until the vocabulary is full or no pair is common enough."""
        wanted = max(0, int(self.state[State.VOCAB_SIZE]) - self.base)
        while code := self._merge():
            if code == 2:
                self._make_room()
            report(int(self.state[State.TOKENS]) - self.base, wanted)
        report(int(self.state[State.TOKENS]) - self.base, wanted)

    def _merge(self) -> int:
        return merge_pairs(
            CHUNK, self.state, self.slots, self.bits, self.before, self.counts,
            self.table, self.pairs, self.owner, self.queued, self.several, self.start, self.positions,
            self.heap_count, self.heap_record, self.spellings, self.starts, self.names, self.history,
            self.changes, self.found, self.cursor, self.touched, self.event_place, self.event_position,
        )  # fmt: skip

    def tokens(self) -> list[str]:
        """Return the vocabulary in the order of ids."""
        text, starts = self.spellings.tobytes(), self.starts[: self.state[State.TOKENS] + 1].tolist()
        return [text[begin:end].decode("utf-8", "surrogatepass") for begin, end in pairwise(starts)]

    def made(self) -> I32:
        """Return the merges made so far, in memory of their own."""
        return self.history[: self.state[State.MERGES]].copy()


def _longer(array: NDArray[Number], length: int) -> NDArray[Number]:
    """Return the array with room for `length` rows, its contents in front."""
    longer = np.empty((length, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


def _power_of_two(least: int) -> int:
    return 1 << max(4, (least - 1).bit_length())
