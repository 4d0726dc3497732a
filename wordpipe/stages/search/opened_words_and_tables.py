"""Artifacts opened for Python that are no index over texts: encoders, words, clusters, and tables (corpus, tokens).

`encode_texts` is what all encoders, and an index over texts, do with `encode`. Words, in an artifact of their own or in an
index over one, are asked for by an expression, whose own words are not found.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence, Sized
from contextlib import ExitStack
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wordpipe.artifacts import RowReader, read_schema, row_count
from wordpipe.encoders import TextEncoder, check_finite
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.errors import ConfigError, WordpipeWarning
from wordpipe.runtime import Progress, Report, quiet
from wordpipe.search.settings import QueryOptions
from wordpipe.stages.python_calls import printable, progress_drawer
from wordpipe.stages.search.asked_query import QueryResult
from wordpipe.stages.search.opened_artifact import OpenArtifact, OpenIndex

if TYPE_CHECKING:
    from wordpipe.words import WordQuery, WordVectors

Floats = npt.NDArray[np.float32]

_AT_ONCE = 1024  # texts encoded, or read, together: what is in memory is bounded by them


class OpenTable(OpenArtifact):
    """A corpus or tokens artifact: its rows are read with `batches`."""

    def __len__(self) -> int:
        return row_count(self.artifact, self.kind)

    def _about(self) -> str:
        return f"{len(self):,} rows"


class OpenClusters(OpenArtifact):
    """A clusters artifact: the `labels` and `members` of its clusters, 0 the largest; `batches` reads their table."""

    def __len__(self) -> int:
        return row_count(self.artifact, self.kind)

    @cached_property
    def labels(self) -> list[str]:
        """The words of each cluster."""
        return [label for batch in self.batches(["label"]) for label in batch.column("label").to_pylist()]

    def members(self, cluster: int, n: int | None = None) -> Iterator[dict[str, Any]]:
        """Return the texts of a cluster of opened clusters, the nearest to its centre first, n of them or all.

        -1 has those without a vector.

        Each is a dict: row (of the sentences), id (the user's, where the records had ids), doc_id, title, text, source, line,
        cluster and similarity, the cosine with the centre (None without a vector).

        Raises:
            ConfigError: there is no such cluster.
        """
        if not -1 <= cluster < len(self):
            expected = f"0 to {len(self) - 1:,}, or -1 for texts without a vector"
            raise ConfigError("the cluster does not exist", where=self.path, got=f"{cluster:,}", expected=expected)
        order_N, starts_K = self._order
        return self._rows(order_N[starts_K[cluster + 1] : starts_K[cluster + 2]][:n].tolist())

    def _rows(self, rows: list[int]) -> Iterator[dict[str, Any]]:
        """Yield the rows of members of opened clusters, in this order."""
        names = {"record_id": "id"}
        reader = RowReader(self.artifact, "members", read_schema(self.artifact, "members").names)
        for first in range(0, len(rows), _AT_ONCE):
            some = rows[first : first + _AT_ONCE]
            ascending = sorted(some)  # a row group is then read once
            found = dict(zip(ascending, reader.fetch(ascending), strict=True))
            yield from ({names.get(name, name): value for name, value in found[row].items()} for row in some)

    @cached_property
    def _order(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return (N,) rows of opened clusters by cluster, and (K + 2,) where each cluster begins."""
        table = self.batches(["cluster", "similarity"], table="members").read_all()
        cluster_N, cosine_N = table["cluster"].to_numpy(), table["similarity"].to_numpy()
        starts_K = np.concatenate([[0], np.cumsum(np.bincount(cluster_N + 1, minlength=len(self) + 1))])
        return np.lexsort((-cosine_N, cluster_N)), starts_K

    def _about(self) -> str:
        return f"{len(self):,} clusters"


class OpenEncoder(OpenArtifact):
    """A model artifact, whatever it was trained for: it encodes texts as `wordpipe embed` would, without a transform."""

    @cached_property
    def encoder(self) -> TextEncoder:
        """The encoder of texts. Raises ArtifactError: the encoder cannot be read."""
        from wordpipe.stages.encoders import open_encoder

        return open_encoder(self.artifact, EmbedSettings())

    @property
    def dim(self) -> int:
        """Numbers of a vector."""
        return self.encoder.dim

    def encode(self, texts: Iterable[str]) -> Floats:
        """Return unit vectors of texts, (n, dim) float32; see `encode_texts`."""
        return encode_texts(self.encoder, texts)

    def _about(self) -> str:
        facts = self.artifact.manifest.facts
        return f"{facts['dim']} dimensions"


class OpenSentences(OpenEncoder):
    """A sentences artifact: `batches` reads its rows, and `encode` encodes other texts as they were, transform and all."""

    @cached_property
    def encoder(self) -> TextEncoder:
        """The encoder that the sentences carry. Raises ArtifactError: it cannot be read."""
        from wordpipe.stages.encoders import bundled_encoder

        return bundled_encoder(self.artifact)

    def __len__(self) -> int:
        return row_count(self.artifact, self.kind)

    def _about(self) -> str:
        return f"{len(self):,} rows, {super()._about()}"


class OpenWords(OpenEncoder):
    """A words artifact: `words["bee"]` is a vector, (dim,) float32, as it was trained; `in`, `len` and iteration are of words.

    A word is found in its lower-case form too, and, where words were trained with n-grams, by its letters.
    """

    @cached_property
    def table(self) -> "WordVectors":
        """The word vectors."""
        from wordpipe.stages.encoders import read_word_vectors

        return read_word_vectors(self.artifact)

    def __len__(self) -> int:
        return len(self.table)

    def __iter__(self) -> Iterator[str]:
        """Yield the words, the most frequent first."""
        return iter(self.table.words)

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self.table.vector_of(word) is not None

    def __getitem__(self, word: str) -> Floats:
        """Return the vector of a word. Raises UnknownWordError, a KeyError, with words of like spelling: it has no vector."""
        if (vector := self.table.vector_of(word)) is None:
            raise self.table.unknown(word)
        return np.array(vector)

    def neighbours(self, word: str, k: int = 10) -> list[tuple[str, float]]:
        """Return the k nearest words of opened words with cosines, the nearest first. Raises UnknownWordError: no vector."""
        row = self.table.find(word)
        from wordpipe.words import WordQuery

        rows = np.array([] if row is None else [row], dtype=np.int64)
        return [(one.word, one.score) for one in self.table.nearest([WordQuery(self[word], rows, {})], k)[0]]

    @property
    def dim(self) -> int:
        """Numbers of a vector."""
        return int(self.artifact.manifest.facts["dim"])

    def _answers(self, texts: Sequence[str], k: int, options: QueryOptions) -> list[QueryResult]:
        """Return opened words' k best hits for each expression of words. Raises ConfigError: it cannot be read."""
        questions = [self.table.understand(printable(text)) for text in texts]
        hits = []
        for near in self.table.nearest(questions, k + options.offset):
            kept = [one for one in near if options.min_score is None or np.float32(one.score) >= options.min_score]
            ranked = [*enumerate(kept, start=1)][options.offset :]
            hits.append([
                {"rank": rank, "score": one.score, "row": one.row, "word": one.word, "count": int(self.table.counts[one.row])}
                for rank, one in ranked
            ])  # fmt: skip
        return _results(texts, questions, hits)

    def check(self, options: QueryOptions) -> None:
        """Refuse options that words do not have, before any query comes."""
        _refuse(options, "min_score", "offset")

    def _about(self) -> str:
        return f"{row_count(self.artifact, 'words'):,} words, {self.dim} dimensions"


def encode_texts(encoder: TextEncoder, texts: Iterable[str]) -> Floats:
    """Return unit vectors of texts by an opened encoder, (n, dim) float32, the same as those of `embed`.

    A text without a vector (no token, or no word that is known) has a row of zeros, and a Python warning says how many have.
    Of the texts only a thousand are in memory at once, so they may come from a generator.

    Raises:
        ConfigError: one string, or something that is no string.
        DivergedError: a vector is not finite.
    """
    if isinstance(texts, str):
        hint = "for the vector of one text, use encode([text])[0]"
        raise ConfigError(
            "texts must be a list of texts, not one string", where="texts", got=repr(texts[:40]), hint=hint
        )
    total = len(texts) if isinstance(texts, Sized) else None
    parts, empty, done = [np.empty((0, encoder.dim), np.float32)], 0, 0
    with ExitStack() as stack:
        report: Report = quiet
        for chunk in _chunks(texts):
            batch = encoder.encode(chunk)
            check_finite(batch.vectors, chunk, "encoder", "train the encoder again")
            parts.append(batch.vectors)
            empty, done = empty + int(batch.empty.sum()), done + len(chunk)
            if report is quiet and done != total and len(chunk) == _AT_ONCE:  # there are more: it may take a while
                report = stack.enter_context(progress_drawer())
            report(Progress("encoding", done, total, "texts"))
    if empty:
        what = f"{empty:,} of {done:,} texts have no token or no known word, so their vectors contain only zeros"
        warnings.warn(what, WordpipeWarning, stacklevel=3)
    return np.concatenate(parts, dtype=np.float32)


def _chunks(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield texts that an opened encoder encodes, so many at a time, each checked."""
    source, done = iter(texts), 0
    while chunk := list(islice(source, _AT_ONCE)):
        for number, text in enumerate(chunk, start=done):
            if not isinstance(text, str):
                raise ConfigError("not a text", where=f"texts[{number}]", got=type(text).__name__, expected="str")
        yield [printable(text) for text in chunk]
        done += len(chunk)


class OpenWordIndex(OpenIndex):
    """An index over words: an expression is looked up, and the words in it are not found."""

    @cached_property
    def table(self) -> "WordVectors":
        """The words and their vectors, in index order."""
        from wordpipe.stages.encoders import read_word_vectors

        return read_word_vectors(self.artifact)

    def _answers(self, texts: Sequence[str], k: int, options: QueryOptions) -> list[QueryResult]:
        """Return an opened word index's k best hits for each expression. Raises ConfigError: one cannot be read."""
        questions = [self.table.understand(printable(text)) for text in texts]
        queries_QD = np.array([question.query for question in questions]).reshape(len(questions), self.table.dim)
        deepest = (
            k + options.offset + max((len(question.rows) for question in questions if question.query.any()), default=0)
        )
        found = self.vector_index(self.allowed(options)).search(queries_QD, deepest)
        others = [
            hits.where(~np.isin(hits.rows, question.rows)).first(k + options.offset).at_least(options.min_score)
            for hits, question in zip(found, questions, strict=True)
        ]
        return _results(texts, questions, self.rows_of(others, options.offset))

    def check(self, options: QueryOptions) -> None:
        """Refuse options that words do not have, and a condition that cannot be read, before any query comes."""
        _refuse(options, "min_score", "where", "offset")
        self.allowed(options)


def _results(
    texts: Sequence[str], questions: "Sequence[WordQuery]", found: Sequence[Sequence[dict[str, Any]]]
) -> list[QueryResult]:
    """Return the results of queries of opened words; a hit has no count where words were not counted."""
    kept = [[{name: one for name, one in hit.items() if name != "count" or one} for hit in hits] for hits in found]
    return [
        QueryResult(printable(text), hits, dict(question.unknown), [*question.guessed])
        for text, question, hits in zip(texts, questions, kept, strict=True)
    ]


def _refuse(options: QueryOptions, *known: str) -> None:
    """Refuse options of a query that have no meaning for opened words.

    Raises:
        ConfigError: names it.
    """
    for name, field in QueryOptions.model_fields.items():
        given = getattr(options, name)
        # said is what is done anyway: words are found by vectors, as they are typed
        if (name, given) == ("mode", "dense") or name in ("exact", "prefix"):
            continue
        if given != field.default and name not in known:
            hint = "index the words first: wordpipe index WORDS" if name == "where" else "use an index over texts"
            raise ConfigError(
                "this option works with an index over texts, not with words", where=name, got=given, hint=hint
            )
