"""Rows of token ids as a transformer reads them: [CLS] … [SEP], cut where the model ends, packed without padding."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from wordpipe.model.packed import Packed, pack
from wordpipe.training.contrast.batch import Ragged

__all__ = ["Framing", "joined", "rows_of", "spans"]

_ON_GPU = 16  # lengths are rounded up to a multiple of this: 4 to 8 runs, where every length would be 60 and more


def joined(*texts: Ragged) -> Ragged:
    """The texts of all, one after the other."""
    return Ragged(np.concatenate([one.ids for one in texts]), np.concatenate([one.lengths for one in texts]))


def rows_of(texts: Ragged, index_S: npt.NDArray[np.int64]) -> Ragged:
    """Some of the texts, in the order of `index_S`."""
    lengths_S = texts.lengths[index_S]
    starts_S = (np.cumsum(texts.lengths) - texts.lengths)[index_S]
    return Ragged(texts.ids[spans(starts_S, lengths_S)], lengths_S)


def spans(starts_S: npt.NDArray[np.int64], lengths_S: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The places start, start + 1, … of every span, one span after the other.

    >>> spans(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    before_S = np.cumsum(lengths_S) - lengths_S
    return np.repeat(starts_S - before_S, lengths_S) + np.arange(int(lengths_S.sum()))


@dataclass(frozen=True)
class Framing:
    """What a sequence has around its text.

    Attributes:
        cls_id: stands before the text.
        sep_id: stands after it.
        longest: positions of a sequence, both included; what is longer is cut at its end.
        device: where the sequences go.
    """

    cls_id: int
    sep_id: int
    longest: int
    device: torch.device

    def cut(self, texts: Ragged) -> Ragged:
        """The texts without what the model has no room for."""
        kept_S = np.minimum(texts.lengths, self.longest - 2)
        return Ragged(texts.ids[spans(np.cumsum(texts.lengths) - texts.lengths, kept_S)], kept_S)

    def n_cut(self, texts: Ragged) -> int:
        """How many ids `cut` takes away."""
        return int(np.maximum(texts.lengths - (self.longest - 2), 0).sum())

    def packed(self, texts: Ragged) -> Packed:
        """The sequences of the texts, on the device."""
        texts = self.cut(texts)
        framed_S = texts.lengths + 2
        ends_S = np.cumsum(framed_S)
        ids = np.empty(int(framed_S.sum()), dtype=np.int64)
        ids[spans(ends_S - framed_S + 1, texts.lengths)] = texts.ids
        ids[ends_S - framed_S], ids[ends_S - 1] = self.cls_id, self.sep_id
        multiple = 1 if self.device.type == "cpu" else _ON_GPU
        return pack(ids, framed_S, multiple=multiple, pad_id=self.sep_id).to(self.device)

    def pieces(self, texts: Ragged, positions: int) -> list[npt.NDArray[np.int64]]:
        """Numbers of rows to be computed together, like with like in length, each of at most about `positions` positions."""
        order_S = np.argsort(texts.lengths, kind="stable")
        sizes_S = np.minimum(texts.lengths[order_S] + 2, self.longest)
        piece_S = (np.cumsum(sizes_S) - sizes_S) // max(1, positions)
        return np.split(order_S, np.flatnonzero(np.diff(piece_S)) + 1)
