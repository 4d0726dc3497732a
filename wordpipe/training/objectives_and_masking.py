"""Objectives, their targets and their loss; and the masks of those that hide tokens.

An objective turns a step's sequences into inputs and targets, all at once and on the device, so that the masks do not
depend on how the step is cut into micro-batches. The loss is a sum over targets; the loop divides by the number of
targets of the whole step. (A mean of means weighs the tokens of different micro-batches differently, and then the loss
changes with the micro-batch.)

Masked positions are single tokens, whole words, or spans of whole words. Every word draws a priority; the tokens of the words
with the highest ones are taken until the sequence's number K is full. So the shapes are fixed, nothing waits for a count, and
all sequences of a batch are done at once.

    token   a token's priority is its own draw
    word    that of its word (whole-word masking: Devlin et al. 2019, in the code of May 2019)
    span    the highest among the spans that reach it: from every word a span sets out, over a random number of words, and
            spans are laid one after the other, the highest first, where nothing lies yet (Joshi et al. 2020, SpanBERT,
            section 3.1, says the same as a loop)

The K-th token may lie in the middle of a word. Then that word's tokens count for nothing, unless there is no other word:
so no word is shown in part, and no sequence with an ordinary token is without a target. In words of 1.4 tokens 38 of 126
positions come to 37.6. A span that the budget cuts is kept up to its last whole word, as in SpanBERT's code.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from wordpipe.training.cross_entropy import cross_entropy_sum
from wordpipe.training.token_stream import Rows, document_numbers

if TYPE_CHECKING:
    from wordpipe.model import Transformer

MaskUnit = Literal["token", "word", "span"]

_LONGEST = 10  # words of a span
_GO_ON = 0.8  # 1 - p of the geometric distribution: chance that a span takes in one word more
_STEPS = 1 << 24  # values of a float32 draw

RATE_STEPS = 8
"""Values that a moving mask rate takes: each is a shape of its own, for which a compiled model is compiled again."""


@dataclass(frozen=True)
class Targets:
    """A batch with what is to be predicted.

    Attributes:
        inputs: ids that the model sees, (B, T), int64.
        positions: positions to predict at, (B, K), int64; None for all of them, in order.
        labels: the ids to predict, (B, K), int64.
        weights: 1 where the label counts, 0 where it does not, (B, K), float32.
        segments: which text of a pair each input belongs to, (B, T), int64; None where there are no pairs.
    """

    inputs: Tensor
    positions: Tensor | None
    labels: Tensor
    weights: Tensor
    segments: Tensor | None = None

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def n_targets(self) -> Tensor:
        return self.weights.sum()

    @property
    def n_positions(self) -> int:
        return self.inputs.numel()

    def rows(self, first: int, last: int) -> Self:
        tensors = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(self, **{name: value[first:last] for name, value in tensors.items()})

    def loss_sum(self, model: Any, label_smoothing: float) -> Tensor:
        """Return the objective's summed cross-entropy of the targets, float32; see `loss_sum`.

        Only the positions to predict reach the head: with a vocabulary of 16,000 it costs more than all blocks of a small
        model.
        """
        hidden_BKD = model.encode_to_guess(self.inputs, self.positions, segments_BT=self.segments)
        return guessed_loss_sum(model, hidden_BKD, self, label_smoothing)


def guessed_loss_sum(model: Any, hidden_BKD: Tensor, targets: Targets, label_smoothing: float) -> Tensor:
    """Return an objective's cross-entropy of the guesses at some hidden states, summed."""
    return cross_entropy_sum(
        model.features_at(hidden_BKD.flatten(0, 1)), model.output_matrix, model.output_bias, targets.labels.flatten(),
        targets.weights.flatten(), label_smoothing,
    )  # fmt: skip


class AnyTargets(Protocol):
    """The targets of a step: `Targets`, those of pairs in `seq2seq_pairs`, those of heads in `heads`."""

    def __len__(self) -> int:
        """Sequences."""
        ...

    @property
    def n_targets(self) -> Tensor:
        """The divisor of the summed loss, a scalar on the device."""
        ...

    @property
    def n_positions(self) -> int:
        """Positions that are read."""
        ...

    def rows(self, first: int, last: int) -> "AnyTargets":
        """Sequences `first` to `last` - 1."""
        ...


