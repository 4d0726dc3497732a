"""Dividing what is too long: token windows inside a text, and passages of whole sentences inside a document."""

import numpy as np
import numpy.typing as npt

__all__ = ["pack_sentences", "token_windows"]


def token_windows(length: int, size: int, overlap: int) -> list[tuple[int, int]]:
    """Windows (start, stop) over `length` tokens: each at most `size` long, sharing `overlap` with the one before.

    Every token is in a window; the last window may be shorter. No token gives no window.
    """
    assert 0 <= overlap < size
    if length <= 0:
        return []
    step = size - overlap
    starts = range(0, max(length - overlap, 1), step)
    return [(start, min(start + size, length)) for start in starts]


def pack_sentences(lengths_S: npt.NDArray[np.int64], size: int, overlap: int) -> list[tuple[int, int]]:
    """Passages (first, stop) of whole sentences of one document, each of at most `size` tokens.

    A passage repeats the last sentences of the one before where they have at most `overlap` tokens together. A
    sentence longer than `size` is a passage of its own.

    Args:
        lengths_S: tokens per sentence.
        size: tokens per passage.
        overlap: tokens repeated, at most.
    """
    passages: list[tuple[int, int]] = []
    first = stop = held = 0
    for number, length in enumerate(lengths_S.tolist()):
        if stop > first and held + length > size:
            passages.append((first, stop))
            room = min(overlap, size - length)
            while first < stop and held > room:
                held -= int(lengths_S[first])
                first += 1
        held += length
        stop = number + 1
    return [*passages, (first, stop)] if stop > first else passages
