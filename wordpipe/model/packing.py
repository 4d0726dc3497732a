"""Packed sequences: sequences of different lengths in one matrix, without padding.

Sequences of different lengths are packed to be encoded together without padding (`encode_packed`). Sequences of one length
form a run. The matrix products, norms and feed-forwards take the positions of all runs as the rows of one matrix; only
attention goes run by run, with the kernels that need no mask. Where kernels are many times faster than they can be launched
(a GPU) few runs gain more than no padding: `multiple` rounds the lengths up and fills the sequences.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


@dataclass(frozen=True)
class Packed:
    """S sequences as runs of one length, the shortest first.

    Attributes:
        ids: of all positions, run after run and sequence after sequence, (N,), int64.
        shapes: sequences and positions (B, T) of each run.
        real: per run, true at positions that are no padding, (B, T), or None where there is none.
        order: the number of each packed sequence among those that were given, (S,), int64.
        longest: ids of the longest sequence, padding not counted.
    """

    ids: Tensor
    shapes: tuple[tuple[int, int], ...]
    real: tuple[Tensor | None, ...]
    order: npt.NDArray[np.int64]
    longest: int

    def to(self, device: torch.device) -> "Packed":
        """The same on a device."""
        real = tuple(None if mask is None else mask.to(device) for mask in self.real)
        return Packed(self.ids.to(device, non_blocking=True), self.shapes, real, self.order, self.longest)

    def places(self) -> Tensor:
        """The position of each id within its sequence, (N,), int64; padding has none beyond that of the longest sequence."""
        device, last = self.ids.device, self.longest - 1
        return torch.cat([torch.arange(T, device=device).clamp_max(last).repeat(B) for B, T in self.shapes])

    def runs(self, rows: Tensor) -> list[Tensor]:
        """Rows of all positions (N, …) as one tensor (B, T, …) for each run."""
        parts = torch.split(rows, [B * T for B, T in self.shapes])
        return [part.view(B, T, *rows.shape[1:]) for part, (B, T) in zip(parts, self.shapes, strict=True)]


def pack(
    ids: npt.NDArray[np.integer], lengths_S: npt.NDArray[np.int64], *, multiple: int = 1, pad_id: int = 0
) -> Packed:
    """Sort sequences by length and pack them.

    Args:
        ids: of all sequences, one after the other, special ids included.
        lengths_S: ids of each, at least 1.
        multiple: lengths are rounded up to a multiple of this, 1 = nothing is padded.
        pad_id: fills up; never seen.
    """
    rounded_S = -(-lengths_S // multiple) * multiple
    order_S = np.argsort(rounded_S, kind="stable")
    widths, counts = np.unique(rounded_S, return_counts=True)
    return _packed(ids, lengths_S, order_S, widths, counts, pad_id=None if multiple == 1 else pad_id)


def pack_pairs(
    source: tuple[npt.NDArray[np.integer], npt.NDArray[np.int64]],
    target: tuple[npt.NDArray[np.integer], npt.NDArray[np.int64]],
    *, multiple: int = 1, pad_id: int = 0,
) -> tuple[Packed, Packed]:  # fmt: skip
    """Pack pairs of sequences: both sides in one order, each run of one source length and one target length.

    Args:
        source: ids of all sequences, one after the other, and how many each has, at least 1.
        target: likewise, as many.
        multiple: as in `pack`.
        pad_id: likewise.
    """
    rounded_S2 = -(-np.stack((source[1], target[1]), axis=1) // multiple) * multiple
    order_S = np.lexsort(rounded_S2.T[::-1])
    widths_R2, counts = np.unique(rounded_S2, axis=0, return_counts=True)
    pad = None if multiple == 1 else pad_id
    packed, packed_target = (
        _packed(ids, lengths_S, order_S, widths, counts, pad_id=pad)
        for (ids, lengths_S), widths in zip((source, target), widths_R2.T, strict=True)
    )
    return packed, packed_target


def _packed(
    ids: npt.NDArray[np.integer], lengths_S: npt.NDArray[np.int64], order_S: npt.NDArray[np.int64],
    widths: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], *, pad_id: int | None,
) -> Packed:  # fmt: skip
    """Runs of so many sequences each, in this order; None: nothing is padded."""
    starts_S = np.cumsum(lengths_S) - lengths_S
    flat, real, first = [], [], 0
    for width, count in zip(widths, counts, strict=True):
        here = order_S[first : first + count]
        place_BT = np.arange(width)[None]
        real_BT = place_BT < lengths_S[here, None]
        at_BT = starts_S[here, None] + np.minimum(place_BT, lengths_S[here, None] - 1)
        flat.append(np.where(real_BT, ids[at_BT], pad_id or 0).ravel())
        real.append(None if pad_id is None else torch.from_numpy(real_BT))
        first += count
    ids_N = torch.from_numpy(np.concatenate(flat).astype(np.int64))
    shapes = tuple((int(count), int(width)) for width, count in zip(widths, counts, strict=True))
    return Packed(ids_N, shapes, tuple(real), order_S, int(lengths_S.max()))
