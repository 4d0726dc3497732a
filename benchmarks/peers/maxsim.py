"""Answers ordered anew by the hidden states of an encoder's tokens: MaxSim, late interaction (Khattab and Zaharia 2020)."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wordpipe.encoders import TextEncoder
from wordpipe.metrics import unit_rows
from wordpipe.search import Hits, best_of, normalised

Vectors = npt.NDArray[np.float32]
Scores = npt.NDArray[np.float64]


class Tokens(NamedTuple):
    """A text's tokens, and their hidden states at length 1, (T, D)."""

    tokens: list[str]
    vectors: Vectors


def states_of(encoder: TextEncoder, text: str) -> Tokens:
    """Return the tokens and the directions of their shares of the text's vector: hidden states, where pooling is a mean."""
    parts = encoder.parts(text)
    places = [at for at, (start, stop) in enumerate(parts.spans) if stop > start]
    return Tokens([text[slice(*parts.spans[at])].casefold() for at in places], unit_rows(parts.vectors[places])[0])


def ordered_anew(found: Sequence[Hits], similar: Sequence[npt.NDArray[np.float64]], weight: float) -> list[Hits]:
    """The first answers by their normalised score + weight · normalised MaxSim."""
    answers = []
    for hits, values in zip(found, similar, strict=True):
        spread = float(np.ptp(values)) if len(values) else 0.0
        extra = (values - values.min()) / spread if spread else np.zeros(len(values))
        answers.append(best_of(hits.rows, (normalised(hits) + weight * extra).astype(np.float32), len(hits)))
    return answers


class Similar(NamedTuple):
    """Of each of Q questions the similarity of its answers, (R,): every token of the question alike, or rare ones more."""

    alike: list[Scores]
    rare_more: list[Scores]


def maxsim(encoder: TextEncoder, questions: Sequence[str], found: Sequence[Hits], texts: Sequence[str]) -> Similar:
    """Return of every question and answer the mean over the question's tokens of the best cosine with a token of the text.

    A rare token is one that few of the texts of all answers have.

    Args:
        encoder: whose pooling is a mean.
        questions: Q of them.
        found: their answers, rows of `texts`.
        texts: all texts.
    """
    rows = sorted({row for hits in found for row in hits.rows.tolist()})
    states = {row: states_of(encoder, texts[row]) for row in rows}
    asked = [states_of(encoder.for_queries, text) for text in questions]
    counts = Counter(token for one in states.values() for token in set(one.tokens))
    similar = Similar([], [])
    for own, hits in zip(asked, found, strict=True):
        weights_T = np.array([math.log1p(len(rows) / (1 + counts[token])) for token in own.tokens])
        best_RT = np.array([(own.vectors @ states[row].vectors.T).max(axis=1) for row in hits.rows.tolist()])
        best_RT = best_RT.reshape(-1, len(weights_T)).astype(np.float64)
        similar.alike.append(best_RT.mean(axis=1))
        similar.rare_more.append(best_RT @ weights_T / weights_T.sum())
    return similar
