"""Words of the texts that are near to one that stands in none of them."""

import string
from collections.abc import Callable
from functools import lru_cache

from wordpipe.search.analysis.terms import Analyser
from wordpipe.search.knn import Rows
from wordpipe.search.postings import Terms

_LEAST_LETTERS, _MOST_LETTERS = 4, 24  # of a word for which others are looked up
_REMEMBERED = 4_096  # words whose neighbours are remembered: who types asks for the same beginnings again
_SHOWN = 2


class NearWords:
    """The words of some texts that one slip makes of another.

    Args:
        analyser: words to terms.
        terms: V terms of the texts.
        starts_V: (V + 1,) where the postings of each begin, which says in how many texts it stands.
    """

    def __init__(self, analyser: Analyser, terms: Terms, starts_V: Rows) -> None:
        self._analyser, self._terms, self._starts = analyser, terms, starts_V
        self._found: Callable[[str], tuple[str, ...]] = lru_cache(_REMEMBERED)(self._near)

    def of(self, word: str) -> list[str]:
        """The words of some text that one slip makes of this one, of each stem one, those of most texts first."""
        return [*self._found(word)]

    def _near(self, word: str) -> tuple[str, ...]:
        if not _LEAST_LETTERS <= len(word) <= _MOST_LETTERS:
            return ()
        letters = sorted({*string.ascii_lowercase, *word})
        cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
        slips = [a + b[1] + b[0] + b[2:] for a, b in cuts if len(b) > 1] + [a + b[1:] for a, b in cuts if b]
        slips += [a + letter + b[skip:] for a, b in cuts for letter in letters for skip in (1, 0)]
        near: dict[int, str] = {}
        stems = [self._analyser.stem(slip) for slip in slips]
        for slip, number in zip(slips, self._terms.find_all(stems).tolist(), strict=True):
            if number >= 0:
                near.setdefault(number, slip)
        return tuple(near[number] for number in sorted(near, key=self._texts_of, reverse=True)[:_SHOWN])

    def _texts_of(self, number: int) -> int:
        return int(self._starts[number + 1] - self._starts[number])
