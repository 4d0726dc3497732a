"""Labelled examples: ids and targets in files that are mapped into memory, batches of them without padding, their loss."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from wordpipe.heads.labels import words_of
from wordpipe.model import HeadConfig, HeadedModel, Packed, pack
from wordpipe.training import mapped, shuffled, spans

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer


Ints = npt.NDArray[np.int32]

_IDS_AT_ONCE = 1 << 20
IGNORED = -100
"""The label of a position that is no target, as in torch and transformers."""


@dataclass(frozen=True)
class Encoded:
    """A text, or a pair, in the form that the model reads.

    Attributes:
        ids: special ones included, (T,), int32.
        second: where the segment of the second text begins; T where there is none.
        cut: tokens that were left out, because the model is shorter.
        firsts: the position of the first token of each word, (W,), int32; -1 of a word that was cut, or has none.
    """

    ids: Ints
    second: int
    cut: int
    firsts: Ints


class TextEncoder:
    """Encoder of labelled texts to ids, by the template that the model's tokenizer carries.

    Args:
        tokenizer: with its template; its truncation and padding are set here.
        max_len: most ids of a text or pair; of a pair the longer text is cut first.
    """

    def __init__(self, tokenizer: "Tokenizer", max_len: int) -> None:
        self._tokenizer, self.max_len = tokenizer, max_len
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_len, strategy="longest_first")

    def encode(self, texts: Sequence[tuple[str, ...]], *, words: bool = False) -> list[Encoded]:
        """Encode texts, or pairs of texts, as examples for a head.

        Args:
            texts: one or two strings each.
            words: whether the places of words (see `words_of`) are wanted.
        """
        given = [one[0] if len(one) == 1 else one for one in texts]
        found = self._tokenizer.encode_batch(given)
        return [self._of(one, text[0] if words else None) for one, text in zip(found, texts, strict=True)]

    def _of(self, found: "Encoding", text: str | None) -> Encoded:
        """Return one encoded text or pair of an example as the ids that the model reads."""
        kinds = found.type_ids
        second = kinds.index(1) if 1 in kinds else len(kinds)
        special = sum(found.special_tokens_mask)
        cut = sum(len(more) - sum(more.special_tokens_mask) for more in found.overflowing) if special else 0
        firsts = np.zeros(0, np.int32) if text is None else first_tokens(found, words_of(text))
        return Encoded(np.array(found.ids, np.int32), second, cut, firsts)


def first_tokens(found: "Encoding", words: Sequence[tuple[int, int]]) -> Ints:
    """Return the first token that has a character of each word of an example; -1 where none has."""
    places, word = np.full(len(words), -1, np.int32), 0
    for place, ((begin, end), part) in enumerate(zip(found.offsets, found.sequence_ids, strict=True)):
        if part is None or begin == end:
            continue
        while word < len(words) and words[word][1] <= begin:
            word += 1
        reached = word
        while reached < len(words) and words[reached][0] < end:
            if places[reached] < 0:
                places[reached] = place
            reached += 1
    return places


class ExampleWriter:
    """Writer of labelled examples to three files.

    Args:
        path: their names begin so; its folder is made.
        width: numbers of a target; 0: one for each id.
    """

    def __init__(self, path: Path, width: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._width = path, width
        self._ids, self._targets = (_file_of(path, name).open("wb") for name in ("ids", "targets"))
        self._lengths: list[int] = []
        self._seconds: list[int] = []

    def add(self, encoded: Encoded, target: Sequence[float]) -> None:
        """Write one more labelled example: its target has the writer's width, or as many numbers as there are words."""
        self._ids.write(encoded.ids.tobytes())
        self._lengths.append(len(encoded.ids))
        self._seconds.append(encoded.second)
        if self._width:
            assert len(target) == self._width
            self._targets.write(np.array(target, np.float32).tobytes())
            return
        labels_T, there = np.full(len(encoded.ids), IGNORED, np.float32), encoded.firsts >= 0
        # a token that holds two words has the tag of the first one
        labels_T[encoded.firsts[there][::-1]] = np.array(target, np.float32)[there][::-1]
        self._targets.write(labels_T.tobytes())

    def close(self) -> None:
        """Close the three files of examples: all is on disk."""
        self._ids.close()
        self._targets.close()
        _file_of(self._path, "lengths").write_bytes(np.array([self._lengths, self._seconds], np.int64).tobytes())


@dataclass(frozen=True)
class Rows:
    """Some labelled examples by number.

    Attributes:
        ids: of all, one after the other, int32.
        lengths: of each, (B,), int64.
        seconds: where the second text's segment begins in each, (B,), int64.
        targets: (B, width), or one for each id, float32.
        device: where they are going to be computed.
    """

    ids: Ints
    lengths: npt.NDArray[np.int64]
    seconds: npt.NDArray[np.int64]
    targets: npt.NDArray[np.float32]
    device: torch.device

    def to(self, device: torch.device) -> "Rows":
        """Return the rows for a device."""
        return Rows(self.ids, self.lengths, self.seconds, self.targets, device)


