"""Sequences of token ids, grouped so that little is padding."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["padded", "token_batches"]


def token_batches(lengths_W: npt.NDArray[np.int64], budget: int) -> Iterator[npt.NDArray[np.int64]]:
    """Groups of sequence numbers, longest sequences first, so that longest x count is at most `budget`.

    A sequence longer than the budget is a group of its own. Sequences of equal length keep their order.
    """
    order = np.argsort(-lengths_W, kind="stable")
    first = 0
    while first < len(order):
        size = max(1, budget // max(1, int(lengths_W[order[first]])))
        yield order[first : first + size]
        first += size


def padded(sequences: Sequence[Sequence[int]]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Ids (B, T) int64, filled up with 0, and where they are real (B, T) bool."""
    longest = max(len(sequence) for sequence in sequences)
    ids_BT = np.zeros((len(sequences), longest), dtype=np.int64)
    mask_BT = np.zeros((len(sequences), longest), dtype=np.bool_)
    for row, sequence in enumerate(sequences):
        ids_BT[row, : len(sequence)] = sequence
        mask_BT[row, : len(sequence)] = True
    return ids_BT, mask_BT
