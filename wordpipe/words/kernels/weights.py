"""The numbers that training changes: one row per word, per n-gram and per thing that is predicted."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wordpipe.compiled import kernel
from wordpipe.words.kernels.vectors import padded

_BLOCK = 65_536  # rows looked at together
_INPUTS, _NGRAMS = 0x1217, 0x6261  # separate the initial draws from each other and from every other use of the seed

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Weights:
    """Rows of float32, padded with zeros to a multiple of `vectors.LANES`."""

    dim: int  # numbers of a row that mean something, D
    inputs: Floats  # (V, padded D), what predicts
    outputs: Floats  # (V or nodes, padded D), what is predicted
    ngrams: Floats  # (G, padded D), parts of the words

    @classmethod
    def initial(cls, dim: int, n_words: int, n_outputs: int, n_ngrams: int, seed: int) -> "Weights":
        """Inputs uniform within 1 / D of zero as in gensim, outputs zero.

        word2vec.c takes half of that, which CBOW grows out of more slowly: 2.579 nats held out after two epochs of 10 MB
        instead of 2.566.
        """
        return cls(
            dim,
            _random_rows(n_words, dim, np.random.default_rng([seed, _INPUTS])),
            np.zeros((n_outputs, padded(dim)), dtype=np.float32),
            _random_rows(n_ngrams, dim, np.random.default_rng([seed, _NGRAMS])),
        )

    def arrays(self) -> Mapping[str, Floats]:
        """All of them by name."""
        return {"inputs": self.inputs, "outputs": self.outputs, "ngrams": self.ngrams}

    def words(self, part_starts: npt.NDArray[np.int64], parts: npt.NDArray[np.int32]) -> Floats:
        """The words' vectors, (V, D): their own rows, or the mean with those of their n-grams."""
        if not len(part_starts):
            return self.inputs[:, : self.dim]
        composed = np.empty((len(self.inputs), self.dim), dtype=np.float32)
        _compose(self.inputs, part_starts, parts, self.ngrams, composed)
        return composed

    def finite(self) -> bool:
        """Whether every number is one."""
        return all(
            bool(np.isfinite(array[first : first + _BLOCK]).all())
            for array in self.arrays().values()
            for first in range(0, len(array), _BLOCK)
        )


def _random_rows(n: int, dim: int, rng: np.random.Generator) -> Floats:
    rows = np.zeros((n, padded(dim)), dtype=np.float32)
    for first in range(0, n, _BLOCK):
        some = rows[first : first + _BLOCK, :dim]
        some[:] = (2 * rng.random(some.shape, dtype=np.float32) - 1) / np.float32(dim)
    return rows


@kernel
def _compose(
    inputs: Floats, part_starts: npt.NDArray[np.int64], parts: npt.NDArray[np.int32], ngrams: Floats, composed: Floats
) -> None:
    dim = composed.shape[1]
    for row in range(len(composed)):
        total = inputs[row, :dim].copy()
        for at in range(part_starts[row], part_starts[row + 1]):
            total += ngrams[parts[at], :dim]
        composed[row] = total / np.float32(1 + part_starts[row + 1] - part_starts[row])


@kernel
def take_parts_away(
    inputs: Floats, found: npt.NDArray[np.bool_], part_starts: npt.NDArray[np.int64], parts: npt.NDArray[np.int32],
    ngrams: Floats,
) -> None:  # fmt: skip
    """Turn those words' rows in `inputs`, which are means with their n-grams, into the words' own rows."""
    for row in range(len(inputs)):
        if found[row]:
            inputs[row] *= np.float32(1 + part_starts[row + 1] - part_starts[row])
            for at in range(part_starts[row], part_starts[row + 1]):
                inputs[row] -= ngrams[parts[at]]
