"""From a stream of ids to sequences of equal length: packed to 100 %, in an order that is a function of (seed, step)."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wordpipe.errors import InputError
from wordpipe.model import seed_of
from wordpipe.training.token_stream import Flags, Ids


@dataclass(frozen=True)
class Rows:
    """Some blocks, as an objective takes them.

    Attributes:
        ids_BT: int64, special ids of the block included.
        word_starts_BT: whether a word begins here, bool; None where they are not needed. Special ids are words of their
            own, and what a block begins with begins a word, even if the block before it ended inside that word.
    """

    ids_BT: Tensor  # noqa: N815
    word_starts_BT: Tensor | None = None  # noqa: N815

    def to(self, device: torch.device) -> "Rows":
        """The same on a device; a copy to a GPU does not wait for the step before."""
        return Rows(
            _sent(self.ids_BT, device), None if self.word_starts_BT is None else _sent(self.word_starts_BT, device)
        )


@dataclass(frozen=True)
class Blocks:
    """The stream cut into blocks.

    Every id is in at least one block. The last block would be short, so it begins earlier and repeats what the block
    before it ends with; a stream shorter than one block is one shorter block. So there is never any padding.

    Attributes:
        ids: the stream, usually memory-mapped.
        width: ids taken for a block.
        stride: ids from one block's beginning to the next one's.
        opening: special ids put before each block.
        closing: special ids put after each block.
        word_starts: whether a word begins at each id, if that is wanted.
    """

    ids: Ids
    width: int
    stride: int
    opening: tuple[int, ...] = ()
    closing: tuple[int, ...] = ()
    word_starts: Flags | None = None

    def __len__(self) -> int:
        """Blocks in one pass over the stream."""
        return -(-(len(self.ids) - (self.width - self.stride)) // self.stride)

    @property
    def seq_len(self) -> int:
        """Positions that a model sees of a block."""
        return len(self.opening) + self.stride + len(self.closing)

    @property
    def n_repeated(self) -> int:
        """Ids of the last block that the block before it had already."""
        return len(self) * self.stride + (self.width - self.stride) - len(self.ids)

    def order(self, step: int, *, batch_size: int, seed: int) -> npt.NDArray[np.int64]:
        """The numbers of the blocks in a step's batch, see `block_order`."""
        return block_order(step, batch_size=batch_size, n_blocks=len(self), seed=seed)

    def rows(self, index_B: npt.NDArray[np.int64]) -> Rows:
        """Blocks by their number.

        Args:
            index_B: numbers from 0 to len - 1.
        """
        begins_B = np.minimum(index_B * self.stride, len(self.ids) - self.width)
        place_BT = begins_B[:, None] + np.arange(self.width)
        first, last = len(self.opening), len(self.opening) + self.width
        ids_BT = np.empty((len(index_B), last + len(self.closing)), dtype=np.int64)
        ids_BT[:, :first], ids_BT[:, last:] = self.opening, self.closing
        ids_BT[:, first:last] = self.ids[place_BT]
        if self.word_starts is None:
            return Rows(torch.from_numpy(ids_BT))
        starts_BT = np.ones(ids_BT.shape, dtype=np.bool_)
        starts_BT[:, first + 1 : last] = self.word_starts[place_BT[:, 1:]]
        return Rows(torch.from_numpy(ids_BT), torch.from_numpy(starts_BT))


def masked_blocks(ids: Ids, *, seq_len: int, cls_id: int, sep_id: int, word_starts: Flags | None = None) -> Blocks:
    """Sequences of `seq_len` positions for an encoder: [CLS], seq_len - 2 ids, [SEP].

    Raises:
        InputError: the stream is empty.
    """
    refuse_short(len(ids), 1)
    width = min(seq_len - 2, len(ids))
    return Blocks(ids, width=width, stride=width, opening=(cls_id,), closing=(sep_id,), word_starts=word_starts)


def pair_blocks(ids: Ids, *, seq_len: int, cls_id: int, sep_id: int, word_starts: Flags | None = None) -> Blocks:
    """Sequences of `seq_len` positions: [CLS], seq_len - 3 ids, and both [SEP] at the end, of which `MaskedPairs` moves one.

    Raises:
        InputError: the stream has fewer than two ids.
    """
    refuse_short(len(ids), 2)
    width = min(seq_len - 3, len(ids))
    return Blocks(ids, width=width, stride=width, opening=(cls_id,), closing=(sep_id, sep_id), word_starts=word_starts)


