"""Text infilling and sentence permutation, the denoising of BART: the whole text is written anew.

In the source the sentences stand in a random order, and spans of the text, some of them empty, are one [MASK] each. The labels
are the text as it was.

    text     A B C . D E .
    source   <s> D [MASK] A B [MASK] C [MASK] </s>      the spans are (E .), (), (.)
    labels   A B C . D E . </s>

Of n units (tokens, or whole words where it is known where they begin) ⌈rate · n⌉ are hidden. Span lengths are drawn from a
Poisson distribution until they sum to that number; the last one is cut to fit, and empty ones count as spans. All ways to lay
these spans among the units that are left are equally likely, so no two overlap and the share is met exactly. (In fairseq
spans set out from random words whatever the others cover; as they overlap, 30 % come to 27.) With probability `random_share`
a mask is shown as a random ordinary token instead.

Special ids stay where they are and are never hidden. Sentences change places between two of them only, as they do within a
document; a span that has one inside becomes two, each with its mask.

Whole words are what fairseq hides: a span that ends inside a word leaves a piece from which the rest is easily guessed. They
cost no time, only the flags of where words begin; a tokenizer that does not tell that has tokens as units.

Source: Lewis et al. 2020, section 2.2, text infilling and sentence permutation; with the numbers of fairseq's
`denoising_dataset.py` as BART was trained (30 %, Poisson of mean 3.5, 10 % random tokens).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wordpipe.errors import ConfigError
from wordpipe.training.seq2seq_pairs import Flat


@dataclass(frozen=True)
class Laid:
    """Spans among the units of sequences, all sequences one after the other.

    Attributes:
        span: number of the span that hides each unit, -1 where none does, (U,), int64.
        empty: the unit that each empty span stands before, of its own sequence or the first of the next, (E,), int64.
        empty_row: the sequence of each empty span, (E,), int64.
    """

    span: npt.NDArray[np.int64]
    empty: npt.NDArray[np.int64]
    empty_row: npt.NDArray[np.int64]

    def with_fewer(self, n: int) -> "Laid":
        """With the first n empty spans of each sequence."""
        fits = np.arange(len(self.empty)) - np.searchsorted(self.empty_row, self.empty_row) < n
        return Laid(self.span, self.empty[fits], self.empty_row[fits])


class TextInfilling:
    """BART's text infilling: hides spans of a text and permutes its sentences.

    >>> infilling = TextInfilling(mask_id=4, bos_id=0, eos_id=2, special_ids=range(5), n_tokens=99, random_share=0.0)
    >>> text, begins = np.arange(10, 20)[None], np.isin(np.arange(10, 20), [10, 14])[None]
    >>> (source, _), (labels, _) = infilling.corrupt(text, np.random.default_rng(16), sentence_starts_BT=begins)
    >>> source.tolist()
    [0, 14, 15, 4, 18, 19, 10, 11, 12, 4, 2]
    >>> labels.tolist()
    [10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 2]

    Args:
        rate: share of the units that is hidden, 0 to 1.
        mean_span: λ, units of a span on average, above 0.
        random_share: share of the masks that are shown as a random token, 0 to 1.
        permute: whether sentences change places, where it is known where they begin.
        mask_id: id of [MASK].
        bos_id: begins a source.
        eos_id: ends sources and labels.
        special_ids: never hidden, never moved, and never shown in place of another.
        n_tokens: ids of the tokenizer.
        max_len: ids of the longest source. Empty spans make sources longer than texts; those at the end of a sequence that has
            no room for them are left out. Texts have two ids fewer. None: all are laid.

    Raises:
        ConfigError: a number out of its bounds, or no ordinary token.
    """

    def __init__(
        self, *, rate: float = 0.3, mean_span: float = 3.5, random_share: float = 0.1, permute: bool = True,
        mask_id: int, bos_id: int, eos_id: int, special_ids: Sequence[int], n_tokens: int, max_len: int | None = None,
    ) -> None:  # fmt: skip
        for name, share in (("rate", rate), ("random_share", random_share)):
            if not 0.0 <= share <= 1.0:
                raise ConfigError("the value is not between 0 and 1", where=name, got=share, expected="0 to 1")
        if not mean_span > 0.0:
            raise ConfigError("the average span length is not above 0", got=mean_span, expected="above 0")
        self.rate, self.mean_span, self.random_share, self.permute = rate, mean_span, random_share, permute
        self.mask_id, self.bos_id, self.eos_id, self.max_len = mask_id, bos_id, eos_id, max_len
        self._is_special_V = np.zeros(n_tokens, dtype=np.bool_)
        self._is_special_V[list(special_ids)] = True
        self._ordinary_ids = np.flatnonzero(~self._is_special_V)
        if len(self._ordinary_ids) == 0:
            raise ConfigError(
                "the tokenizer has only special tokens", got=n_tokens, expected="at least one ordinary token"
            )

    def corrupt(
        self, ids_BT: npt.NDArray[np.int64], random: np.random.Generator,
        *, sentence_starts_BT: npt.NDArray[np.bool_] | None = None, word_starts_BT: npt.NDArray[np.bool_] | None = None,
    ) -> tuple[Flat, Flat]:  # fmt: skip
        """Permute the sentences of texts, and hide spans: the damage of text infilling.

        Args:
            ids_BT: sequences, as they stand in the stream.
            random: decides the order, then the lengths of the spans, then their places, then what is shown; nothing else does.
            sentence_starts_BT: where sentences begin; one also does at the beginning of a sequence and after a special id.
                None: nothing is moved.
            word_starts_BT: likewise for words; None: units are tokens.

        Returns:
            source: bos, the text with masks, eos.
            labels: the text as it was, eos. (fairseq puts the bos before it, which a decoder then learns to write first.)
        """
        B, T = ids_BT.shape
        labels_BS = np.full((B, T + 1), self.eos_id, dtype=np.int64)
        labels_BS[:, :T] = ids_BT
        labels = labels_BS.ravel(), np.full(B, T + 1)
        special_BT = self._is_special_V[ids_BT]
        after_special_BT = np.ones((B, T), dtype=np.bool_)
        after_special_BT[:, 1:] = special_BT[:, :-1]
        if self.permute and sentence_starts_BT is not None:
            order_BT = _sentence_order(sentence_starts_BT | after_special_BT, special_BT, random)
            ids_BT = np.take_along_axis(ids_BT, order_BT, axis=1)  # what is special stays in its place
            if word_starts_BT is not None:  # no word goes on from one sentence into the next
                word_starts_BT = np.take_along_axis(word_starts_BT | sentence_starts_BT | after_special_BT, order_BT, 1)
        starts_BT = ~special_BT if word_starts_BT is None else (word_starts_BT | after_special_BT) & ~special_BT
        laid = self._lay(starts_BT.sum(axis=1), random)
        if self.max_len is not None:  # a span that is not empty takes no more than it hides
            laid = laid.with_fewer(self.max_len - T - 2)
        return self._show(ids_BT, special_BT, starts_BT, laid, random), labels

    def _lay(self, n_units_B: npt.NDArray[np.int64], random: np.random.Generator) -> Laid:
        """Lay the spans of text infilling among the units of each sequence, in a random order."""
        n_hidden_B = np.ceil(self.rate * n_units_B).astype(np.int64)
        length_BS, n_spans_B = span_lengths(n_hidden_B, self.mean_span, random)
        n_items_B = n_units_B - n_hidden_B + n_spans_B
        key_BI = random.random((len(n_units_B), int(n_items_B.max())))
        is_item_BI = np.arange(key_BI.shape[1]) < n_items_B[:, None]
        key_BI[~is_item_BI] = 2.0  # behind all others
        order_BI = key_BI.argsort(axis=1, kind="stable")
        # the items of lowest key are the spans, in their order; -1: a unit that is shown
        span_length_BI = np.full(key_BI.shape, -1)
        np.put_along_axis(span_length_BI, order_BI[:, : length_BS.shape[1]], length_BS, axis=1)
        length = span_length_BI[is_item_BI]
        n_taken = np.where(length < 0, 1, length)
        span = np.repeat(np.where(length < 0, -1, np.arange(len(length))), n_taken)
        is_empty = length == 0
        row = np.repeat(np.arange(len(n_units_B)), n_items_B)
        return Laid(span, (n_taken.cumsum() - n_taken)[is_empty], row[is_empty])

    def _show(
        self, ids_BT: npt.NDArray[np.int64], special_BT: npt.NDArray[np.bool_], starts_BT: npt.NDArray[np.bool_],
        laid: Laid, random: np.random.Generator,
    ) -> Flat:  # fmt: skip
        """Return the damaged sources of text infilling: one mask where a span begins."""
        B, T = ids_BT.shape
        unit_BT = np.maximum(starts_BT.cumsum() - 1, 0).reshape(B, T)
        span_BT = np.full((B, T), -1)
        span_BT[~special_BT] = laid.span[unit_BT[~special_BT]]
        shown_BS, stays_BS = np.empty((B, T + 2), dtype=np.int64), np.ones((B, T + 2), dtype=np.bool_)
        shown_BS[:, 0], shown_BS[:, 1:-1], shown_BS[:, -1] = self.bos_id, ids_BT, self.eos_id
        stays_BS[:, 1:-1] = span_BT < 0
        n_masks_BS = np.zeros((B, T + 2), dtype=np.int64)  # before each id
        n_masks_BS[:, 1:-1] = span_BT >= 0
        n_masks_BS[:, 2:-1] &= span_BT[:, 1:] != span_BT[:, :-1]
        np.add.at(n_masks_BS, self._places(special_BT, starts_BT, laid), 1)
        n_shown_BS = n_masks_BS + stays_BS
        ends = n_shown_BS.ravel().cumsum()
        source = np.full(int(ends[-1]), self.mask_id)
        is_mask = np.ones(len(source), dtype=np.bool_)
        at = ends[stays_BS.ravel()] - 1
        source[at], is_mask[at] = shown_BS[stays_BS], False
        self._disguise(source, is_mask, random)
        return source, n_shown_BS.sum(axis=1)

    @staticmethod
    def _places(
        special_BT: npt.NDArray[np.bool_], starts_BT: npt.NDArray[np.bool_], laid: Laid
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return row and column of the text-infilling source that each empty span stands before."""
        _, T = special_BT.shape
        column = np.append(np.nonzero(starts_BT)[1], 0)[laid.empty] + 1
        is_last = laid.empty == starts_BT.sum(axis=1).cumsum()[laid.empty_row]
        behind_B = T - (~special_BT)[:, ::-1].argmax(axis=1) + 1  # the last ordinary id
        return laid.empty_row, np.where(is_last, behind_B[laid.empty_row], column)

    def _disguise(
        self, source: npt.NDArray[np.int64], is_mask: npt.NDArray[np.bool_], random: np.random.Generator
    ) -> None:
        """Show some masks of text infilling as random tokens, in place."""
        masks = np.flatnonzero(is_mask)
        is_random = random.random(len(masks)) < self.random_share
        others = self._ordinary_ids[random.integers(len(self._ordinary_ids), size=len(masks))]
        source[masks[is_random]] = others[is_random]


