"""The words of some texts as they are written: what an unfinished word may become, and what a misspelt one was meant to be.

Shapes: W words, V terms.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from string import ascii_lowercase
from unicodedata import category

import numpy as np
import numpy.typing as npt

from wordpipe.search.knn import Rows
from wordpipe.search.lexical.postings import Int32s, Terms

_SHORTEST, _LONGEST = 4, 32  # letters of a word that is corrected
_TWO_SLIPS = 6  # letters of a word in which two letters may be wrong
_LEAST_PART = 3  # letters of each half of a word that was written without its space
_SHOWN = 3  # words that are offered for another
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

    A word that one slip makes of it goes before one that two make: a letter too many, too few, another one, or two letters in
    the wrong order. Of words that are as near, the more frequent one goes first.

    Source: Damerau 1964, "A technique for computer detection and correction of spelling errors": four in five misspelt words
    have one slip.
    """

    table: WordTable
    _found: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False, compare=False)
    # first byte → lengths and letters of the words that begin with it
    _heads: dict[int, tuple[slice, Rows, npt.NDArray[np.uint64]]] = field(
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
        found = self._one_slip(word) if word.isascii() else {}
        if len(found) < _SHOWN and (not word.isascii() or len(word) >= _TWO_SLIPS):
            most = 2 if len(word) >= _TWO_SLIPS else 1
            found |= {other: slips for other, slips in self._begun_alike(word, most).items() if other not in found}
        ranked = sorted(found, key=lambda other: (found[other], -self.table.count_of(other), other))
        yield from ranked[:_SHOWN]

    def _one_slip(self, word: str) -> dict[str, int]:
        """Return the words that one slip makes of a word of ASCII letters."""
        cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
        slips = [a + b[1] + b[0] + b[2:] for a, b in cuts if len(b) > 1] + [a + b[1:] for a, b in cuts if b]
        slips += [a + letter + b[skip:] for a, b in cuts for letter in ascii_lowercase for skip in (1, 0)]
        unique = [*dict.fromkeys(slips)]
        return {slip: 1 for slip, at in zip(unique, self.table.words.find_all(unique).tolist(), strict=True) if at >= 0}

    def _begun_alike(self, word: str, most: int) -> dict[str, int]:
        """Return the words with the same first letter that at most so many slips make of a word, with their number."""
        written = word.encode("utf-8", "replace")
        here, lengths_H, letters_H = self._head(written[0])
        # two slips change the length by two letters, and at most four letters of all that occur
        width = 1 if word.isascii() else 2
        own = np.bitwise_or.reduce(_bits(np.frombuffer(written, np.uint8)))
        apart = np.bitwise_count(letters_H ^ own)
        close = (np.abs(lengths_H - len(written)) <= most * width) & (apart <= 2 * most * width)
        places = np.flatnonzero(close) + here.start
        others = [self.table.words[at].decode("utf-8", "replace") for at in places.tolist()]
        slips = [(other, slips_between(word, other, most)) for other in others]
        return {other: number for other, number in slips if number <= most}

    def _head(self, first: int) -> tuple[slice, Rows, npt.NDArray[np.uint64]]:
        """Return the place of the words that begin with a byte, their lengths, and the letters that each has as bits."""
        if first not in self._heads:
            words = self.table.words
            begin = bisect_left(words, bytes([first]))
            end = bisect_left(words, bytes([first + 1]), begin)
            starts_H = np.where(np.arange(begin, end) > 0, words.ends[np.arange(begin, end) - 1], 0)
            lengths_H = words.ends[begin:end] - starts_H
            letters_H = np.zeros(0, np.uint64)
            if end > begin:
                bits = _bits(words.letters[starts_H[0] : words.ends[end - 1]])
                letters_H = np.bitwise_or.reduceat(bits, starts_H - starts_H[0])
            self._heads[first] = slice(begin, end), lengths_H, letters_H
        return self._heads[first]


def _is_letters(word: str) -> bool:
    """True if a word has letters alone, and signs for vowels, as scripts of India write."""
    return word.isalpha() or all(one.isalpha() or category(one)[0] == "M" for one in word)


def _bits(letters: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Return one bit of 64 for each byte."""
    return np.left_shift(np.uint64(1), (letters & 63).astype(np.uint64))


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
