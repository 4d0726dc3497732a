"""An artifact opened to be queried: the options of a query, what it gives, and what every index holds."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.artifacts import INDEX_FILE, Artifact, RowReader, RowVectors, read_batches, read_schema, row_count
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.search import Hits, SearchMode

if TYPE_CHECKING:
    from wordpipe.search import VectorIndex


@dataclass(frozen=True)
class QueryOptions:
    """How an index is searched."""

    # by vectors, by words (BM25), or by both; auto: what was measured to find best when the index was built
    mode: Literal["auto", "dense", "lexical", "hybrid"] = "auto"
    weight: float | None = None  # share of the vectors in a hybrid score, 0 to 1; None for the one that was measured
    # first hybrid hits that a query's vector is moved towards before a second search; 0: there is none. None for the number
    # that was found best.
    feedback: int | None = None
    where: str | None = None  # a condition on the index's columns, an SQL expression
    per_document: bool = False  # of every document its best row alone
    min_score: float | None = None  # leave out hits below it: a cosine, a BM25 score or a share, as the mode has it
    explain: bool = False  # say of every hit which words carried its score

    def __post_init__(self) -> None:
        if self.weight is not None and not 0 <= self.weight <= 1:
            expected = "0 (words alone) to 1 (vectors alone)"
            raise ConfigError("not a share", where="weight", got=self.weight, expected=expected)
        alone = f"mode {self.mode}" if self.mode not in ("auto", "hybrid") else None
        if alone and self.weight is not None:
            raise ConfigError("a weight mixes both ways of asking", where="weight", got=alone, expected="hybrid")
        if self.feedback is not None and self.feedback < 0:
            raise ConfigError("no such number of answers", where="feedback", got=self.feedback, expected="0 or more")
        if alone and self.feedback:
            raise ConfigError("only a hybrid search is asked again", where="feedback", got=alone, expected="hybrid")

    @property
    def is_hybrid(self) -> bool:
        """Whether an option says how words and vectors are mixed, so that auto is hybrid."""
        return self.weight is not None or bool(self.feedback)


DEFAULTS = QueryOptions()


@dataclass(frozen=True)
class QueryResult:
    """What one query found."""

    query: str  # the query
    hits: list[dict[str, Any]]  # the best first: rank, score and the row's columns (id, text or word, source, line, …)
    # words that have no vector, with words spelled like them where the encoder is a table of words
    unknown: dict[str, list[str]] = field(default_factory=dict)
    # words that are not in the table, whose vectors were guessed from their letters (character n-grams)
    guessed: list[str] = field(default_factory=list)
    # those of the unknown that stand in the texts: the query was searched for by words too, or alone
    by_words: list[str] = field(default_factory=list)
    mode: SearchMode | None = None  # how an index was searched; None of words


class OpenArtifact:
    """What all that can be queried shares: an open artifact, and a query of one text."""

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the artifact."""
        self.artifact.close()

    def query(self, text: str, k: int = 10, **options: Any) -> list[dict[str, Any]]:
        """The k best hits for one query: dicts with rank, score, and the columns of the row.

        Args:
            text: the query.
            k: hits wanted.
            options: fields of `QueryOptions`.

        Raises:
            WordpipeError: see `query_all`.
        """
        return self.query_all([text], k, replace(DEFAULTS, **options))[0].hits

    def query_all(self, texts: Sequence[str], k: int = 10, options: QueryOptions = DEFAULTS) -> list[QueryResult]:
        """The k best hits for each of several queries."""
        raise NotImplementedError

    def nothing_found(self, options: QueryOptions) -> InputError:
        """The error that says that no query found anything, and what to do."""
        del options
        return InputError("nothing was found", hint="ask with other words; wordpipe show lists what the artifact holds")

    def check(self, options: QueryOptions) -> None:
        """Refuse what cannot be searched, before any query comes. Raises ConfigError, ArtifactError: names it."""
        raise NotImplementedError


class OpenIndex(OpenArtifact):
    """An index artifact: its vectors, its rows and the conditions on them."""

    def __init__(self, artifact: Artifact) -> None:
        super().__init__(artifact)
        self._rows_where = lru_cache(maxsize=8)(self._rows_of_condition)

    @cached_property
    def index(self) -> Any:
        """The faiss index."""
        from wordpipe.search import read_index

        with self.artifact.open(INDEX_FILE) as file:
            size = next(o.bytes for o in self.artifact.manifest.outputs if o.path == INDEX_FILE)
            where = str(self.artifact.path / INDEX_FILE)
            found = read_index(file, size=size, where=where)
        rows, dim = row_count(self.artifact, "index"), self.artifact.fact("dim", int, least=1)
        if (found.ntotal, found.d) != (rows, dim):
            got, expected = f"{found.ntotal} vectors of width {found.d}", f"{rows} of width {dim}"
            what = "the vectors do not belong to the rows"
            raise ArtifactError(what, where=where, got=got, expected=expected, hint=self.artifact.make_again)
        return found

    def vector_index(self, allowed: npt.NDArray[np.bool_] | None) -> "VectorIndex":
        """The vectors of the rows that may be found, all where None."""
        from wordpipe.search import VectorIndex

        return VectorIndex(self.index, self._stored, allowed)

    def allowed(self, options: QueryOptions) -> npt.NDArray[np.bool_] | None:
        """(N,) the rows that may be found, None for all. Raises ConfigError: the condition cannot be read."""
        return None if options.where is None else self._rows_where(options.where)

    def rows_of(self, found: Sequence[Hits]) -> list[list[dict[str, Any]]]:
        """The hits of some queries with their rank and their rows' columns.

        Rows are fetched together, ascending: 1,000 queries took 100 s where each fetched its own, unpacking the same row
        groups again and again.
        """
        wanted = np.unique(np.concatenate([hits.rows for hits in found])).tolist() if found else []
        columns_of = dict(zip(wanted, self._reader.fetch(wanted), strict=True))
        return [
            [
                {"rank": rank, "score": score, "id": row} | columns_of[row]
                for rank, (row, score) in enumerate(zip(hits.rows.tolist(), hits.scores.tolist(), strict=True), start=1)
            ]
            for hits in found
        ]

    @cached_property
    def _stored(self) -> RowVectors:
        return RowVectors(self.artifact, "index")

    @cached_property
    def _columns(self) -> pa.Schema:
        """Of the rows behind the vectors, without these."""
        return pa.schema([field for field in read_schema(self.artifact, "index") if field.name != "vector"])

    @cached_property
    def _reader(self) -> RowReader:
        return RowReader(self.artifact, "index", self._columns.names)

    def _rows_of_condition(self, condition: str) -> npt.NDArray[np.bool_]:
        from wordpipe.search import rows_where

        rows = row_count(self.artifact, "index")
        return rows_where(
            condition, self._columns, lambda names: read_batches(self.artifact, "index", [*names] or ["id"]), rows
        )


def document_numbers(artifact: Artifact, table: str) -> npt.NDArray[np.int64]:
    """(N,) the number of the document of every row of a table, in the order in which the documents first come."""
    ids = pa.chunked_array([batch.column("doc_id") for batch in read_batches(artifact, table, ["doc_id"])], pa.string())
    numbers_N: npt.NDArray[np.int32] = ids.combine_chunks().dictionary_encode().indices.to_numpy()
    return numbers_N.astype(np.int64)


def printable(text: str) -> str:
    """Undecodable bytes of a command line become replacement characters."""
    return text.encode("utf-8", "replace").decode("utf-8")
