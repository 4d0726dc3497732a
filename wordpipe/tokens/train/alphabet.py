"""The letters that subword training begins with: seen characters, the limit on them, and GPT-2's letters for bytes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wordpipe.compiled import kernel, read_only
from wordpipe.errors import ConfigError
from wordpipe.tokens.counting import Pretokens
from wordpipe.tokens.ragged import I32, I64, U8
from wordpipe.tokens.vocabulary import byte_letters

__all__ = ["Alphabet", "alphabet_of"]

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
