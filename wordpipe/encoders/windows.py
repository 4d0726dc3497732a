"""Windows of a long text's tokens, as a model reads them, and batches of windows.

Shapes: N texts, W windows, S sequences of a batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Windows:
    """W windows of N texts.

    Attributes:
        ids: of all windows, special ones included, window after window.
        lengths: (W,) ids of each window, special ones included.
        firsts: (W,) where each window begins among the tokens of its text.
        tokens: (W,) tokens of the text in each window.
        counts: (N,) windows of each text; 0 of a text without a token.
    """

    ids: Ids
    lengths: Ids
    firsts: Ids
    tokens: Ids
    counts: Ids

    @property
    def starts(self) -> Ids:
        """The place in `ids` where each window begins, (W,)."""
        starts: Ids = np.cumsum(self.lengths) - self.lengths
        return starts


def frame(ids: Ids, offsets: Ids, *, size: int, overlap: int, before: list[int], after: list[int]) -> Windows:
    """Cut texts into windows: each at most `size` long, every token in one, the last one may be shorter; no token, no window.

    Args:
        ids: of all texts, one after the other.
        offsets: (N + 1,) where each text begins and ends in `ids`.
        size: tokens per window, at most.
        overlap: tokens that a window shares with the one before it; less than `size`.
        before: special ids before every window.
        after: special ids after it.
    """
    lengths_N, step = np.diff(offsets), size - overlap
    counts_N = np.where(lengths_N > 0, -(-np.maximum(lengths_N - overlap, 1) // step), 0)
    text_W = np.repeat(np.arange(len(lengths_N)), counts_N)
    firsts_W = (np.arange(len(text_W)) - np.repeat(np.cumsum(counts_N) - counts_N, counts_N)) * step
    tokens_W = np.minimum(size, lengths_N[text_W] - firsts_W)
    # each window is three stretches of what follows: the ids before, its tokens, the ids after
    values = np.concatenate([ids, np.array([*before, *after], dtype=np.int64)])
    starts_W3, lengths_W3 = np.empty((len(text_W), 3), np.int64), np.empty((len(text_W), 3), np.int64)
    starts_W3[:, 0], starts_W3[:, 1], starts_W3[:, 2] = len(ids), offsets[text_W] + firsts_W, len(ids) + len(before)
    lengths_W3[:, 0], lengths_W3[:, 1], lengths_W3[:, 2] = len(before), tokens_W, len(after)
    framed = gathered(values, starts_W3.ravel(), lengths_W3.ravel())
    return Windows(framed, lengths_W3.sum(axis=1), firsts_W, tokens_W, counts_N)


def token_batches(lengths_W: Ids, budget: int) -> Iterator[Ids]:
    """Yield batches of windows as groups of their numbers, longest first, so that longest x count is at most `budget`.

    A sequence longer than the budget is a group of its own. Sequences of equal length keep their order.
    """
    order = np.argsort(-lengths_W, kind="stable")
    first = 0
    while first < len(order):
        size = max(1, budget // max(1, int(lengths_W[order[first]])))
        yield order[first : first + size]
        first += size


def gathered(values: Ids, starts_S: Ids, lengths_S: Ids) -> Ids:
    """Return the ids of some windows, one after the other."""
    ends_S = np.cumsum(lengths_S)
    into = np.repeat(starts_S - (ends_S - lengths_S), lengths_S)
    picked: Ids = values[into + np.arange(len(into))]
    return picked


def padded(ids_N: Ids, lengths_S: Ids) -> tuple[Ids, npt.NDArray[np.bool_]]:
    """Return the ids of windows padded to one length, (S, T) int64, filled up with 0, and where they are real, (S, T) bool."""
    real_ST = np.arange(int(lengths_S.max(initial=0))) < lengths_S[:, None]
    ids_ST = np.zeros(real_ST.shape, dtype=np.int64)
    ids_ST[real_ST] = ids_N
    return ids_ST, real_ST


def runs_of(lengths_S: Ids) -> list[tuple[int, int]]:
    """Return, for each run of sequences of equal length, their number and that length."""
    return [(len([*same]), length) for length, same in groupby(lengths_S.tolist())]


def pack_sentences(
    lengths_S: npt.NDArray[np.int64], size: int, overlap: int, ends_S: npt.NDArray[np.bool_] | None = None
) -> list[tuple[int, int]]:
    """Return windows (first, stop) of whole sentences of one document, each of at most `size` tokens.

    A window that is full ends with the last paragraph that ends in its second half, and the next one begins with the
    next paragraph. Where there is none it ends with a sentence, and the next one repeats the last sentences that have
    at most `overlap` tokens together. A sentence longer than `size` is a passage of its own.

    Args:
        lengths_S: tokens per sentence.
        size: tokens per passage.
        overlap: tokens repeated, at most.
        ends_S: whether a paragraph ends with the sentence; None: with none of them.
    """
    passages: list[tuple[int, int]] = []
    paragraphs = [False] * len(lengths_S) if ends_S is None else ends_S.tolist()
    first = stop = held = 0
    at = rest = 0  # where the last paragraph in the second half ends, and the tokens behind it; 0: there is none
    for number, length in enumerate(lengths_S.tolist()):
        if stop > first and held + length > size and at:
            passages.append((first, at))
            first, held, at = at, rest, 0
        if stop > first and held + length > size:
            passages.append((first, stop))
            room = min(overlap, size - length)
            while first < stop and held > room:
                held -= int(lengths_S[first])
                first += 1
        held += length
        rest += length
        stop = number + 1
        if paragraphs[number] and 2 * held >= size:
            at, rest = stop, 0
    return [*passages, (first, stop)] if stop > first else passages
