"""The words of a corpus: counted as runs of the text, folded, listed, and their numbers put in the place of the text.

A scanner finds runs as they are written ("The", "the"); folding makes words of distinct runs, once each, so that Python
sees a run once and not at every place where it stands.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from wordpipe.compiled import kernel, read_only
from wordpipe.tokens.counting import Pretokens, SpillingTable
from wordpipe.tokens.kernels.table import UnitTable
from wordpipe.tokens.ragged import I64, U8, U32, Flags, offsets_of
from wordpipe.tokens.words import WordSplitter

_LOWER = np.arange(256, dtype=np.uint8)
_LOWER[ord("A") : ord("Z") + 1] += 32


_AT_ONCE = 1 << 14  # runs folded at a time: those that are not ASCII become Python strings


@dataclass(frozen=True)
class Folded:
    """The words of many runs.

    Attributes:
        data: uint8, the words' UTF-8, joined.
        offsets: int64 [words + 1], where each word begins and ends.
        run_offsets: int64 [runs + 1], which words are those of each run.
    """

    data: U8
    offsets: I64
    run_offsets: I64


def fold_runs(data: U8, offsets: I64, split: WordSplitter, *, keep_case: bool) -> Folded:
    """The words of runs that the scanner has found.

    Args:
        data: uint8, the runs' UTF-8.
        offsets: int64 [runs + 1], where each begins and ends in `data`, one after the other.
        split: gives the words of a run that is not plain ASCII.
        keep_case: leave ASCII as it is (`split` knows by itself).
    """
    data, offsets = data[offsets[0] : offsets[-1]], offsets - offsets[0]
    wide = np.zeros(len(offsets) - 1, np.bool_)
    _mark_wide(read_only(data), offsets, wide)
    lengths = np.diff(offsets)
    plain = data if keep_case else _LOWER[data]
    if not wide.any():
        return Folded(plain, offsets, np.arange(len(offsets), dtype=np.int64))
    rows = np.flatnonzero(wide)
    found = [split.of_run(data[offsets[row] : offsets[row + 1]].tobytes().decode()) for row in rows]
    encoded = [word.encode() for words in found for word in words]
    per_run = np.ones(len(wide), np.int64)
    per_run[rows] = [len(words) for words in found]
    is_wide = np.repeat(wide, per_run)
    word_lengths = np.empty(len(is_wide), np.int64)
    word_lengths[is_wide], word_lengths[~is_wide] = [len(word) for word in encoded], lengths[~wide]
    out = np.empty(int(word_lengths.sum()), np.uint8)
    belongs = np.repeat(is_wide, word_lengths)
    out[belongs] = np.frombuffer(b"".join(encoded), np.uint8)
    out[~belongs] = plain[np.repeat(~wide, lengths)]
    return Folded(out, offsets_of(word_lengths), offsets_of(per_run))


def fold_counts(parts: Iterable[Pretokens], split: WordSplitter, *, keep_case: bool, table: SpillingTable) -> None:
    """Counts of words out of counts of runs: once a tokenizer is there, its pieces divide the unspaced runs.

    Args:
        parts: runs as the scanner found them, and how often each occurs.
        split: gives the words of a run.
        keep_case: whether words are counted as written.
        table: out: the words are counted here.
    """
    for part in parts:
        for start in range(0, len(part), _AT_ONCE):
            stop = min(len(part), start + _AT_ONCE)
            folded = fold_runs(part.data, part.offsets[start : stop + 1], split, keep_case=keep_case)
            offsets = folded.offsets.astype(np.int32)
            weights = np.repeat(part.counts[start:stop], np.diff(folded.run_offsets))
            table.add(folded.data, offsets[:-1], offsets[1:], weights)


class WordNumbers:
    """Gives the numbers of the words of runs; words that are not in the list are left out and have no number. Thread-safe.

    Args:
        words: the list; a word's number is its row.
        split: gives the words of a run.
        keep_case: whether words are listed as written.
    """

    def __init__(self, words: Pretokens, split: WordSplitter, *, keep_case: bool) -> None:
        self._split, self._keep_case = split, keep_case
        self._table = UnitTable()
        offsets = words.offsets.astype(np.int32)
        numbers = np.empty(len(words), np.int32)
        self._table.look_up(words.data, offsets[:-1], offsets[1:], numbers)

    def encode(self, data: U8, starts: I64, ends: I64) -> tuple[U32, I64]:
        """The numbers of the words of runs that lie one after the other in `data`.

        Returns:
            uint32 [words], and int64 [runs + 1]: which of them are each run's.
        """
        folded = fold_runs(data, np.append(starts, ends[-1:]), self._split, keep_case=self._keep_case)
        numbers = np.empty(len(folded.offsets) - 1, np.int32)
        offsets = folded.offsets.astype(np.int32)
        self._table.find(folded.data, offsets[:-1], offsets[1:], numbers)
        listed = numbers >= 0
        return numbers[listed].astype(np.uint32), offsets_of(listed)[folded.run_offsets]


@kernel
def _mark_wide(data: U8, offsets: I64, wide: Flags) -> None:
    for row in range(len(wide)):
        for at in range(offsets[row], offsets[row + 1]):
            if data[at] >= 0x80:
                wide[row] = True
                break
