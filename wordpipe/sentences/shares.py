"""Whose part of a text's vector is whose: a sum stays a sum through a linear transform."""

import numpy as np
import numpy.typing as npt

from wordpipe.errors import InputError
from wordpipe.sentences.transforms import Transform

__all__ = ["shares"]

_VANISHED = 1e-9  # of a vector whose directions all were taken away nothing can be told


def shares(
    vectors_PD: npt.NDArray[np.float32] | npt.NDArray[np.float64], transform: Transform, text: str
) -> npt.NDArray[np.float32]:
    """What each of P pieces adds to the unit vector of their text, (P, K) float32; the rows add up to it.

    What centring takes away is taken from each piece in the measure in which it makes up the text's vector, which is the
    projection of the piece on the sum of all: taken from all alike, a stop word that weighs next to nothing would be told as
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
