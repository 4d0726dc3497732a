"""The training text as files that gensim trains on in full.

gensim's fast path reads text files, one line after the other, into jobs: it adds lines until a job has *more than* 10,000
words, and trains the first 10,000 that subsampling left of it. Of plain lines it therefore loses words in silence: of
20 MB of Wikipedia, a document per line, 4.5 % at subsample = 1e-3 and 19 % when nothing is subsampled. Here every job is
packed with at most 9,999 words and filled up to 10,001 with a mark that is not in the vocabulary, which gensim skips. All
words are trained.

It also splits one file among its threads by bytes, so that some ranges are trained twice and others never. Here the text
is in several files ("parts"), each trained from its first byte to its last by one thread.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.errors import InputError
from wordpipe.words.lines import MAX_LINE, Lines

__all__ = ["CorpusFiles", "Part", "part_words", "write_corpus_files"]

_MARK = b"-"
_JOB_READS = 10_001  # gensim adds lines to a job until it has more than 10,000 words
_SLICE = 2_000_000  # words turned into text at a time: 12 MB


@dataclass(frozen=True, slots=True)
class Part:
    """One file: some whole jobs.

    Attributes:
        path: where it lies.
        words: words to train.
        marks: filling marks, which gensim counts as words read.
    """

    path: Path
    words: int
    marks: int


@dataclass(frozen=True, slots=True)
class CorpusFiles:
    """The whole training text.

    Attributes:
        parts: the files, in order.
        texts: sentences or documents with any kept word.
        lines: lines written.
    """

    parts: tuple[Part, ...]
    texts: int
    lines: int

    @property
    def words(self) -> int:
        """Words of one epoch."""
        return sum(part.words for part in self.parts)

    @property
    def cuts(self) -> int:
        """How often a text was too long for one line."""
        return self.lines - self.texts


def part_words(words: int, threads: int) -> int:
    """A size of part that keeps every thread busy and lets a stop signal be obeyed within seconds."""
    return max(MAX_LINE, min(1_000_000, words // (8 * threads)))


def write_corpus_files(
    lines: Iterable[Lines], folder: Path, *, vocab_size: int, words_per_part: int = 1_000_000
) -> CorpusFiles:
    """Write the lines into numbered files in `folder`, every word as its row in decimal.

    Args:
        lines: the training text.
        folder: an existing scratch folder.
        vocab_size: number of rows.
        words_per_part: a file is closed once it has this many words.

    Raises:
        InputError: there is no word at all.
    """
    with _PartWriter(folder, vocab_size, words_per_part) as writer:
        for some in lines:
            writer.write(some)
    if not writer.parts:
        raise InputError("the training text has no words", hint="give more text or lower --min-count")
    return CorpusFiles(tuple(writer.parts), writer.texts, writer.lines)


class _PartWriter:
    """Packs lines into jobs, and jobs into files."""

    def __init__(self, folder: Path, vocab_size: int, words_per_part: int) -> None:
        self.parts: list[Part] = []
        self.texts = self.lines = 0
        self._folder = folder
        self._words_per_part = words_per_part
        self._vocab_size = vocab_size
        self._texts_of_rows = _decimal_words(vocab_size)
        self._file: BinaryIO | None = None
        self._job_words = self._part_words = self._part_marks = 0

    def __enter__(self) -> "_PartWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._close_part()

    def write(self, some: Lines) -> None:
        """Append whole lines."""
        self.texts += some.texts
        self.lines += len(some.lengths)
        ends = np.cumsum(some.lengths)
        first = 0
        while first < len(ends):
            start = int(ends[first - 1]) if first else 0
            stop_line = int(np.searchsorted(ends, start + _SLICE, side="right"))
            stop_line = max(stop_line, first + 1)
            self._write_slice(some.rows[start : ends[stop_line - 1]], ends[first:stop_line] - start)
            first = stop_line

    def _write_slice(self, rows: npt.NDArray[np.int32], ends: npt.NDArray[np.int64]) -> None:
        """Write lines that end at `ends`, a job at a time."""
        codes = rows.astype(np.int64)
        codes[ends - 1] += self._vocab_size  # the second half of the table ends its words with a newline
        text = self._texts_of_rows.take(pa.array(codes))
        data = memoryview(text.buffers()[2])
        byte_of_word = np.frombuffer(text.buffers()[1], dtype=np.int32)
        first = 0
        while first < len(ends):
            done = int(ends[first - 1]) if first else 0
            stop = int(np.searchsorted(ends, done + MAX_LINE - self._job_words, side="right"))
            if stop == first:  # the next line does not fit into this job
                self._close_job()
                continue
            self._open_part().write(data[byte_of_word[done] : byte_of_word[ends[stop - 1]]])
            self._job_words += int(ends[stop - 1]) - done
            first = stop

    def _open_part(self) -> BinaryIO:
        if self._file is None:
            self._file = (self._folder / f"part-{len(self.parts):05}.txt").open("wb")
        return self._file

    def _close_job(self) -> None:
        """Fill the job up, so that gensim takes it as it is; close the file too once it is large enough."""
        marks = _JOB_READS - self._job_words
        self._open_part().write(b" ".join([_MARK] * marks) + b"\n")
        self._part_words += self._job_words
        self._part_marks += marks
        self._job_words = 0
        if self._part_words >= self._words_per_part:
            self._close_part()

    def _close_part(self) -> None:
        if self._job_words:
            self._close_job()
        if self._file is not None:
            self._file.close()
            self.parts.append(Part(Path(self._file.name), self._part_words, self._part_marks))
            self._file = None
            self._part_words = self._part_marks = 0


def _decimal_words(vocab_size: int) -> pa.StringArray:
    """Every row in decimal, first followed by a space, then all again followed by a newline.

    Taking from this table writes the file at 60 million words/s on one core; formatting the numbers of the text itself
    would write the same few digits over and over.
    """
    digits = pa.array(np.arange(vocab_size)).cast(pa.string())
    return pa.concat_arrays(
        [pc.binary_join_element_wise(digits, "", " "), pc.binary_join_element_wise(digits, "", "\n")]
    )
