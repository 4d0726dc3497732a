"""The training text as lines of vocabulary rows, for gensim; a window never reaches beyond its line.

A line is a sentence or a whole document, without the words that were dropped as rare (the window closes over them, as in
word2vec). A text longer than `MAX_LINE` words becomes several lines; nothing is cut off.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wordpipe.words.text import Words

__all__ = ["MAX_LINE", "LineCutter", "Lines", "cut_lines"]

MAX_LINE = 9_999  # what gensim surely trains in full (see corpus_file); a cut costs the few pairs across it, no word


@dataclass(frozen=True, slots=True)
class Lines:
    """Some whole lines, one after the other.

    Attributes:
        rows: vocabulary rows of all words, int32.
        lengths: words per line, int64, each from 1 to `MAX_LINE`; they sum to `len(rows)`.
        texts: texts that gave their first word since the last report; lines minus texts is the number of cuts.
    """

    rows: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int64]
    texts: int


class LineCutter:
    """Cuts a stream of words into lines; holds back the end that the next piece may continue."""

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._max_line = max_line
        self._open = np.zeros(0, dtype=np.int32)  # words of the open text that are in no line yet
        self._begun = False  # whether the open text has any word

    def feed(self, rows: npt.NDArray[np.int32], starts: npt.NDArray[np.int64]) -> Lines:
        """Take more words and give the lines that are complete.

        Args:
            rows: words, int32.
            starts: where in `rows` new texts begin, ascending; words before the first continue the open text.
        """
        sizes = np.diff(np.concatenate([[0], starts, [len(rows)]])).astype(np.int64)
        texts = int(np.count_nonzero(sizes)) - int(self._begun and sizes[0] > 0)
        self._begun = bool(sizes[-1] > 0 or (len(sizes) == 1 and self._begun))

        sizes[0] += len(self._open)
        rows = np.concatenate([self._open, rows])
        lengths = _line_lengths(sizes, self._max_line)
        held = int(sizes[-1] % self._max_line)
        self._open = rows[len(rows) - held :]
        return Lines(rows[: len(rows) - held], lengths[:-1] if held else lengths, texts)

    def finish(self) -> Lines:
        """Give what was held back, as the last line."""
        return self.feed(np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.int64))


def _line_lengths(sizes: npt.NDArray[np.int64], max_line: int) -> npt.NDArray[np.int64]:
    """Words per line when texts of these sizes are cut after every `max_line` words."""
    lines = -(-sizes // max_line)
    lengths = np.full(int(lines.sum()), max_line, dtype=np.int64)
    uneven = sizes % max_line > 0
    lengths[np.cumsum(lines)[uneven] - 1] = (sizes % max_line)[uneven]
    return lengths


def cut_lines(blocks: Iterable[Words]) -> Iterator[Lines]:
    """Cut a text into lines, in memory bounded by a block.

    Args:
        blocks: rows of the vocabulary.
    """
    cutter = LineCutter()
    for block in blocks:
        yield cutter.feed(block.ids, block.starts)
    yield cutter.finish()
