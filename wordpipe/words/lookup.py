"""The language of word queries (`king - man + woman`), the phrases that a table knows, and suggestions for misspellings.

A plus or minus counts as an operator only where it stands alone, so `well-known` and `c++` are words. Words side by side
are added: `paris france` asks for what is near both. Some tables of other programs (word2vec's own of Google News) and of
earlier versions hold phrases as words: `new_york`. In queries and in texts their words are then joined as in the table.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

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
    terms: list[tuple[int, list[str]]] = [(1, [])]  # the sign of the first of some words side by side, and these words
    pending = None
    parts = text.split()
    for part in parts:
        if part not in SIGNS:
            terms[-1][1].append(part)
            pending = None
        elif pending is not None:
            raise _no_word_after(pending, text)
        else:
            terms.append((SIGNS[part], []))
            pending = part
    if pending is not None:
        raise _no_word_after(pending, text)
    if not parts:
        raise ConfigError("the query has no words", hint="give words, such as: king - man + woman")
    words: dict[int, list[str]] = {1: [], -1: []}
    for sign, run in terms:
        for place, word in enumerate(join(run)):
            words[1 if place else sign].append(word)
    return Expression(tuple(words[1]), tuple(words[-1]), len(terms) > 1)


def _no_word_after(operator: str, text: str) -> ConfigError:
    expected = "words and operators such as: king - man + woman"
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
        """Join the longest phrase at every place, from left to right. Case matters, as it does in the table."""
        joined: list[str] = []
        at = 0
        while at < len(words):
            size = min(self._longest.get(words[at], 1), len(words) - at)
            while size > 1 and PHRASE_SEPARATOR.join(words[at : at + size]) not in self._phrases:
                size -= 1
            joined.append(PHRASE_SEPARATOR.join(words[at : at + size]))
            at += size
        return joined


def similar_words(word: str, vocabulary: Sequence[str], *, n: int = 3, look_at: int = 200_000) -> list[str]:
    """The (at most `n`) words nearest in spelling: at most one edit away from a short word, two from a longer one.

    The vocabulary has the commonest words first, of which `look_at` are considered; of equally near words the commoner is
    given.
    """
    most = 1 if len(word) <= 4 else 2
    near = [known for known in vocabulary[:look_at] if abs(len(known) - len(word)) <= most and known]
    distances = edit_distances(word, near)
    order = np.argsort(distances, kind="stable")[:n]
    return [near[index] for index in order if distances[index] <= most]


def edit_distances(word: str, others: Sequence[str]) -> npt.NDArray[np.int64]:
    """Insertions, deletions, substitutions and swaps of neighbours that turn `word` into each of `others`.

    One table of the dynamic programme is filled for all words at once, a cell of all of them at a time.

    Returns:
        int64 of the length of `others`.

    Source: Damerau-Levenshtein distance in its restricted form (optimal string alignment).
    """
    letters_NL, lengths_N = _letters(others)
    wanted = [ord(letter) for letter in word]
    n, longest = letters_NL.shape
    before: npt.NDArray[np.int64] = np.zeros((longest + 1, n), dtype=np.int64)  # row i - 2
    above = np.repeat(np.arange(longest + 1), n).reshape(longest + 1, n)  # row i - 1
    for i, letter in enumerate(wanted, start=1):
        row = np.empty_like(above)
        row[0] = i
        for j in range(1, longest + 1):
            same = letters_NL[:, j - 1] == letter
            row[j] = np.minimum(above[j - 1] + ~same, np.minimum(above[j], row[j - 1]) + 1)
            if i > 1 and j > 1:
                swapped = (letters_NL[:, j - 2] == letter) & (letters_NL[:, j - 1] == wanted[i - 2])
                row[j] = np.where(swapped, np.minimum(row[j], before[j - 2] + 1), row[j])
        before, above = above, row
    distances: npt.NDArray[np.int64] = above[lengths_N, np.arange(n)]
    return distances


def _letters(words: Sequence[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Code points of the words, 0 beyond their ends, (N, L); and their lengths."""
    lengths_N = np.array([len(word) for word in words], dtype=np.int64)
    longest = int(lengths_N.max(initial=0))
    padded = "".join(word.ljust(longest, "\0") for word in words)
    points = np.frombuffer(padded.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    return points.reshape(len(words), longest), lengths_N
