"""Replaced-token detection: some tokens are hidden, a generator guesses them, and the discriminator finds its guesses.

With M the hidden positions, x the text and x̃ the text with the generator's guesses, drawn from its probabilities, in M:

    mean over M of -log p_G(x)  +  50 · mean over all positions of the cross-entropy of [x̃ = x]

No gradient passes through the draw. A guess that is right is no replacement.

Source: Clark et al. 2020, section 2 (λ = 50: section 3.1).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from wordpipe.model import Electra, seed_of
from wordpipe.training.cross_entropy import cross_entropy_sum
from wordpipe.training.objectives import Masked, WithTargets
from wordpipe.training.sequences import Blocks, Rows, spread

if TYPE_CHECKING:
    from wordpipe.model import LanguageModel, Transformer

DISCRIMINATOR_WEIGHT = 50.0
_LOGITS_AT_ONCE = 1 << 22
_MEASURED, _AT_ONCE = 256, 32  # held-out sequences, and so many together


@dataclass(frozen=True)
class ReplacedTargets(WithTargets):
    """What is hidden, and what decides the guesses.

    Attributes:
        draws: from [0, 1), one for each label, (B, K), float32.
    """

    draws: Tensor

    def rows(self, first: int, last: int) -> "ReplacedTargets":
        """Sequences `first` to `last` - 1."""
        return ReplacedTargets(self.targets.rows(first, last), self.draws[first:last])

    def loss_sum(self, model: Electra, label_smoothing: float) -> Tensor:
        """See `replaced_loss_sum`."""
        return replaced_loss_sum(model, self, label_smoothing)


class Replaced:
    """Masked language modelling for a generator, and detection for a discriminator.

    Args:
        masked: hides tokens.
    """

    def __init__(self, masked: Masked) -> None:
        self._masked = masked

    def targets(self, rows: Rows, generator: torch.Generator, progress: float) -> ReplacedTargets:
        """See `Masked.targets`; the guesses are decided too."""
        targets = self._masked.targets(rows, generator, progress)
        return ReplacedTargets(targets, torch.rand(targets.labels.shape, generator=generator, device=generator.device))


def replaced_loss_sum(model: Electra, given: ReplacedTargets, label_smoothing: float = 0.0) -> Tensor:
    """The loss above, summed over the hidden tokens, float32.

    Args:
        model: on the device of the targets.
        given: what it sees and should predict.
        label_smoothing: of the generator's targets, see `loss_sum`.
    """
    targets, generator = given.targets, model.generator
    hidden_ND = generator.encode(targets.inputs, at_BK=targets.positions).flatten(0, 1)
    of_generator = cross_entropy_sum(
        generator.features_at(hidden_ND), generator.output_matrix, generator.output_bias, targets.labels.flatten(),
        targets.weights.flatten(), label_smoothing,
    )  # fmt: skip
    shown_BT, is_replaced_BT = replaced(given, guesses(generator, hidden_ND, given.draws))
    logits_BT = model.discriminator.replaced_logits(model.discriminator.encode(shown_BT)).float()
    found = F.binary_cross_entropy_with_logits(logits_BT, is_replaced_BT.float(), reduction="sum")
    # the mean over all positions beside that over the hidden ones
    return of_generator + DISCRIMINATOR_WEIGHT * found * targets.weights.sum() / shown_BT.numel()


@torch.no_grad()
def guesses(generator: "LanguageModel", hidden_ND: Tensor, draws_BK: Tensor) -> Tensor:
    """A token drawn from the generator's probabilities at each hidden position, (B, K): the first sum beyond the draw."""
    found, draws_N = [], draws_BK.flatten()
    rows = max(1, _LOGITS_AT_ONCE // generator.config.vocab_size)
    for first in range(0, len(draws_N), rows):
        sums_NV = torch.softmax(generator.logits_at(hidden_ND[first : first + rows]).float(), dim=1).cumsum(dim=1)
        drawn_N1 = draws_N[first : first + rows, None] * sums_NV[:, -1:]
        found.append(torch.searchsorted(sums_NV, drawn_N1, right=True)[:, 0])
    return torch.cat(found).clamp_max(generator.config.vocab_size - 1).view(draws_BK.shape)


def replaced(given: ReplacedTargets, guesses_BK: Tensor) -> tuple[Tensor, Tensor]:
    """The text with the guesses in it, and where they are not the text's own, both (B, T)."""
    targets = given.targets
    assert targets.positions is not None
    own_BT = targets.inputs.scatter(1, targets.positions, targets.labels)
    counted_BK = torch.where(targets.weights > 0, guesses_BK, targets.labels)
    shown_BT = own_BT.scatter(1, targets.positions, counted_BK)
    return shown_BT, shown_BT != own_BT


def replaced_measure(objective: Replaced, blocks: Blocks) -> "Callable[[Transformer], dict[str, float]]":
    """What measures, on held-out sequences, the generator's loss, and the share of positions that are told rightly."""

    @torch.no_grad()
    def measure(model: "Transformer") -> dict[str, float]:
        assert isinstance(model, Electra)
        was_training, device = model.training, model.discriminator.embedding.device
        model.eval()
        draw, index = torch.Generator(device).manual_seed(seed_of("replaced")), spread(len(blocks), _MEASURED)
        nats = hidden = right = replacements = found = positions = 0.0
        for first in range(0, len(index), _AT_ONCE):
            given = objective.targets(blocks.rows(index[first : first + _AT_ONCE]).to(device), draw, 1.0)
            targets = given.targets
            hidden_ND = model.generator.encode(targets.inputs, at_BK=targets.positions).flatten(0, 1)
            shown_BT, is_replaced_BT = replaced(given, guesses(model.generator, hidden_ND, given.draws))
            said_BT = model.discriminator.replaced_logits(model.discriminator.encode(shown_BT)) > 0
            nats += float(
                F.cross_entropy(
                    model.generator.logits_at(hidden_ND).float(), targets.labels.flatten(), reduction="none"
                )
                @ targets.weights.flatten()
            )
            hidden, positions = hidden + float(targets.weights.sum()), positions + shown_BT.numel()
            right += float((said_BT == is_replaced_BT).sum())
            replacements, found = (
                replacements + float(is_replaced_BT.sum()),
                found + float((said_BT & is_replaced_BT).sum()),
            )
        model.train(was_training)
        return {
            "generator_loss": nats / max(1.0, hidden), "replaced_accuracy": right / positions,
            "replaced_found": found / max(1.0, replacements),
        }  # fmt: skip

    return measure
