"""Span corruption, the denoising of T5: spans of a text are taken out, and only these are written.

A text of T tokens loses n noise tokens in s spans; one sentinel stands in the input for each, and introduces it in the labels:

    n = min(max(round(T · density), 1), T - 1)        s = max(round(n / mean span), 1), and never more than T - n

    text    Thank you for inviting me to your party last week
    input   Thank you <0> me to your party <1> week </s>             T - n + s + 1 tokens
    labels  <0> for inviting <1> last <2> </s>                       n + s + 1 tokens, with <2> one more

n and s depend on T alone. Kept and taken spans alternate, a kept one first and so a taken one last; all ways to part n tokens
into s spans are equally likely, and so are those to part the T - n others. So texts of one length make inputs of one length,
and labels of one length: 568 tokens become 512 and 114.

The labels show by a sentinel where kept text begins: `<2>` says in the figure of the paper that the last span is over. In the
reference a text ends inside a span, and there is no such sentinel; here too, unless a special id stands at the end.
Special ids are never taken out. A span that has one inside becomes two, each with its sentinel, so lengths differ from text
to text; in a stream without separators, as that of T5, they do not.

Source: Raffel et al. 2020, section 3.1.4 and figure 2 (the density also 3.3.3, the mean span of 3: 3.3.4), and in the code
of the paper, `t5/data/preprocessors.py`: `random_spans_noise_mask`, `noise_span_to_unique_sentinel`,
`nonnoise_span_to_unique_sentinel`, `random_spans_helper`. Two things differ from there: s stays at most T - n (theirs has no
answer then), and `lengths_for` finds the texts of short inputs too.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from wordpipe.errors import ConfigError
from wordpipe.training.seq2seq_pairs import Flat


class SpanCorruption:
    """T5's span corruption: takes spans out of texts, and leaves sentinels in their places.

    >>> corruption = SpanCorruption(sentinels=[99, 98, 97], eos_id=1)
    >>> thank_you = np.arange(10, 20)[None]                                # Thank you for inviting me to your party last week
    >>> noise = np.isin(thank_you, [12, 13, 18])                           # for inviting, last
    >>> (inputs, _), (labels, _) = corruption.split(thank_you, noise)
    >>> inputs.tolist()
    [10, 11, 99, 14, 15, 16, 17, 98, 19, 1]
    >>> labels.tolist()
    [99, 12, 13, 98, 18, 97, 1]
    >>> corruption.lengths_for(512)
    (568, 114)

    Args:
        noise_density: share of the tokens that is taken out, above 0 and below 1.
        mean_span: tokens of a span on average, at least 1.
        sentinels: ids of the first, second, … sentinel. T5's descend from the last id of the vocabulary.
        eos_id: ends inputs and labels.
        special_ids: never taken out.

    Raises:
        ConfigError: a number out of its bounds, or an id that is a sentinel twice or something else besides.
    """

    def __init__(
        self, *, noise_density: float = 0.15, mean_span: float = 3.0, sentinels: Sequence[int], eos_id: int,
        special_ids: Sequence[int] = (),
    ) -> None:  # fmt: skip
        if not 0.0 < noise_density < 1.0:
            raise ConfigError(
                "the share of tokens to remove is out of range", got=noise_density, expected="above 0 and below 1"
            )
        if not mean_span >= 1.0:
            raise ConfigError("the average span length is less than one token", got=mean_span, expected="at least 1")
        if len({eos_id, *sentinels}) < 1 + len(sentinels):
            raise ConfigError(
                "the ids of the sentinels and the end token are not all different",
                got=list(sentinels),
                expected="sentinel ids that differ from each other and from the eos id",
            )
        self.noise_density, self.mean_span, self.eos_id = noise_density, mean_span, eos_id
        self._sentinels = np.array(sentinels, dtype=np.int64)
        self._special_ids = np.array(special_ids, dtype=np.int64)

    def noise_of(self, raw_length: int) -> tuple[int, int]:
        """Return for span corruption how many tokens are taken out of a text of this length, in how many spans.

        Of a single token none.
        """
        if raw_length < 2:
            return 0, 0
        n_noise = min(max(round(raw_length * self.noise_density), 1), raw_length - 1)
        return n_noise, min(max(round(n_noise / self.mean_span), 1), raw_length - n_noise)

    def lengths_of(self, raw_length: int) -> tuple[int, int]:
        """Return the numbers of input and label ids that a text of this length without special ids becomes."""
        n_noise, n_spans = self.noise_of(raw_length)
        # a single token is all kept: its labels have the sentinel that says so
        return raw_length - n_noise + n_spans + 1, n_noise + max(n_spans, 1) + 1

    def lengths_for(self, input_length: int) -> tuple[int, int]:
        """Return for span corruption the tokens of the longest text with this many input ids, and its labels.

        Raises:
            ConfigError: there is none.
        """
        if input_length < self.lengths_of(1)[0]:
            raise ConfigError("the input length is too short for any text", got=input_length, expected="at least 2 ids")
        raw_length = 1
        while self.lengths_of(raw_length + 1)[0] <= input_length:  # with each token it stays or grows by 1 or 2
            raw_length += 1
        return raw_length, self.lengths_of(raw_length)[1]

    def sentinels_for(self, raw_length: int) -> int:
        """Return the sentinels needed for texts of this length: with special ids one more, for what follows the last span."""
        return max(self.noise_of(raw_length)[1], 1) + bool(len(self._special_ids))

    def corrupt(self, ids_BT: npt.NDArray[np.int64], random: np.random.Generator) -> tuple[Flat, Flat]:
        """Take random spans out of sequences (span corruption), and return inputs and labels.

        Args:
            ids_BT: sequences, as they stand in the stream.
            random: decides which; nothing else does.

        Returns:
            Inputs and labels, see `split`.

        Raises:
            ConfigError: too few sentinels for sequences of this length.
        """
        B, T = ids_BT.shape
        if (needed := self.sentinels_for(T)) > len(self._sentinels):
            raise ConfigError(
                f"texts of {T} tokens need more sentinel tokens than the tokenizer has",
                got=len(self._sentinels), expected=needed,
                hint="add sentinel tokens to the tokenizer, or use shorter sequences, or use longer spans",
            )  # fmt: skip
        noise_BT = random_spans(B, T, *self.noise_of(T), random)
        if len(self._special_ids):
            noise_BT &= ~np.isin(ids_BT, self._special_ids)
        return self.split(ids_BT, noise_BT)

    def split(self, ids_BT: npt.NDArray[np.int64], noise_BT: npt.NDArray[np.bool_]) -> tuple[Flat, Flat]:
        """Take the marked spans out of sequences, and return inputs and labels.

        Where special ids cut the spans into more pieces than there are sentinels for, the pieces that come after stay in
        the text.

        Args:
            ids_BT: sequences.
            noise_BT: what is taken out; not the first token of a sequence.

        Returns:
            Inputs and labels, each with its eos.
        """
        begins_BT = noise_BT.copy()
        begins_BT[:, 1:] &= ~noise_BT[:, :-1]
        n_sentinels_B1 = begins_BT.sum(axis=1, keepdims=True) + ~noise_BT[:, -1:]
        if (n_sentinels_B1 > len(self._sentinels)).any():
            last_B1 = np.where(n_sentinels_B1 > len(self._sentinels), len(self._sentinels) - 1, n_sentinels_B1)
            noise_BT = noise_BT & (begins_BT.cumsum(axis=1) <= last_B1)
        return self._without(ids_BT, noise_BT), self._without(ids_BT, ~noise_BT)

    def _without(self, ids_BT: npt.NDArray[np.int64], out_BT: npt.NDArray[np.bool_]) -> Flat:
        """Return the ids with a sentinel in place of each span, the first, second, … of its sequence; then eos."""
        B, T = ids_BT.shape
        begins_BT = out_BT.copy()
        begins_BT[:, 1:] &= ~out_BT[:, :-1]
        shown_BS, stays_BS = np.full((B, T + 1), self.eos_id, dtype=np.int64), np.ones((B, T + 1), dtype=np.bool_)
        shown_BS[:, :T], stays_BS[:, :T] = ids_BT, begins_BT | ~out_BT
        number_N = begins_BT.cumsum(axis=1)[begins_BT] - 1
        shown_BS[:, :T][begins_BT] = self._sentinels[number_N]
        return shown_BS[stays_BS], stays_BS.sum(axis=1)


def random_spans(
    n_rows: int, length: int, n_noise: int, n_spans: int, random: np.random.Generator
) -> npt.NDArray[np.bool_]:
    """Return masks with `n_noise` tokens in `n_spans` random spans to corrupt, between as many others.

    The first span is no noise.

    Args:
        n_rows: B.
        length: T.
        n_noise: tokens that are true in each row; 0 goes with 0 spans.
        n_spans: at most n_noise and at most length - n_noise.
        random: first parts the noise of all rows, then what lies between.

    Returns:
        noise_BT: bool.
    """
    if n_spans == 0:
        return np.zeros((n_rows, length), dtype=np.bool_)
    taken_BS = _random_parts(n_rows, n_noise, n_spans, random)
    kept_BS = _random_parts(n_rows, length - n_noise, n_spans, random)
    lengths = np.stack((kept_BS, taken_BS), axis=2).ravel()
    return np.repeat(np.arange(len(lengths)) % 2 == 1, lengths).reshape(n_rows, length)


def _random_parts(n_rows: int, total: int, n_parts: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return random positive lengths of spans (n_rows, n_parts) whose rows sum to `total`."""
    opens = np.zeros((n_rows, total), dtype=np.bool_)
    opens[:, 1:n_parts] = True
    opens[:, 1:] = random.permuted(opens[:, 1:], axis=1)
    opens[:, 0] = True
    return np.diff(np.flatnonzero(opens), append=opens.size).reshape(n_rows, n_parts)
