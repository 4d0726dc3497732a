"""Permutation language modelling: tokens are guessed in a random order, each from what comes before it in that order.

With z an order of the positions, of which the last ones, M, are guessed,

    mean over t in M of -log p(x_t | x_s for all s before t in z; t)

What stands at t is guessed by a second stream, which knows the place t and sees the tokens before t in z; the first stream
sees the token at t too, and is what the second one looks at (`variants.relative`). No token is shown as [MASK], so training
reads what the model is used on.

The positions in M are spans of 1 to 5 tokens, a sixth of each sequence. All others come first in the order, special tokens
among them: they are seen by all, so they may see nothing that is guessed. The segments of relative attention are the
documents of a sequence.

Source: Yang et al. 2019, "XLNet", equation 3 (the objective), 5 (partial prediction), sections 2.3 (two streams) and 2.5
(segments); in their code a sixth of the tokens, in spans of 1 to 5.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from wordpipe.model import LanguageModel
from wordpipe.training.objectives_and_masking import (
    LanguageObjective,
    Masked,
    Targets,
    guessed_loss_sum,
    span_units,
    take,
)
from wordpipe.training.recipes.mlm import hiding, masked_texts
from wordpipe.training.recipes.table import Opened, Recipe
from wordpipe.training.settings import PermutationSettings
from wordpipe.training.token_stream import Rows, document_numbers


@dataclass(frozen=True)
class PermutationTargets(Targets):
    """Targets of XLNet: guessed tokens, and the random order in which tokens are known.

    Attributes:
        order: when a token is known, (B, T), float32: below 0 at once, else from [0, 1).
    """

    order: Tensor = field(kw_only=True)

    def loss_sum(self, model: LanguageModel, label_smoothing: float) -> Tensor:
        """Return the XLNet loss, summed over the guessed tokens, float32."""
        hidden_BKD = model.encode_to_guess(self.inputs, self.positions, self.order, self.segments)
        return guessed_loss_sum(model, hidden_BKD, self, label_smoothing)


class Permuted(LanguageObjective):
    """The objective of XLNet: permutation language modelling.

    Args:
        masked: says how many tokens are guessed, which never are, and what ends a document.
        max_span: most tokens side by side that are guessed together, at most 10.
    """

    compiled = False

    def __init__(self, masked: Masked, max_span: int) -> None:
        self._masked, self.max_span = masked, max_span

    def targets(self, rows: Rows, generator: torch.Generator, progress: float) -> PermutationTargets:
        """Choose the guessed tokens of permutation language modelling, and draw the order of the tokens."""
        ids_BT, device = rows.ids_BT, generator.device
        (B, T), special_BT = ids_BT.shape, self._masked.is_special_V[ids_BT]
        n_guessed = max(1, round(self._masked.rate_at(progress) * (T - 2)))
        priority_BT, draw_BT = torch.rand(2, B, T, generator=generator, device=device)
        length_BT = (draw_BT * self.max_span).long().clamp_max(self.max_span - 1) + 1
        each_BT = torch.arange(T, device=device).expand(B, T)  # spans of tokens: each is a word of its own
        positions_BK, counted_BK = take(span_units(priority_BT, length_BT, each_BT, special_BT), special_BT, n_guessed)
        drawn_BK = torch.rand(positions_BK.shape, generator=generator, device=device).masked_fill(~counted_BK, -1.0)
        order_BT = torch.full((B, T), -1.0, device=device).scatter(1, positions_BK, drawn_BK)
        segments_BT = None if self._masked.end_id is None else document_numbers(ids_BT, self._masked.end_id)
        labels_BK = ids_BT.gather(1, positions_BK)
        return PermutationTargets(ids_BT, positions_BK, labels_BK, counted_BK.float(), segments_BT, order=order_BT)


def _hiding(opened: Opened, device: torch.device, **given: Any) -> Masked:
    """Return the masking of XLNet: as for all encoders, but the documents of a sequence are its segments."""
    return hiding(opened, device, end_id=opened.special.completed("encoder").need("sep"), **given)


_PARTS = {
    "attention": "relative", "positions": "none", "segments": 2, "embedding_norm": False, "head": False,
    "output_bias": True, "two_streams": True,
}  # fmt: skip

RECIPE = Recipe(
    name="permutation",
    settings=PermutationSettings,
    architecture="encoder",
    does="Train a bidirectional transformer to predict tokens in a random order (XLNet). Each token is predicted "
    "from the tokens before it in this order.",
    data=lambda opened, _: masked_texts(opened),
    objective=lambda settings, opened, device: Permuted(
        _hiding(opened, device, rate=settings.mask_rate), settings.max_span
    ),
    valid_objective=lambda _, opened, device: _hiding(opened, device),
    accepts=lambda config: "" if config.two_streams else "an XLNet model (with a query stream)",
    parts=lambda *_: _PARTS,
)
