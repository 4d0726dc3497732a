"""Pairs of sequences for an encoder-decoder: stored one after the other, in batches of like lengths, and their loss.

    source ids ──encoder──▶ Source
    start, labels without the last ──decoder, which reads the source──▶ p(labels)

A batch has pairs of nearly equal lengths, and is packed (`model.pack_pairs`): on a CPU nothing is padded. To find such pairs,
the order of an epoch is cut into pools of some batches; the pairs of a pool are sorted by length and cut into batches of
equally many ids, which come in a random order. All of it is a function of the seed and the step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wordpipe.model import EncoderDecoder, LanguageModel, Packed, pack, pack_pairs, seed_of, shifted
from wordpipe.training.cross_entropy import cross_entropy_sum
from wordpipe.training.objectives_and_masking import LanguageObjective
from wordpipe.training.token_stream import Ids, dtype_of, mapped, permute, shuffled, spans, starts_path

Flat = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Sequences one after the other: all ids, (N,), int64; ids of each sequence, (B,), int64. What `pack_pairs` takes."""

_POOL = 64  # batches that are sorted together: of 29,000 pairs in batches of 128, 1.5 % of the positions are of other lengths
_IDS_AT_ONCE = 1 << 24
_MULTIPLES = {"cpu": 1, "mps": 16, "cuda": 16}  # to which lengths are rounded up, see `pack_pairs`


@dataclass(frozen=True)
class LearnedPairs:
    """A batch of pairs with what is to be predicted: every label.

    Attributes:
        sources: the first texts, which are read.
        labels: the second texts, which are written, ends included.
        device: where the model is.
    """

    sources: Flat
    labels: Flat
    device: torch.device

    def __len__(self) -> int:
        return len(self.sources[1])

    @property
    def n_targets(self) -> Tensor:
        return torch.tensor(float(len(self.labels[0])), device=self.device)

    @property
    def n_positions(self) -> int:
        return len(self.sources[0]) + len(self.labels[0])

    def rows(self, first: int, last: int) -> Self:
        return replace(self, sources=_rows(self.sources, first, last), labels=_rows(self.labels, first, last))


@dataclass(frozen=True)
class PairTargets(LearnedPairs):
    """A batch of pairs for an encoder, which reads the sources, and a decoder, which writes the labels.

    Attributes:
        start_id: what the decoder begins with.
    """

    start_id: int

    def packed(self) -> tuple[Packed, Packed, Packed]:
        """Return sources, decoder inputs and labels of seq2seq pairs, packed on the device, in one order."""
        packed, packed_labels = pack_pairs(self.sources, self.labels, multiple=_MULTIPLES[self.device.type])
        sources, labels = packed.to(self.device), packed_labels.to(self.device)
        seen = torch.cat([shifted(run_BT, self.start_id).flatten() for run_BT in labels.runs(labels.ids)])
        return sources, replace(labels, ids=seen), labels

    def loss_sum(self, model: EncoderDecoder, label_smoothing: float) -> Tensor:
        """Return the cross-entropy summed over the labels of seq2seq pairs, in nats, float32."""
        sources, inputs, labels = self.packed()
        hidden_ND = model.write_packed(inputs, model.read_packed(sources))
        real = [mask.flatten() for mask in labels.real if mask is not None]
        weights_N = torch.cat(real).float() if real else torch.ones(len(labels.ids), device=self.device)
        return cross_entropy_sum(
            model.features_at(hidden_ND), model.output_matrix, model.output_bias, labels.ids, weights_N, label_smoothing
        )


def _rows(flat: Flat, first: int, last: int) -> Flat:
    """Return some texts out of texts that stand one after the other."""
    ids, lengths = flat
    begin, size = int(lengths[:first].sum()), int(lengths[first:last].sum())
    return ids[begin : begin + size], lengths[first:last]


@dataclass(frozen=True)
class PairRows:
    """Some pairs as they are stored."""

    sources: Flat
    labels: Flat

    def to(self, device: torch.device) -> "PairRows":
        """Return the pairs themselves, which are packed on the CPU."""
        del device
        return self


