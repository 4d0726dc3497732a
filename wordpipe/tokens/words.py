"""What a word is, and how often each occurs.

A word is a run of letters with inner apostrophes or hyphens, or a number, in lower case unless asked otherwise, whatever
the subword algorithm. Scripts written without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese) have no such runs;
there the tokenizer's pieces stand in for words.

>>> WordSplitter()("The sea-bed isn't at 3.5 km.")
['the', 'sea-bed', "isn't", 'at', '3.5', 'km']
"""

import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache

import regex

__all__ = ["WordSplitter", "Words", "regroup"]

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
        self._pieces = lru_cache(1 << 16)(pieces)
        self._keep_case = keep_case

    def __call__(self, text: str) -> list[str]:
        """The words of `text` in order."""
        if not self._keep_case:
            text = text.lower()
        if text.isascii():
            return _ASCII_WORD.findall(text)
        words: list[str] = _WORD.findall(text)
        if not any(_UNSPACED_START.match(word) for word in words):
            return words
        return [part for word in words for part in (self._pieces(word) if _UNSPACED_START.match(word) else (word,))]


class Words:
    """The words of a corpus, the commonest first, numbered in that order; equal counts in the order of code points."""

    def __init__(self, counts: Counter[str]) -> None:
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        self.words = [word for word, _ in ordered]
        self.counts = [count for _, count in ordered]
        self.number = {word: number for number, word in enumerate(self.words)}


def regroup(counts: Counter[str], split: WordSplitter) -> Counter[str]:
    """Counts of words out of counts of whole runs: once a tokenizer is there, its pieces divide the unspaced runs."""
    words: Counter[str] = Counter()
    for run, count in counts.items():
        if run.isascii():
            words[run] += count
        else:
            for word in split(run):
                words[word] += count
    return words
