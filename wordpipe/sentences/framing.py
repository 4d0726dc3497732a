"""Texts as token ids, cut into the windows that a model reads, with its special tokens around each."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wordpipe.sentences.batches import gathered

__all__ = ["Windows", "frame"]

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
        """(W,) where each window begins in `ids`."""
        starts: Ids = np.cumsum(self.lengths) - self.lengths
        return starts


def frame(ids: Ids, offsets: Ids, *, size: int, overlap: int, before: list[int], after: list[int]) -> Windows:
    """Cut texts into windows, as `windows.token_windows` cuts one.

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
    lengths_W = tokens_W + len(before) + len(after)
    framed = np.empty(int(lengths_W.sum()), dtype=np.int64)
    ends_W = np.cumsum(lengths_W)
    inside = np.ones(len(framed), dtype=np.bool_)
    for place, special in enumerate(before):
        _put(framed, inside, ends_W - lengths_W + place, special)
    for place, special in enumerate(after):
        _put(framed, inside, ends_W - len(after) + place, special)
    framed[inside] = gathered(ids, offsets[:-1][text_W] + firsts_W, tokens_W)
    return Windows(framed, lengths_W, firsts_W, tokens_W, counts_N)


def _put(framed: Ids, inside: npt.NDArray[np.bool_], at_W: Ids, special: int) -> None:
    framed[at_W], inside[at_W] = special, False
