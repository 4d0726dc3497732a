"""Replaced-token detection: some tokens are hidden, a generator guesses them, and the discriminator finds its guesses.

With M the hidden positions, x the text and x̃ the text with the generator's guesses, drawn from its probabilities, in M:

    mean over M of -log p_G(x)  +  50 · mean over all positions of the cross-entropy of [x̃ = x]

No gradient passes through the draw. A guess that is right is no replacement. Both models read by the same embeddings; the
generator is a fraction as wide. After the training the discriminator is the model. Held-out text is measured as in training:
no other model has such a loss.

Source: Clark et al. 2020, "ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators", sections 2 and 3
(λ = 50: section 3.1; embeddings shared, a generator of a quarter to a half of the width: section 3.2).
"""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wordpipe.model import LanguageModel, ModelConfig, new_model, seed_of
from wordpipe.training.objectives_and_masking import Examples, LanguageObjective, Masked, Targets, guessed_loss_sum
from wordpipe.training.recipes.mlm import as_set, masked_texts
from wordpipe.training.recipes.table import Recipe
from wordpipe.training.settings import ElectraSettings
from wordpipe.training.token_stream import Rows, spread

_SHARED = ("embedding", "position_embedding", "segment_embedding", "embedding_norm")


class Electra(nn.Module):
    """Generator and discriminator with one set of embeddings, that of the discriminator.

    Args:
        discriminator: what the model will be; it has `replaced_head`.
        generator: makes its task.

    Attributes:
        config: of the discriminator.
    """

    def __init__(self, discriminator: LanguageModel, generator: LanguageModel) -> None:
        super().__init__()
        self.config, self.discriminator, self.generator = discriminator.config, discriminator, generator
        for name in _SHARED:
            setattr(generator, name, getattr(discriminator, name))

    @property
    def recompute(self) -> bool:
        return self.discriminator.recompute

    @recompute.setter
    def recompute(self, wanted: bool) -> None:
        self.discriminator.recompute = self.generator.recompute = wanted


def generator_config(config: ModelConfig, share: float) -> ModelConfig:
    """Return the shape of ELECTRA's generator that is about so wide, with whole heads."""
    n_heads = max(1, round(share * config.n_heads))
    return replace(
        config, dim=n_heads * config.head_dim, n_heads=n_heads, n_kv_heads=n_heads,
        ffn_dim=max(8, round(share * config.ffn_dim)), embedding_dim=config.table_dim, head=True, output_bias=True,
        replaced_head=False,
    )  # fmt: skip


def start_electra(discriminator: LanguageModel, share: float, seed: int) -> Electra:
    """Return a discriminator, with its weights, and a fresh generator that reads by the discriminator's embeddings."""
    return Electra(discriminator, new_model(generator_config(discriminator.config, share), seed))


DISCRIMINATOR_WEIGHT = 50.0
_LOGITS_AT_ONCE = 1 << 22
_MEASURED, _AT_ONCE = 256, 32  # held-out sequences, and so many together


@dataclass(frozen=True)
class ReplacedTargets(Targets):
    """Targets of ELECTRA: hidden tokens, and the random numbers that decide the generator's guesses.

    Attributes:
        draws: from [0, 1), one for each label, (B, K), float32.
    """

    draws: Tensor = field(kw_only=True)

    def loss_sum(self, model: Electra, label_smoothing: float) -> Tensor:
        """Return the ELECTRA loss, summed over the hidden tokens, float32; only the generator's targets are smoothed."""
        generator = model.generator
        hidden_BKD = generator.encode(self.inputs, at_BK=self.positions)
        of_generator = guessed_loss_sum(generator, hidden_BKD, self, label_smoothing)
        shown_BT, is_replaced_BT = replaced(self, guesses(generator, hidden_BKD.flatten(0, 1), self.draws))
        logits_BT = model.discriminator.replaced_logits(model.discriminator.encode(shown_BT)).float()
        found = F.binary_cross_entropy_with_logits(logits_BT, is_replaced_BT.float(), reduction="sum")
        # the mean over all positions beside that over the hidden ones
        return of_generator + DISCRIMINATOR_WEIGHT * found * self.weights.sum() / shown_BT.numel()