@dataclass(frozen=True)
class PairBlocks:
    """Pairs in files that are mapped into memory.

    Attributes:
        ids: of the sources and of the labels.
        starts: where each sequence begins in them, and where the last one ends, (n + 1,), int64.
    """

    ids: tuple[Ids, Ids]
    starts: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]

    def __len__(self) -> int:
        """Pairs."""
        return len(self.starts[0]) - 1

    @property
    def seq_len(self) -> int:
        """Positions of a pair in the mean, both sides together, rounded up."""
        return -(-sum(len(ids) for ids in self.ids) // len(self))

    @property
    def n_repeated(self) -> int:
        """No id comes twice in an epoch."""
        return 0

    def label_counts(self, vocab_size: int) -> npt.NDArray[np.int64]:
        """Count how often each id is a label of the pairs, (V,)."""
        counts_V, labels = np.zeros(vocab_size, np.int64), self.ids[1]
        for first in range(0, len(labels), _IDS_AT_ONCE):
            counts_V += np.bincount(labels[first : first + _IDS_AT_ONCE], minlength=vocab_size)
        return counts_V

    def rows(self, index_B: npt.NDArray[np.int64]) -> PairRows:
        """Return pairs by their number."""
        return PairRows(*(_gathered(ids, starts, index_B) for ids, starts in zip(self.ids, self.starts, strict=True)))

    def order(self, step: int, *, batch_size: int, seed: int) -> npt.NDArray[np.int64]:
        """Return the numbers of a step's pairs, `batch_size` in the mean: of short pairs more.

        Args:
            step: from 0.
            batch_size: pairs of a batch in the mean.
            seed: of the order.
        """
        pool_batches = max(1, min(_POOL, len(self) // batch_size))
        pool, which = divmod(step, pool_batches)
        size = pool_batches * batch_size
        places = np.arange(pool * size, (pool + 1) * size, dtype=np.int64)
        numbers = shuffled(places, len(self), seed, "order")
        lengths = [starts[numbers + 1] - starts[numbers] for starts in self.starts]
        by_length = np.lexsort((lengths[0], lengths[1]))
        numbers, sizes = numbers[by_length], (lengths[0] + lengths[1])[by_length]
        # equally many ids in each batch; where a pair is longer than that, equally many pairs
        ends = np.searchsorted(np.cumsum(sizes), np.arange(1, pool_batches + 1) * sizes.sum() / pool_batches)
        cuts = np.concatenate(([0], ends[:-1], [size]))
        if (np.diff(cuts) < 1).any():
            cuts = np.arange(pool_batches + 1) * batch_size
        batch = int(permute(np.array([which]), pool_batches, seed_of(seed, "batches", pool))[0])
        return numbers[cuts[batch] : cuts[batch + 1]]


def _gathered(ids: Ids, starts: npt.NDArray[np.int64], index_B: npt.NDArray[np.int64]) -> Flat:
    """Return the ids of some sides of pairs, one after the other."""
    first_B = np.asarray(starts[index_B])
    lengths_B = np.asarray(starts[index_B + 1]) - first_B
    return np.asarray(ids[spans(first_B, lengths_B)]).astype(np.int64), lengths_B


class Pairs(LanguageObjective):
    """The objective of an encoder-decoder: every id of the second text, and its end, is learned from the first text.

    Args:
        start_id: what the decoder begins with.
        device: where the model is.

    Source: Sutskever et al. 2014, equation 1; Vaswani et al. 2017.
    """

    compiled = False

    def __init__(self, *, start_id: int, device: torch.device) -> None:
        self.start_id, self.device = start_id, device

    def targets(self, rows: PairRows, generator: torch.Generator, progress: float) -> PairTargets:
        """Return the pairs as targets. Nothing is drawn."""
        del generator, progress
        return PairTargets(rows.sources, rows.labels, self.device, self.start_id)


class Continuations(LearnedPairs):
    """A batch of pairs for a decoder, each one sequence: the source in its frame, and then the labels."""

    @property
    def n_positions(self) -> int:
        return super().n_positions - len(self)  # the last label of a pair is not read

    def packed(self) -> tuple[Packed, Tensor, Tensor]:
        """Return the sequences of pairs for a decoder, the positions that predict a label (K,), and labels (K,)."""
        (source, sizes_B), (labels, more_B) = self.sources, self.labels
        lengths_B = sizes_B + more_B
        of_source = spans(np.zeros_like(lengths_B), lengths_B) < np.repeat(sizes_B, lengths_B)
        whole = np.empty(len(of_source), np.int64)
        whole[of_source], whole[~of_source] = source, labels
        wanted = np.where(of_source, -1, whole)
        is_last, is_first = (np.zeros(len(whole), np.bool_) for _ in range(2))
        is_last[np.cumsum(lengths_B) - 1] = is_first[np.cumsum(lengths_B) - lengths_B] = True
        multiple = _MULTIPLES[self.device.type]
        inputs = pack(whole[~is_last], lengths_B - 1, multiple=multiple)
        after = pack(wanted[~is_first], lengths_B - 1, multiple=multiple, pad_id=-1).ids  # what follows each position
        at_K = torch.nonzero(after >= 0)[:, 0]
        return inputs.to(self.device), at_K.to(self.device), after[at_K].to(self.device)

    def loss_sum(self, model: LanguageModel, label_smoothing: float) -> Tensor:
        """Return the cross-entropy summed over the second texts of pairs: no position of a source counts."""
        inputs, at_K, labels_K = self.packed()
        hidden_KD = model.encode_packed(inputs)[at_K]
        return cross_entropy_sum(
            model.features_at(hidden_KD), model.output_matrix, model.output_bias, labels_K,
            torch.ones_like(labels_K).float(), label_smoothing,
        )  # fmt: skip


class SecondTexts(LanguageObjective):
    r"""The second text of a pair, y, by a decoder that has read the first, x, as its beginning.

        L = -1/|y| Σ_t log p(y_t | x, y_1 … y_{t-1})

    x has a frame that tells where it ends, and y its end. That x is likely is no part of the loss.

    Args:
        device: where the model is.

    Source: Liu et al. 2018, "Generating Wikipedia by Summarizing Long Sequences", section 4.2.3 (one sequence of input,
    separator and output); the sum over the output alone is that of Sutskever et al. 2014, equation 1.
    """

    compiled = False

    def __init__(self, *, device: torch.device) -> None:
        self.device = device

    def targets(self, rows: PairRows, generator: torch.Generator, progress: float) -> Continuations:
        """Return the pairs as targets. Nothing is drawn."""
        del generator, progress
        return Continuations(rows.sources, rows.labels, self.device)


class PairWriter:
    """Writes pairs to the files of `PairBlocks`.

    Args:
        path: the files are `PATH.source`, `PATH.target`, and `.starts` of each.
        vocab_size: ids are below.
        target_vocab_size: those of the targets are below, where they have a vocabulary of their own; else 0.
        framed: ids before and after each source, and after each target.
        max_len: positions of the model: longer pairs are left out.
        together: a pair is one sequence, of which the last id is not read.

    Attributes:
        n_pairs: written.
        left_out: pairs with a source, or with a target, of more positions; where they are one sequence, of both in the first.
        n_ids: written, of each side.
    """

    def __init__(
        self, path: Path, *, vocab_size: int, before: Sequence[int], after: Sequence[int], end: Sequence[int], max_len: int,
        together: bool = False, target_vocab_size: int = 0,
    ) -> None:  # fmt: skip
        self._dtypes = _dtypes_of(vocab_size, target_vocab_size)
        self._frames = (tuple(before), tuple(after)), ((), tuple(end))
        self._paths = [path.with_name(f"{path.name}.{side}") for side in ("source", "target")]
        self._files = [one.open("wb") for one in self._paths]
        self._starts = [starts_path(one).open("wb") for one in self._paths]
        for file in self._starts:
            file.write(np.zeros(1, "<i8").tobytes())
        self.max_len, self.n_pairs, self.left_out, self.n_ids = max_len, 0, [0, 0], [0, 0]
        self._together = together

    def add(self, source: npt.NDArray[np.integer], target: npt.NDArray[np.integer]) -> None:
        """Append a pair (source and target) to the files."""
        framed = [
            np.concatenate((before, ids, after)).astype(dtype)
            for ids, (before, after), dtype in zip((source, target), self._frames, self._dtypes, strict=True)
        ]
        for side, size in enumerate([sum(map(len, framed)) - 1] if self._together else map(len, framed)):
            if size > self.max_len:
                self.left_out[side] += 1
                return
        self.n_pairs += 1
        for side, ids in enumerate(framed):
            self._files[side].write(ids.tobytes())
            self.n_ids[side] += len(ids)
            self._starts[side].write(np.array([self.n_ids[side]], "<i8").tobytes())

    def close(self) -> None:
        """Close the files."""
        for file in (*self._files, *self._starts):
            file.close()


def open_pairs(path: Path, vocab_size: int, target_vocab_size: int = 0) -> PairBlocks:
    """Open the files of a `PairWriter` (sources and targets), memory-mapped, read-only."""
    dtypes = _dtypes_of(vocab_size, target_vocab_size)
    paths = [path.with_name(f"{path.name}.{side}") for side in ("source", "target")]
    ids = (mapped(paths[0], dtypes[0]), mapped(paths[1], dtypes[1]))
    return PairBlocks(ids, (mapped(starts_path(paths[0]), "<i8"), mapped(starts_path(paths[1]), "<i8")))


def _dtypes_of(vocab_size: int, target_vocab_size: int) -> tuple[str, str]:
    """Return the number formats of the ids of first and second texts."""
    return dtype_of(vocab_size), dtype_of(target_vocab_size or vocab_size)