class LearnedTargets(AnyTargets, Protocol):
    """Targets that compute their own loss."""

    def loss_sum(self, model: Any, label_smoothing: float) -> Tensor: ...


@dataclass(frozen=True)
class Choice:
    """The hidden tokens of each sequence.

    Attributes:
        positions: where, all different, (B, K), int64.
        counted: whether the position is hidden indeed; the others only fill up the shape, (B, K), bool.
        draw: from [0, 1), decides how the position is hidden, (B, K), float32.
    """

    positions: Tensor
    counted: Tensor
    draw: Tensor


@dataclass(frozen=True)
class Units:
    """Tokens that are hidden together.

    Attributes:
        score: the higher, the earlier hidden, (B, T), float32 in [0, 1).
        word: number of the word in its sequence; a word is hidden whole, (B, T), int64.
        unit: number of the word or of the span's first word; a unit is hidden in one way, (B, T), int64.
    """

    score: Tensor
    word: Tensor
    unit: Tensor


def choose(
    kind: MaskUnit, special_BT: Tensor, word_starts_BT: Tensor | None, n_chosen: int, generator: torch.Generator
) -> Choice:
    """Choose at random the tokens that are masked.

    Args:
        kind: what is hidden together.
        special_BT: positions that never are, bool; each is a word of its own.
        word_starts_BT: where words begin, bool; not needed for tokens.
        n_chosen: K, positions of each sequence, from 1 to T.
        generator: on the device of the tensors.
    """
    shape, (B, _) = special_BT.shape, special_BT.shape
    priority_BT = _uniform(shape, generator)
    if kind == "token":
        top = priority_BT.masked_fill(special_BT, -1.0).topk(n_chosen, dim=1, sorted=False)
        # a block of many short documents may have fewer ordinary tokens than n_chosen
        return Choice(top.indices, top.values >= 0.0, _uniform(torch.Size((B, n_chosen)), generator))
    assert word_starts_BT is not None, "whole-word masking needs word_starts"
    word_BT = word_numbers(word_starts_BT)
    if kind == "word":
        units = word_units(priority_BT, word_BT)
    else:
        units = span_units(priority_BT, span_lengths(_uniform(shape, generator)), word_BT, special_BT)
    positions_BK, counted_BK = take(units, special_BT, n_chosen)
    # One draw for a word or span, as in SpanBERT. BERT's whole-word masking draws for each token, and then 27 % of the
    # words of three tokens show at least one of them (1 - 0.9³), from which the others are easily guessed.
    draw_BK = _uniform(shape, generator).gather(1, units.unit.gather(1, positions_BK))
    return Choice(positions_BK, counted_BK, draw_BK)


def word_numbers(word_starts_BT: Tensor) -> Tensor:
    """Return the number of each token's word in its sequence, from 0, int64."""
    return (word_starts_BT.cumsum(dim=1) - 1).clamp_min(0)


def word_units(priority_BW: Tensor, word_BT: Tensor) -> Units:
    """Return words as units to mask."""
    return Units(priority_BW.gather(1, word_BT), word_BT, word_BT)


def span_lengths(draw: Tensor) -> Tensor:
    """Return the words of each masked span: geometric, p = 0.2, and at most 10. int64.

    The distribution is cut off at 10 and scaled up, as in SpanBERT's code; to count all longer spans as 10 would make 4.5.

    Args:
        draw: from [0, 1), float32.
    """
    reached = torch.log1p(draw * (_GO_ON**_LONGEST - 1.0)) / math.log(_GO_ON)
    return reached.long().clamp_max(_LONGEST - 1) + 1


