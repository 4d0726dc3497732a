"""Words made of parts: their character n-grams, so that words that are spelled alike share what they learn.

As in fastText the n-grams are those of the word between two marks, `<word>`, so beginnings and endings are told from middles.
Unlike there, every n-gram has a row of its own: none are thrown into a common bucket by their hash. What only one word has is
left out: it would say nothing that the word's own vector does not.

Source: Bojanowski, Grave, Joulin, Mikolov 2017, "Enriching Word Vectors with Subword Information".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.compiled import kernel
from wordpipe.words.arrow_words import arrow_words
from wordpipe.words.hashes import HashRows, hashes_of, text_of
from wordpipe.words.ngram_counts import BEGIN, END, Block, blocks, commonest, is_part, occurrences_at_most

__all__ = ["NGramRows", "NGrams"]


class NGramRows:
    """The rows of n-grams, and which of them any word has.

    Args:
        spelled: (G,) the n-grams, `<` and `>` for the marks.
        min_n, max_n: characters of the shortest and of the longest.
    """

    def __init__(self, spelled: pa.StringArray, min_n: int, max_n: int) -> None:
        self.spelled, self.min_n, self.max_n = spelled, min_n, max_n

    def __len__(self) -> int:
        return len(self.spelled)

    @cached_property
    def _row_of(self) -> HashRows:
        return HashRows(hashes_of(self.spelled))

    def parts_of(self, word: str) -> npt.NDArray[np.int32]:
        """Rows of a word's n-grams, from its beginning on, int32; those without a row are left out."""
        return self.parts_of_all([word])[1]

    def parts_of_all(self, words: "pa.Array | Sequence[str]") -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Rows of the n-grams of N words.

        Returns:
            (N + 1,) int64: where each word's begin and the last's end; and the rows, int32, of all words one after the other.
        """
        data, offsets = text_of(arrow_words(words))
        starts = np.zeros(len(offsets), dtype=np.int64)
        # room for the most there can be: what is not written to takes no memory
        parts = np.empty(occurrences_at_most(offsets, self.min_n, self.max_n).sum(), dtype=np.int32)
        n = 0
        for block in blocks(data, offsets, self.min_n, self.max_n):
            n = _keep_known(block, self._row_of.rows_of(block.hashes), starts, parts, n)
        parts.resize(n, refcheck=False)
        return starts, parts


@dataclass(frozen=True, slots=True)
class NGrams:
    """V words as sums of n-grams.

    Attributes:
        part_starts: (V + 1,) int64: the n-grams of word r are `parts[part_starts[r] : part_starts[r + 1]]`.
        parts: int32 from 0 to G - 1, an n-gram as often as the word has it.
        rows: the G n-grams, those that occur most often in the text first; of equally common ones the one with the lowest
            hash. The commonest are the ones that are worth their memory: an n-gram is trained as often as it occurs.
        dropped: n-grams of two or more words that have no row, as there are more than `max_ngrams`.
        of_one_word: n-grams that have no row, as only one word has them.
    """

    part_starts: npt.NDArray[np.int64]
    parts: npt.NDArray[np.int32]
    rows: NGramRows
    dropped: int
    of_one_word: int

    @classmethod
    def of(
        cls,
        words: "pa.Array | Sequence[str]",
        counts_V: npt.NDArray[np.int64],
        min_n: int = 3,
        max_n: int = 6,
        max_ngrams: int = 2_000_000,
    ) -> "NGrams":
        """Find the n-grams of different words.

        Args:
            words: V words.
            counts_V: how often each occurs in the text.
            min_n: characters (code points) of the shortest n-gram, marks included.
            max_n: of the longest.
            max_ngrams: rows at most.
        """
        assert 1 <= min_n <= max_n, (min_n, max_n)
        text = text_of(some := arrow_words(words))
        kept = commonest(*text, np.ascontiguousarray(counts_V, dtype=np.int64), min_n, max_n, max_ngrams)
        spelled = _spelled(*text, min_n, max_n, kept.hashes)
        rows = NGramRows(spelled, min_n, max_n)
        return cls(*rows.parts_of_all(some), rows, kept.dropped, kept.of_one_word)

    @property
    def spelled(self) -> pa.StringArray:
        """The n-grams, (G,)."""
        return self.rows.spelled

    @property
    def min_n(self) -> int:
        """Characters of the shortest n-gram."""
        return self.rows.min_n

    @property
    def max_n(self) -> int:
        """Characters of the longest n-gram."""
        return self.rows.max_n

    def parts_of(self, word: str) -> npt.NDArray[np.int32]:
        """Rows of the n-grams of any word, see `NGramRows.parts_of`."""
        return self.rows.parts_of(word)


def _keep_known(
    block: Block, rows: npt.NDArray[np.int32], starts: npt.NDArray[np.int64], parts: npt.NDArray[np.int32], n: int
) -> int:
    """Write the rows that there are behind the `n` there are already, and where words end; returns how many there are now."""
    known = rows >= 0
    before = np.concatenate([[0], np.cumsum(known)])
    parts[n : n + before[-1]] = rows[known]
    starts[block.first + 1 : block.first + len(block.starts)] = n + before[block.starts[1:]]
    return n + int(before[-1])


def _spelled(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int32],
    min_n: int,
    max_n: int,
    hashes: npt.NDArray[np.uint64],
) -> pa.StringArray:
    """The n-grams of these hashes as text, (G,): each from the first word that has it."""
    row_of = HashRows(hashes)
    word_of, number_of = np.full(len(hashes), -1, dtype=np.int32), np.zeros(len(hashes), dtype=np.int32)
    for block in blocks(data, offsets, min_n, max_n):
        _note_first(row_of.rows_of(block.hashes), block.starts, block.first, word_of, number_of)
    ends = np.zeros(len(hashes) + 1, dtype=np.int32)
    text = np.empty(4 * max_n * len(hashes), dtype=np.uint8)
    _spell(data, offsets, min_n, max_n, word_of, number_of, ends, text)
    return pa.StringArray.from_buffers(len(hashes), pa.py_buffer(ends), pa.py_buffer(text[: ends[-1]].tobytes()))


@kernel
def _note_first(
    rows: npt.NDArray[np.int32], starts: npt.NDArray[np.int64], first: int,
    word_of: npt.NDArray[np.int32], number_of: npt.NDArray[np.int32],
) -> None:  # fmt: skip
    """Note for every n-gram that was not met before the word that has it, and the how-manieth of the word's it is."""
    for word in range(len(starts) - 1):
        for at in range(starts[word], starts[word + 1]):
            row = rows[at]
            if row >= 0 and word_of[row] < 0:
                word_of[row], number_of[row] = first + word, at - starts[word]


