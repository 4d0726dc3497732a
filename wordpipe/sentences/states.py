"""Hidden states of token sequences: what an encoder needs of a model, whatever computes it; and how numpy does."""

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from wordpipe.model.numpy_model import ArrayModel
from wordpipe.sentences.batches import runs_of
from wordpipe.sentences.pooling import Pooling, pool_rows

__all__ = ["ArrayStates", "Batches", "StateModel"]

Floats: TypeAlias = npt.NDArray[np.float32]
Ids: TypeAlias = npt.NDArray[np.int64]
Batches: TypeAlias = Iterable[tuple[Ids, Ids]]
"""Ids of S sequences, one after the other, the longest first, and the length of each, (S,)."""


class StateModel(Protocol):
    """A model that reads batches of sequences.

    Attributes:
        device: where it computes: cpu, cuda or mps.
        batch_tokens: ids that it likes to read at once, at most.
        in_bulk: whether it is made for many texts, so that it pays to compile what prepares them.
    """

    device: str
    batch_tokens: int
    in_bulk: bool

    def pooled(self, batches: Batches, pooling: Pooling, weights_V: Floats | None) -> Iterator[Floats]:
        """For every batch one vector per sequence, (S, D) float32, pooled as `pool_rows` does."""
        ...

    def states(self, ids_T: Ids, pooling: Pooling) -> Floats:
        """What the pooling averages of one sequence, (T, D) float32."""
        ...


class ArrayStates:
    """Computed by numpy: torch is not imported.

    Args:
        model: the model.
        batch_tokens: ids read at once.
    """

    device = "cpu"
    in_bulk = False

    def __init__(self, model: ArrayModel, batch_tokens: int = 2048) -> None:
        self.batch_tokens = batch_tokens
        self._model = model

    def pooled(self, batches: Batches, pooling: Pooling, weights_V: Floats | None) -> Iterator[Floats]:
        """See `StateModel`."""
        for ids_N, lengths_S in batches:
            yield pool_rows(self._states(ids_N, lengths_S, pooling), ids_N, lengths_S, pooling, weights_V)

    def states(self, ids_T: Ids, pooling: Pooling) -> Floats:
        """See `StateModel`."""
        return self._states(ids_T, np.array([len(ids_T)]), pooling)

    def _states(self, ids_N: Ids, lengths_S: Ids, pooling: Pooling) -> Floats:
        first_ND = self._model.embed(ids_N, lengths_S)
        last_ND = self._model.encode(first_ND, runs_of(lengths_S))
        return (first_ND + last_ND) * np.float32(0.5) if pooling == "first-last" else last_ND