class Replaced(LanguageObjective):
    """The objective of ELECTRA: masked language modelling for a generator, and detection for a discriminator.

    Args:
        masked: hides tokens.
    """

    compiled = False

    def __init__(self, masked: Masked) -> None:
        self._masked = masked

    def targets(self, rows: Rows, generator: torch.Generator, progress: float) -> ReplacedTargets:
        """Hide tokens as `Masked.targets` does, and decide the generator's guesses."""
        hidden = self._masked.targets(rows, generator, progress)
        draws_BK = torch.rand(hidden.labels.shape, generator=generator, device=generator.device)
        return ReplacedTargets(**vars(hidden), draws=draws_BK)

    @torch.no_grad()
    def measure(self, model: Any, blocks: Examples) -> dict[str, float]:
        """Return the loss of ELECTRA's generator, the share of positions judged correctly, and what was found."""
        assert isinstance(model, Electra)
        was_training, device = model.training, model.discriminator.embedding.device
        model.eval()
        draw, index = torch.Generator(device).manual_seed(seed_of("replaced")), spread(len(blocks), _MEASURED)
        nats = hidden = right = replacements = found = positions = 0.0
        for first in range(0, len(index), _AT_ONCE):
            # the generator guesses, the discriminator says of every position what it is
            targets = self.targets(blocks.rows(index[first : first + _AT_ONCE]).to(device), draw, 1.0)
            hidden_ND = model.generator.encode(targets.inputs, at_BK=targets.positions).flatten(0, 1)
            shown_BT, is_replaced_BT = replaced(targets, guesses(model.generator, hidden_ND, targets.draws))
            said_BT = model.discriminator.replaced_logits(model.discriminator.encode(shown_BT)) > 0
            # the sums that the figures are shares of
            logits_NV = model.generator.logits_at(hidden_ND).float()
            nats_N = F.cross_entropy(logits_NV, targets.labels.flatten(), reduction="none")
            nats, hidden = nats + float(nats_N @ targets.weights.flatten()), hidden + float(targets.weights.sum())
            positions, right = positions + shown_BT.numel(), right + float((said_BT == is_replaced_BT).sum())
            replacements += float(is_replaced_BT.sum())
            found += float((said_BT & is_replaced_BT).sum())
        model.train(was_training)
        return {
            "generator_loss": nats / max(1.0, hidden), "replaced_accuracy": right / positions,
            "replaced_found": found / max(1.0, replacements),
        }  # fmt: skip


@torch.no_grad()
def guesses(generator: LanguageModel, hidden_ND: Tensor, draws_BK: Tensor) -> Tensor:
    """Draw a token from the probabilities of ELECTRA's generator at each hidden position, (B, K)."""
    found, draws_N = [], draws_BK.flatten()
    rows = max(1, _LOGITS_AT_ONCE // generator.config.vocab_size)
    for first in range(0, len(draws_N), rows):
        sums_NV = torch.softmax(generator.logits_at(hidden_ND[first : first + rows]).float(), dim=1).cumsum(dim=1)
        drawn_N1 = draws_N[first : first + rows, None] * sums_NV[:, -1:]
        found.append(torch.searchsorted(sums_NV, drawn_N1, right=True)[:, 0])
    return torch.cat(found).clamp_max(generator.config.vocab_size - 1).view(draws_BK.shape)


def replaced(targets: Targets, guesses_BK: Tensor) -> tuple[Tensor, Tensor]:
    """Return the text with the guesses of ELECTRA's generator, and where a guess is wrong, both (B, T)."""
    assert targets.positions is not None
    own_BT = targets.inputs.scatter(1, targets.positions, targets.labels)
    counted_BK = torch.where(targets.weights > 0, guesses_BK, targets.labels)
    shown_BT = own_BT.scatter(1, targets.positions, counted_BK)
    return shown_BT, shown_BT != own_BT


RECIPE = Recipe(
    name="electra",
    settings=ElectraSettings,
    architecture="encoder",
    does="Train a bidirectional transformer to find the tokens that a small masked language model replaced (ELECTRA).",
    data=lambda opened, settings: masked_texts(opened, settings.mask_unit, valid_blocks=None, labels=lambda _: None),
    objective=lambda settings, opened, device: Replaced(as_set(settings, opened, device)),
    accepts=lambda _: "no model, because `train electra` always starts with new weights",
    parts=lambda *_: {"head": False, "output_bias": False, "replaced_head": True},
    model=lambda model, settings: start_electra(model, settings.generator_size, settings.seed),
    saved=lambda electra: electra.discriminator,
)