class LabelledExamples:
    """The examples of three files, numbered; the numbers lie on disk and are mapped into memory.

    Args:
        path: as an `ExampleWriter` had it.
        width: numbers of a target; 0: one for each id.
    """

    n_repeated = 0

    def __init__(self, path: Path, width: int) -> None:
        self.lengths, self.seconds = np.fromfile(_file_of(path, "lengths"), np.int64).reshape(2, -1)
        self._starts, self._width = np.cumsum(self.lengths) - self.lengths, width
        self._place_V: Ints | None = None
        self._ids, self._targets = (
            mapped(_file_of(path, name), kind) for name, kind in (("ids", "<i4"), ("targets", "<f4"))
        )

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def seq_len(self) -> int:
        """Ids of a labelled example in the mean, at least 1."""
        return max(1, round(float(self.lengths.mean()))) if len(self) else 1

    def order(self, step: int, *, batch_size: int, seed: int) -> npt.NDArray[np.int64]:
        """Return the numbers of the examples in a step's batch; a batch may end a pass and begin the next."""
        size = min(batch_size, len(self))
        return shuffled(np.arange(step * size, (step + 1) * size, dtype=np.int64), len(self), seed, "order")

    def rows(self, index_B: npt.NDArray[np.int64]) -> Rows:
        """Return some examples by their number."""
        places = spans(self._starts[index_B], self.lengths[index_B])
        targets = self._targets.reshape(-1, self._width)[index_B] if self._width else self._targets[places]
        ids = self._ids[places] if self._place_V is None else self._place_V[self._ids[places]]
        return Rows(ids, self.lengths[index_B], self.seconds[index_B], targets, torch.device("cpu"))

    def numbered(self, place_V: Ints) -> "LabelledExamples":
        """Return the examples with their ids renumbered to place_V[id]."""
        found = copy(self)
        found._place_V = place_V
        return found

    def mark(self, seen_V: npt.NDArray[np.bool_]) -> None:
        """Mark every id that occurs in the examples; a bounded piece of the file at a time."""
        for first in range(0, len(self._ids), _IDS_AT_ONCE):
            seen_V[self._ids[first : first + _IDS_AT_ONCE]] = True

    def batches(self, n_ids: int) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the numbers of all examples in batches of about one length, at most about so many ids at once."""
        order = np.argsort(self.lengths, kind="stable")
        first, size = 0, 0
        for place, number in enumerate(order):
            if size and size + self.lengths[number] > n_ids:
                yield order[first:place]
                first, size = place, 0
            size += int(self.lengths[number])
        if first < len(order):
            yield order[first:]


def open_examples(path: Path, width: int) -> LabelledExamples:
    """Open the files of an `ExampleWriter`."""
    return LabelledExamples(path, width)


def _file_of(path: Path, name: str) -> Path:
    """Return the path of one of the three files of examples."""
    return path.with_name(f"{path.name}.{name}")


def segments_of(lengths: npt.NDArray[np.int64], seconds: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the text that each id belongs to, 0 or 1, (N,), int64."""
    places = spans(np.zeros_like(lengths), lengths)
    segments: npt.NDArray[np.int64] = (places >= np.repeat(seconds, lengths)).astype(np.int64)
    return segments


@dataclass(frozen=True)
class HeadTargets:
    """A batch of texts with their targets.

    Attributes:
        given: the texts and their targets.
        per_position: each position has a target, and not each text.
        weights: of each label, (V,), float32; None: all count alike.
    """

    given: Rows
    per_position: bool
    weights: Tensor | None = None

    def __len__(self) -> int:
        """Texts."""
        return len(self.given.lengths)

    @property
    def n_positions(self) -> int:
        """Ids that the model reads in this batch."""
        return len(self.given.ids)

    @cached_property
    def n_targets(self) -> Tensor:
        """Return the divisor of the summed loss of a batch of examples: texts, labelled positions, or weights."""
        device = self.given.device
        if self.weights is not None:
            return self.weights[torch.from_numpy(self.given.targets[:, 0]).long()].sum().to(device)
        number = np.count_nonzero(self.given.targets != IGNORED) if self.per_position else len(self)
        return torch.tensor(float(number), device=device)

    def rows(self, first: int, last: int) -> "HeadTargets":
        """Return the examples `first` to `last` - 1 of the batch."""
        given, ends = self.given, np.cumsum(self.given.lengths)
        begin, end = int(ends[first - 1]) if first else 0, int(ends[min(last, len(self)) - 1])
        targets = given.targets[begin:end] if self.per_position else given.targets[first:last]
        part = Rows(given.ids[begin:end], given.lengths[first:last], given.seconds[first:last], targets, given.device)
        return HeadTargets(part, self.per_position, self.weights)

    def packed(self, *, segments: bool) -> "tuple[Packed, Tensor | None]":
        """Return the ids of a batch of examples, packed, and which text of a pair each belongs to."""
        given = self.given
        multiple = 1 if given.device.type == "cpu" else 8
        ids = pack(given.ids, given.lengths, multiple=multiple).to(given.device)
        if not segments:
            return ids, None
        which = pack(segments_of(given.lengths, given.seconds), given.lengths, multiple=multiple)
        return ids, which.ids.to(given.device)

    def labels(self, packed: "Packed") -> Tensor:
        """Return the targets of a batch of examples in the order of the scores: (S, width), or (N,) of packed positions."""
        given = self.given
        if not self.per_position:
            return torch.from_numpy(given.targets[packed.order]).to(given.device)
        multiple = 1 if given.device.type == "cpu" else 8
        shifted = (given.targets - IGNORED).astype(np.int64)  # padding gets 0, which is no target
        return pack(shifted, given.lengths, multiple=multiple).ids.to(given.device) + IGNORED