def span_lengths(
    n_hidden_B: npt.NDArray[np.int64], mean_span: float, random: np.random.Generator
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Draw lengths of text infilling's spans from a Poisson distribution; the last is cut to fit.

    Args:
        n_hidden_B: units that each sequence hides.
        mean_span: λ of the Poisson distribution.
        random: gives each sequence as many draws as the neediest is likely to need, and then the same again.

    Returns:
        length_BS: of the spans, in the order of the draws, -1 where a sequence has no more.
        n_spans_B: how many each has.
    """
    n_draws = int(1.5 * n_hidden_B.max() / mean_span) + 4
    drawn_BS = random.poisson(mean_span, (len(n_hidden_B), n_draws))
    while (drawn_BS.sum(axis=1) < n_hidden_B).any():
        drawn_BS = np.concatenate((drawn_BS, random.poisson(mean_span, (len(n_hidden_B), n_draws))), axis=1)
    before_BS = drawn_BS.cumsum(axis=1) - drawn_BS
    is_span_BS = before_BS < n_hidden_B[:, None]
    n_spans_B = is_span_BS.sum(axis=1)
    cut_BS = np.minimum(drawn_BS, n_hidden_B[:, None] - before_BS)
    return np.where(is_span_BS, cut_BS, -1)[:, : n_spans_B.max()], n_spans_B


def _sentence_order(
    starts_BT: npt.NDArray[np.bool_], special_BT: npt.NDArray[np.bool_], random: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Return text infilling's order of sentences: the position from which each takes its id.

    Args:
        starts_BT: where sentences begin; at the beginning of a sequence and after a special id in any case.
        special_BT: what stays.
        random: gives each sentence its draw.
    """
    sentence_BT = (starts_BT | special_BT).cumsum(axis=1) - 1
    # special ids and what lies between them, numbered from left to right
    stretch_BT = special_BT.cumsum(axis=1) * 2 - special_BT
    key_BT = stretch_BT + np.take_along_axis(random.random(starts_BT.shape), sentence_BT, axis=1)
    return key_BT.argsort(axis=1, kind="stable")
