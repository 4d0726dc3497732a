"""Artifacts opened by their paths; several indexes asked as one: all rows one after the other, with one scale of scores.

The words of all indexes are put together when they are first asked by words: how rare a word is and how long a text is are
then those of all texts, and every answer and every score is that of one index over all of them. Vectors are compared where
all indexes carry the same encoder; otherwise the indexes are asked by words alone.

Where words are of different languages, or made the same by different rules, there is no such scale: each index is then asked
by itself, and the answers are mixed by rank.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from itertools import zip_longest
from typing import Any, Literal, Unpack, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.artifacts import Artifact, Kind, read_batches, read_schema
from wordpipe.errors import ConfigError, NothingFound
from wordpipe.runtime import ADDRESS_SPACE, need_address_space
from wordpipe.search import LEXICAL, FieldColumns, Hits, LexicalIndex
from wordpipe.search.settings import QueryOptions
from wordpipe.stages.python_calls import printable, public
from wordpipe.stages.search.answer_list import fulfilled, matching_rows
from wordpipe.stages.search.asked_query import Asked, AskedRows, Mask, QueryKeywords, QueryResult
from wordpipe.stages.search.index_in_folder import index_in
from wordpipe.stages.search.opened_artifact import OpenArtifact, OpenIndex
from wordpipe.stages.search.opened_words_and_tables import (
    OpenClusters,
    OpenEncoder,
    OpenSentences,
    OpenTable,
    OpenWordIndex,
    OpenWords,
)
from wordpipe.stages.search.query import OpenTextIndex
from wordpipe.stages.search.row_facts import joined_field, with_columns
from wordpipe.storage import as_path

_PathLike = str | os.PathLike[str]
Rows = npt.NDArray[np.int64]


@overload
def open_artifact(path: _PathLike | list[_PathLike], kind: Literal["index"], *, verify: bool = True) -> OpenIndex: ...
@overload
def open_artifact(path: str | os.PathLike[str], kind: Literal["words"], *, verify: bool = True) -> "OpenWords": ...
@overload
def open_artifact(path: str | os.PathLike[str], kind: Literal["model"], *, verify: bool = True) -> OpenEncoder: ...
@overload
def open_artifact(
    path: str | os.PathLike[str], kind: Literal["sentences"], *, verify: bool = True
) -> OpenSentences: ...
@overload
def open_artifact(path: str | os.PathLike[str], kind: Literal["clusters"], *, verify: bool = True) -> OpenClusters: ...
@overload
def open_artifact(
    path: str | os.PathLike[str], kind: Literal["corpus", "tokens"], *, verify: bool = True
) -> OpenTable: ...
@overload
def open_artifact(
    path: _PathLike | list[_PathLike], kind: Kind | tuple[Kind, ...] | None = None, *, verify: bool = True
) -> OpenArtifact: ...


@public(name="open")
def open_artifact(
    path: _PathLike | list[_PathLike], kind: Kind | tuple[Kind, ...] | None = None, *, verify: bool = True
) -> OpenArtifact:
    """Open an artifact to query, to encode texts, to look words up, to read rows. Use it as a context, or close the artifact.

    All can be read with `batches`. An index answers `query`; it encodes texts with the encoder that it carries. Words answer
    `query` (`king - man + woman`) and `neighbours`; `words["bee"]` is a vector. Sentences and models `encode` texts. Clusters
    have `labels` and `members`.

    Args:
        path: the artifact's folder; with kind "index" also a folder of artifacts, or of a project, whose index is opened:
            the artifact `index`, else the only index with vectors, else the only one of words alone. A list of indexes
            over texts is asked as one index, with one scale of scores, or, if their words differ, mixed by rank.
        kind: one or several: any other is refused. Where it is one, type checkers know what can be done with it.
        verify: check its hashes first.

    Raises:
        ArtifactError: missing, corrupt, or of another kind.

    Example:
        >>> with wordpipe.open("run/index") as index:
        ...     hits = index.query("why does the sea have tides", k=3)
        ...     vectors = index.encode(["the moon", "a kettle"])
        >>> len(hits), vectors.shape
        (3, (2, 32))
        >>> with wordpipe.open("run/words", "words") as words:
        ...     words["water"].shape, "water" in words
        ((24,), True)
    """
    kinds: tuple[Kind, ...] = (kind,) if isinstance(kind, str) else kind or ()
    if isinstance(path, list):
        return _open_indexes([partial(open_artifact, one, "index", verify=verify) for one in path])
    artifact = Artifact(index_in(as_path(path)) if "index" in kinds else path, kinds, verify=verify)
    if artifact.kind == "index":
        need_address_space(ADDRESS_SPACE["query index"])
        return OpenWordIndex(artifact) if artifact.fact("of", str) == "words" else OpenTextIndex(artifact)
    openers = {"words": OpenWords, "model": OpenEncoder, "sentences": OpenSentences, "clusters": OpenClusters}
    return openers.get(artifact.kind, OpenTable)(artifact)


@public(QueryOptions)
def query(
    index: _PathLike | list[_PathLike], text: str, k: int = 10, *, verify: bool = True, **options: Unpack[QueryKeywords]
) -> list[dict[str, Any]]:
    """Search an index, or a table of words, for one query: open the artifact, search, close the artifact.

    For many questions `open` it once: what is read of an index stays in memory until it is closed.

    Args:
        index: an index or words artifact, or a folder of artifacts, or of a project; or several indexes; see `open`.
        text: the query; of words, a word or an expression such as `king - man + woman`; a blank one with `where` lists the
            first rows of which it is true.
        k: hits wanted.
        verify: check the artifact's hashes first.
        options: fields of `QueryOptions`.

    Returns:
        The best first, each a dict: rank, score, row, id (yours, where the records had one), title, text, source, line and
        metadata (the other fields of the record), or, of words, word and count. An empty list where nothing is found.

    Raises:
        ConfigError: no such option, or one that cannot be.
        ArtifactError: missing, corrupt, or nothing that can be asked.

    Example:
        >>> hits = wordpipe.query("run/index", "why does the sea have tides", k=3)
        >>> [hit["rank"] for hit in hits], "score" in hits[0], "source" in hits[0]
        ([1, 2, 3], True, True)
    """
    QueryOptions.make(options)  # before the index is opened
    with open_artifact(index, ("index", "words"), verify=verify) as opened:
        return opened.query(text, k, **options)


def _open_indexes(openers: Sequence[Callable[[], OpenArtifact]]) -> OpenTextIndex:
    """Open several indexes as one, or the only one.

    Raises:
        ConfigError: there is none, or one is no index over texts.
    """
    with ExitStack() as stack:
        parts = [stack.enter_context(opener()) for opener in openers]
        texts = [part for part in parts if isinstance(part, OpenTextIndex)]
        if len(texts) < len(parts) or not parts:
            wrong = next((part for part in parts if not isinstance(part, OpenTextIndex)), None)
            what = "only indexes over texts can be searched together" if wrong else "no index is named"
            raise ConfigError(what, where=None if wrong is None else wrong.path)
        stack.pop_all()
        if len(texts) == 1:
            return texts[0]
        return OpenApart(texts) if why_apart(texts) else OpenIndexes(texts)


def why_apart(parts: Sequence[OpenTextIndex]) -> str:
    """Return why indexes have no common scale of scores by words; empty where they have one."""
    known = [part.lexical for part in parts if part.artifact.names(LEXICAL)]
    languages = [*dict.fromkeys(one.settings.language for one in known)]
    if len(languages) > 1:
        return f"their words are of different languages ({', '.join(languages)})"
    if any((one.settings, one.stems) != (known[0].settings, known[0].stems) for one in known):
        endings = {one.stems for one in known}
        differs = "with and without word endings" if len(endings) > 1 else "with different settings (k1, b, rules)"
        return f"their words were indexed {differs}"
    return ""


class OpenIndexes(OpenTextIndex):
    """Several indexes over texts, asked as one; a hit says in `index` from which it is, and its `row` is that of this index.

    Attributes:
        parts: the indexes.
    """

    def __init__(self, parts: Sequence[OpenTextIndex]) -> None:
        super().__init__(parts[0].artifact)
        self.parts = [*parts]
        self._starts = np.cumsum([0, *map(len, parts)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def _about(self) -> str:
        return f"{len(self):,} rows of {len(self.parts)} indexes"

    def close(self) -> None:
        """Release all indexes."""
        parts = self.__dict__.get("parts", [])
        super().close()
        for part in parts:
            part.close()

    # ---- rows

    def _places(self, rows_R: Rows) -> tuple[Rows, Rows]:
        """Return the number of the index of each of some rows, and its row there."""
        parts_R = np.searchsorted(self._starts, rows_R, side="right") - 1
        return parts_R, rows_R - self._starts[parts_R]

    @cached_property
    def _reader(self) -> Any:
        return _JoinedRows([part.row_reader for part in self.parts], self._places)

    @cached_property
    def _shown(self) -> Callable[[dict[str, Any]], dict[str, Any]]:
        return dict

    @cached_property
    def asked_rows(self) -> AskedRows:
        """The reader of queries."""
        texts = _JoinedRows([part.asked_rows.texts for part in self.parts], self._places)
        return AskedRows(self.artifact, self.columns, self.lexical, titled=True, texts=texts)

    @cached_property
    def columns(self) -> FieldColumns:
        """The columns of all rows; where the types of a field differ, its values are texts."""
        schemas = [part.columns.schema for part in self.parts]
        names = dict.fromkeys(name for schema in schemas for name in schema.names)
        fields = [joined_field([schema.field(name) for schema in schemas if name in schema.names]) for name in names]
        schema = pa.schema(fields)

        def batches(names: Sequence[str]) -> Iterator[pa.RecordBatch]:
            wanted = pa.schema([schema.field(name) for name in names])
            for part in self.parts:
                own = [name for name in names if name in part.columns.schema.names]
                for batch in part.columns.batches(own or part.columns.schema.names[:1]):
                    yield with_columns(batch, wanted)

        return FieldColumns(schema, batches, len(self))

    @cached_property
    def documents(self) -> npt.NDArray[np.int64]:
        """The number of the document of each row; a document in two indexes is two."""
        found, first = [], 0
        for part in self.parts:
            found.append(part.documents + first)
            first += int(part.documents.max(initial=-1)) + 1
        return np.concatenate(found)

    def _values_named(self, condition: str) -> str:
        del condition
        return ""

    def _also_in(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return nothing: each index has said it of its rows."""
        del row
        return {}

    @cached_property
    def _of_first(self) -> Mask | None:
        """(N,) the rows whose documents no index before theirs has; None where these are all."""
        import pyarrow.compute as pc

        seen: list[pa.Array] = []
        found = []
        for part in self.parts:
            names = [name for name in ("doc_id", "record_id") if name in read_schema(part.artifact, "index").names]
            keys = []
            for batch in read_batches(part.artifact, "index", names):
                columns = [batch.column(name).cast(pa.string()) for name in names]
                keys.append(pc.binary_join_element_wise(*columns, "", " ", null_handling="replace"))
            documents = pa.chunked_array(keys, pa.string()).combine_chunks()
            known = pa.concat_arrays([*seen, pa.array([], pa.string())])
            found.append(~pc.is_in(documents, value_set=known).to_numpy(zero_copy_only=False))
            seen.append(documents.unique())
        first_N = np.concatenate(found)
        return None if first_N.all() else first_N

    def allowed(self, options: QueryOptions) -> Mask | None:
        """Return the rows that a condition allows, of documents that are in several indexes those of the first; None: all."""
        allowed = super().allowed(options)
        if self._of_first is None:
            return allowed
        return self._of_first if allowed is None else allowed & self._of_first

    def _localised(self, result: QueryResult) -> QueryResult:
        """Say of each hit of a result from which index it is."""
        for hit in result.hits:
            part, row = (int(one[0]) for one in self._places(np.array([hit["row"]])))
            hit |= {"row": row, "index": str(self.parts[part].path)}
        return result

    def _answers(self, texts: Sequence[str], k: int, options: QueryOptions) -> list[QueryResult]:
        return [self._localised(result) for result in super()._answers(texts, k, options)]

    def fulfilling(self, options: QueryOptions, k: int) -> tuple[QueryResult, int]:
        """Return the first k rows of all indexes of which a condition is true; and how many there are."""
        result, n = super().fulfilling(options, k)
        return self._localised(result), n

    # ---- words

    @cached_property
    def lexical(self) -> LexicalIndex:
        """The words of all rows. Raises ConfigError: these are of different languages."""
        first, *others = (part.lexical for part in self.parts)
        return first.joined(others)

    # ---- vectors

    @cached_property
    def _has_one_encoder(self) -> bool:
        if not all(part.has_vectors for part in self.parts):
            return False
        digests = {str(part.encoder_digest) for part in self.parts}
        return len(digests) == 1 and digests != {"None"}

    @property
    def has_vectors(self) -> bool:
        """True if all indexes have vectors of one encoder."""
        return self._has_one_encoder

    @cached_property
    def with_vector(self) -> Rows | None:
        """(M,) the rows that have a vector; None where all have."""
        if all(part.with_vector is None for part in self.parts):
            return None
        own = [np.arange(len(part)) if part.with_vector is None else part.with_vector for part in self.parts]
        return np.concatenate([rows + start for rows, start in zip(own, self._starts.tolist(), strict=False)])

    def vector_index(self, allowed: Mask | None) -> Any:
        """Return the vectors of the rows that may be found, to be searched; all where None."""
        ends = zip(self._starts[:-1].tolist(), self._starts[1:].tolist(), strict=True)
        some = [None if allowed is None else allowed[start:stop] for start, stop in ends]
        own = [part.vector_index(mask) for part, mask in zip(self.parts, some, strict=True)]
        return _JoinedVectors(own, self._starts, self._places)

    def check(self, options: QueryOptions) -> None:
        """Refuse what the indexes cannot be asked together."""
        if not self.has_vectors and (options.mode in ("dense", "hybrid") or options.weight is not None):
            what = "these indexes do not all have vectors of the same encoder, so they can be searched together only by words"
            raise ConfigError(what, hint="use --mode lexical, or ask each index by itself")
        super().check(options)

    def similar(self, row: int, k: int = 10, options: QueryOptions | None = None) -> list[dict[str, Any]]:
        """Refuse rows similar to a row. Raises ConfigError: a row is of one index."""
        del row, k, options
        raise ConfigError("similar rows can be found only in one index")

    def _of(self, name: str) -> dict[str, Any]:
        """Return facts of the indexes: those of the first, with a mode, an agreement and a feedback that suit all."""
        facts = [part.facts_of(name) for part in self.parts]
        if name != "lexical":
            return facts[0]
        modes = {str(one.get("mode", "dense")) for one in facts}
        joined = {**facts[0], "mode": modes.pop() if len(modes) == 1 else "hybrid"}
        for key in ("agreement", "weight", "feedback"):
            if all(isinstance(one.get(key), int | float) for one in facts):
                joined[key] = min(one[key] for one in facts)
        return joined