def span_units(priority_BW: Tensor, length_BW: Tensor, word_BT: Tensor, special_BT: Tensor) -> Units:
    """Return spans of words as units to mask; a special token ends a span.

    Args:
        priority_BW: of the span that sets out from each word.
        length_BW: its words, 1 to 10.
        word_BT: number of each token's word.
        special_BT: tokens that are never hidden.
    """
    number_W = torch.arange(word_BT.shape[1], device=word_BT.device)
    is_special_BW = torch.zeros_like(special_BT).scatter(1, word_BT, special_BT)
    next_special_BW = torch.where(is_special_BW, number_W, len(number_W)).flip(1).cummin(1).values.flip(1)
    end_BW = torch.minimum(number_W + length_BW, next_special_BW)
    # for each word the spans from the nine words before it and from itself
    begun_BWS = F.pad(priority_BW, (_LONGEST - 1, 0)).unfold(1, _LONGEST, 1)
    reaches_BWS = F.pad(end_BW, (_LONGEST - 1, 0)).unfold(1, _LONGEST, 1) > number_W[:, None]
    best_BW, which_BW = begun_BWS.masked_fill(~reaches_BWS, -1.0).max(dim=2)
    first_BW = (number_W - (_LONGEST - 1) + which_BW).clamp_min(0)
    return Units(best_BW.gather(1, word_BT), word_BT, first_BW.gather(1, word_BT))


def take(units: Units, special_BT: Tensor, n_chosen: int) -> tuple[Tensor, Tensor]:
    """Take the `n_chosen` ordinary positions of highest score to mask, equal ones from left to right.

    Returns:
        positions: (B, K), int64.
        counted: False for special tokens and for a word that was cut, (B, K), bool.
    """
    T = special_BT.shape[1]
    later_T = torch.arange(T - 1, -1, -1, device=special_BT.device)
    # whole numbers, all different: what is taken does not depend on how a device sorts equal ones
    key_BT = (units.score * _STEPS).long() * T + later_T
    key_BT = torch.where(special_BT, later_T - T, key_BT)
    top = key_BT.topk(min(n_chosen + 1, T), dim=1)
    positions_BK, ordinary_BK = top.indices[:, :n_chosen], top.values[:, :n_chosen] >= 0
    if n_chosen == T:
        return positions_BK, ordinary_BK
    word_BK, left_out_B1 = units.word.gather(1, positions_BK), units.word.gather(1, top.indices[:, -1:])
    is_cut_BK = (word_BK == left_out_B1) & (word_BK[:, :1] != left_out_B1)
    return positions_BK, ordinary_BK & ~is_cut_BK


def _uniform(shape: torch.Size, generator: torch.Generator) -> Tensor:
    return torch.rand(shape, generator=generator, device=generator.device)


class LanguageObjective:
    """The objective of a language model, see `Objective`.

    Attributes:
        compiled: whether torch.compile may take its loss.
    """

    compiled = True

    def targets(self, rows: Any, generator: torch.Generator, progress: float) -> AnyTargets:
        """Return the targets of some rows; all draws depend on the generator alone."""
        raise NotImplementedError

    def measure(self, model: Any, blocks: "Examples") -> dict[str, float]:
        """Return further figures of held-out sequences, by name."""
        del model, blocks
        return {}


