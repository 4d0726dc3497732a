"""Words: cut out of text, counted as runs of it, and numbered in a list.

A word is a run of letters with inner apostrophes or hyphens, or a number, in lower case unless asked otherwise, whatever
the subword algorithm. Case is folded word by word. Scripts written without spaces (Chinese, Japanese, Thai, Lao, Khmer,
Burmese) have no such runs; there the tokenizer's tokens are the words. Invisible characters part no word and are in
none, as in search by words (`wording.visible`).

A compiled scanner finds runs as they are written ("The", "the"); folding makes words of distinct runs, once each, so that
Python sees a run once and not at every place where it is.

>>> WordSplitter()("The sea-bed isn't at 3.5 km.")
['the', 'sea-bed', "isn't", 'at', '3.5', 'km']
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import regex

from wordpipe.tokens.vocabulary import I64, U8, U32, interleaved, offsets_of
from wordpipe.wording import visible

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from wordpipe.tokens.counting import SpillingTable, StringCounts

UNSPACED_SCRIPTS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
SPACED_LETTER = rf"[[\p{{L}}\p{{M}}\p{{N}}]--[{UNSPACED_SCRIPTS}]]"
WORD_PATTERN = regex.compile(
    rf"""(?V1x)
      [{UNSPACED_SCRIPTS}ー々]+                                 # cut at token boundaries afterwards
    | \p{{N}}+ (?: [.,] \p{{N}}+ )+                          # 3.5  1,000
    | {SPACED_LETTER}+ (?: ['’\-‐] {SPACED_LETTER}+ )*         # isn't  sea-bed
    """
)
ASCII_WORD_PATTERN = re.compile(
    r"[0-9]+(?:[.,][0-9]+)+|[A-Za-z0-9]+(?:['\-][A-Za-z0-9]+)*"
)  # the same, five times as fast
UNSPACED_START = regex.compile(rf"[{UNSPACED_SCRIPTS}]")

_CACHED_CHARS = 32  # longer runs seldom come again
_AT_ONCE = 1 << 14  # runs folded at a time: those that are not ASCII become Python strings
_LOWER = np.arange(256, dtype=np.uint8)
_LOWER[ord("A") : ord("Z") + 1] += 32

SplitRun = Callable[[str], list[str]]


def _whole(run: str) -> list[str]:
    """Return a run of text as one word."""
    return [run]


class WordSplitter:
    """Cuts text into words.

    Args:
        split_run: cuts a run of a script without spaces; such runs stay whole where there is none.
        keep_case: do not fold case.

    Attributes:
        keep_case: likewise.
    """

    def __init__(self, split_run: SplitRun = _whole, *, keep_case: bool = False) -> None:
        self._split_run = split_run
        self._cached_split_run = lru_cache(1 << 16)(split_run)
        self.keep_case = keep_case

    def __call__(self, text: str) -> list[str]:
        """Return the words of `text` in order."""
        if text.isascii():
            return ASCII_WORD_PATTERN.findall(text if self.keep_case else text.lower())
        return [word for run in WORD_PATTERN.findall(visible(text)) for word in self.of_run(run)]

    def runs(self, text: str) -> list[tuple[int, int]]:
        """Return where the runs of a text begin and end that words are cut out of, in characters.

        `of_run` of its visible text gives a run's words.
        """
        seen = visible(text)
        found = [match.span() for match in WORD_PATTERN.finditer(seen)]
        if len(seen) == len(text):
            return found
        places, at = [], -1
        for letter in seen:  # those of `text`, some left out
            at = text.index(letter, at + 1)
            places.append(at)
        return [(places[start], places[stop - 1] + 1) for start, stop in found]

    def of_run(self, run: str) -> list[str]:
        """Return the words of one run of the word pattern: itself, or its parts; in lower case unless case is kept."""
        run = run if self.keep_case else run.lower()
        if not UNSPACED_START.match(run):
            return [run]
        return (self._cached_split_run if len(run) <= _CACHED_CHARS else self._split_run)(run)


def run_splitter(tokenizer: "Tokenizer") -> SplitRun:
    """Return a function that cuts a run of words at the boundaries of its tokens."""
    from wordpipe.tokens.read import library_errors

    def split(run: str) -> list[str]:
        with library_errors("the tokenizer cannot encode the text", "tokenizer.json"):
            ends = {end for _, end in tokenizer.encode(run, add_special_tokens=False).offsets}
        cuts = sorted({0, len(run), *ends})
        return [run[start:end] for start, end in pairwise(cuts)]

    return split


@dataclass(frozen=True)
class Folded:
    """The words of many runs of text, folded to lower case or as written.

    Attributes:
        data: uint8, the words' UTF-8, joined.
        offsets: int64 [words + 1], where each word begins and ends.
        run_offsets: int64 [runs + 1], which words are those of each run.
    """

    data: U8
    offsets: I64
    run_offsets: I64


def fold_runs(data: U8, offsets: I64, split: WordSplitter) -> Folded:
    """Return the words of runs that the scanner has found.

    Args:
        data: uint8, the runs' UTF-8.
        offsets: int64 [runs + 1], where each begins and ends in `data`, one after the other.
        split: says whether case is kept, and gives the words of a run that is not plain ASCII.
    """
    data, offsets = data[offsets[0] : offsets[-1]], offsets - offsets[0]
    is_wide = np.zeros(len(offsets) - 1, np.bool_)
    is_wide[np.searchsorted(offsets, np.flatnonzero(data >= 0x80), side="right") - 1] = True
    plain = data if split.keep_case else _LOWER[data]
    if not is_wide.any():
        return Folded(plain, offsets, np.arange(len(offsets), dtype=np.int64))
    # what is not plain ASCII becomes Python strings
    rows, lengths = np.flatnonzero(is_wide), np.diff(offsets)
    found = [split.of_run(data[offsets[row] : offsets[row + 1]].tobytes().decode()) for row in rows]
    encoded = [word.encode() for words in found for word in words]
    words_per_run = np.ones(len(is_wide), np.int64)
    words_per_run[rows] = [len(words) for words in found]
    words, word_offsets = interleaved(
        np.repeat(is_wide, words_per_run),
        (np.frombuffer(b"".join(encoded), np.uint8), offsets_of([len(word) for word in encoded])),
        (plain[np.repeat(~is_wide, lengths)], offsets_of(lengths[~is_wide])),
    )
    return Folded(words, word_offsets, offsets_of(words_per_run))


def fold_counts(parts: Iterable["StringCounts"], split: WordSplitter, *, table: "SpillingTable") -> None:
    """Add up counts of words out of counts of runs.

    Args:
        parts: runs as the scanner found them, and how often each occurs.
        split: gives the words of a run.
        table: out: the words are counted here.
    """
    for part in parts:
        for start in range(0, len(part), _AT_ONCE):
            stop = min(len(part), start + _AT_ONCE)
            folded = fold_runs(part.data, part.offsets[start : stop + 1], split)
            offsets = folded.offsets.astype(np.int32)
            weights = np.repeat(part.counts[start:stop], np.diff(folded.run_offsets))
            table.add(folded.data, offsets[:-1], offsets[1:], weights)


class WordNumbers:
    """The numbers of the words of runs; words that are not in the list are left out and have no number. Thread-safe.

    Args:
        words: the list; a word's number is its row.
        split: gives the words of a run.
    """

    def __init__(self, words: "StringCounts", split: WordSplitter) -> None:
        from wordpipe.tokens.kernels.string_table import StringTable  # not above: a query splits words without numba

        self._split = split
        self._table = StringTable()
        self._table.look_up(words.data, *words.spans, np.empty(len(words), np.int32))

    def encode(self, data: U8, starts: I64, ends: I64) -> tuple[U32, I64]:
        """Return the numbers in the list of words of runs that lie one after the other in `data`.

        Returns:
            uint32 [words], and int64 [runs + 1]: which of them are each run's.
        """
        folded = fold_runs(data, np.append(starts, ends[-1:]), self._split)
        numbers = np.empty(len(folded.offsets) - 1, np.int32)
        offsets = folded.offsets.astype(np.int32)
        self._table.find(folded.data, offsets[:-1], offsets[1:], numbers)
        listed = numbers >= 0
        return numbers[listed].astype(np.uint32), offsets_of(listed)[folded.run_offsets]