class OpenApart(OpenIndexes):
    """Several indexes over texts whose words have no common scale of scores: each answers by itself, mixed by rank.

    Answers that fulfil the query come before the others; the score of an answer is 1 / rank.
    """

    def check(self, options: QueryOptions) -> None:
        """Refuse what one of the indexes cannot be asked; a condition, and an order, are of the rows of all."""
        self.allowed(options)
        self.row_facts.check(options)
        for part in self.parts:
            part.check(_by_itself(options))

    def _each(self, text: str, options: QueryOptions) -> Iterator[tuple[OpenTextIndex, Asked, Mask]]:
        """Yield each index, a query as this index reads the query, and the rows that may be found.

        No word is corrected that another index has.
        """
        own, allowed = _by_itself(options), self.allowed(options)
        for number, part in enumerate(self.parts):
            asked = part.asked(printable(text), own)
            if any(one.lexical.knows(word) for word in asked.corrected for one in self.parts):
                asked = part.asked(printable(text), own.model_copy(update={"mode": "dense"}))
            rows = np.ones(len(part), np.bool_) if asked.rows is None else asked.rows
            ours = slice(self._starts[number], self._starts[number + 1])
            yield part, asked, rows if allowed is None else rows & allowed[ours]

    def _answers(self, texts: Sequence[str], k: int, options: QueryOptions) -> list[QueryResult]:
        return [self._mixed(text, k, options) for text in texts]

    def _mixed(self, text: str, k: int, options: QueryOptions) -> QueryResult:
        """Return the answers of all indexes to one query, mixed by rank, or in the order of a field."""
        asked, results, hits = list[Asked](), list[QueryResult](), list[tuple[bool, int, int, dict[str, Any]]]()
        for number, (part, one, rows) in enumerate(each := [*self._each(text, options)]):
            is_blank = one.rows is None and part.lists(one)  # small words alone find nothing
            limited = replace(one, rows=one.rows if rows.all() else rows)
            more = [] if is_blank else part.answers_to([limited], k + options.offset, _by_itself(options))
            for result in more:
                hits += [(hit.get("related") is False, hit["rank"], number, hit) for hit in result.hits]
            asked.append(one)
            results += more or [QueryResult(text, [])]
        best = sorted(hits, key=lambda one: one[:3])[options.offset : k + options.offset]
        shown = [
            hit | {"rank": rank, "score": 1 / rank, "index": str(self.parts[number].path)}
            for rank, (_, _, number, hit) in enumerate(best, options.offset + 1)
        ]
        if options.sort:
            rows_R = self.row_facts.sorted(np.flatnonzero(self.matching(text, options)), options.sort)
            is_near = [~fulfilled(part, one, np.arange(len(part))) for part, one, _ in each]
            rows_R = rows_R[np.argsort(np.concatenate(is_near)[rows_R], kind="stable")]
            found = Hits(rows_R, np.ones(len(rows_R), np.float32)).first(k + options.offset)
            shown = self._localised(QueryResult(text, self.rows_of([found], options.offset)[0])).hits
        said = [remark for result in results for remark in result.remarks]
        if not options.sort:
            said.append(f"the answers of the indexes are mixed by rank, because {why_apart(self.parts)}")
        everywhere = [word for word in results[0].unknown if all(word in one.unknown for one in results)]
        return QueryResult(
            text, shown, {word: results[0].unknown[word] for word in everywhere}, remarks=[*dict.fromkeys(said)],
            corrected={word: to for one in asked for word, to in one.corrected.items()}, searched=results[0].searched,
        )  # fmt: skip

    def matching(self, text: str, options: QueryOptions) -> Mask:
        """Return (N,) the rows that match a query in their own index, and of which the condition is true."""
        if not text.strip():
            return np.ones(len(self), np.bool_) if (allowed := self.allowed(options)) is None else allowed
        own = _by_itself(options)
        return np.concatenate([rows & matching_rows(part, one, own) for part, one, rows in self._each(text, options)])

    def holding(self, text: str, *, prefix: bool = False) -> Mask | None:
        """Return the rows that hold a word of a text, (N,), each by its own index; None where no row does."""
        own = [part.holding(text, prefix=prefix) for part in self.parts]
        held = [
            np.zeros(len(part), np.bool_) if one is None else one for part, one in zip(self.parts, own, strict=True)
        ]
        return None if all(one is None for one in own) else np.concatenate(held)

    def completions(self, prefix: str, most: int) -> list[str]:
        """Return words of the texts of all indexes that begin with a prefix, those of each by turns."""
        ranked = zip_longest(*(part.completions(prefix, most) for part in self.parts))
        return [*dict.fromkeys(word for some in ranked for word in some if word is not None)][:most]

    def nothing_found(self, options: QueryOptions, asked: str = "") -> NothingFound:
        """Return the report that no query of the indexes found anything."""
        return super(OpenTextIndex, self).nothing_found(options, asked)


