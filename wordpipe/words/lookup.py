"""The language of word queries (`king - man + woman`), the phrases that a table knows, and suggestions for misspellings.

A plus or minus counts as an operator only where it stands alone, so `well-known` and `c++` are words. Words side by side
are added: `paris france` asks for what is near both. Some tables of other programs (word2vec's own of Google News) and of
earlier versions hold phrases as words: `new_york`. In queries and in texts their words are then joined as in the table.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.errors import ConfigError

SIGNS = {"+": 1, "-": -1, "−": -1, "–": -1}  # editors turn a lone hyphen into a minus sign or a dash
PHRASE_SEPARATOR = "_"  # stands in no word of a text (see tokens/words.py), so a spelling says whether it is a phrase


@dataclass(frozen=True, slots=True)
class Expression:
    """Words to add and words to take away, in the order they were written."""

    positive: tuple[str, ...]  # words added
    negative: tuple[str, ...]  # words taken away
    has_operators: bool  # whether a plus or minus was written: every word is then needed for an answer


def parse_expression(text: str, join: Callable[[list[str]], list[str]] = list) -> Expression:
    """Read an expression; `join` makes one word of words side by side that are a phrase.

    Raises:
        ConfigError: no word, or an operator without a word after it.
    """
    # runs of words side by side, each with the sign before its first word
    terms: list[tuple[int, list[str]]] = [(1, [])]  # the sign of the first of some words side by side, and these words
    pending = None
    parts = text.split()
    for part in parts:
        if part not in SIGNS:
            terms[-1][1].append(part)
            pending = None
        elif pending is not None:
            raise _no_word_after(pending, text)
        else:  # an operator opens a run
            terms.append((SIGNS[part], []))
            pending = part
    if pending is not None:
        raise _no_word_after(pending, text)
    if not parts:
        raise ConfigError("the query has no words", hint="give words, for example: king - man + woman")
    # phrases joined; only the first word of a run has its sign
    words: dict[int, list[str]] = {1: [], -1: []}
    for sign, run in terms:
        for place, word in enumerate(join(run)):
            words[1 if place else sign].append(word)
    return Expression(tuple(words[1]), tuple(words[-1]), len(terms) > 1)


def _no_word_after(operator: str, text: str) -> ConfigError:
    """Return the error of a query with an operator that no word follows."""
    expected = "words and operators, for example: king - man + woman"
    return ConfigError(f"no word follows {operator!r}", where="query", got=text, expected=expected)


class KnownPhrases:
    """The phrases among the words of a table.

    Args:
        words: all spellings, the commonest first; those with `_` between words are the phrases.

    >>> KnownPhrases(["new", "york", "new_york", "new_york_city"]).join(["old", "new", "york", "city", "hall"])
    ['old', 'new_york_city', 'hall']
    """

    def __init__(self, words: Iterable[str]) -> None:
        self._phrases = dict.fromkeys(
            word for word in words if PHRASE_SEPARATOR in word and PHRASE_SEPARATOR in word.strip(PHRASE_SEPARATOR)
        )
        self._longest: dict[str, int] = {}  # words of the longest phrase that begins with this one
        for phrase in self._phrases:
            first, *others = phrase.split(PHRASE_SEPARATOR)
            self._longest[first] = max(self._longest.get(first, 0), 1 + len(others))

    def __len__(self) -> int:
        return len(self._phrases)

    def join(self, words: Sequence[str]) -> list[str]:
        """Join words to the longest known phrase at every place, from left to right. Case matters, as in the table."""
        joined: list[str] = []
        at = 0
        while at < len(words):
            size = min(self._longest.get(words[at], 1), len(words) - at)
            while size > 1 and PHRASE_SEPARATOR.join(words[at : at + size]) not in self._phrases:
                size -= 1
            joined.append(PHRASE_SEPARATOR.join(words[at : at + size]))
            at += size
        return joined


def similar_words(word: str, vocabulary: Sequence[str], *, n: int = 3) -> list[str]:
    """Return the (at most `n`) words nearest in spelling; for several words make one `Spellings`."""
    return Spellings(vocabulary).nearest(word, n)


class Spellings:
    """The spellings of N words, with which others are compared.

    Args:
        vocabulary: words, the commonest first.
        look_at: so many of them are considered.
    """

    def __init__(self, vocabulary: Sequence[str], *, look_at: int = 200_000) -> None:
        self._words = vocabulary[:look_at]
        self._points, self._lengths_N = _code_points(self._words)
        self._starts_N = np.cumsum(self._lengths_N) - self._lengths_N
        self._letters_N = np.zeros(len(self._words), np.uint64)
        there = np.flatnonzero(self._lengths_N)
        if len(there):
            self._letters_N[there] = np.bitwise_or.reduceat(_bits(self._points), self._starts_N[there])

    def nearest(self, word: str, n: int = 3) -> list[str]:
        """Return the (at most `n`) words nearest in spelling: at most one edit away from a short word, two from a longer one.

        Of equally near words the commoner is given. Compared are those of about the same length and the same letters, as an
        edit brings one letter and takes one away at most: of 50,000 words all were compared in 40 ms, these are in 0.5 to 5.
        """
        most = 1 if len(word) <= 4 else 2
        own = np.bitwise_or.reduce(_bits(_code_points([word])[0])) if word else np.uint64(0)
        near = np.flatnonzero((abs(self._lengths_N - len(word)) <= most) & (self._lengths_N > 0))
        letters = self._letters_N[near]
        near = near[(np.bitwise_count(letters & ~own) <= most) & (np.bitwise_count(own & ~letters) <= most)]
        distances = _distances(word, self._points, self._starts_N[near], self._lengths_N[near])
        order = np.argsort(distances, kind="stable")[:n]
        return [self._words[int(near[index])] for index in order if distances[index] <= most]


def _distances(
    word: str, points: npt.NDArray[np.uint32], starts_N: npt.NDArray[np.int64], lengths_N: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Count for suggestions the insertions, deletions, substitutions and swaps from `word` to N others.

    Their code points begin at `starts_N`. One table of the dynamic programme is filled for all words at once, a cell of all of
    them at a time.

    Source: Damerau-Levenshtein distance in its restricted form (optimal string alignment).
    """
    n, longest = len(lengths_N), int(lengths_N.max(initial=0))
    wanted, narrow = _code_points([word])[0], np.min_scalar_type(longest + len(word) + 1)
    columns = np.arange(longest)[:, None]
    letters_LN = np.where(columns < lengths_N, points[np.minimum(starts_N + columns, max(len(points) - 1, 0))], 0)
    before: npt.NDArray[Any] = np.zeros((longest + 1, n), narrow)  # row i - 2
    above: npt.NDArray[Any] = np.repeat(np.arange(longest + 1, dtype=narrow), n).reshape(longest + 1, n)  # row i - 1
    for i, letter in enumerate(wanted, start=1):
        row = np.empty_like(above)
        row[0] = i
        for j in range(1, longest + 1):
            other = letters_LN[j - 1] != letter
            row[j] = np.minimum(above[j - 1] + other, np.minimum(above[j], row[j - 1]) + narrow.type(1))
            if i > 1 and j > 1:
                swapped = (letters_LN[j - 2] == letter) & (letters_LN[j - 1] == wanted[i - 2])
                row[j] = np.where(swapped, np.minimum(row[j], before[j - 2] + narrow.type(1)), row[j])
        before, above = above, row
    distances: npt.NDArray[np.int64] = above[lengths_N, np.arange(n)].astype(np.int64)
    return distances


def _code_points(words: Sequence[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Return the code points of words, one after the other, and how many each has, (N,)."""
    listed = [*words]
    lengths_N = np.fromiter(map(len, listed), np.int64, len(listed))
    return np.frombuffer("".join(listed).encode("utf-32-le", "surrogatepass"), dtype="<u4"), lengths_N


def _bits(points: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
    """Return for each code point one bit of 64; some share one."""
    return np.uint64(1) << (points & np.uint32(63)).astype(np.uint64)
