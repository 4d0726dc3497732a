"""Whose part of a text's vector is whose: a sum stays a sum through a linear transform."""

import numpy as np
import numpy.typing as npt

from wordpipe.errors import InputError
from wordpipe.sentences.transforms import Transform

__all__ = ["shares"]


def shares(vectors_PD: npt.NDArray[np.float32], transform: Transform, text: str) -> npt.NDArray[np.float32]:
    """What each of P pieces adds to the unit vector of their text, (P, K) float32; the rows add up to it.

    Args:
        vectors_PD: the pieces' vectors, whose sum has the direction of the text's vector before the transform.
        transform: what is applied to the unit vector; its constant part is taken from all pieces alike.
        text: for the message.

    Raises:
        InputError: the text has no vector: no pieces, or nothing is left of them.
    """
    wide_PD = vectors_PD.astype(np.float64)
    length = np.linalg.norm(wide_PD.sum(axis=0))
    if length > 0:
        turned_PK = transform.turn((wide_PD / length).astype(np.float32)).astype(np.float64)
        if transform.kind != "none":
            turned_PK -= transform.offset / len(vectors_PD)
        left = np.linalg.norm(turned_PK.sum(axis=0))
        if left > 0:
            return (turned_PK / left).astype(np.float32)
    raise InputError("the text has no vector", got=repr(text[:80]), hint="it needs a word that the encoder knows")
