"""Two texts in one sequence, [CLS] A [SEP] B [SEP], and a guess how they belong together, beside the guess of hidden tokens.

    nsp   next sentence:    0 = B follows A in the text, 1 = B is from another sequence of the batch
    sop   sentence order:   0 = A comes before B in the text, 1 = the two have changed places

A block of the stream is cut in two, at a place drawn from its middle half, so that no sequence has padding; the texts are runs
of tokens, as in BERT's data, where a "sentence" is a span too. The loss is the mean over hidden tokens plus the mean over
sequences.

Source: Devlin et al. 2019, section 3.1, task 2; Lan et al. 2020, section 3.1.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from wordpipe.model import seed_of
from wordpipe.training.objectives import Examples, LanguageObjective, Masked, Targets, guessed_loss_sum
from wordpipe.training.sequences import Rows, spread

if TYPE_CHECKING:
    from wordpipe.model import LanguageModel

PairKind = Literal["nsp", "sop"]

_SPECIAL = 3  # [CLS], [SEP], [SEP]
_MEASURED, _AT_ONCE = 512, 32  # held-out sequences, and so many together


@dataclass(frozen=True)
class TextPairTargets(Targets):
    """Hidden tokens of two texts, and what is to be said of the two.

    Attributes:
        pair_labels: of each sequence, (B,), 0 or 1.
    """

    pair_labels: Tensor = field(kw_only=True)

    def rows(self, first: int, last: int) -> "TextPairTargets":
        """Sequences `first` to `last` - 1."""
        return TextPairTargets(**vars(super().rows(first, last)), pair_labels=self.pair_labels[first:last])

    def loss_sum(self, model: "LanguageModel", label_smoothing: float) -> Tensor:
        """That of hidden tokens, and the mean over sequences times as many tokens."""
        assert self.positions is not None
        at_BK = F.pad(self.positions, (1, 0))  # the first position, too
        hidden_BKD = model.encode(self.inputs, segments_BT=self.segments, at_BK=at_BK)
        logits_B2 = model.pair_logits(hidden_BKD[:, 0]).float()
        of_pairs = F.cross_entropy(logits_B2, self.pair_labels, reduction="sum") * self.weights.sum() / len(self)
        return of_pairs + guessed_loss_sum(model, hidden_BKD[:, 1:], self, label_smoothing)


class MaskedPairs(LanguageObjective):
    """Masked language modelling of two texts, and what they are to each other.

    Args:
        masked: hides tokens.
        kind: what is guessed of the two.
    """

    def __init__(self, masked: Masked, kind: PairKind) -> None:
        self._masked, self.kind = masked, kind

    def targets(self, rows: Rows, generator: torch.Generator, progress: float) -> TextPairTargets:
        """Cut, change half of the sequences, and hide.

        Args:
            rows: of `pair_blocks`, on the device.
            generator: on the same device; what is drawn depends on it alone.
            progress: share of the training's steps that are done.
        """
        pairs, segments_BT, labels_B = self.pairs(rows, generator)
        hidden = replace(self._masked.targets(pairs, generator, progress), segments=segments_BT)
        return TextPairTargets(**vars(hidden), pair_labels=labels_B)

    def pairs(self, rows: Rows, generator: torch.Generator) -> tuple[Rows, Tensor, Tensor]:
        """The sequences with both texts, which of them each position belongs to, and what is right, (B,)."""
        ids_BT, device = rows.ids_BT, generator.device
        B, T = ids_BT.shape
        width = T - _SPECIAL
        drawn_3B = torch.rand(3, B, generator=generator, device=device)
        cut_B = (width // 4 + (drawn_3B[0] * (width // 2 + 1)).long()).clamp(1, width - 1)
        labels_B = (drawn_3B[1] < 0.5).long()
        if B == 1 and self.kind == "nsp":  # there is no other
            labels_B = torch.zeros_like(labels_B)
        row_B, place_T = torch.arange(B, device=device), torch.arange(T, device=device)
        is_changed_B = labels_B.bool()
        # the first text: its length, and where it begins in the row
        swapped_B = is_changed_B if self.kind == "sop" else torch.zeros_like(is_changed_B)
        first_B = torch.where(swapped_B, width - cut_B, cut_B)
        first_B1 = first_B[:, None]
        in_second_BT = place_T > first_B1 + 1
        from_BT = torch.where(in_second_BT, place_T - 1, place_T.expand(B, T))
        moved_BT = torch.where(in_second_BT, place_T - 1 - first_B1, place_T + cut_B[:, None])
        from_BT = torch.where(swapped_B[:, None], moved_BT, from_BT)
        other_B = row_B
        if self.kind == "nsp":
            other_B = torch.where(is_changed_B, (row_B + 1 + (drawn_3B[2] * (B - 1)).long()) % B, row_B)
        row_BT = torch.where(in_second_BT, other_B[:, None], row_B[:, None])
        is_sep_BT = (place_T == first_B1 + 1) | (place_T == T - 1)
        is_text_BT = ~is_sep_BT & (place_T > 0)
        from_BT = torch.where(is_text_BT, from_BT, 0)
        texts_BT = ids_BT[row_BT, from_BT]
        new_BT = torch.where(is_sep_BT, ids_BT[:, -1:], torch.where(is_text_BT, texts_BT, ids_BT))
        starts_BT = None
        if rows.word_starts_BT is not None:
            begins_BT = (place_T == 1) | (place_T == first_B1 + 2)
            starts_BT = ~is_text_BT | begins_BT | rows.word_starts_BT[row_BT, from_BT]
        return Rows(new_BT, starts_BT), in_second_BT.long(), labels_B

    def measure(self, model: Any, blocks: Examples) -> dict[str, float]:
        """How often the model says right how two texts belong together."""
        return {"pair_accuracy": pair_accuracy(model, self, blocks)}


@torch.no_grad()
def pair_accuracy(model: "LanguageModel", objective: MaskedPairs, blocks: Examples) -> float:
    """Share of sequences of whose two texts the model says what is right; no token is hidden.

    Args:
        model: with a second head.
        objective: makes the pairs, always the same ones.
        blocks: of `pair_blocks`; some, evenly spread, are looked at.
    """
    was_training, device = model.training, model.embedding.device
    model.eval()
    index = spread(len(blocks), _MEASURED)
    generator, right = torch.Generator(device).manual_seed(seed_of("pairs")), 0
    for first in range(0, len(index), _AT_ONCE):
        rows = blocks.rows(index[first : first + _AT_ONCE]).to(device)
        pairs, segments_BT, labels_B = objective.pairs(rows, generator)
        hidden_B1D = model.encode(pairs.ids_BT, segments_BT=segments_BT, at_BK=torch.zeros_like(labels_B)[:, None])
        right += int((model.pair_logits(hidden_B1D[:, 0]).argmax(1) == labels_B).sum())
    model.train(was_training)
    return right / len(index)
