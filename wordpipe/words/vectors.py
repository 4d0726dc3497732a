"""Word vectors: looking words up, finding their neighbours, and what all of them have in common.

The words themselves, as many as millions, are kept without a Python string for each.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.artifacts import matrix_of, plain_numbers, vector_batches, words_schema
from wordpipe.errors import InputError, UnknownWordError
from wordpipe.metrics import unit_rows
from wordpipe.wording import visible
from wordpipe.words.lookup import PHRASE_SEPARATOR, SIGNS, Expression, KnownPhrases, Spellings, parse_expression
from wordpipe.words.vocabulary import arrow_words

if TYPE_CHECKING:
    from wordpipe.words.subwords import HashRows, NGrams

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

_AT_ONCE = 64  # queries compared with all words in one product
_BLOCK = 65_536  # rows treated together
_STRINGS = 16_384  # words made Python strings together
_SUGGESTIONS = 4_096  # words whose suggestions are cached: typing repeats the same prefixes
_SCANS = 16  # words looked for one by one, before a table of hashes is worth its time and the import of numba


class WordList(Sequence[str]):
    """V different words, which are kept as contiguous UTF-8, an Arrow `array`, and found by their hashes.

    With five million words of ten bytes that is 70 MB, and 110 MB more once many were asked for. As strings in a list and a
    dict they are 700 MB.
    """

    def __init__(self, words: "WordList | pa.Array | Sequence[str]") -> None:
        self.array: pa.StringArray = words.array if isinstance(words, WordList) else arrow_words(words)
        assert self.array.type == pa.string(), "the words must be strings"
        self._scans = 0

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> "WordList": ...

    def __getitem__(self, index: int | slice) -> "str | WordList":
        if isinstance(index, slice):
            return WordList(self.array[index])
        word: str = self.array[operator.index(index)].as_py()
        return word

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _STRINGS):
            yield from self.array.slice(first, _STRINGS).to_pylist()

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self.row_of(word) is not None

    @cached_property
    def _rows(self) -> "HashRows":
        """Return the rows of words by their hashes."""
        from wordpipe.words.subwords import HashRows, hashes_of

        return HashRows(hashes_of(self.array))

    def row_of(self, word: str) -> int | None:
        """Return the row of exactly this word; None for an unknown word."""
        if self._scans < _SCANS and "_rows" not in self.__dict__:
            self._scans += 1
            row = self._scan(word)
        else:
            row = self._rows.row_of(word)
        return row if row >= 0 else None

    def _scan(self, word: str) -> int:
        """Return the row of a word, or -1, by a look at all words: a few milliseconds per million."""
        try:
            wanted = word.encode()
        except UnicodeEncodeError:  # a lone surrogate
            return -1
        ends = pa.py_buffer(np.array([0, len(wanted)], np.int32))  # `pa.scalar` loads pandas where it is installed
        return int(pc.index(self.array, pa.StringArray.from_buffers(1, ends, pa.py_buffer(wanted))[0]).as_py())

    def rows_of(self, words: "pa.Array | Sequence[str]") -> npt.NDArray[np.int32]:
        """Return the rows of exactly these words, (N,) int32; -1 for unknown ones."""
        from wordpipe.words.subwords import hashes_of

        return self._rows.rows_of(hashes_of(words))


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A word near a query."""

    word: str
    score: float  # cosine to the query, from -1 to 1
    row: int  # in the table


@dataclass(frozen=True, slots=True)
class WordQuery:
    """The direction that a query of words looks in."""

    query: Floats  # the direction to look in, (D,) float32; zero where a needed word is unknown
    rows: Ints  # the words of the query, which are no result, int64
    unknown: Mapping[str, list[str]]  # the words that have no vector, each with words spelled like it
    guessed: Sequence[str] = ()  # the words that are not in the table and got a vector from their n-grams


