"""What a model is trained to predict: hidden tokens from both sides (masked), or the next one (causal).

An objective turns a step's sequences into inputs and targets, all at once and on the device, so that the masks do not
depend on how the step is cut into micro-batches. The loss is a sum over targets; the loop divides by the number of
targets of the whole step. (A mean of means weighs the tokens of different micro-batches differently, and then the loss
changes with the micro-batch.)
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from wordpipe.model.language_model import LanguageModel
from wordpipe.training.cross_entropy import cross_entropy_sum

__all__ = ["Causal", "Masked", "Objective", "Targets", "loss_sum"]


@dataclass(frozen=True)
class Targets:
    """A batch with what is to be predicted.

    Attributes:
        inputs: ids that the model sees, (B, T), int64.
        positions: positions to predict at, (B, K), int64; None for all of them, in order.
        labels: the ids to predict, (B, K), int64.
        weights: 1 where the label counts, 0 where it does not, (B, K), float32.
    """

    inputs: Tensor
    positions: Tensor | None
    labels: Tensor
    weights: Tensor

    def rows(self, first: int, last: int) -> "Targets":
        """Sequences `first` to `last` - 1."""
        positions = None if self.positions is None else self.positions[first:last]
        return Targets(self.inputs[first:last], positions, self.labels[first:last], self.weights[first:last])


class Objective(Protocol):
    """A training task."""

    def targets(self, ids_BT: Tensor, generator: torch.Generator) -> Targets:
        """Inputs and targets of a batch.

        Args:
            ids_BT: rows of `Blocks`, int64.
            generator: on the same device; what is drawn depends on it alone.
        """
        ...


class Masked:
    """Masked language modelling.

    In every sequence the same number of ordinary tokens is chosen. Most are shown as [MASK], some as a random ordinary
    token, the rest as they are. A fixed number keeps every shape fixed (no transfer from the device to count, one compiled
    program) and leaves no sequence without targets.

    Args:
        rate: share of a sequence's positions between [CLS] and [SEP] that is chosen, at least one.
        mask_share: share of the chosen shown as [MASK].
        random_share: share of the chosen shown as a random token.
        mask_id: id of [MASK].
        special_ids: never chosen and never shown in place of another.
        n_tokens: ids of the tokenizer; those above are padding of the embedding table and never shown either.
        device: where the batches are.

    Source: Devlin et al. 2019, section 3.1, task 1 (0.15, 0.8, 0.1); rates above 0.15: Wettig et al. 2023.
    """

    def __init__(
        self,
        *,
        rate: float,
        mask_share: float,
        random_share: float,
        mask_id: int,
        special_ids: tuple[int, ...],
        n_tokens: int,
        device: torch.device,
    ) -> None:
        self.rate, self.mask_share, self.random_share, self.mask_id = rate, mask_share, random_share, mask_id
        is_special_V = torch.zeros(n_tokens, dtype=torch.bool)
        is_special_V[list(special_ids)] = True
        self._is_special_V = is_special_V.to(device)
        self._ordinary_ids = torch.nonzero(~is_special_V).flatten().to(device)

    def targets(self, ids_BT: Tensor, generator: torch.Generator) -> Targets:
        """Choose and hide; the arguments are those of `Objective.targets`."""
        n_chosen = max(1, round(self.rate * (ids_BT.shape[1] - 2)))
        score_BT = _uniform(ids_BT.shape, generator).masked_fill(self._is_special_V[ids_BT], -1.0)
        top = score_BT.topk(n_chosen, dim=1, sorted=False)
        positions_BK = top.indices
        labels_BK = ids_BT.gather(1, positions_BK)
        shown_BK = self._hide(labels_BK, generator)
        is_ordinary_BK = (
            top.values >= 0.0
        )  # a block of many short documents may have fewer ordinary tokens than n_chosen
        inputs_BT = ids_BT.scatter(1, positions_BK, torch.where(is_ordinary_BK, shown_BK, labels_BK))
        return Targets(inputs_BT, positions_BK, labels_BK, is_ordinary_BK.float())

    def _hide(self, labels_BK: Tensor, generator: torch.Generator) -> Tensor:
        draw_BK = _uniform(labels_BK.shape, generator)
        which_BK = (_uniform(labels_BK.shape, generator) * len(self._ordinary_ids)).long()
        random_BK = self._ordinary_ids[which_BK.clamp_max(len(self._ordinary_ids) - 1)]
        kept_or_random_BK = torch.where(draw_BK < self.mask_share + self.random_share, random_BK, labels_BK)
        return kept_or_random_BK.masked_fill(draw_BK < self.mask_share, self.mask_id)


class Causal:
    """Causal language modelling: each position predicts the id after it.

    Args:
        bos_id: never a target: that a document begins after another's end is no knowledge of language.
    """

    def __init__(self, *, bos_id: int) -> None:
        self.bos_id = bos_id

    def targets(self, ids_BT: Tensor, generator: torch.Generator) -> Targets:
        """Shift once: rows of T + 1 ids give T inputs and T labels. Nothing is drawn."""
        labels_BT = ids_BT[:, 1:]
        return Targets(ids_BT[:, :-1], None, labels_BT, (labels_BT != self.bos_id).float())


def loss_sum(model: LanguageModel, targets: Targets) -> Tensor:
    """Cross-entropy summed over the targets, in nats, float32.

    Only the positions to predict reach the head: with a vocabulary of 16,000 it costs more than all blocks of a small model.
    """
    hidden_BTD = model.encode(targets.inputs)
    B, T, _ = hidden_BTD.shape
    hidden_ND = hidden_BTD.flatten(0, 1)
    if targets.positions is not None:
        first_B1 = torch.arange(B, device=hidden_BTD.device)[:, None] * T
        hidden_ND = hidden_ND.index_select(0, (targets.positions + first_B1).flatten())
    return cross_entropy_sum(
        model.features_at(hidden_ND),
        model.output_matrix,
        model.output_bias,
        targets.labels.flatten(),
        targets.weights.flatten(),
    )


def _uniform(shape: torch.Size, generator: torch.Generator) -> Tensor:
    return torch.rand(shape, generator=generator, device=generator.device)
