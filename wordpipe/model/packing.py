"""Packed sequences: sequences of different lengths in one matrix, without padding.

Sequences of different lengths are packed to be encoded together without padding (`encode_packed`). Sequences of one length
form a run. The matrix products, norms and feed-forwards take the positions of all runs as the rows of one matrix; only
attention goes run by run, with the kernels that need no mask. Where kernels are many times faster than they can be launched
(a GPU) few runs gain more than no padding: `multiple` rounds the lengths up and fills the sequences.

While a model trains on a CPU, attention takes runs of about one length together (`Group`): a few thousand positions are some
twenty runs, and every product of a new shape costs as long as that of a hundred positions.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

_ABOUT, _ABOUT_OF_FEW = 8, 16  # positions: lengths of a group differ by fewer
_FEW = 2048  # positions, of which 32 short texts are: each further group costs them more than padding


@dataclass(frozen=True)
class Packed:
    """S sequences as runs of one length, the shortest first.

    Attributes:
        ids: of all positions, run after run and sequence after sequence, (N,), int64.
        shapes: sequences and positions (B, T) of each run.
        real: per run, true at positions that are no padding, (B, T), or None where there is none.
        order: the number of each packed sequence among those that were given, (S,), int64.
        together: how many runs each group has, one after the other.
        longest: ids of the longest sequence, padding not counted.
    """

    ids: Tensor
    shapes: tuple[tuple[int, int], ...]
    real: tuple[Tensor | None, ...]
    order: npt.NDArray[np.int64]
    together: tuple[int, ...]
    longest: int

    def to(self, device: torch.device) -> "Packed":
        """Return the packed sequences on a device."""
        real = tuple(None if mask is None else mask.to(device) for mask in self.real)
        return replace(self, ids=self.ids.to(device, non_blocking=True), real=real)

    def groups(self, *, together: bool) -> "tuple[Group, ...]":
        """Return the groups of packed sequences, where nothing is padded; or each run by itself."""
        if not together:
            return tuple(Group((B, T), B * T) for B, T in self.shapes)
        found, first = [], 0
        for n_runs in self.together:
            found.append(_group(self.shapes[first : first + n_runs]))
            first += n_runs
        return tuple(found)

    def places(self) -> Tensor:
        """Return the position of each id within its sequence, (N,), int64; padding stops at that of the longest sequence."""
        device, last = self.ids.device, self.longest - 1
        return torch.cat([torch.arange(T, device=device).clamp_max(last).repeat(B) for B, T in self.shapes])

    def runs(self, rows: Tensor) -> list[Tensor]:
        """Return rows of all positions (N, …) as one tensor (B, T, …) for each run."""
        parts = torch.split(rows, [B * T for B, T in self.shapes])
        return [part.view(B, T, *rows.shape[1:]) for part, (B, T) in zip(parts, self.shapes, strict=True)]


@dataclass(frozen=True)
class Group:
    """Runs of about one length, as attention takes them together: one padded matrix of B sequences of T positions.

    Attributes:
        shape: B and T.
        n_rows: positions that are no padding, N.
        row_of: which of the N rows stands at each of the B · T positions, any one at padding, int64; None: nothing is padded,
            and they stand in order.
        place_of: which of the B · T positions each row has, (N,), int64; None likewise.
        hidden: true at padding, (B, T); None likewise.
    """

    shape: tuple[int, int]
    n_rows: int
    row_of: Tensor | None = None
    place_of: Tensor | None = None
    hidden: Tensor | None = None

    def padded(self, rows: Tensor) -> Tensor:
        """Return rows (N, …) as (B, T, …)."""
        if self.row_of is not None:
            rows = _Moved.apply(rows, self.row_of, self.place_of, None)  # type: ignore[no-untyped-call]
        return rows.view(*self.shape, *rows.shape[1:])

    def rows(self, padded: Tensor) -> Tensor:
        """Return (B, T, …) as packed rows (N, …)."""
        rows = padded.flatten(0, 1)
        if self.place_of is not None:
            rows = _Moved.apply(rows, self.place_of, self.row_of, self.hidden)  # type: ignore[no-untyped-call]
        return rows


class _Moved(torch.autograd.Function):
    """Rows by their index; the gradient comes back by the opposite index, and is nothing at padding."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, index: Tensor, back: Tensor, hidden: Tensor | None) -> Tensor:
        ctx.back, ctx.hidden = back, hidden
        return rows.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        rows = grads[0].index_select(0, ctx.back)
        if ctx.hidden is not None:
            rows[ctx.hidden.flatten()] = 0.0
        return rows, None, None, None


def _group(shapes: tuple[tuple[int, int], ...]) -> Group:
    """Return the group of packed runs of these shapes, with the place of each row in the padded matrix."""
    lengths = np.repeat([T for _, T in shapes], [B for B, _ in shapes])
    B, T, N = len(lengths), int(lengths.max()), int(lengths.sum())
    if lengths.min() == T:
        return Group((B, T), N)
    real_BT = np.arange(T) < lengths[:, None]
    row_of = np.zeros((B, T), np.int64)
    row_of[real_BT] = np.arange(N)
    place_of = np.flatnonzero(real_BT)
    return Group((B, T), N, *(torch.from_numpy(one) for one in (row_of.ravel(), place_of, ~real_BT)))


def pack(
    ids: npt.NDArray[np.integer], lengths_S: npt.NDArray[np.int64], *, multiple: int = 1, pad_id: int = 0
) -> Packed:
    """Pack sequences, sorted by length.

    Args:
        ids: of all sequences, one after the other, special ids included.
        lengths_S: ids of each, at least 1.
        multiple: lengths are rounded up to a multiple of this, 1 = nothing is padded.
        pad_id: fills up; never seen.
    """
    rounded_S = -(-lengths_S // multiple) * multiple
    order_S = np.argsort(rounded_S, kind="stable")
    widths, counts = np.unique(rounded_S, return_counts=True)
    about = _ABOUT if int(lengths_S.sum()) > _FEW else _ABOUT_OF_FEW
    together = tuple(np.unique(widths // about, return_counts=True)[1].tolist())
    return _packed(ids, lengths_S, order_S, widths, counts, together, pad_id=None if multiple == 1 else pad_id)


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
    # those of one group first, then those of one run
    keys_S4 = np.concatenate((rounded_S2 // _ABOUT, rounded_S2), axis=1)
    order_S = np.lexsort(keys_S4.T[::-1])
    keys_R4, counts = np.unique(keys_S4, axis=0, return_counts=True)
    together = tuple(np.unique(keys_R4[:, :2], axis=0, return_counts=True)[1].tolist())
    pad = None if multiple == 1 else pad_id
    packed, packed_target = (
        _packed(ids, lengths_S, order_S, widths, counts, together, pad_id=pad)
        for (ids, lengths_S), widths in zip((source, target), keys_R4.T[2:], strict=True)
    )
    return packed, packed_target


def _packed(
    ids: npt.NDArray[np.integer], lengths_S: npt.NDArray[np.int64], order_S: npt.NDArray[np.int64],
    widths: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], together: tuple[int, ...], *, pad_id: int | None,
) -> Packed:  # fmt: skip
    """Pack runs of so many sequences each, in this order; without a `pad_id` nothing is padded."""
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
    return Packed(ids_N, shapes, tuple(real), order_S, together, int(lengths_S.max()))