class WordVectors:
    """V words with their counts and vectors, the commonest first.

    Args:
        words: V different words, strings or an Arrow array.
        counts: how often each occurs, int64.
        vectors_VD: float32.
        ngrams: character n-grams, from which words that are not in the table get a vector.
    """

    def __init__(
        self, words: "pa.Array | Sequence[str]", counts: Ints, vectors_VD: Floats, ngrams: "NGrams | None" = None
    ) -> None:
        assert len(words) == len(counts) == len(vectors_VD), (len(words), len(counts), len(vectors_VD))
        self.words = WordList(words)
        self.counts = counts
        self.vectors = vectors_VD
        self.ngrams = ngrams

    def __len__(self) -> int:
        return len(self.words)

    @property
    def dim(self) -> int:
        """Return the numbers per vector."""
        return int(self.vectors.shape[1])

    @cached_property
    def _scale(self) -> Floats:
        """Return one over the length of every word vector, (V,); 0 for one without a direction."""
        scale = np.zeros(len(self), dtype=np.float32)
        for first in range(0, len(self), _BLOCK):  # the norms of all at once need their squares in memory
            norms = np.linalg.norm(self.vectors[first : first + _BLOCK], axis=1)
            some = scale[first : first + _BLOCK]
            np.divide(1, norms, out=some, where=np.isfinite(norms) & (norms > 0))
        return scale

    def find(self, word: str) -> int | None:
        """Return the row of `word`, or else of its visible text in lower case; None where neither is known."""
        row = self.words.row_of(word)
        return self.words.row_of(visible(word).lower()) if row is None else row

    def vector_of(self, word: str) -> Floats | None:
        """Return the vector of `word`, or of its lower-case form, or else of its n-grams, (D,); None for an unknown word."""
        row = self.find(word)
        return self.guess(word) if row is None else self.vectors[row]

    def guess(self, word: str) -> Floats | None:
        """Return the mean of the n-grams of `word`, or of its lower-case form if more are known; None if all are unknown."""
        if self.ngrams is None:
            return None
        known = {form: len(self.ngrams.parts_of(form)) for form in (word, word.lower())}
        return self.ngrams.vector_of(max(known, key=lambda form: known[form]))

    @cached_property
    def phrases(self) -> KnownPhrases:
        """Return the phrases among the words."""
        return KnownPhrases(self.words.array.filter(pc.match_substring(self.words.array, PHRASE_SEPARATOR)).to_pylist())

    def _joined(self, words: list[str]) -> list[str]:
        """Return the words with known phrases joined, as written or else in lower case."""
        joined = self.phrases.join(words)
        if len(joined) == len(words):
            joined = self.phrases.join([word.lower() for word in words])
        return joined if len(joined) < len(words) else words

    def suggest(self, word: str) -> list[str]:
        """Return the known words nearest in spelling to an unknown word."""
        return [*self._suggested(word.lower())]

    @cached_property
    def _suggested(self) -> Callable[[str], list[str]]:
        """Return a function that finds similar spellings, with a cache of its answers."""
        return lru_cache(_SUGGESTIONS)(Spellings(self.words).nearest)

    def understand(self, text: str) -> "WordQuery":
        """Turn a word, or an expression such as `king - man + woman`, into the word vector to look for.

        Words without a vector are left out of a plain list of words; an expression with operators needs them all.

        Raises:
            ConfigError: the expression cannot be read.
        """
        expression = self._expression(text)
        words = dict.fromkeys((*expression.positive, *expression.negative))
        absent = [word for word in words if self.find(word) is None]
        vectors = {word: vector for word in absent if (vector := self.guess(word)) is not None}
        unknown = {word: self.suggest(word) for word in absent if word not in vectors}
        if len(unknown) == len(words) or (unknown and expression.has_operators):
            return WordQuery(np.zeros(self.dim, dtype=np.float32), np.zeros(0, dtype=np.int64), unknown)
        positive = [word for word in expression.positive if word not in unknown]
        return WordQuery(*self._sum(positive, expression.negative, vectors), unknown, [*vectors])

    def _expression(self, text: str) -> Expression:
        """Return a word of the table that is written exactly so (". . .", "+") as an expression, or else parse the text."""
        word = text.strip()
        if (" " in word or word in SIGNS) and self.words.row_of(word) is not None:
            return Expression((word,), (), False)
        return parse_expression(" ".join(map(self._parted, text.split())), self._joined)

    def _parted(self, part: str) -> str:
        """Return `-man` as `- man` where only `man` is known."""
        glued = len(part) > 1 and part[0] in SIGNS and self.find(part) is None and self.find(part[1:]) is not None
        return f"{part[0]} {part[1:]}" if glued else part

    def neighbours(self, positive: Sequence[str], negative: Sequence[str] = (), k: int = 10) -> list[Neighbour]:
        """Return the words nearest to the sum of unit vectors of `positive` less those of `negative`, the query left out.

        Words of equal score come in the order of their rows. Fewer than `k` are given where there are no more.

        Raises:
            InputError: a word is not in the table.

        Source: Levy and Goldberg 2014, "Linguistic Regularities in Sparse and Explicit Word Representations", 3CosAdd.
        """
        return self.nearest([WordQuery(*self._sum(positive, negative), {})], k)[0]

    def _sum(
        self, positive: Sequence[str], negative: Sequence[str], guessed: Mapping[str, Floats] = MappingProxyType({})
    ) -> tuple[Floats, Ints]:
        """Return the sum of word vectors of `positive` less those of `negative`, and the rows of words."""
        words = (*positive, *negative)
        row_of = {word: self._row(word) for word in words if word not in guessed}
        vectors_ND = np.stack([self.vectors[row_of[word]] if word in row_of else guessed[word] for word in words])
        signs = np.repeat([1.0, -1.0], [len(positive), len(negative)]).astype(np.float32)
        rows = np.array([row_of[word] for word in words if word in row_of], dtype=np.int64)
        return signs @ unit_rows(vectors_ND)[0], rows

    def nearest(self, queries: Sequence[WordQuery], k: int = 10) -> list[list[Neighbour]]:
        """Return the words whose vectors have the largest cosine with each query, its own words left out.

        A word or query without a direction has no neighbours. One product for many queries: two threads of OpenBLAS wait 7 ms
        for each other in every product, however small.
        """
        found = []
        for first in range(0, len(queries), _AT_ONCE):
            some = queries[first : first + _AT_ONCE]
            queries_QD, valid_Q = unit_rows(np.stack([one.query for one in some]))
            scores_QV = (queries_QD @ self.vectors.T) * self._scale
            scores_QV[:, self._scale == 0] = -np.inf
            for one, valid, scores_V in zip(some, valid_Q, scores_QV, strict=True):
                scores_V[one.rows] = -np.inf
                found.append(self._best(scores_V, k if valid else 0))
        return found

    def _best(self, scores_V: Floats, k: int) -> list[Neighbour]:
        """Return the k words whose vectors have the largest finite scores, of equal ones the commoner.

        Also when the k-th is tied.
        """
        rows = np.flatnonzero(np.isfinite(scores_V))
        scores = scores_V[rows].clip(-1, 1)
        if 0 < k < len(rows):
            near = np.flatnonzero(scores >= np.partition(scores, len(scores) - k)[len(scores) - k])
            rows, scores = rows[near], scores[near]
        order = np.lexsort((rows, -scores))[: max(k, 0)]
        return [
            Neighbour(self.words[row], float(score), int(row))
            for row, score in zip(rows[order], scores[order], strict=True)
        ]

    def _row(self, word: str) -> int:
        """Return the row of a word. Raises UnknownWordError: it has no vector."""
        if (row := self.find(word)) is None:
            raise self.unknown(word)
        return row

    def unknown(self, word: str) -> UnknownWordError:
        """Return the error for a word without a vector, with words of similar spelling in the hint."""
        near = self.suggest(word)
        hint = f"did you mean {', '.join(near)}?" if near else "try a more frequent word"
        return UnknownWordError(f"the word {word!r} has no vector", hint=hint)

    def to_batches(self, rows_per_batch: int = 16_384) -> Iterator[pa.RecordBatch]:
        """Return the table as batches of the `words` schema: word, count, vector."""
        counts = pa.array(self.counts, pa.int64())
        return vector_batches(words_schema(self.dim), self.vectors, self.words.array, counts, rows=rows_per_batch)

    @classmethod
    def from_batches(
        cls, batches: Iterable[pa.RecordBatch], ngram_batches: Iterable[pa.RecordBatch] | None = None,
        *, min_n: int = 0, max_n: int = 0,
    ) -> "WordVectors":  # fmt: skip
        """Make a table of batches of the `words` schema, and of the `ngrams` schema where words are made of n-grams.

        Raises:
            InputError: there is no word.
        """
        vectors_VD, (words, counts) = stacked_vectors(batches, ["word", "count"])
        if not len(vectors_VD):
            raise InputError("the table of words is empty")
        table = cls(words, plain_numbers(counts, np.int64).copy(), vectors_VD)
        if ngram_batches is not None:
            from wordpipe.words.subwords import NGrams  # and numba, which others do without

            vectors_GD, (spelled,) = stacked_vectors(ngram_batches, ["ngram"])
            table.ngrams = NGrams(spelled, min_n, max_n, vectors_GD) if len(vectors_GD) else None
        return table