def document_numbers(ids_BT: Tensor, end_id: int) -> Tensor:
    """Number of each position's document in its sequence, from 0, int64; what ends a document belongs to it."""
    is_end_BT = ids_BT == end_id
    return is_end_BT.cumsum(dim=1) - is_end_BT.long()


def causal_blocks(ids: Ids, *, seq_len: int) -> Blocks:
    """Sequences of `seq_len` inputs for a decoder, and the one id more that is the last one's target.

    The last id of a block is the first of the next one, so every id but the stream's first is a target once.

    Raises:
        InputError: the stream has no id to predict.
    """
    refuse_short(len(ids), 2)
    stride = min(seq_len, len(ids) - 1)
    return Blocks(ids, width=stride + 1, stride=stride)


def block_order(step: int, *, batch_size: int, n_blocks: int, seed: int) -> npt.NDArray[np.int64]:
    """The numbers of the blocks in a step's batch.

    Batches follow each other through epoch after epoch, each in an order of its own; one batch may end an epoch and begin
    the next.

    Args:
        step: from 0.
        batch_size: blocks in every batch.
        n_blocks: blocks in an epoch.
        seed: of the order.

    Returns:
        index_B: int64, from 0 to n_blocks - 1.
    """
    places_B = np.arange(step * batch_size, (step + 1) * batch_size, dtype=np.int64)
    return shuffled(places_B, n_blocks, seed, "order")


def shuffled(places: npt.NDArray[np.int64], n: int, seed: int, purpose: str) -> npt.NDArray[np.int64]:
    """The numbers at these places, where 0 … n-1 follow each other pass after pass, each pass in an order of its own."""
    passes, out = np.divmod(places, n)
    for number in np.unique(passes):
        here = passes == number
        out[here] = permute(out[here], n, seed_of(seed, purpose, int(number)))
    return out


def spread(n_blocks: int, wanted: int) -> npt.NDArray[np.int64]:
    """At most `wanted` of the blocks, evenly spread over all: always the same ones, to compare losses on."""
    count = max(1, min(n_blocks, wanted))
    return np.arange(count, dtype=np.int64) * n_blocks // count


def _sent(tensor: Tensor, device: torch.device) -> Tensor:
    if device.type == "cuda":  # only from pinned memory can it be copied while the GPU works
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def refuse_short(n_ids: int, least: int) -> None:
    """Refuse a stream of too few ids.

    Raises:
        InputError: it has fewer than `least`.
    """
    if n_ids < least:
        raise InputError(
            "no text to train on", got=f"{n_ids} tokens", hint="look at the corpus: wordpipe show, or give more text"
        )


_ROUNDS = 6


def permute(index: npt.NDArray[np.int64], n: int, seed: int) -> npt.NDArray[np.int64]:
    """Where each index goes in a random order of 0 … n-1.

    Args:
        index: numbers from 0 to n-1, int64, any shape.
        n: size of the permutation, at least 1.
        seed: which permutation.

    Returns:
        Numbers from 0 to n-1, different for different indices.
    """
    half_bits = max(1, ((n - 1).bit_length() + 1) // 2)
    keys = [seed_of(seed, "round", i) for i in range(_ROUNDS)]
    out = _feistel(np.asarray(index).astype(np.uint64), half_bits, keys)
    outside = out >= n
    while outside.any():  # fewer than four walks on average, as 2^(2k) is at most 4n
        out[outside] = _feistel(out[outside], half_bits, keys)
        outside = out >= n
    return out.astype(np.int64)


def _feistel(x: npt.NDArray[np.uint64], half_bits: int, keys: list[int]) -> npt.NDArray[np.uint64]:
    bits, mask = np.uint64(half_bits), np.uint64((1 << half_bits) - 1)
    left, right = x >> bits, x & mask
    for key in keys:
        left, right = right, left ^ (_mixed_bits(right ^ np.uint64(key)) & mask)
    return (left << bits) | right


def _mixed_bits(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """`wordpipe.compiled.mixed_bits`, without numba, which `train mlm` and `train clm` do not load."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
