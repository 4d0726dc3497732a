"""An artifact opened to be queried: what a query gives, and what every index holds."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.artifacts import (
    DOUBLES,
    DOUBLES_FILE,
    INDEX_FILE,
    Artifact,
    Kind,
    RowReader,
    has_vectors,
    int8_vectors,
    read_batches,
    read_schema,
    read_vectors,
    refuse_without_vectors,
    row_count,
    row_shower,
    rows_with_vector,
    vectors_there,
    visible_columns,
)
from wordpipe.errors import ArtifactError, ConfigError, DamageError, InputError, NothingFound
from wordpipe.search import Hits
from wordpipe.search.settings import EXACT, QueryOptions
from wordpipe.settings import shown_value
from wordpipe.stages.python_calls import public
from wordpipe.stages.search.asked_query import QueryKeywords, QueryResult
from wordpipe.stages.search.row_facts import RowFacts, field_columns, row_of_id, rows_of_condition
from wordpipe.wording import shown_place

if TYPE_CHECKING:
    from wordpipe.search import FieldColumns, FoundRows, RowFilter
    from wordpipe.stages.search.passages import PassageFinder


DEFAULTS = QueryOptions()
_MOST_PLACES = 10  # where else a document stands
_FEW_VALUES, _VALUE_CHARS = 8, 40  # of a column that a condition names which is true of no row
_CONDITIONS = 8  # whose rows are remembered
_TO_AN_INDEX = {
    "corpus": "wordpipe embed MODEL CORPUS, and then wordpipe index SENTENCES",
    "model": "wordpipe embed MODEL CORPUS, and then wordpipe index SENTENCES",
    "sentences": "wordpipe index SENTENCES",
}


def _check_number(k: Any) -> None:
    """Refuse a number of hits of an opened artifact that is below 1, or no number (ConfigError)."""
    if not hasattr(k, "__index__") or k < 1:
        what = "the number of hits must be a whole number of at least 1"
        raise ConfigError(what, where="k", got=repr(k), expected="1 or more")


class OpenArtifact:
    """An artifact opened for Python, to be used as a context or closed; what it can do besides depends on its kind.

    Attributes:
        artifact: the artifact, with its manifest.
    """

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact

    @property
    def path(self) -> Path:
        """The place of the artifact."""
        return self.artifact.path

    @property
    def kind(self) -> Kind:
        """corpus, tokens, words, model, sentences, index or clusters."""
        return self.artifact.kind

    def __repr__(self) -> str:
        named = f"{self.kind} {str(self.path)!r}"
        return f"<closed {named}>" if self.artifact.is_closed else f"<open {named}: {self._about()}>"

    def _about(self) -> str:
        """Return a few words about the content of the artifact."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the artifact, and what was read of it: memory and files are given back at once."""
        artifact = self.artifact
        artifact.close()
        self.__dict__.clear()  # what is cached
        self.artifact = artifact

    @public(QueryOptions)
    def query(self, text: str, k: int = 10, **options: Unpack[QueryKeywords]) -> list[dict[str, Any]]:
        """Return an opened artifact's k best hits for one query: dicts as in `QueryResult.hits`.

        Args:
            text: the query; a blank one finds nothing, or, of an index and with `where`, the first rows of which it is true.
            k: hits wanted.
            options: fields of `QueryOptions`.

        Raises:
            ConfigError: no text, or no number of hits.
            WordpipeError: see `query_all`.
        """
        if not isinstance(text, str):
            hint = "for several texts, use query_all"
            raise ConfigError("query takes one text", where="text", got=type(text).__name__, expected="str", hint=hint)
        _check_number(k)
        chosen = QueryOptions.make(options)
        self.check(chosen)
        return self._answers([text], k, chosen)[0].hits if text.strip() else self._unasked(k, chosen)

    def _unasked(self, k: int, options: QueryOptions) -> list[dict[str, Any]]:
        """Return the hits of a blank query: none."""
        del k, options
        return []

    @public(QueryOptions)
    def query_all(
        self, texts: Sequence[str], k: int = 10, options: QueryOptions = DEFAULTS, **given: Unpack[QueryKeywords]
    ) -> list[QueryResult]:
        """Return an opened artifact's k best hits for each of several queries, in their order; a blank one has none.

        Args:
            texts: the queries.
            k: hits wanted for each.
            options: all options at once.
            given: fields of `QueryOptions`; each goes before what `options` says.

        Raises:
            ConfigError: no texts, no number of hits, no such option, or one that cannot be.
            ArtifactError: it is neither an index nor words.

        Example:
            >>> with wordpipe.open("run/index", "index") as index:
            ...     found = index.query_all(["why does the sea have tides", "bees"], k=3, mode="lexical")
            >>> [result.query for result in found], [hit["rank"] for hit in found[1].hits]
            (['why does the sea have tides', 'bees'], [1, 2, 3])
        """
        texts = texts if isinstance(texts, str) else [*texts]
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            got, hint = shown_value(texts), "for one text, use query"
            raise ConfigError("not a list of texts", where="texts", got=got, expected='["…", "…"]', hint=hint)
        _check_number(k)
        if given:
            options = QueryOptions.make(options.model_dump() | given)
        self.check(options)
        asked = [text for text in texts if text.strip()]
        found = iter(self._answers(asked, k, options) if asked else ())
        return [next(found) if text.strip() else QueryResult(text, []) for text in texts]

    def _answers(self, texts: Sequence[str], k: int, options: QueryOptions) -> list[QueryResult]:
        """Return the hits of texts that are not blank, by options that have been checked; see `query_all`."""
        raise self._no_answers()

    def _no_answers(self) -> ArtifactError:
        """Return the error for an opened artifact that cannot be searched."""
        hint = f"make an index: {_TO_AN_INDEX[self.kind]}" if self.kind in _TO_AN_INDEX else None
        return ArtifactError(
            "this kind of artifact cannot be searched",
            where=self.path,
            got=self.kind,
            expected="index or words",
            hint=hint,
        )

    @property
    def dim(self) -> int:
        """Numbers of a vector. Raises ArtifactError: it has none."""
        raise self._no_encoder()

    def encode(self, texts: Iterable[str]) -> npt.NDArray[np.float32]:
        """Return unit vectors of texts, (n, dim) float32. Raises ArtifactError: it is no encoder and carries none."""
        raise self._no_encoder()

    def _no_encoder(self) -> ArtifactError:
        """Return the error for an opened artifact without an encoder of texts."""
        expected = "a model, words, sentences, or an index over sentences"
        hint = "train an encoder: wordpipe train static"
        return ArtifactError(
            "this kind of artifact contains no text encoder",
            where=self.path,
            got=self.kind,
            expected=expected,
            hint=hint,
        )

    @public(QueryOptions)
    def count(self, text: str, **options: Unpack[QueryKeywords]) -> int:
        """Return the number of rows of an opened index that match a query, whatever their scores; see `matching_rows`.

        Args:
            text: the query; a blank one matches every row of which `where` is true.
            options: fields of `QueryOptions`. With `per_document` documents are counted.

        Raises:
            WordpipeError: see `query_all`.
        """
        chosen = QueryOptions.make(options)
        self.check(chosen)
        return self.count_all([text], chosen)[0]

    def count_all(self, texts: Sequence[str], options: QueryOptions) -> list[int]:
        """Return for each of several queries the number of rows of an opened index that match; see `count`."""
        del texts, options
        raise ConfigError("rows can be counted only in an index over texts", where=self.path, got=self.kind)

    def batches(self, columns: Sequence[str] | None = None, *, table: str = "") -> pa.RecordBatchReader:
        """Return the rows of an opened artifact's table as a stream of Arrow batches.

        `read_all()` makes an Arrow table of it, `read_pandas()` a data frame; DuckDB and polars' `from_arrow` take it too.

        Args:
            columns: those wanted; None for all.
            table: the name of the table's files up to its number (`words` of the tokens artifact); the main one where it is
                not given, which of a model is the log of its training, `steps`.

        Raises:
            ConfigError: there is no such table or column.
        """
        # The table: the main one, or the one that is named.
        name = table or ("steps" if self.kind == "model" else self.kind)
        tables = sorted(
            {re.sub(r"(-\d{5})?\.parquet$", "", one) for one in self.artifact.names() if one.endswith(".parquet")}
        )
        if name not in tables:
            what, expected = "the artifact has no table with this name", ", ".join(tables)
            raise ConfigError(what, where=self.path, got=name, expected=expected)
        # The columns that are wanted.
        schema = read_schema(self.artifact, name)
        if columns is not None:
            if unknown := [column for column in columns if column not in schema.names]:
                what, expected = "the table has no column with this name", ", ".join(schema.names)
                raise ConfigError(what, where=self.path, got=unknown[0], expected=expected)
            schema = pa.schema([schema.field(column) for column in columns])
        # Batches, as they are read.
        rows = (
            batch.select(schema.names).replace_schema_metadata(None)
            for batch in read_batches(self.artifact, name, columns)
        )
        return pa.RecordBatchReader.from_batches(schema, rows)

    def passages(self, query: str) -> "PassageFinder":
        """Return an opened artifact's finder of passages: the best passage of a text for a query."""
        from wordpipe.search import Analyser
        from wordpipe.stages.search.passages import PassageFinder

        return PassageFinder(query, Analyser("none"))

    def nothing_found(self, options: QueryOptions, asked: str = "") -> NothingFound:
        """Return the report that no query of an opened artifact found anything, and what to do.

        `asked` where there was one query.
        """
        del asked
        if options.offset:
            what, hint = f"nothing was found after the first {options.offset:,} answers", "use a smaller offset"
            return NothingFound(what, hint=hint)
        return NothingFound("nothing was found", hint="search with other words, or with fewer")

    def check(self, options: QueryOptions) -> None:
        """Refuse options that the artifact cannot search by, before any query comes. Raises ConfigError, ArtifactError."""
        raise self._no_answers()


