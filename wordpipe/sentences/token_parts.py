"""A text's vector, taken apart into what each of its tokens brought."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from wordpipe.errors import ConfigError, InputError
from wordpipe.sentences.encoder import TextParts
from wordpipe.sentences.framing import Windows
from wordpipe.sentences.pooling import LINEAR, Pooling, shares_of
from wordpipe.sentences.shares import shares
from wordpipe.sentences.transforms import Transform

__all__ = ["token_parts"]

Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]


def token_parts(
    windows: Windows,
    spans: Sequence[tuple[int, int]],
    n_before: int,
    pooling: Pooling,
    weights_V: Floats | None,
    weights_W: npt.NDArray[np.integer] | Floats,
    states: Callable[[Ids], Floats],
    transform: Transform,
    text: str,
) -> TextParts:
    """The shares of tokens in the vector of one text; a token that two windows share has the sum of both.

    Args:
        windows: of the text.
        spans: (start, stop) in characters of each of its T tokens.
        n_before: special ids before every window.
        pooling: mean, first-last or weighted.
        weights_V: what each id weighs, for `weighted`.
        weights_W: what each window counts for.
        states: what is averaged, (ids, D), of the ids of a window.
        transform: what is applied to the vector.
        text: for the message.

    Returns:
        The tokens and, behind them, one piece for each special id, with an empty span.

    Raises:
        ConfigError: the pooling is no sum over tokens.
        InputError: the text has no vector.
    """
    if pooling not in LINEAR:
        raise ConfigError(
            "no sum over tokens, so that no token has a share in it",
            where="pooling",
            got=pooling,
            expected=" or ".join(LINEAR),
            hint="embed with --pooling mean to have answers explained",
        )
    if not len(windows.lengths) or not weights_W.any():
        raise InputError("the text has no vector", hint="give a text with words")
    n_special = int(windows.lengths[0] - windows.tokens[0])
    raw_PD = _raw(windows, len(spans), n_before, pooling, weights_V, weights_W, states)
    vectors_PK = shares(raw_PD, transform, text)
    end = max((stop for _, stop in spans), default=0)
    before, after = [(0, 0)] * n_before, [(end, end)] * (n_special - n_before)
    return TextParts([*spans, *before, *after], vectors_PK)


def _raw(
    windows: Windows,
    n_tokens: int,
    n_before: int,
    pooling: Pooling,
    weights_V: Floats | None,
    weights_W: npt.NDArray[np.integer] | Floats,
    states: Callable[[Ids], Floats],
) -> npt.NDArray[np.float64]:
    """The shares before anything is brought to unit length, (tokens and special ids, D)."""
    sums: npt.NDArray[np.float64] | None = None
    window_shares = weights_W / float(weights_W.sum(dtype=np.float64))
    for number, (start, length) in enumerate(zip(windows.starts, windows.lengths, strict=True)):
        ids = windows.ids[start : start + length]
        shares_T = shares_of(ids, np.array([length]), pooling, weights_V)
        brought_TD = states(ids).astype(np.float64) * (shares_T * window_shares[number])[:, None]
        first, tokens = int(windows.firsts[number]), int(windows.tokens[number])
        if sums is None:
            sums = np.zeros((n_tokens + int(length) - tokens, brought_TD.shape[1]))
        sums[first : first + tokens] += brought_TD[n_before : n_before + tokens]
        sums[n_tokens : n_tokens + n_before] += brought_TD[:n_before]
        sums[n_tokens + n_before :] += brought_TD[n_before + tokens :]
    assert sums is not None
    return sums
