"""A batch of labelled texts and its loss: those of the heads of transformers, packed without padding."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from wordpipe.heads.examples import IGNORED, Rows, segments_of
from wordpipe.model import HeadConfig, HeadedModel, Packed, pack


@dataclass(frozen=True)
class HeadTargets:
    """A batch with what is to be said of it.

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
        """Ids that are read."""
        return len(self.given.ids)

    @cached_property
    def n_targets(self) -> Tensor:
        """What the summed loss is divided by: texts, labelled positions, or the weights of their labels."""
        device = self.given.device
        if self.weights is not None:
            return self.weights[torch.from_numpy(self.given.targets[:, 0]).long()].sum().to(device)
        number = np.count_nonzero(self.given.targets != IGNORED) if self.per_position else len(self)
        return torch.tensor(float(number), device=device)

    def rows(self, first: int, last: int) -> "HeadTargets":
        """Texts `first` to `last` - 1."""
        given, ends = self.given, np.cumsum(self.given.lengths)
        begin, end = int(ends[first - 1]) if first else 0, int(ends[min(last, len(self)) - 1])
        targets = given.targets[begin:end] if self.per_position else given.targets[first:last]
        part = Rows(given.ids[begin:end], given.lengths[first:last], given.seconds[first:last], targets, given.device)
        return HeadTargets(part, self.per_position, self.weights)

    def packed(self, *, segments: bool) -> "tuple[Packed, Tensor | None]":
        """The ids, packed, and which text of a pair each belongs to, where a model has segments."""
        given = self.given
        multiple = 1 if given.device.type == "cpu" else 8
        ids = pack(given.ids, given.lengths, multiple=multiple).to(given.device)
        if not segments:
            return ids, None
        which = pack(segments_of(given.lengths, given.seconds).numpy(), given.lengths, multiple=multiple)
        return ids, which.ids.to(given.device)

    def labels(self, packed: "Packed") -> Tensor:
        """The targets in the order of the scores: (S, width), or of each packed position, (N,)."""
        given = self.given
        if not self.per_position:
            return torch.from_numpy(given.targets[packed.order]).to(given.device)
        multiple = 1 if given.device.type == "cpu" else 8
        shifted = (given.targets - IGNORED).astype(np.int64)  # padding gets 0, which is no target
        return pack(shifted, given.lengths, multiple=multiple).ids.to(given.device) + IGNORED


@dataclass(frozen=True)
class HeadObjective:
    """Rows as batches.

    Attributes:
        per_position: see `HeadTargets`.
        weights: see `HeadTargets`.
    """

    per_position: bool
    weights: Tensor | None = None

    def targets(self, rows: Rows, generator: torch.Generator, progress: float) -> HeadTargets:
        """Nothing is drawn."""
        del generator, progress
        return HeadTargets(rows, self.per_position, self.weights)


def scores_of(model: HeadedModel, targets: HeadTargets) -> tuple[Tensor, "Packed"]:
    """The scores of a batch, float32, and how it is packed."""
    packed, segments_N = targets.packed(segments=model.config.segments > 0)
    return model.scores_packed(packed, segments_N).float(), packed


def head_loss_sum(model: Any, targets: HeadTargets, label_smoothing: float = 0.0) -> Tensor:
    """The loss summed over the targets, in nats (of a score: its squared error), float32.

    Divided by `n_targets` it is that of transformers: cross-entropy, weighted by its labels' weights; binary cross-entropy,
    the mean over labels; the squared error; cross-entropy over the positions that have a label; of an answer the mean of those
    of its beginning and its end, over the positions of its text.
    """
    assert isinstance(model, HeadedModel)
    return loss_of_scores(*scores_of(model, targets), model.head_config, targets, label_smoothing)


def loss_of_scores(
    scores: Tensor, packed: "Packed", head: HeadConfig, targets: HeadTargets, label_smoothing: float = 0.0
) -> Tensor:
    """The same of scores that are there already, see `scores_of`."""
    wanted = targets.labels(packed)
    return (
        _span(scores, wanted.long(), packed)
        if head.kind == "span"
        else loss_of_rows(scores, wanted, head, targets, label_smoothing)
    )


def loss_of_rows(
    scores: Tensor, wanted: Tensor, head: HeadConfig, targets: HeadTargets, label_smoothing: float = 0.0
) -> Tensor:
    """The same of scores and targets in one order, of texts or of tokens."""
    return _LOSSES[head.kind if targets.per_position else head.problem](scores, wanted, targets, label_smoothing)


def _single(scores: Tensor, wanted: Tensor, targets: HeadTargets, smoothing: float) -> Tensor:
    return F.cross_entropy(
        scores, wanted[:, 0].long(), weight=targets.weights, reduction="sum", label_smoothing=smoothing
    )


def _several(scores: Tensor, wanted: Tensor, targets: HeadTargets, smoothing: float) -> Tensor:
    del targets, smoothing
    return F.binary_cross_entropy_with_logits(scores, wanted, reduction="sum") / wanted.shape[1]


def _score(scores: Tensor, wanted: Tensor, targets: HeadTargets, smoothing: float) -> Tensor:
    del targets, smoothing
    return F.mse_loss(scores, wanted, reduction="sum")


def _tokens(scores: Tensor, wanted: Tensor, targets: HeadTargets, smoothing: float) -> Tensor:
    del targets
    return F.cross_entropy(scores, wanted, ignore_index=IGNORED, reduction="sum", label_smoothing=smoothing)


def _span(scores: Tensor, wanted_S2: Tensor, packed: Packed) -> Tensor:
    """Padding is no place for an answer: transformers counts it among the places, where a batch is padded."""
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
