"""`wordpipe query`: asking an index or a table of words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType
from typing import Any

import numpy as np

from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.rows import RowReader
from wordpipe.artifacts.tables import read_schema
from wordpipe.stages.encoders import carried_encoder
from wordpipe.stages.making import PathLike
from wordpipe.stages.word_vectors import read_word_vectors
from wordpipe.words.table import WordVectors

__all__ = ["Answers", "OpenIndex", "OpenWords", "open_artifact"]

_INTERNAL = ("vector",)


@dataclass(frozen=True)
class Answers:
    """The answer to one query.

    Attributes:
        query: the query.
        hits: the best first: rank, score and the row's columns (id, text or word, source, line, …).
        unknown: words that have no vector, with words spelled like them where the encoder is a table of words.
        guessed: words that are not in the table, whose vectors were guessed from their letters (character n-grams).
    """

    query: str
    hits: list[dict[str, Any]]
    unknown: dict[str, list[str]] = field(default_factory=dict)
    guessed: list[str] = field(default_factory=list)


class _Opened:
    """What both kinds share: an open artifact, and a query of one text.

    Attributes:
        artifact: what was opened.
        batches: whether many queries at once are answered faster than one by one.
    """

    batches = False

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact

    def __enter__(self) -> "Any":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the artifact."""
        self.artifact.close()

    def query(self, text: str, k: int = 10) -> list[dict[str, Any]]:
        """The k best hits for one query: dicts with rank, score, and the columns of the row."""
        return self.answer([text], k)[0].hits

    def answer(self, texts: Sequence[str], k: int) -> list[Answers]:
        """Answer several queries."""
        raise NotImplementedError


class OpenWords(_Opened):
    """A words artifact: `king`, `king - man + woman`."""

    @cached_property
    def table(self) -> WordVectors:
        """The word vectors."""
        return read_word_vectors(self.artifact)

    def answer(self, texts: Sequence[str], k: int) -> list[Answers]:
        """Answer several queries.

        Raises:
            ConfigError: an expression cannot be read.
        """
        return [self._answer(_printable(text), k) for text in texts]

    def _answer(self, text: str, k: int) -> Answers:
        found = self.table.ask(text, k)
        hits = [
            _without_no_count(
                {
                    "rank": rank,
                    "score": near.score,
                    "id": near.row,
                    "word": near.word,
                    "count": int(self.table.counts[near.row]),
                }
            )
            for rank, near in enumerate(found.neighbours, start=1)
        ]
        return Answers(text, hits, dict(found.unknown), [*found.guessed])


class OpenIndex(_Opened):
    """An index artifact: free text, encoded as its rows were."""

    batches = True

    @cached_property
    def index(self) -> Any:
        """The faiss index."""
        from wordpipe.search.files import read_index

        with self.artifact.open("index.faiss") as file:
            size = next(o.bytes for o in self.artifact.manifest.outputs if o.path == "index.faiss")
            return read_index(file, size=size, where=str(self.artifact.path / "index.faiss"))

    @cached_property
    def encoder(self) -> Any:
        """The query encoder that the index carries."""
        return carried_encoder(self.artifact)

    @cached_property
    def rows(self) -> RowReader:
        """The rows behind the vectors."""
        names = [name for name in read_schema(self.artifact, "index").names if name not in _INTERNAL]
        return RowReader(self.artifact, "index", names)

    def answer(self, texts: Sequence[str], k: int) -> list[Answers]:
        """Answer several queries; one without a vector has no hits."""
        from wordpipe.search.query import search

        texts = [_printable(text) for text in texts]
        encoded = self.encoder.encode(texts)
        there = np.flatnonzero(~encoded.empty)
        hits: list[list[dict[str, Any]]] = [[] for _ in texts]
        for number, found in zip(there, search(self.index, encoded.vectors[there], k), strict=True):
            hits[number] = self._hits(found.rows.tolist(), found.scores.tolist())
        suggest: Callable[[str], list[str]] = getattr(self.encoder, "suggest", lambda _: [])
        unknown = [{word: suggest(word) for word in words} for words in encoded.unknown]
        return [Answers(*both) for both in zip(texts, hits, unknown, strict=True)]

    def _hits(self, rows: Sequence[int], scores: Sequence[float]) -> list[dict[str, Any]]:
        """Rows of the index as an answer, with their columns."""
        found = zip(rows, scores, self.rows.fetch(rows), strict=True)
        return [
            {"rank": rank, "score": score, "id": row, **columns}
            for rank, (row, score, columns) in enumerate(found, start=1)
        ]


class OpenWordIndex(OpenIndex):
    """An index over words: an expression of words, looked up and searched without the words asked for."""

    batches = False

    @cached_property
    def table(self) -> WordVectors:
        """The words and their vectors, in index order."""
        return read_word_vectors(self.artifact)

    def answer(self, texts: Sequence[str], k: int) -> list[Answers]:
        """Answer several queries."""
        return [self._answer(_printable(text), k) for text in texts]

    def _answer(self, text: str, k: int) -> Answers:
        from wordpipe.search.query import search

        question = self.table.understand(text)
        if not question.query.any():
            return Answers(text, [], dict(question.unknown))
        found = search(self.index, question.query[None], k + len(question.rows))[0]
        keep = np.flatnonzero(~np.isin(found.rows, question.rows))[:k]
        hits = self._hits(found.rows[keep].tolist(), found.scores[keep].tolist())
        return Answers(text, [_without_no_count(hit) for hit in hits], dict(question.unknown), [*question.guessed])


def open_artifact(path: PathLike, *, verify: bool = True) -> "OpenIndex | OpenWords":
    """Open an index or words artifact to ask it. Use it as a context, or close it.

    Args:
        path: the artifact's folder.
        verify: check its hashes first.

    Raises:
        ArtifactError: missing, corrupt, or of another kind.
    """
    artifact = Artifact(path, ["index", "words"], verify=verify)
    if artifact.kind == "words":
        return OpenWords(artifact)
    return OpenWordIndex(artifact) if artifact.manifest.facts["of"] == "words" else OpenIndex(artifact)


def _without_no_count(hit: dict[str, Any]) -> dict[str, Any]:
    """The hit; without its count where that is 0, which means that nobody counted: the words were imported."""
    return {name: value for name, value in hit.items() if name != "count" or value}


def _printable(text: str) -> str:
    """Undecodable bytes of a command line become replacement characters."""
    return text.encode("utf-8", "replace").decode("utf-8")
