"""How many tokens each word of a text is made of."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer

from wordpipe.tokens.cutting import Spans, cut_words, row_buffers
from wordpipe.tokens.gathering import Gatherer
from wordpipe.tokens.words import WordSplitter

__all__ = ["WordPieces"]

_REMEMBERED = 64 << 20  # bytes for distinct words
_SPACE = 0x20


class WordPieces:
    """Counts words, their tokens, and the words that are split. Words are ours (`words`), as written, where spaces mark them.

    Each distinct word is encoded once, by itself and with the space that stands before it, if one does: tokens that span a
    word's edge are its own, and what follows it does not matter.

    Args:
        tokenizer: encodes the words.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._cut = cut_words()
        self._gatherer = Gatherer(self._encode, _REMEMBERED)
        self._split = WordSplitter(lambda run: [], keep_case=True)  # a run without spaces has no words then

    def count(self, texts: pa.Array) -> tuple[NDArray[np.int64], ...]:
        """int64 [rows] each: words, tokens of these words, words of several tokens, runs in scripts without spaces."""
        spans = _with_space(self._cut(texts), row_buffers(texts)[1])
        pieces, _ = self._gatherer.gather(spans)
        row = np.repeat(np.arange(len(texts)), np.diff(spans.row_ends, prepend=0))
        marked = pieces > 0

        def per_row(chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
            return np.bincount(row[chosen], minlength=len(texts))

        tokens = np.bincount(row, weights=pieces, minlength=len(texts)).astype(np.int64)
        return per_row(marked), tokens, per_row(pieces > 1), per_row(~marked)

    def _encode(
        self, data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """The number of tokens of each word, 0 for a run of a script without spaces: one number for each."""
        whole = data.tobytes()
        words = [whole[start:end].decode() for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        leads = [len(word) - len(word.lstrip(" ")) for word in words]
        pieces = np.zeros(len(words), np.uint32)
        places = [n for n, word in enumerate(words) if self._split.of_run(word[leads[n] :])]
        encodings = self._tokenizer.encode_batch([words[n] for n in places], add_special_tokens=False)
        for place, encoding in zip(places, encodings, strict=True):
            # a space alone, which some tokenizers part from its word, is none of the word's tokens
            pieces[place] = max(1, sum(end > leads[place] for _, end in encoding.offsets))
        return pieces, np.arange(len(words) + 1, dtype=np.int64)


def _with_space(spans: Spans, row_offsets: NDArray[np.int64]) -> Spans:
    """Words with the space before them, where there is one in the same row."""
    row = np.repeat(np.arange(len(spans.row_ends)), np.diff(spans.row_ends, prepend=0))
    before = np.maximum(spans.starts - 1, 0)
    spaced = (spans.starts > row_offsets[row]) & (spans.data[before] == _SPACE) if len(spans.data) else row > 0
    return Spans(spans.data, spans.starts - spaced.astype(np.int32), spans.ends, spans.row_ends)
