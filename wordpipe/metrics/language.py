"""Measures of a language model, from its surprise at a text: -Σ log p of the tokens, in nats.

A loss per token depends on the tokenizer: the same text in fewer tokens has a higher loss for each. What is divided by words
or bytes of the text itself does not, and compares models with different tokenizers.
"""

import math


def perplexity(nats: float, n: int = 1) -> float | None:
    """Perplexity, the number of equally likely tokens (or words) that would surprise as much: exp(-(1/N) Σ log p).

    Args:
        nats: -Σ log p over all tokens.
        n: tokens, for the perplexity per token; words, for that per word; 1 where `nats` is a mean already.

    Returns:
        At least 1 where the probabilities sum to 1; None where there is nothing to divide by, or beyond what a float holds.

    Source: Jelinek et al. 1977, "Perplexity: a measure of the difficulty of speech recognition tasks"; per word over other
    units: Mielke 2019, "Can you compare perplexity across different segmentations?"

    >>> round(perplexity(3 * math.log(10), 3), 9)
    10.0
    """
    try:
        return math.exp(nats / n) if n > 0 else None
    except OverflowError:
        return None


def bits_per_byte(nats: float, n_bytes: int) -> float | None:
    """Size of the text as the model would compress it, bits for each byte of its UTF-8; None where there is no byte.

    Source: Gao et al. 2020, "The Pile", section 3.1.

    >>> round(bits_per_byte(8 * math.log(2) * 5, 5), 9)
    8.0
    """
    return nats / math.log(2) / n_bytes if n_bytes > 0 else None
