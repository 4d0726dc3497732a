"""A batch of pairs of texts, as ids."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wordpipe.training.contrast.cutting import hash_texts

__all__ = ["PairBatch", "Ragged"]


@dataclass(frozen=True, slots=True)
class Ragged:
    """B texts, one after the other.

    Attributes:
        ids: (S,) int32; tokens without special ones, or rows of a table of words.
        lengths: (B,) int64, how many of them are each text's; none is empty, and they sum to S.
    """

    ids: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int64]

    def hashes(self) -> npt.NDArray[np.int64]:
        """A number for each text, (B,): the same for the same ids in the same order."""
        hashes = np.empty(len(self.lengths), np.int64)
        hash_texts(self.ids, self.lengths, hashes)
        return hashes


@dataclass(frozen=True, slots=True)
class PairBatch:
    """B pairs; `first` and `second` of one place belong together.

    Attributes:
        first: one text of each pair.
        second: the other.
        document: (B,) int64; pairs of one number are of one document, so that they are no good negatives of each other.
        kind: (B,) int8, where the pair came from: a place in `settings.KINDS`.
    """

    first: Ragged
    second: Ragged
    document: npt.NDArray[np.int64]
    kind: npt.NDArray[np.int8]
