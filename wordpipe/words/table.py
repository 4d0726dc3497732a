"""The table of word vectors: looking words up, and finding their neighbours."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.errors import InputError
from wordpipe.words.expression import parse_expression
from wordpipe.words.spelling import similar_words

__all__ = ["Answer", "Neighbour", "Question", "WordVectors"]


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A word near a query.

    Attributes:
        word: the word.
        score: cosine to the query, from -1 to 1.
        row: its row in the table.
    """

    word: str
    score: float
    row: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query of words gave.

    Attributes:
        neighbours: the nearest first; empty where a needed word is unknown.
        unknown: the words that are not in the table, each with words spelled like it.
    """

    neighbours: list[Neighbour]
    unknown: Mapping[str, list[str]]


@dataclass(frozen=True, slots=True)
class Question:
    """What a query of words means.

    Attributes:
        query: the direction to look in, (D,) float32; zero where a needed word is unknown.
        rows: the words asked for, which are no answer, int64.
        unknown: the words that are not in the table, each with words spelled like it.
    """

    query: npt.NDArray[np.float32]
    rows: npt.NDArray[np.int64]
    unknown: Mapping[str, list[str]]


class WordVectors:
    """V words with their counts and vectors, the commonest first.

    Args:
        words: V different words.
        counts: how often each occurs, int64.
        vectors_VD: float32.
    """

    def __init__(
        self, words: Sequence[str], counts: npt.NDArray[np.int64], vectors_VD: npt.NDArray[np.float32]
    ) -> None:
        assert len(words) == len(counts) == len(vectors_VD), (len(words), len(counts), len(vectors_VD))
        self.words = words
        self.counts = counts
        self.vectors = vectors_VD

    def __len__(self) -> int:
        return len(self.words)

    @property
    def dim(self) -> int:
        """Numbers per vector."""
        return int(self.vectors.shape[1])

    @cached_property
    def row_of(self) -> Mapping[str, int]:
        """The row of every word."""
        return {word: row for row, word in enumerate(self.words)}

    @cached_property
    def _norms(self) -> npt.NDArray[np.float32]:
        """Length of every vector, V."""
        norms: npt.NDArray[np.float32] = np.linalg.norm(self.vectors, axis=1)
        return norms

    def find(self, word: str) -> int | None:
        """The row of `word`, or else of its lower-case form; None where neither is known."""
        row = self.row_of.get(word)
        return self.row_of.get(word.lower()) if row is None else row

    def suggest(self, word: str, n: int = 3) -> list[str]:
        """Known words that are spelled most like `word`."""
        return similar_words(word.lower(), self.words, n=n)

    def ask(self, text: str, k: int = 10) -> Answer:
        """Answer a word, several words, or an expression such as `king - man + woman`.

        Unknown words are left out of a plain list of words; an expression with operators needs them all.

        Raises:
            ConfigError: the expression cannot be read.
        """
        question = self.understand(text)
        return Answer(self.nearest(question.query, k, without=question.rows), question.unknown)

    def understand(self, text: str) -> "Question":
        """Turn a word, several words or an expression into the vector to look for.

        Raises:
            ConfigError: the expression cannot be read.
        """
        expression = parse_expression(text)
        asked = (*expression.positive, *expression.negative)
        unknown = {word: self.suggest(word) for word in asked if self.find(word) is None}
        if len(unknown) == len(set(asked)) or (unknown and expression.has_operators):
            return Question(np.zeros(self.dim, dtype=np.float32), np.zeros(0, dtype=np.int64), unknown)
        positive = [word for word in expression.positive if word not in unknown]
        return Question(*self._sum(positive, expression.negative), unknown)

    def neighbours(self, positive: Sequence[str], negative: Sequence[str] = (), k: int = 10) -> list[Neighbour]:
        """The words nearest to the sum of unit vectors of `positive` less those of `negative`, the query left out.

        Words of equal score come in the order of their rows. Fewer than `k` are given where there are no more.

        Raises:
            InputError: a word is not in the table.

        Source: Levy and Goldberg 2014, "Linguistic Regularities in Sparse and Explicit Word Representations", 3CosAdd.
        """
        query_D, rows = self._sum(positive, negative)
        return self.nearest(query_D, k, without=rows)

    def _sum(
        self, positive: Sequence[str], negative: Sequence[str]
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """The sum of unit vectors of `positive` less those of `negative`, and the rows of both."""
        rows = np.array([self._row(word) for word in (*positive, *negative)], dtype=np.int64)
        signs = np.repeat([1.0, -1.0], [len(positive), len(negative)]).astype(np.float32)
        return signs @ _scaled(self.vectors[rows], self._norms[rows]), rows

    def nearest(
        self, query_D: npt.NDArray[np.float32], k: int = 10, *, without: npt.NDArray[np.int64] | None = None
    ) -> list[Neighbour]:
        """The words whose vectors have the largest cosine with `query_D`, rows `without` left out.

        A word or query without a direction (a zero or non-finite vector) has no neighbours.
        """
        length = np.linalg.norm(query_D)
        if not (np.isfinite(length) and length > 0):
            return []
        valid = np.isfinite(self._norms) & (self._norms > 0)
        if without is not None:
            valid[without] = False
        scores = np.full(len(self), -np.inf, dtype=np.float32)
        np.divide(self.vectors @ (query_D / length), self._norms, out=scores, where=valid)
        return [
            Neighbour(self.words[row], float(scores[row].clip(-1, 1)), int(row))
            for row in _largest(scores, min(k, int(valid.sum())))
        ]

    def _row(self, word: str) -> int:
        row = self.find(word)
        if row is None:
            near = self.suggest(word)
            hint = f"did you mean {', '.join(near)}?" if near else "try a commoner word"
            raise InputError(f"the word {word!r} has no vector", hint=hint)
        return row

    def to_batches(self, rows_per_batch: int = 16_384) -> Iterator[pa.RecordBatch]:
        """The table as batches of the `words` schema: word, count, vector."""
        for first in range(0, len(self), rows_per_batch):
            part = slice(first, first + rows_per_batch)
            values = pa.array(np.ascontiguousarray(self.vectors[part], dtype=np.float32).ravel())
            item = pa.field("item", pa.float32(), nullable=False)
            vectors = pa.FixedSizeListArray.from_arrays(values, type=pa.list_(item, self.dim))
            columns = [pa.array(self.words[part], pa.string()), pa.array(self.counts[part], pa.int64()), vectors]
            names = ["word", "count", "vector"]
            yield pa.RecordBatch.from_arrays(
                columns,
                schema=pa.schema([pa.field(n, c.type, nullable=False) for n, c in zip(names, columns, strict=True)]),
            )

    @classmethod
    def from_batches(cls, batches: Iterable[pa.RecordBatch]) -> "WordVectors":
        """The table from batches of the `words` schema.

        Raises:
            InputError: there is no word.
        """
        words: list[str] = []
        counts: list[npt.NDArray[np.int64]] = []
        vectors: list[npt.NDArray[np.float32]] = []
        for batch in batches:
            words += batch.column("word").to_pylist()
            counts.append(batch.column("count").to_numpy(zero_copy_only=False))
            vector = batch.column("vector")
            vectors.append(vector.flatten().to_numpy(zero_copy_only=False).reshape(-1, vector.type.list_size))
        if not words:
            raise InputError("the table of words is empty")
        return cls(words, np.concatenate(counts), np.concatenate(vectors))


def _scaled(vectors_ND: npt.NDArray[np.float32], norms_N: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Vectors of length 1; those without a direction become zero."""
    valid = np.isfinite(norms_N) & (norms_N > 0)
    unit_ND = np.zeros_like(vectors_ND)
    np.divide(vectors_ND, norms_N[:, None], out=unit_ND, where=valid[:, None])
    return unit_ND


def _largest(scores: npt.NDArray[np.float32], k: int) -> npt.NDArray[np.int64]:
    """Where the k largest scores are, largest first, equal ones in order; also when the k-th is tied."""
    if k <= 0:
        return np.zeros(0, dtype=np.int64)
    least = np.partition(scores, len(scores) - k)[len(scores) - k]
    found = np.flatnonzero(scores >= least)
    return found[np.lexsort((found, -scores[found]))][:k]
