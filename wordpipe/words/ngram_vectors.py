"""Vectors of words that were never seen, from their character n-grams.

Source: Bojanowski et al. 2017, "Enriching Word Vectors with Subword Information", section 5.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.artifacts.layout import ngrams_schema, vector_column
from wordpipe.words.ngrams import NGramRows
from wordpipe.words.stacking import stacked_vectors

__all__ = ["NGramVectors"]

_WORDS = 1_024  # guessed together


class NGramVectors:
    """G character n-grams with their vectors.

    Args:
        rows: the n-grams.
        vectors_GD: float32.
    """

    def __init__(self, rows: NGramRows, vectors_GD: npt.NDArray[np.float32]) -> None:
        assert len(rows) == len(vectors_GD), (len(rows), len(vectors_GD))
        self.rows = rows
        self.vectors = vectors_GD

    def vector_of(self, word: str) -> npt.NDArray[np.float32] | None:
        """The mean of the vectors of a word's n-grams, (D,); None where none of them is known."""
        vectors_1D, known_1 = self.vectors_of([word])
        return vectors_1D[0] if known_1[0] else None

    def vectors_of(self, words: Sequence[str]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
        """The means of the vectors of N words' n-grams, (N, D) float32, zero where no n-gram is known; and where one is."""
        starts, parts = self.rows.parts_of_all(words)
        known_N = np.diff(starts) > 0
        vectors_ND = np.zeros((len(words), self.vectors.shape[1]), dtype=np.float32)
        filled = np.flatnonzero(known_N)
        for first in range(0, len(filled), _WORDS):
            some = filled[first : first + _WORDS]
            here = parts[starts[some[0]] : starts[some[-1] + 1]]  # words between them have none
            sums = np.add.reduceat(self.vectors[here], starts[some] - starts[some[0]], axis=0)
            vectors_ND[some] = sums / (starts[some + 1] - starts[some])[:, None].astype(np.float32)
        return vectors_ND, known_N

    def to_batches(self, rows_per_batch: int = 16_384) -> Iterator[pa.RecordBatch]:
        """The n-grams as batches of the `ngrams` schema: ngram, vector."""
        schema = ngrams_schema(self.vectors.shape[1])
        for first in range(0, len(self.vectors), rows_per_batch):
            vectors = vector_column(self.vectors[first : first + rows_per_batch])
            columns = [self.rows.spelled.slice(first, rows_per_batch), vectors]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    @classmethod
    def from_batches(cls, batches: Iterable[pa.RecordBatch], min_n: int, max_n: int) -> "NGramVectors | None":
        """From batches of the `ngrams` schema; None where there is no n-gram."""
        spelled: list[pa.StringArray] = []
        vectors_GD = stacked_vectors(batches, lambda batch: spelled.append(batch.column("ngram")))
        if not len(vectors_GD):
            return None
        return cls(NGramRows(pa.concat_arrays(spelled), min_n, max_n), vectors_GD)
