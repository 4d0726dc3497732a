"""What a word is.

A word is a run of letters with inner apostrophes or hyphens, or a number, in lower case unless asked otherwise, whatever
the subword algorithm. Case is folded word by word. Scripts written without spaces (Chinese, Japanese, Thai, Lao, Khmer,
Burmese) have no such runs; there the tokenizer's pieces stand in for words.

>>> WordSplitter()("The sea-bed isn't at 3.5 km.")
['the', 'sea-bed', "isn't", 'at', '3.5', 'km']
"""

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import regex

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_LETTERS = rf"[[\p{{L}}\p{{M}}\p{{N}}]--[{_UNSPACED}]]"
_WORD = regex.compile(
    rf"""(?V1x)
      [{_UNSPACED}ー々]+                                     # cut into pieces afterwards
    | \p{{N}}+ (?: [.,] \p{{N}}+ )+                          # 3.5  1,000
    | {_LETTERS}+ (?: ['’\-‐] {_LETTERS}+ )*                 # isn't  sea-bed
    """
)
_ASCII_WORD = re.compile(r"[0-9]+(?:[.,][0-9]+)+|[A-Za-z0-9]+(?:['\-][A-Za-z0-9]+)*")  # the same, five times as fast
_UNSPACED_START = regex.compile(rf"[{_UNSPACED}]")

_SHORT = 32  # longer runs seldom come again

Pieces = Callable[[str], list[str]]


def _whole(run: str) -> list[str]:
    return [run]


class WordSplitter:
    """Cuts text into words.

    Args:
        pieces: cuts a run of a script without spaces; such runs stay whole where there is none.
        keep_case: do not fold case.
    """

    def __init__(self, pieces: Pieces = _whole, *, keep_case: bool = False) -> None:
        self._pieces = pieces
        self._remembered = lru_cache(1 << 16)(pieces)
        self._keep_case = keep_case

    def __call__(self, text: str) -> list[str]:
        """The words of `text` in order."""
        if text.isascii():
            return _ASCII_WORD.findall(text if self._keep_case else text.lower())
        return [word for run in _WORD.findall(text) for word in self.of_run(run)]

    def runs(self, text: str) -> list[tuple[int, int]]:
        """Where the runs of `text` begin and end, in characters; each gives the words of `of_run`."""
        return [match.span() for match in _WORD.finditer(text)]

    def of_run(self, run: str) -> list[str]:
        """The words of one run that the word pattern has found: itself, or its pieces; in lower case unless told otherwise."""
        run = run if self._keep_case else run.lower()
        if not _UNSPACED_START.match(run):
            return [run]
        return (self._remembered if len(run) <= _SHORT else self._pieces)(run)


def piece_splitter(tokenizer: "Tokenizer") -> Pieces:
    """A function that cuts a run of text at the tokenizer's piece boundaries, never inside a character."""
    from wordpipe.tokens.read import Foreign

    def pieces(run: str) -> list[str]:
        with Foreign("the tokenizer cannot encode the text", "tokenizer.json"):
            ends = {end for _, end in tokenizer.encode(run, add_special_tokens=False).offsets}
        cuts = sorted({0, len(run), *ends})
        return [run[start:end] for start, end in pairwise(cuts)]

    return pieces
