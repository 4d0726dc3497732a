"""How many words a batch may have, and how carefully it must climb.

A batch is blind to its own effect, so it must be small against what was learned before it, and against the variety of words:
the more often the same word comes, the more of its movements are stale.
"""

import numpy as np

from wordpipe.words.probe import keep_probabilities
from wordpipe.words.torch_backend.windows import GROUP
from wordpipe.words.vocabulary import Vocabulary

__all__ = ["batch_words", "largest_batch", "steep_share", "variety"]

_MOST = 32_768
_BATCHES_PER_EPOCH = 256
_PER_VARIETY = 16
_OF_THE_PAST = 64
_FIRST = 512


def variety(vocabulary: Vocabulary, subsample: float) -> float:
    """1 / Σ p² of the words that survive subsampling; English text has some 750.

    So many equally common words would give two words picked at random the same chance to be the same one.
    """
    survivors_V = vocabulary.counts * keep_probabilities(vocabulary.counts, subsample)
    return float(survivors_V.sum() ** 2 / np.square(survivors_V).sum())


def largest_batch(words: int, various: float) -> int:
    """Words of the largest batch: at most a 256th of the text and 16 times its variety, a power of two from `GROUP` to 32,768.

    On 6.2 million words of English (D = 100, 5 epochs) 4,096, 8,192 and 16,384 words answered 20.1, 19.2 and 18.4 % of the
    analogies, gensim 20.9 %; rank correlations with WS-353 were 0.604, 0.600, 0.593 and 0.602. (Only the 8,192 began with
    small batches, see `batch_words`.)
    """
    return _power_of_two(min(_MOST, words / _BATCHES_PER_EPOCH, _PER_VARIETY * various))


def steep_share(various: float, dim: int) -> float:
    """How much of the curvature's trace is taken to lie in the steepest direction, from 0.3 to 1.

    1 was stable wherever it was tried, and slow. With 100 numbers per vector, 0.3 was stable on English text and 0.1 diverged;
    on text of 40 words about two topics, whose vectors (of 16 numbers) lie in few directions, 0.3 diverged and 0.5 swung.
    """
    return float(min(1.0, max(0.3, 8 / np.sqrt(various), 2 / np.sqrt(dim))))


def batch_words(position: int, largest: int) -> int:
    """Words of the batch that begins after `position` words of training: at first 512, then a 64th of these.

    On 1.2 million words this raised the rank correlation with WS-353 from 0.30 to 0.34 for batches of 16,384 words.
    """
    return min(largest, max(_FIRST, _power_of_two(position / _OF_THE_PAST)))


def _power_of_two(words: float) -> int:
    """The largest power of two that is at most `words`, and at least `GROUP`."""
    return GROUP if words < 2 * GROUP else 1 << int(np.log2(words))
