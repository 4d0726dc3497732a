"""A text's vector, taken apart into its words: what each brought to it, and to the cosine with another text.

A vector that is a sum over words makes the cosine a sum over pairs of words: (Σ q) · (Σ t) = ΣΣ q · t.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.encoders.encoder import TextParts
from wordpipe.encoders.transforms import Transform
from wordpipe.errors import InputError

_VANISHED = 1e-9  # of a vector whose directions all were taken away nothing can be said
_PAIRS = 20  # that are listed one by one; the others as one sum


def shares(
    vectors_PD: npt.NDArray[np.float32] | npt.NDArray[np.float64], transform: Transform, text: str
) -> npt.NDArray[np.float32]:
    """What each of P pieces adds to the unit vector of their text, (P, K) float32; the rows add up to it.

    What centring takes away is taken from each piece in the measure in which it makes up the text's vector, which is the
    projection of the piece on the sum of all: taken from all alike, a stop word that weighs next to nothing would be shown as
    the mean turned round.

    Args:
        vectors_PD: the pieces' vectors, whose sum has the direction of the text's vector before the transform.
        transform: what is applied to the unit vector.
        text: for the message.

    Raises:
        InputError: the text has no vector: no pieces, or nothing is left of them.
    """
    wide_PD = vectors_PD.astype(np.float64)
    sum_D = wide_PD.sum(axis=0)
    length = np.linalg.norm(sum_D)
    if length > _VANISHED:
        turned_PK = transform.turn((wide_PD / length).astype(np.float32)).astype(np.float64)
        if transform.kind != "none":
            measure_P = wide_PD @ sum_D / length**2
            turned_PK -= measure_P[:, None] * transform.offset
        left = np.linalg.norm(turned_PK.sum(axis=0))
        if left > _VANISHED:
            return (turned_PK / left).astype(np.float32)
    raise InputError("the text has no vector", got=repr(text[:80]), hint="it needs a word that the encoder knows")


def explained_cosine(
    query: str, parts_q: TextParts, text: str, parts_t: TextParts,
    kept: np.float32 | float = 1.0, pull_D: npt.NDArray[np.float32] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """A cosine as a sum over pairs of words, and what a text has of the direction that relevance feedback added to a query.

    Args:
        query: the query.
        parts_q: its vector, taken apart.
        text: the text.
        parts_t: its vector, taken apart.
        kept: how much of its own vector is in the query's, where feedback has moved it.
        pull_D: what feedback added to that.

    Returns:
        score; pairs: the largest, by size; others: the sum of the rest; query, text: every word with what it brought; answers:
        the pull's score, where there was one.
    """
    if pull_D is not None:
        parts_q = TextParts(parts_q.spans, parts_q.vectors * kept)
    words_q, shares_QD = _words(query, parts_q)
    words_t, shares_TD = _words(text, parts_t)
    pairs_QT = shares_QD.astype(np.float64) @ shares_TD.astype(np.float64).T
    flat = pairs_QT.ravel()
    largest = np.argsort(-np.abs(flat), kind="stable")[:_PAIRS]
    pairs = []
    for at in largest.tolist():
        one, other = divmod(at, len(words_t))
        pairs.append({"query": words_q[one], "text": words_t[other], "score": float(flat[at])})
    pulled_T = np.zeros(len(words_t)) if pull_D is None else shares_TD.astype(np.float64) @ pull_D
    paired = float(flat.sum())
    explained = {
        "score": paired + float(pulled_T.sum()),
        "pairs": pairs,
        "others": paired - sum(float(flat[at]) for at in largest.tolist()),
        "query": _by_word(words_q, pairs_QT.sum(axis=1)),
        "text": _by_word(words_t, pairs_QT.sum(axis=0) + pulled_T),
    }
    return explained if pull_D is None else explained | {"answers": {"score": float(pulled_T.sum())}}


def _words(text: str, parts: TextParts) -> tuple[list[str], npt.NDArray[np.float32]]:
    """Pieces that touch are one word: its spelling and the sum of their shares; special tokens are one, without letters."""
    group_P = np.zeros(len(parts.spans), dtype=np.int64)
    words: list[str] = []
    last = -1
    for number, (start, stop) in enumerate(parts.spans):
        letters = text[start:stop]
        if words and start == last and letters.isalnum() and words[-1][-1:].isalnum() and len(letters) < len(text):
            words[-1] += letters
        else:
            words.append(letters)
        group_P[number], last = len(words) - 1, stop
    shares = np.zeros((len(words), parts.vectors.shape[1]), dtype=np.float32)
    np.add.at(shares, group_P, parts.vectors)
    return words, shares


def _by_word(words: list[str], scores: npt.NDArray[np.float64]) -> list[dict[str, Any]]:
    return [{"word": word, "score": score} for word, score in zip(words, scores.tolist(), strict=True)]
