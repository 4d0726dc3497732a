"""Sequences of token ids, joined in one array, grouped so that little is padding."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

__all__ = ["gathered", "padded", "runs_of", "token_batches"]

Ids = npt.NDArray[np.int64]


def token_batches(lengths_W: Ids, budget: int) -> Iterator[Ids]:
    """Groups of sequence numbers, longest sequences first, so that longest x count is at most `budget`.

    A sequence longer than the budget is a group of its own. Sequences of equal length keep their order.
    """
    order = np.argsort(-lengths_W, kind="stable")
    first = 0
    while first < len(order):
        size = max(1, budget // max(1, int(lengths_W[order[first]])))
        yield order[first : first + size]
        first += size


def gathered(values: Ids, starts_S: Ids, lengths_S: Ids) -> Ids:
    """The pieces of `values` that begin at `starts_S` and are `lengths_S` long, one after the other."""
    ends_S = np.cumsum(lengths_S)
    into = np.repeat(starts_S - (ends_S - lengths_S), lengths_S)
    picked: Ids = values[into + np.arange(len(into))]
    return picked


def padded(ids_N: Ids, lengths_S: Ids) -> tuple[Ids, npt.NDArray[np.bool_]]:
    """Ids (S, T) int64, filled up with 0, and where they are real (S, T) bool."""
    real_ST = np.arange(int(lengths_S.max(initial=0))) < lengths_S[:, None]
    ids_ST = np.zeros(real_ST.shape, dtype=np.int64)
    ids_ST[real_ST] = ids_N
    return ids_ST, real_ST


def runs_of(lengths_S: Ids) -> list[tuple[int, int]]:
    """How many sequences of the same length follow one another, and that length."""
    if not len(lengths_S):
        return []
    changes = np.flatnonzero(np.diff(lengths_S)) + 1
    starts = np.concatenate([[0], changes])
    counts = np.diff(np.concatenate([starts, [len(lengths_S)]]))
    return list(zip(counts.tolist(), lengths_S[starts].tolist(), strict=True))
