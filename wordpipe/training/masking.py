"""Which positions of a sequence are hidden: single tokens, whole words, or spans of whole words.

Every word draws a priority; the tokens of the words with the highest ones are taken until the sequence's number K is
full. So the shapes are fixed, nothing waits for a count, and all sequences of a batch are done at once.

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
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

MaskUnit = Literal["token", "word", "span"]

_LONGEST = 10  # words of a span
_GO_ON = 0.8  # 1 - p of the geometric distribution: chance that a span takes in one word more
_STEPS = 1 << 24  # values of a float32 draw


@dataclass(frozen=True)
class Choice:
    """What is hidden in each sequence.

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
    """What is hidden together.

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
    """Draw what is hidden.

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
    assert word_starts_BT is not None, "words are hidden whole, but nobody said where they begin"
    word_BT = word_numbers(word_starts_BT)
    if kind == "word":
        units = word_units(priority_BT, word_BT)
    else:
        units = span_units(priority_BT, span_lengths(_uniform(shape, generator)), word_BT, special_BT)
    positions_BK, counted_BK = take(units, special_BT, n_chosen)
    # One draw for a word or span, as in SpanBERT. BERT's whole-word masking draws for each token, and then 27 % of the
    # words of three tokens show at least one of them (1 - 0.9³), from which the others are easily told.
    draw_BK = _uniform(shape, generator).gather(1, units.unit.gather(1, positions_BK))
    return Choice(positions_BK, counted_BK, draw_BK)


def word_numbers(word_starts_BT: Tensor) -> Tensor:
    """Number of each token's word in its sequence, from 0, int64."""
    return (word_starts_BT.cumsum(dim=1) - 1).clamp_min(0)


def word_units(priority_BW: Tensor, word_BT: Tensor) -> Units:
    """Words, each with its own priority (W = T: there are never more words than tokens)."""
    return Units(priority_BW.gather(1, word_BT), word_BT, word_BT)


def span_lengths(draw: Tensor) -> Tensor:
    """Words of each span: geometric, p = 0.2, and at most 10, which makes 3.8 on average. int64.

    The distribution is cut off at 10 and scaled up, as in SpanBERT's code; to count all longer spans as 10 would make 4.5.

    Args:
        draw: from [0, 1), float32.
    """
    reached = torch.log1p(draw * (_GO_ON**_LONGEST - 1.0)) / math.log(_GO_ON)
    return reached.long().clamp_max(_LONGEST - 1) + 1


def span_units(priority_BW: Tensor, length_BW: Tensor, word_BT: Tensor, special_BT: Tensor) -> Units:
    """Spans of words; a special token ends a span.

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
    """The `n_chosen` ordinary positions of highest score, equal ones from left to right.

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
