"""The words of some texts as they are written: what an unfinished word may become, and what a misspelt one was meant to be.

Shapes: W words, V terms.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from string import ascii_lowercase
from unicodedata import category

import numpy as np
import numpy.typing as npt

from wordpipe.search.lexical.packed_lists import Int32s
from wordpipe.search.lexical.postings import Terms

_SHORTEST, _LONGEST = 4, 32  # letters of a word that is corrected
_TWO_SLIPS = 6  # letters of a word in which two letters may be wrong
_SURE_TWO_SLIPS, _SURE_BEGIN = 8, 6  # letters of a word that is replaced with two slips; at whose first letter one is
_LEAST_PART = 3  # letters of each half of a word that was written without its space
_DOUBLED = 3  # times that a word counts in which a letter is doubled that was written once
_SHOWN = 3  # words that are offered for another
_FEW = 8  # words that are compared one by one
_REMEMBERED = 4_096  # words whose corrections are kept: typing repeats the same words
_END = b"\xff"  # after every byte of UTF-8


@dataclass(frozen=True, slots=True)
class WordTable:
    """W folded words in the order of their UTF-8 bytes, with marks and without; no stop words, no single letters."""

    words: Terms
    terms: Int32s  # (W,) the term of each
    counts: Int32s  # (W,) how often each stands in the texts

    @classmethod
    def of(cls, found: Iterable[tuple[bytes, int, int]]) -> "WordTable":
        """Return the table of words with their terms and counts, in any order."""
        rows = sorted(found)
        terms, counts = ([row[at] for row in rows] for at in (1, 2))
        return cls(Terms.of([row[0] for row in rows]), np.array(terms, np.int32), np.array(counts, np.int32))

    def __len__(self) -> int:
        return len(self.words)

    def fits(self, n_terms: int) -> bool:
        """True if each word has a count and one of so many terms."""
        if not self.words.fits or not len(self.words) == len(self.terms) == len(self.counts):
            return False
        return not len(self) or bool(self.terms.min() >= 0 and self.terms.max() < n_terms and self.counts.min() > 0)

    def rows(self) -> Iterator[tuple[bytes, int, int]]:
        """Yield each word with its term and its count."""
        return zip(self.words, self.terms.tolist(), self.counts.tolist(), strict=True)

    def beginning(self, prefix: str) -> slice:
        """Return the place of the words that begin with a folded prefix."""
        begin = prefix.encode("utf-8", "replace")
        first = bisect_left(self.words, begin)
        return slice(first, bisect_left(self.words, begin + _END, first))

    def count_of(self, word: str) -> int:
        """Return how often a folded word stands in the texts."""
        at = self.words.find(word)
        return int(self.counts[at]) if at >= 0 else 0

    def most_frequent(self, here: slice, most: int) -> list[str]:
        """Return the most frequent words of a place, the first of equal ones first."""
        best = np.argsort(-self.counts[here], kind="stable")[:most] + here.start
        return [self.words[at].decode("utf-8", "replace") for at in best.tolist()]


@dataclass(frozen=True)
class Speller:
    """A finder of the words that a misspelt word was meant to be.

    A slip is a letter too many, too few, another one, or two letters in the wrong order. Words that one slip makes are looked
    for first among those that begin alike, then among all; those that two slips make, only where there are none. Of words that
    are as near, the more frequent one goes first; one with a double letter where one letter was written counts three times: to
    write one is the commonest slip, and more than three times, or one letter where two were written, mended fewer random slips
    (`benchmarks/spelling.py`).

    Source: Damerau 1964, "A technique for computer detection and correction of spelling errors": four in five misspelt words
    have one slip.
    """

    table: WordTable
    _found: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False, compare=False)
    # first byte → lengths and letters of the words that begin with it
    _heads: dict[int, tuple[slice, Int32s, npt.NDArray[np.uint64]]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def near(self, word: str) -> list[str]:
        """Return the words that a folded word, which stands nowhere, was most likely meant to be; the likeliest first."""
        found = self._found.get(word)
        if found is None:
            if len(self._found) >= _REMEMBERED:
                self._found.clear()
            found = self._found[word] = tuple(self._near(word))
        return [*found]

    def apart(self, word: str) -> str:
        """Return two words with the space between them that a folded word lacks; empty where it is no two words."""
        best, most = "", 0
        for at in range(_LEAST_PART, len(word) - _LEAST_PART + 1):
            halves = word[:at], word[at:]
            rarer = min(map(self.table.count_of, halves))
            if rarer > most:
                best, most = " ".join(halves), rarer
        return best

    def _near(self, word: str) -> Iterator[str]:
        if not _SHORTEST <= len(word) <= _LONGEST or not _is_letters(word):
            return
        found = self._begun_alike(word, 1)
        if not found and word.isascii():
            found = self._other_begin(word)
        if not found and len(word) >= _TWO_SLIPS:
            found = self._begun_alike(word, 2)
        single = _single(word)

        def weight(other: str) -> int:
            is_doubled = len(other) > len(word) and _single(other) == single
            return self.table.count_of(other) * (_DOUBLED if is_doubled else 1)

        ranked = sorted(found, key=lambda other: (found[other], -weight(other), other))
        yield from ranked[:_SHOWN]

    def _other_begin(self, word: str) -> dict[str, int]:
        """Return the words that one slip at the first letter makes of a word of ASCII letters."""
        slips = [word[1] + word[0] + word[2:], word[1:]]
        slips += [letter + rest for letter in ascii_lowercase for rest in (word, word[1:])]
        unique = [slip for slip in dict.fromkeys(slips) if slip != word]
        return {slip: 1 for slip, at in zip(unique, self.table.words.find_all(unique).tolist(), strict=True) if at >= 0}

    def _begun_alike(self, word: str, most: int) -> dict[str, int]:
        """Return the words with the same first letter that at most so many slips make of a word, with their number."""
        written = word.encode("utf-8", "replace")
        here, lengths_H, letters_H = self._head(written[0])
        # two slips change the length by two letters, and at most four letters of all that occur: those that do not change the
        # length, each two of them
        width = 1 if word.isascii() else 2
        own = np.bitwise_or.reduce(_bits(np.frombuffer(written, np.uint8)))
        longer = np.abs(lengths_H - len(written))
        close = np.flatnonzero(longer <= most * width)
        changed = np.bitwise_count(letters_H[close] ^ own)
        places = close[changed <= 2 * most * width - (longer[close] if width == 1 else 0)] + here.start
        words = [self.table.words[at] for at in places.tolist()]
        if most == 1:  # the first half, or the second, is as it was meant to be
            half = len(word) // 2
            first, second = word[: half - 1].encode("utf-8", "replace"), word[half:].encode("utf-8", "replace")
            words = [one for one in words if one.endswith(second) or one.startswith(first)]
        others = [one.decode("utf-8", "replace") for one in words]
        if len(others) < _FEW:
            each = {other: slips_between(word, other, most) for other in others}
            return {other: number for other, number in each.items() if number <= most}
        slips = slips_of_all(word, others, most).tolist()
        return {other: number for other, number in zip(others, slips, strict=True) if number <= most}

    def _head(self, first: int) -> tuple[slice, Int32s, npt.NDArray[np.uint64]]:
        """Return the place of the words that begin with a byte, their lengths, and the letters that each has as bits."""
        if first not in self._heads:
            words = self.table.words
            begin = bisect_left(words, bytes([first]))
            end = bisect_left(words, bytes([first + 1]), begin)
            starts_H = np.where(np.arange(begin, end) > 0, words.ends[np.arange(begin, end) - 1], 0)
            lengths_H = (words.ends[begin:end] - starts_H).astype(np.int32)
            letters_H = np.zeros(0, np.uint64)
            if end > begin:
                bits = _bits(words.letters[starts_H[0] : words.ends[end - 1]])
                letters_H = np.bitwise_or.reduceat(bits, starts_H - starts_H[0])
            self._heads[first] = slice(begin, end), lengths_H, letters_H
        return self._heads[first]


def is_sure(word: str, meant: str) -> bool:
    """True if a folded word is so near to another that a search may take the other in its place; else it is only offered.

    A short word is one slip from many words. Two slips need a word of eight letters, another first letter one of six; of four
    letters two may only be in the wrong order.

    >>> is_sure("kuberntes", "kubernetes"), is_sure("denied", "derived"), is_sure("bess", "less"), is_sure("tabel", "table")
    (True, False, False, True)
    """
    if " " in meant:  # two words with the space between them
        return True
    if slips_between(word, meant, 1) > 1:
        return len(word) >= _SURE_TWO_SLIPS
    if word[:1] != meant[:1]:
        return len(word) >= _SURE_BEGIN
    return len(word) > _SHORTEST or sorted(word) == sorted(meant)


def _single(word: str) -> str:
    """Return a word with each letter once where it stands several times in a row."""
    return "".join(letter for letter, _ in groupby(word))


def _is_letters(word: str) -> bool:
    """True if a word has letters alone, and signs for vowels, as scripts of India write."""
    return word.isalpha() or all(one.isalpha() or category(one)[0] == "M" for one in word)


def _bits(letters: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Return one bit of 64 for each byte."""
    return np.left_shift(np.uint64(1), (letters & 63).astype(np.uint64))