class OpenIndex(OpenArtifact):
    """An index artifact: vectors, rows, and conditions on rows. Of words alone there are no vectors."""

    def __len__(self) -> int:
        return row_count(self.artifact, "index")

    def _about(self) -> str:
        facts = self.artifact.manifest.facts
        vectors = f"{facts['dim']} dimensions, {facts['type']}" if self.has_vectors else "words alone"
        return f"{len(self):,} rows, {vectors}"

    @property
    def has_vectors(self) -> bool:
        """False of an index of words alone."""
        return has_vectors(self.artifact)

    @property
    def dim(self) -> int:
        """Numbers of a vector."""
        return int(self.artifact.manifest.facts["dim"])

    @cached_property
    def index(self) -> Any:
        """The faiss index with the vectors of all rows. Raises ConfigError: it has words alone."""
        from wordpipe.search import read_index

        refuse_without_vectors(self.artifact)
        vectors = vectors_there((block for _, block in read_vectors(self.artifact, "index")), self.with_vector)
        return self._read_faiss(partial(read_index, vectors=vectors, n=self._vector_count))

    def _read_faiss(self, read: Callable[..., Any]) -> Any:
        """Return a faiss index of all rows with a vector, read so."""
        rows, dim = self._vector_count, self.artifact.fact("dim", int, least=1)
        with self.artifact.open(INDEX_FILE) as file:
            size, where = self.artifact.entry(INDEX_FILE).bytes, str(self.artifact.path / INDEX_FILE)
            found = read(file, size=size, where=where)
        if (found.ntotal, found.d) != (rows, dim):
            what, got = "the vectors of the index do not match its rows", f"{found.ntotal} vectors of width {found.d}"
            expected = f"{rows} vectors of width {dim}"
            raise DamageError(what, where=where, got=got, expected=expected, hint=self.artifact.make_again)
        return found

    @property
    def _vector_count(self) -> int:
        return row_count(self.artifact, "index") if self.with_vector is None else len(self.with_vector)

    def vector_index(self, allowed: npt.NDArray[np.bool_] | None) -> "FoundRows":
        """Return the vectors of the rows that may be found, to be searched; all where None."""
        return self._found_rows(allowed=allowed, with_vector=self.with_vector)

    @cached_property
    def _found_rows(self) -> "Callable[..., FoundRows]":
        """Maker of `vector_index`; vectors stay as they are stored, if they are int8 and the kind of index can compare so."""
        from wordpipe.search import ByteVectors, ExactRows

        refuse_without_vectors(self.artifact)
        kind, dim = self.artifact.fact("type", str), self.artifact.fact("dim", int, least=1)
        blocks = vectors_there(int8_vectors(self.artifact, "index"), self.with_vector)
        if kind == EXACT and (stored := ByteVectors.read(blocks, self._vector_count, dim)):
            return partial(ExactRows, stored)
        from wordpipe.search import VectorIndex, kind_of  # and faiss

        if kind_of(kind).compares_stored and (stored := ByteVectors.read(blocks, self._vector_count, dim)):
            candidates = self._read_faiss(kind_of(kind).read_candidates)
            return partial(VectorIndex, candidates, stored=stored, refine=self.artifact.fact("refine", int, least=1))
        return partial(VectorIndex, self.index)

    @cached_property
    def with_vector(self) -> npt.NDArray[np.int64] | None:
        """(M,) the rows that have a vector, as the faiss index numbers them; None where all have."""
        return rows_with_vector(self.artifact)

    @cached_property
    def row_facts(self) -> RowFacts:
        """Facts of all rows."""
        return RowFacts(self.columns)

    def allowed(self, options: QueryOptions) -> npt.NDArray[np.bool_] | None:
        """Return the rows that a condition allows, (N,), None for all. Raises ConfigError: the condition cannot be read."""
        return None if options.where is None else self._rows_where(options.where)

    def holding(self, text: str, *, prefix: bool = False) -> npt.NDArray[np.bool_] | None:
        """Return the rows that hold a word of a text, (N,); None where no row does, or the index has no words to search by.

        Args:
            text: a query.
            prefix: its last word is still typed, so words that begin with it count as well.
        """
        del text, prefix
        return None

    def rows_of(self, found: Sequence[Hits], offset: int = 0) -> list[list[dict[str, Any]]]:
        """Return the hits of some queries of an opened index after an offset with their rank and their rows' columns.

        Rows are fetched together, ascending: where each of 1,000 queries fetched its own, they took 100 s.
        """
        found = [hits.after(offset) for hits in found]
        wanted = sorted({row for hits in found for row in hits.rows.tolist()})
        shown = (self._shown(row) | self._also_in(row) for row in self._reader.fetch(wanted))
        columns_of = dict(zip(wanted, shown, strict=True))
        return [
            [
                {"rank": rank, "score": score, "row": row} | columns_of[row]
                for rank, (row, score) in enumerate(
                    zip(hits.rows.tolist(), hits.scores.tolist(), strict=True), offset + 1
                )
            ]
            for hits in found
        ]

    def _also_in(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return where else the document of a row stands, as a field of a hit; nothing where it stands nowhere else."""
        own = None if row.get("record_id") is None else str(row["record_id"])
        if not (found := self._doubles.get((row.get("doc_id"), own), ())):
            return {}
        places = [shown_place(one["source"], one["anchor"], one["line"]) for one in found[:_MOST_PLACES]]
        return {"also_in": {"count": len(found), "places": places}}

    @cached_property
    def _doubles(self) -> dict[tuple[Any, str | None], list[dict[str, Any]]]:
        """Document, and the id of its record → where else it stands."""
        known: dict[tuple[Any, str | None], list[dict[str, Any]]] = {}
        if self.artifact.names(DOUBLES_FILE):
            for batch in read_batches(self.artifact, "doubles", expected=DOUBLES):
                for row in batch.to_pylist():
                    known.setdefault((row["doc_id"], row["record_id"]), []).append(row)
        return known

    def _values_named(self, condition: str) -> str:
        """Return the values of the columns that a query's condition names, of those that have few."""
        from wordpipe.search import hints_on_empty, quoted

        listed = hints_on_empty(condition, self.columns)
        for name, stored in visible_columns(self._columns).items():
            kind = self._columns.field(stored).type
            is_listed = pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
            if not (re.search(rf"(?<!\w){re.escape(name)}(?!\w)", condition) and is_listed):
                continue
            values: set[str | int] = set()
            for batch in read_batches(self.artifact, "index", [stored]):
                values |= {*batch.column(stored).to_pylist()} - {None}
                if len(values) > _FEW_VALUES:
                    break
            else:
                texts = [str(value).lower() if isinstance(value, bool) else str(value) for value in sorted(values)]
                short = [value if len(value) <= _VALUE_CHARS else value[: _VALUE_CHARS - 1] + "…" for value in texts]
                listed += [f"values of {quoted(name)}: {', '.join(short)}"] if values else []
        return "; ".join(listed)

    def similar(self, row: int, k: int = 10, options: QueryOptions = DEFAULTS) -> list[dict[str, Any]]:
        """Return the k rows of an opened index whose vectors are nearest to the vector of another row.

        Of the options `where`, `min_score` and `per_document` count.

        Raises:
            InputError: there is no such row, or it has no vector.
            ConfigError: the condition cannot be read, or the index has words alone.
        """
        refuse_without_vectors(self.artifact)
        if not 0 <= row < len(self):
            expected = f"0 to {len(self) - 1:,}"
            raise InputError("the row does not exist", where=self.path, got=f"{row:,}", expected=expected)
        vector_1D = self.vector_index(None).vectors(np.array([row]))
        if not vector_1D.any():
            what, hint = "the row has no vector, so similar rows cannot be found", "search with words from its text"
            raise InputError(what, where=self.path, got=f"row {row:,}", hint=hint)
        documents_N = getattr(self, "documents", None) if options.per_document else None
        found = self.vector_index(self.allowed(options)).near(vector_1D, row, k, documents_N)
        return self.rows_of([found.at_least(options.min_score)])[0]

    def row_of(self, record_id: str) -> int:
        """Return the first row of an opened index whose record came with this id. Raises InputError: no record has the id."""
        return row_of_id(self.artifact, self.columns, record_id)

    @cached_property
    def _columns(self) -> pa.Schema:
        """The columns of the rows, without the vectors."""
        return pa.schema([field for field in read_schema(self.artifact, "index") if field.name != "vector"])

    @cached_property
    def _shown(self) -> Callable[[dict[str, Any]], dict[str, Any]]:
        return row_shower(self._columns)

    @cached_property
    def _reader(self) -> RowReader:
        # our number of a row is its place
        return RowReader(self.artifact, "index", [name for name in self._columns.names if name not in ("id", "row")])

    @cached_property
    def columns(self) -> "FieldColumns":
        """The columns of the rows, by the names that conditions use; `columns.values(name)` has the values of all rows."""
        return field_columns(self.artifact)

    @cached_property
    def _rows_where(self) -> Callable[[str], npt.NDArray[np.bool_]]:
        # a function of the artifact, not of this object, which would keep itself in memory
        return lru_cache(maxsize=_CONDITIONS)(partial(rows_of_condition, self.artifact, self._row_filter))

    @cached_property
    def _row_filter(self) -> "RowFilter":
        from wordpipe.search import RowFilter

        return RowFilter(self.columns)

    def close(self) -> None:
        """Release the index and what was read of it, see `OpenArtifact`."""
        for reader in ("_reader", "_row_filter", "columns"):
            if reader in self.__dict__:
                self.__dict__[reader].close()
        super().close()

    def _unasked(self, k: int, options: QueryOptions) -> list[dict[str, Any]]:
        """Return the hits of a blank query: the rows that a condition alone lists."""
        return [] if options.where is None else self.fulfilling(options, k)[0].hits

    def fulfilling(self, options: QueryOptions, k: int) -> tuple[QueryResult, int]:
        """Return the first k rows of an opened index of which a condition is true, and how many there are; or documents."""
        rows = np.arange(len(self)) if (allowed := self.allowed(options)) is None else np.flatnonzero(allowed)
        of_documents = getattr(self, "documents", None) if options.per_document else None
        listed = self.row_facts.listed(rows, options, of_documents)
        (hits,) = self.rows_of([listed.first(k + options.offset)], options.offset)
        return QueryResult("", hits, remarks=self.row_facts.remarks(options)), len(listed)
