"""Words of the vocabulary that are spelled almost like an unknown one."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["edit_distances", "similar_words"]


def similar_words(word: str, vocabulary: Sequence[str], *, n: int = 3, look_at: int = 200_000) -> list[str]:
    """The words nearest in spelling: at most one edit away from a short word, two from a longer one.

    Args:
        word: the unknown word.
        vocabulary: known words, the commonest first; of equally near words the commoner is given.
        n: at most so many.
        look_at: how many of the commonest words are considered.
    """
    most = 1 if len(word) <= 4 else 2
    near = [known for known in vocabulary[:look_at] if abs(len(known) - len(word)) <= most and known]
    distances = edit_distances(word, near)
    order = np.argsort(distances, kind="stable")[:n]
    return [near[index] for index in order if distances[index] <= most]


def edit_distances(word: str, others: Sequence[str]) -> npt.NDArray[np.int64]:
    """Insertions, deletions, substitutions and swaps of neighbours that turn `word` into each of `others`.

    One table of the dynamic programme is filled for all words at once, a cell of all of them at a time.

    Returns:
        int64 of the length of `others`.

    Source: Damerau-Levenshtein distance in its restricted form (optimal string alignment).
    """
    letters_NL, lengths_N = _letters(others)
    wanted = [ord(letter) for letter in word]
    n, longest = letters_NL.shape
    before: npt.NDArray[np.int64] = np.zeros((longest + 1, n), dtype=np.int64)  # row i - 2
    above = np.repeat(np.arange(longest + 1), n).reshape(longest + 1, n)  # row i - 1
    for i, letter in enumerate(wanted, start=1):
        row = np.empty_like(above)
        row[0] = i
        for j in range(1, longest + 1):
            same = letters_NL[:, j - 1] == letter
            row[j] = np.minimum(above[j - 1] + ~same, np.minimum(above[j], row[j - 1]) + 1)
            if i > 1 and j > 1:
                swapped = (letters_NL[:, j - 2] == letter) & (letters_NL[:, j - 1] == wanted[i - 2])
                row[j] = np.where(swapped, np.minimum(row[j], before[j - 2] + 1), row[j])
        before, above = above, row
    distances: npt.NDArray[np.int64] = above[lengths_N, np.arange(n)]
    return distances


def _letters(words: Sequence[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Code points of the words, 0 beyond their ends, (N, L); and their lengths."""
    lengths_N = np.array([len(word) for word in words], dtype=np.int64)
    longest = int(lengths_N.max(initial=0))
    padded = "".join(word.ljust(longest, "\0") for word in words)
    points = np.frombuffer(padded.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    return points.reshape(len(words), longest), lengths_N