@kernel
def _spell(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int32], min_n: int, max_n: int,
    word_of: npt.NDArray[np.int32], number_of: npt.NDArray[np.int32], ends: npt.NDArray[np.int32], text: npt.NDArray[np.uint8],
) -> None:  # fmt: skip
    """Write the UTF-8 of every n-gram, one after the other, and where each ends."""
    written = 0
    for row in range(len(word_of)):
        begin, end = offsets[word_of[row]], offsets[word_of[row] + 1]
        characters = 2
        for at in range(begin, end):
            characters += (data[at] & 0xC0) != 0x80
        first, size = _place(number_of[row], characters, min_n, max_n)
        character = 0
        for at in range(begin - 1, end + 1):  # the bytes, with a mark on either side
            if begin <= at < end:
                byte = data[at]
                character += (byte & 0xC0) != 0x80
            else:
                byte = np.uint8(BEGIN if at < begin else END)
                character += 1
            if first < character <= first + size:
                text[written] = byte
                written += 1
        ends[row + 1] = written


@kernel
def _place(number: int, characters: int, min_n: int, max_n: int) -> tuple[int, int]:
    """The first character and the size of the `number`-th n-gram of a marked word."""
    for first in range(characters):
        for size in range(min_n, min(max_n, characters - first) + 1):
            if is_part(first, size, characters):
                if number == 0:
                    return first, size
                number -= 1
    return 0, 0