class Masked(LanguageObjective):
    """The masked language modelling objective: hides tokens, which are to be guessed.

    In every sequence the same number of ordinary tokens is chosen. Most are shown as [MASK], some as a random ordinary
    token, the rest as they are. A fixed number keeps every shape fixed (no transfer from the device to count, one compiled
    program) and leaves no sequence without targets.

    Args:
        rate: share of a sequence's positions between [CLS] and [SEP] that is chosen, at least one.
        rate_end: the same at the end of the training, see `rate_at`; None: `rate`.
        unit: what is chosen together (see above); words and spans fill the share up to their last whole word.
        mask_share: share of the chosen shown as [MASK].
        random_share: share of the chosen shown as a random token.
        mask_id: id of [MASK].
        special_ids: never chosen and never shown in place of another.
        n_tokens: ids of the tokenizer; those above are padding of the embedding table and never shown either.
        device: where the batches are.
        end_id: what ends a document, where the documents of a sequence are its segments, as in XLNet; None: it has none.

    Attributes:
        is_special_V: the ids that are never chosen, bool.

    Source: Devlin et al. 2019, section 3.1, task 1 (0.15, 0.8, 0.1); rates above 0.15: Wettig et al. 2023.
    """

    def __init__(
        self, *, rate: float, rate_end: float | None = None, unit: MaskUnit = "token", mask_share: float,
        random_share: float, mask_id: int, special_ids: tuple[int, ...], n_tokens: int, device: torch.device,
        end_id: int | None = None,
    ) -> None:  # fmt: skip
        self.rate, self.rate_end, self.unit = rate, rate if rate_end is None else rate_end, unit
        self.mask_share, self.random_share, self.mask_id, self.end_id = mask_share, random_share, mask_id, end_id
        is_special_V = torch.zeros(n_tokens, dtype=torch.bool)
        is_special_V[list(special_ids)] = True
        self.is_special_V = is_special_V.to(device)
        self._ordinary_ids = torch.nonzero(~is_special_V).flatten().to(device)

    def rate_at(self, progress: float) -> float:
        """Return the masking rate when this share of the steps is done.

        It goes from `rate` to `rate_end` in a staircase of `RATE_STEPS` equally long stairs, the first and the last of
        which have the two rates themselves; over the whole training the mean is (rate + rate_end) / 2.
        """
        stair = min(int(progress * RATE_STEPS), RATE_STEPS - 1)
        return self.rate + (self.rate_end - self.rate) * stair / (RATE_STEPS - 1)

    def targets(self, rows: Rows, generator: torch.Generator, progress: float) -> Targets:
        """Choose tokens of the sequences and mask the chosen tokens.

        Args:
            rows: of `Blocks`, on the device.
            generator: on the same device; what is drawn depends on it alone.
            progress: share of the training's steps that are done, from 0 to 1.
        """
        ids_BT = rows.ids_BT
        n_chosen = max(1, round(self.rate_at(progress) * (ids_BT.shape[1] - 2)))
        choice = choose(self.unit, self.is_special_V[ids_BT], rows.word_starts_BT, n_chosen, generator)
        labels_BK = ids_BT.gather(1, choice.positions)
        shown_BK = torch.where(choice.counted, self._hide(labels_BK, choice.draw, generator), labels_BK)
        inputs_BT = ids_BT.scatter(1, choice.positions, shown_BK)
        segments_BT = None if self.end_id is None else document_numbers(ids_BT, self.end_id)
        return Targets(inputs_BT, choice.positions, labels_BK, choice.counted.float(), segments_BT)

    def _hide(self, labels_BK: Tensor, draw_BK: Tensor, generator: torch.Generator) -> Tensor:
        """Return what masking shows for hidden tokens: [MASK], a random token, or the token itself."""
        uniform_BK = torch.rand(labels_BK.shape, generator=generator, device=generator.device)
        which_BK = (uniform_BK * len(self._ordinary_ids)).long().clamp_max(len(self._ordinary_ids) - 1)
        random_BK = self._ordinary_ids[which_BK]
        kept_or_random_BK = torch.where(draw_BK < self.mask_share + self.random_share, random_BK, labels_BK)
        return kept_or_random_BK.masked_fill(draw_BK < self.mask_share, self.mask_id)


class Objective(Protocol):
    """The objective of a training: it makes inputs and targets out of rows."""

    def targets(self, rows: Any, generator: torch.Generator, progress: float) -> AnyTargets:
        """Return the targets of some rows; all draws depend on the generator alone."""
        ...


class Examples(Protocol):
    """Numbered sequences or pairs to train on: `token_stream.Blocks`, `pair_targets.PairBlocks`."""

    def __len__(self) -> int:
        """In one pass over the text."""
        ...

    @property
    def seq_len(self) -> int:
        """Positions of each, or in the mean."""
        ...

    @property
    def n_repeated(self) -> int:
        """Ids of the last one that the one before it had already."""
        ...

    def order(self, step: int, *, batch_size: int, seed: int) -> npt.NDArray[np.int64]:
        """The numbers in a step's batch."""
        ...

    def rows(self, index_B: npt.NDArray[np.int64]) -> Any:
        """Return some sequences or pairs by their number, in the form that an objective takes."""
        ...


def loss_sum(model: "Transformer", targets: LearnedTargets, label_smoothing: float = 0.0) -> Tensor:
    """Return the objective's loss summed over the targets, float32: of tokens their cross-entropy, in nats.

    Args:
        model: on the device of the targets.
        targets: what it sees and should predict.
        label_smoothing: ε: the label's probability is 1 - ε + ε/V, that of every other row of the output matrix ε/V
            (Szegedy et al. 2016, section 7; torch's definition. The Annotated Transformer spreads ε over V - 2 ids).
            For training only: a held-out loss with ε has no perplexity.
    """
    return targets.loss_sum(model, label_smoothing)