def stacked_vectors(batches: Iterable[pa.RecordBatch], columns: Sequence[str] = ()) -> tuple[Floats, list[pa.Array]]:
    """Return the column `vector` of all batches, (N, D) float32, and other columns; (0, 0) where there is no row.

    The array grows by an eighth as vectors come, in place where the system can, so that they are never in memory a second
    time as the batches they came in.
    """
    numbers, n, dim = np.empty(0, dtype=np.float32), 0, 0
    others: list[list[pa.Array]] = [[] for _ in columns]
    for batch in batches:
        for parts, name in zip(others, columns, strict=True):
            parts.append(batch.column(name))
        vector = batch.column("vector")
        dim = int(vector.type.list_size)
        some = matrix_of(vector).ravel()
        if n + len(some) > len(numbers):
            numbers.resize((n + len(some)) * 9 // 8, refcheck=False)
        numbers[n : n + len(some)] = some
        n += len(some)
    numbers.resize(n, refcheck=False)
    vectors_ND = numbers.reshape(-1, dim) if dim else numbers.reshape(0, 0)
    return vectors_ND, [pa.concat_arrays(parts) if parts else pa.array([]) for parts in others]


@dataclass(frozen=True, slots=True)
class CommonPart:
    """The part that all vectors of a table have in common.

    Attributes:
        mean: their mean, float32.
        directions: their principal components after it is taken away, orthonormal, the largest first, float32.
    """

    mean: Floats
    directions: Floats

    @classmethod
    def of(cls, vectors_VD: Floats, components: int) -> "CommonPart":
        """Compute the mean of word vectors and the first `components` principal components, at most D."""
        dim = vectors_VD.shape[1]
        sum_D, squares_DD = np.zeros(dim), np.zeros((dim, dim))
        for first in range(0, len(vectors_VD), _BLOCK):
            some = vectors_VD[first : first + _BLOCK].astype(np.float64)
            sum_D += some.sum(axis=0)
            squares_DD += some.T @ some
        mean = sum_D / len(vectors_VD)
        covariance_DD = squares_DD / len(vectors_VD) - np.outer(mean, mean)
        _, directions_DD = np.linalg.eigh(covariance_DD)  # ascending
        largest_ND = directions_DD.T[::-1][: min(components, dim)]
        signs_N = np.sign(largest_ND[np.arange(len(largest_ND)), np.abs(largest_ND).argmax(axis=1)])
        return cls(mean.astype(np.float32), (largest_ND * signs_N[:, None]).astype(np.float32))

    def removed_from(self, vectors_VD: Floats) -> Floats:
        """Return the word vectors without the common part, (V, D)."""
        left_VD = np.empty_like(vectors_VD)
        for first in range(0, len(vectors_VD), _BLOCK):
            some = vectors_VD[first : first + _BLOCK] - self.mean
            left_VD[first : first + _BLOCK] = some - (some @ self.directions.T) @ self.directions
        return left_VD