def slips_of_all(one: str, others: Sequence[str], most: int) -> npt.NDArray[np.uint8]:
    """Return the number of slips that make a word of each of W others, or more than `most` where it takes more.

    As `slips_between`, for all at once, in the cells of the table that are at most so far from its diagonal.
    """
    if not others:
        return np.zeros(0, np.uint8)
    letters_LW = np.ascontiguousarray(np.array(others).view(np.uint32).reshape(len(others), -1).T)
    size, far = len(letters_LW), np.full(len(others), most + 1, np.uint8)
    lengths_W = np.fromiter(map(len, others), np.int64, len(others))
    before, above = list[npt.NDArray[np.uint8]](), [np.minimum(far, at) for at in range(size + 1)]
    for at, letter in enumerate(map(ord, one)):
        differs = (letters_LW != letter).view(np.uint8)
        now = [far] * (size + 1)
        now[0] = np.minimum(far, at + 1)
        for place in range(max(0, at - most), min(size, at + most + 1)):
            cost = np.minimum(above[place] + differs[place], np.minimum(above[place + 1], now[place]) + 1)
            if at and place:
                turned = (letters_LW[place - 1] != letter) | (letters_LW[place] != ord(one[at - 1]))
                cost = np.minimum(cost, before[place - 1] + np.uint8(1) + turned * np.uint8(most))
            now[place + 1] = np.minimum(cost, far)
        before, above = above, now
    return np.stack(above)[lengths_W, np.arange(len(others))]


def slips_between(one: str, other: str, most: int) -> int:
    """Return the number of slips that make one word of another, or `most` + 1 where it takes more.

    A slip is a letter too many, too few, another one, or two neighbours in the wrong order (optimal string alignment).
    """
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: Sequence[int] = ()
    row: Sequence[int] = range(len(other) + 1)
    for at, letter in enumerate(one):
        above, now = row, [at + 1]
        for place, second in enumerate(other):
            cost = min(above[place] + (letter != second), above[place + 1] + 1, now[place] + 1)
            if at and place and letter == other[place - 1] and one[at - 1] == second:
                cost = min(cost, before[place - 1] + 1)
            now.append(cost)
        if min(now) > most:
            return most + 1
        before, row = above, now
    return min(row[-1], most + 1)
