"""The training text as numbers: blocks of it on their way, and the whole of it on disk.

On disk it is a flat file of int32, the row of every kept word in order. The first word of a text is stored as `~row`, which is
negative, so a piece from anywhere knows where texts begin in it; a window never reaches beyond its text. A text may be as
long as it likes.
"""

import errno
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from wordpipe.errors import InputError

__all__ = ["TrainingText", "Words", "write_text"]


@dataclass(frozen=True, slots=True)
class Words:
    """Some of the text's words, in order.

    Attributes:
        ids: the words, int32; ids of the tokens artifact or rows of the vocabulary, as the context says.
        starts: where in `ids` new texts begin, ascending, int64; words before the first go on with the text before. A text
            without any word leaves no trace but a start that equals the next one, or the length of `ids`.
    """

    ids: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TrainingText:
    """The whole training text on disk.

    Attributes:
        path: a flat file of little-endian int32.
        words: how many there are.
        texts: texts with any word.
    """

    path: Path
    words: int
    texts: int

    def read(self, begin: int, end: int) -> npt.NDArray[np.int32]:
        """Words `begin` to `end`, int32, the first of each text as `~row`; what lies outside the text is left out.

        Raises:
            OSError: the file is shorter than it was.
        """
        begin, end = max(begin, 0), min(end, self.words)
        found = np.fromfile(self.path, dtype="<i4", count=max(end - begin, 0), offset=4 * begin)
        if len(found) < end - begin:
            raise OSError(errno.EIO, "the training text was cut", str(self.path))
        return found


def write_text(blocks: Iterable[Words], path: Path) -> TrainingText:
    """Write the text to a new file.

    Args:
        blocks: rows of the vocabulary.
        path: the file.

    Raises:
        InputError: there is no word at all.
    """
    words = texts = 0
    begun = False  # whether the open text has any word
    with path.open("wb") as file:
        for block in blocks:
            rows = block.ids.astype("<i4")
            begins = np.unique(block.starts[block.starts < len(rows)])
            if not begun and len(rows) and not (len(begins) and begins[0] == 0):
                begins = np.concatenate([[0], begins])
            rows[begins] = ~rows[begins]
            file.write(rows.data)  # tofile says nothing when the disk is full
            words += len(rows)
            texts += len(begins)
            begun = begun or len(rows) > 0
            if len(block.starts) and block.starts[-1] == len(rows):
                begun = False
    if not words:
        raise InputError("the training text has no words", hint="give more text or lower --min-count")
    return TrainingText(path, words, texts)