def _by_itself(options: QueryOptions) -> QueryOptions:
    """Return the options for one of several indexes."""
    return options.model_copy(update={"where": None, "offset": 0, "sort": None})


class _JoinedRows:
    """A reader of rows of several indexes by their number among all."""

    def __init__(self, readers: Sequence[Any], places: Callable[[Rows], tuple[Rows, Rows]]) -> None:
        self._readers, self._places = readers, places

    def fetch(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """Return some rows, ascending."""
        parts_R, rows_R = self._places(np.array([*rows], np.int64))
        found: list[dict[str, Any]] = []
        for number, reader in enumerate(self._readers):
            found += reader(rows_R[parts_R == number].tolist())
        return found

    def close(self) -> None:
        """Do nothing: each index closes its files."""


class _JoinedVectors:
    """The vectors of several indexes, searched one after the other.

    Args:
        parts: the vectors of each.
        starts: the first row of each among all.
        places: finds the index of a row among all.
    """

    def __init__(self, parts: Sequence[Any], starts: Rows, places: Callable[[Rows], tuple[Rows, Rows]]) -> None:
        self._parts, self._starts, self._places = parts, starts, places

    def search(self, queries_QD: npt.NDArray[np.float32], k: int) -> list[Hits]:
        """Return the k nearest rows of every query among all."""
        found = [part.search(queries_QD, k) for part in self._parts]
        return [_best([hits[number] for hits in found], self._starts, k) for number in range(len(queries_QD))]

    def vectors(self, rows_R: Rows) -> npt.NDArray[np.float32]:
        """Return the vectors of some rows, ascending."""
        parts_R, own_R = self._places(rows_R)
        return np.concatenate([part.vectors(own_R[parts_R == number]) for number, part in enumerate(self._parts)])


def _best(found: Sequence[Hits], starts: Rows, k: int) -> Hits:
    """Return the k best hits of several indexes, by their rows among all."""
    rows = np.concatenate([hits.rows + start for hits, start in zip(found, starts.tolist(), strict=False)])
    scores = np.concatenate([hits.scores for hits in found])
    order = np.lexsort((rows, -scores))[:k]
    return Hits(rows[order], scores[order])