@dataclass(frozen=True)
class HeadObjective:
    """The objective of a head: labelled examples as batches.

    Attributes:
        per_position: see `HeadTargets`.
        weights: see `HeadTargets`.
    """

    per_position: bool
    weights: Tensor | None = None

    def targets(self, rows: Rows, generator: torch.Generator, progress: float) -> HeadTargets:
        """Return the targets of a batch of examples; nothing is drawn."""
        del generator, progress
        return HeadTargets(rows, self.per_position, self.weights)


def scores_of(model: HeadedModel, targets: HeadTargets) -> tuple[Tensor, "Packed"]:
    """Return a head's scores of a batch, float32, and how it is packed."""
    packed, segments_N = targets.packed(segments=model.config.segments > 0)
    return model.scores_packed(packed, segments_N).float(), packed


def head_loss_sum(model: Any, targets: HeadTargets, label_smoothing: float = 0.0) -> Tensor:
    """Return the loss of a head on a batch of examples, summed, in nats (of a score: its squared error), float32.

    Divided by `n_targets` it is that of transformers: cross-entropy, weighted by its labels' weights; binary cross-entropy,
    the mean over labels; the squared error; cross-entropy over the positions that have a label; of an answer the mean of those
    of its beginning and its end, over the positions of its text.
    """
    assert isinstance(model, HeadedModel)
    return loss_of_scores(*scores_of(model, targets), model.head_config, targets, label_smoothing)


def loss_of_scores(
    scores: Tensor, packed: "Packed", head: HeadConfig, targets: HeadTargets, label_smoothing: float = 0.0
) -> Tensor:
    """Return the loss of a batch of examples whose scores are there already, see `head_loss_sum`."""
    wanted = targets.labels(packed)
    return (
        _span(scores, wanted.long(), packed)
        if head.kind == "span"
        else loss_of_rows(scores, wanted, head, targets, label_smoothing)
    )


def loss_of_rows(
    scores: Tensor, wanted: Tensor, head: HeadConfig, targets: HeadTargets, label_smoothing: float = 0.0
) -> Tensor:
    """Return the loss of a head's scores and targets in one order, of texts or of tokens."""
    return _LOSSES[head.kind if targets.per_position else head.problem](scores, wanted, targets, label_smoothing)


def _single(scores: Tensor, wanted: Tensor, targets: HeadTargets, smoothing: float) -> Tensor:
    """Return the loss of texts with a single label."""
    return F.cross_entropy(
        scores, wanted[:, 0].long(), weight=targets.weights, reduction="sum", label_smoothing=smoothing
    )


def _several(scores: Tensor, wanted: Tensor, targets: HeadTargets, smoothing: float) -> Tensor:
    """Return the loss of texts with several labels."""
    del targets, smoothing
    return F.binary_cross_entropy_with_logits(scores, wanted, reduction="sum") / wanted.shape[1]


def _score(scores: Tensor, wanted: Tensor, targets: HeadTargets, smoothing: float) -> Tensor:
    """Return the loss of texts with a score."""
    del targets, smoothing
    return F.mse_loss(scores, wanted, reduction="sum")


def _tokens(scores: Tensor, wanted: Tensor, targets: HeadTargets, smoothing: float) -> Tensor:
    """Return the loss of tagged words."""
    del targets
    return F.cross_entropy(scores, wanted, ignore_index=IGNORED, reduction="sum", label_smoothing=smoothing)


def _span(scores: Tensor, wanted_S2: Tensor, packed: Packed) -> Tensor:
    """Return the loss of a batch of examples with answers; padding is left out, unlike in transformers."""
    total, first = scores.new_zeros(()), 0
    for scores_BT2, real_BT in zip(packed.runs(scores), packed.real, strict=True):
        B, T, _ = scores_BT2.shape
        if real_BT is not None:
            scores_BT2 = scores_BT2.masked_fill(~real_BT[..., None], -torch.inf)
        rows = scores_BT2.transpose(1, 2).reshape(2 * B, T)
        total = total + F.cross_entropy(rows, wanted_S2[first : first + B].reshape(-1), reduction="sum") / 2
        first += B
    return total


_LOSSES: dict[str, Callable[[Tensor, Tensor, HeadTargets, float], Tensor]] = {
    "single_label": _single, "multi_label": _several, "regression": _score, "token": _tokens,
}  # fmt: skip
