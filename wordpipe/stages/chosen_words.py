"""Which words of a table are shown: the commonest, those of a list, or the neighbours of one."""

from collections import Counter
from pathlib import Path

import numpy as np
import numpy.typing as npt

from wordpipe.errors import InputError
from wordpipe.metrics.vectors import has_direction
from wordpipe.words.table import WordVectors

__all__ = ["commonest", "listed", "nearest_to", "with_direction"]

LeftOut = Counter[str]
"""Why words that were asked for are not shown → how many."""


def commonest(table: WordVectors, n: int) -> npt.NDArray[np.int64]:
    """Rows of the `n` commonest words."""
    return np.arange(min(n, len(table)))


def nearest_to(table: WordVectors, word: str, n: int) -> npt.NDArray[np.int64]:
    """Rows of a word and of the `n` - 1 words nearest to it, ascending.

    Raises:
        InputError: the word has no vector, or one without a direction.
    """
    near = table.neighbours([word], k=n - 1)
    if not near:
        raise InputError(f"the vector of {word!r} has no direction, so nothing is near it", hint="name another word")
    return np.sort(np.array([table.find(word), *(one.row for one in near)], dtype=np.int64))


def listed(table: WordVectors, path: Path, most: int, left_out: LeftOut) -> npt.NDArray[np.int64]:
    """Rows of the words in a UTF-8 file, one per line, ascending; blank lines mean nothing. The commonest `most` are kept.

    Raises:
        InputError: there is no such file, it is no UTF-8, or none of its words has a vector.
    """
    wanted = [word for line in _lines(path) if (word := line.strip())]
    found = [row for word in wanted if (row := table.find(word)) is not None]
    rows = np.unique(np.array(found, dtype=np.int64))
    if not len(rows):
        raise InputError(
            "no word of the list has a vector", where=path, got=f"{len(wanted)} words", hint="one word per line"
        )
    left_out["unknown"] = len(wanted) - len(found)
    left_out["repeated"] = len(found) - len(rows)
    left_out["beyond_the_limit"] = max(0, len(rows) - most)
    return rows[:most]


def with_direction(table: WordVectors, rows: npt.NDArray[np.int64], left_out: LeftOut) -> npt.NDArray[np.int64]:
    """Those of the rows whose vector is finite and not zero."""
    valid = has_direction(table.vectors[rows])
    left_out["no_direction"] = int((~valid).sum())
    kept: npt.NDArray[np.int64] = rows[valid]
    return kept


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8-sig").split("\n")  # and at no other mark, which may be a part of a word
    except (FileNotFoundError, IsADirectoryError):
        raise InputError("no such file of words", where=path) from None
    except UnicodeDecodeError as error:
        raise InputError("the list of words is not UTF-8", where=path, got=f"byte {error.start}") from None
