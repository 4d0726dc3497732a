"""Facts of all rows of an artifact at once: their columns, conditions on them, documents, order and weight by a field.

A field is read when it is first asked for, and what is computed of it stays in memory as long as the index is open.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property, lru_cache, partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.artifacts import (
    ENCODER,
    Artifact,
    Manifest,
    has_vectors,
    is_json,
    read_batches,
    read_schema,
    row_count,
    visible_columns,
)
from wordpipe.elsewhere import did_you_mean
from wordpipe.encoders import ENCODER_FILE, load_facts
from wordpipe.errors import ConfigError, InputError
from wordpipe.search import Hits, folded, numbers_of, weighed, without_number
from wordpipe.search.settings import QueryOptions, sort_key
from wordpipe.wording import counted

if TYPE_CHECKING:
    from wordpipe.search import FieldColumns, RowFilter

T = TypeVar("T")
Ranks = npt.NDArray[np.int32]
FILE_NAMES = "file_names"
"""The fact of sentences, and of the words of an index, that says whether the names of files are words of rows."""
Doublings = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]

_FILES = 1 << 12  # whose names are remembered
_FIELDS = 8  # of which what is computed is remembered
_MISSING = -1
_DAY_US = 86_400_000_000
_LAST_YEAR = 9_999
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN = 40  # characters of a value
_COMPARED = re.compile(r"""(?:\b([^\W\d]\w*)|"([^"]+)")\s*(?:[<>]=?|<>|!=|=|\bbetween\b)\s*[-+]?\.?\d""", re.IGNORECASE)
_DATE = re.compile(
    r"\s*(?P<year>\d{4})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d)"
    r"(?P<time>[T ]\d\d(?::?\d\d(?::?\d\d(?:\.\d+)?)?)?(?:Z|[+-]\d\d(?::?\d\d)?)?)?)?)?(?!\d)"
)


class RowFacts:
    """Facts of the N rows of an index.

    Args:
        columns: of the index.
    """

    def __init__(self, columns: "FieldColumns") -> None:
        self._columns = columns
        self._types = {field.name: field for field in columns.schema}

    def check_sort(self, sort: str) -> None:
        """Refuse an order by a field that there is not, or that has none. Raises ConfigError."""
        name, _ = sort_key(sort)
        column = self._column(name, "sort")
        kind = column.type
        if pa.types.is_nested(kind) or is_json(column):
            what = "rows cannot be sorted by this field, because its values are lists or objects"
            raise ConfigError(what, where="sort", got=name)

    def check(self, options: QueryOptions) -> None:
        """Refuse options of a query that name a field which does not fit. Raises ConfigError."""
        if options.sort:
            self.check_sort(options.sort)
        self.doublings(options)

    def doublings(self, options: QueryOptions) -> Doublings | None:
        """Return how often the score of each row is doubled, (N,), by its date and its number; None where it stays as it is.

        Raises:
            ConfigError: a field is missing, or has no dates or no numbers.
        """
        parts = []
        if options.newer_better:
            self._column(options.newer_better, "newer_better")
            parts.append(-self._ages(options.newer_better)[0] / options.half_life_days)
        if options.boost:
            self._column(options.boost, "boost")
            parts.append(np.log2(self._boosts(options.boost)))
        return np.sum(parts, axis=0) if parts else None

    def remarks(self, options: QueryOptions) -> list[str]:
        """Return what must be said of the fields that options name: most rows have no date, or some have no number.

        Of a condition these are the fields that it compares with a number.
        """
        said = []
        if options.newer_better:
            is_dated_N = self._ages(options.newer_better)[1]
            dated, rows = int(is_dated_N.sum()), len(is_dated_N)
            if 2 * dated <= rows:
                said.append(f"newer_better: {dated:,} of {rows:,} rows have a date in {options.newer_better}")
        compared = {one[1] or one[2] for one in _COMPARED.finditer(options.where or "")} & {*self._types}
        for name in dict.fromkeys([*([sort_key(options.sort)[0]] if options.sort else []), *sorted(compared)]):
            rows, text = self._without_number(name)
            if rows:
                what = "left out of the comparison" if name in compared else "sorted last"
                said.append(f"{name} is no number in {counted(rows, 'rows')} ({text[:_SHOWN]}): {what}")
        return said

    def explained(self, options: QueryOptions, row: int) -> dict[str, dict[str, Any]]:
        """Return by what the score of a row is multiplied, and why: `newer` and `boost`, as far as they are asked for."""
        found: dict[str, dict[str, Any]] = {}
        if name := options.newer_better:
            ages_N, is_dated_N = self._ages(name)
            age = float(ages_N[row])
            found["newer"] = {"field": name, "days": round(age, 3), "has_date": bool(is_dated_N[row])}
            found["newer"] |= {"factor": 2 ** -(age / options.half_life_days)}
        if name := options.boost:
            found["boost"] = {"field": name, "factor": float(self._boosts(name)[row])}
        return found

    def listed(self, rows_R: Rows, options: QueryOptions, documents_N: Rows | None = None) -> Hits:
        """Return rows, ascending, as a list without a query: in the order of a field or of their weights; the score is 1.

        With the documents of all rows, (N,), the first row of each.
        """
        if options.sort:
            rows_R = self.sorted(rows_R, options.sort)
        hits = Hits(rows_R, np.ones(len(rows_R), np.float32))
        doublings_N = self.doublings(options)
        hits = hits if doublings_N is None else weighed(hits, doublings_N, len(rows_R))
        return hits if documents_N is None else hits.one_of_each(documents_N)

    def sorted(self, rows_R: npt.NDArray[np.int64], sort: str) -> npt.NDArray[np.int64]:
        """Return rows, ascending, in the order of a field; equal values in the order of rows, rows without a value last."""
        name, is_down = sort_key(sort)
        ranks_R = self._ranks(name)[rows_R].astype(np.int64)
        keys_R = np.where(ranks_R == _MISSING, np.iinfo(np.int64).max, -ranks_R if is_down else ranks_R)
        return rows_R[np.argsort(keys_R, kind="stable")]

    def _column(self, name: str, where: str) -> pa.Field:
        """Return the column of a field. Raises ConfigError: there is none."""
        if name not in self._types:
            hint = did_you_mean(name, [*self._types])
            expected = ", ".join(self._types)
            raise ConfigError(
                "the rows have no field with this name", where=where, got=name, expected=expected, hint=hint
            )
        return self._types[name]

    # functions of the columns, not of this object, which would keep itself in memory

    @cached_property
    def _ranks(self) -> Callable[[str], Ranks]:
        return self._remembered(ranks_of)

    @cached_property
    def _without_number(self) -> Callable[[str], tuple[int, str]]:
        return self._remembered(lambda values, _: without_number(values))

    @cached_property
    def _ages(self) -> Callable[[str], tuple[Doublings, Mask]]:
        return self._remembered(ages_of)

    @cached_property
    def _boosts(self) -> Callable[[str], Doublings]:
        return self._remembered(boosts_of)

    def _remembered(self, compute: Callable[[pa.ChunkedArray, str], T]) -> Callable[[str], T]:
        """Return a function from a field to what is computed of its values and its name."""
        return lru_cache(_FIELDS)(partial(_computed, self._columns, compute))


def _computed(columns: "FieldColumns", compute: Callable[[pa.ChunkedArray, str], T], name: str) -> T:
    """Return what is computed of the values of a field."""
    return compute(columns.values(name), name)


def ranks_of(values: pa.ChunkedArray, _: str = "") -> Ranks:
    """Return the rank of each of N values among the different ones, (N,); -1 for a missing value and for NaN.

    Texts are compared without case and marks, equal ones as written. The texts of a field of numbers are compared as numbers
    (see `numbers_of`): the cells of CSV and TSV are texts. An empty text, or one that is no number there, is a missing value.

    >>> ranks_of(pa.chunked_array([["b", "A", None, "a", "B"]])).tolist()
    [3, 0, -1, 1, 2]
    """
    coded = values.combine_chunks()
    coded = coded if pa.types.is_dictionary(coded.type) else coded.dictionary_encode()
    # the different values, in order
    if pa.types.is_string(coded.dictionary.type) or pa.types.is_large_string(coded.dictionary.type):
        texts = coded.dictionary.to_pylist()
        numbers = numbers_of(texts)
        keys = [*map(folded, texts)] if numbers is None else numbers
        there = [place for place, text in enumerate(texts) if text and keys[place] is not None]
        order = sorted(there, key=lambda place: (keys[place], texts[place]))
    else:
        numbers_D = coded.dictionary.to_numpy(zero_copy_only=False)
        order = [
            place for place in np.argsort(numbers_D, kind="stable").tolist() if numbers_D[place] == numbers_D[place]
        ]
    # of each row's value
    ranks_D = np.full(len(coded.dictionary) + 1, _MISSING, np.int32)
    ranks_D[order] = np.arange(len(order))
    places_N = coded.indices.fill_null(len(coded.dictionary)).to_numpy(zero_copy_only=False)
    found_N: Ranks = ranks_D[places_N]
    return found_N


def ages_of(values: pa.ChunkedArray, name: str = "") -> tuple[Doublings, Mask]:
    """Return the age in days of each of N dates, from the newest of them; and which have a date, (N,).

    A date is a date, a time, a text that begins with a date in ISO form (2024, 2024-05, 2024-05-31), or the number of a year.
    A row without one is as old as the median of the others.

    >>> ages_of(pa.chunked_array([["2024-03-01", "2024-02", None, "long ago", "2023"]]))[0].tolist()
    [0.0, 29.0, 29.0, 29.0, 425.0]

    Raises:
        ConfigError: there is no date at all.
    """
    kind = values.type
    if pa.types.is_nested(kind):
        days_N = np.full(len(values), np.nan)
    elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        moments_N = values.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        days_N = moments_N.cast(pa.float64(), safe=False).to_numpy() / _DAY_US
    else:
        coded = values.combine_chunks()
        coded = coded if pa.types.is_dictionary(coded.type) else coded.dictionary_encode()
        days_D = np.array([*map(_day_of, coded.dictionary.to_pylist()), np.nan])
        days_N = days_D[coded.indices.fill_null(len(coded.dictionary)).to_numpy(zero_copy_only=False)]
    has_date_N = np.isfinite(days_N)
    if not has_date_N.any():
        what, expected = "the field has no dates", "dates, times, texts such as 2024-05-31, or years"
        raise ConfigError(what, where="newer_better", got=name, expected=expected)
    ages_N = days_N[has_date_N].max() - days_N
    return np.where(has_date_N, ages_N, np.median(ages_N[has_date_N])), has_date_N


def _day_of(value: Any) -> float:
    """Return a date as days since 1970; not a number where the value is none."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = f"{int(value):04}" if float(value).is_integer() and 1 <= value <= _LAST_YEAR else ""
    found = _DATE.match(value) if isinstance(value, str) else None
    if found is None:
        return np.nan
    try:
        if found["time"]:
            moment = datetime.fromisoformat(value[: found.end()].strip())
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        else:
            moment = datetime(int(found["year"]), int(found["month"] or 1), int(found["day"] or 1), tzinfo=UTC)
        return (moment - _EPOCH).total_seconds() / 86_400
    except (ValueError, OverflowError):
        return np.nan


def boosts_of(values: pa.ChunkedArray, name: str = "") -> Doublings:
    """Return the factor of each of N numbers, (N,): 1 + ln(1 + number) / ln(1 + largest); 1 where it is missing or below 0.

    >>> boosts_of(pa.chunked_array([[0, 9, 99, None, -5]])).tolist()
    [1.0, 1.5, 2.0, 1.0, 1.0]

    Raises:
        ConfigError: these are no numbers.
    """
    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        hint = f"to make a field of the records a number: wordpipe ingest … --metadata {name}:float"
        raise ConfigError("the field has no numbers", where="boost", got=name, hint=hint)
    numbers_N = np.nan_to_num(values.cast(pa.float64(), safe=False).to_numpy(), nan=0.0, posinf=0.0).clip(min=0)
    largest = np.log1p(numbers_N.max(initial=0))
    return 1 + np.log1p(numbers_N) / largest if largest else np.ones_like(numbers_N)


def document_numbers(artifact: Artifact, table: str) -> npt.NDArray[np.int64]:
    """Return the number of the document of every row of an opened artifact's table, (N,).

    Records with ids of their own are documents of their own, whatever they say.
    """
    schema = read_schema(artifact, table)

    def codes(name: str) -> npt.NDArray[np.int64]:
        columns = [batch.column(name) for batch in read_batches(artifact, table, [name])]
        found = pa.chunked_array(columns, schema.field(name).type).combine_chunks()
        numbers: npt.NDArray[np.int32] = found.dictionary_encode(null_encoding="encode").indices.to_numpy()
        return numbers.astype(np.int64)

    numbers_N = codes("doc_id")
    if "record_id" in schema.names and len(numbers_N):
        ids_N = codes("record_id")
        _, first_M, place_N = np.unique(numbers_N * (ids_N.max() + 1) + ids_N, return_index=True, return_inverse=True)
        numbers_N = np.argsort(np.argsort(first_M))[place_N]
    return numbers_N


def reads_titles(source: Artifact) -> bool:
    """True if the words of titles count in the lexical index too, as in the embedded rows."""
    settings = source.manifest.settings
    if source.kind == "index" and has_vectors(source):
        settings = load_facts(source.read(ENCODER + ENCODER_FILE))["settings"]
    return bool(settings.get("with_title", False)) and settings.get("unit", "sentence") != "sentence"


def searched_columns(source: Artifact) -> list[str]:
    """Return the columns of fields whose words are searched beside the texts of sentences, or of an index over texts."""
    from wordpipe.search import searched_fields

    found = searched_fields(read_schema(source, source.kind), titled=reads_titles(source))
    return [*found, "source"] if counts_file_names(source) else found


def counts_file_names(source: Artifact) -> bool:
    """True if the words of the names of files are words of all rows of their documents; an index says how it was made."""
    if source.kind == "index":
        return bool(source.fact("lexical", dict, {}).get(FILE_NAMES))
    return reads_titles(source) and source.fact(FILE_NAMES, bool, False)


def has_file_names(settings: Mapping[str, Any]) -> bool:
    """True if the files of a corpus with these settings of `ingest` are documents, and not records or lines by themselves."""
    from wordpipe.corpus import READERS

    form = str(settings.get("format", "auto"))
    is_known = form == "auto" or form == "txt" or (form in READERS and READERS[form].is_structured)
    return is_known and settings.get("documents") != "line" and not settings.get("parallel")


def beside_texts(rows: pa.RecordBatch | pa.Table, fields: Sequence[str]) -> "pa.LargeStringArray":
    """Return what is searched beside the texts of N rows, as `values_of_fields` gives it; of a source the file's name."""
    from wordpipe.search import values_of_fields

    columns = {name: rows.column(name) for name in fields}
    columns = {name: one.chunk(0) if isinstance(one, pa.ChunkedArray) else one for name, one in columns.items()}
    if "source" in columns:
        from wordpipe.corpus import document_name

        coded = columns["source"].dictionary_encode()
        names = [document_name(one or "") for one in coded.dictionary.to_pylist()]
        columns["source"] = pa.array(names, pa.string()).take(coded.indices)
    return values_of_fields(columns)


def texts_and_fields(texts: pa.Array, fields: "pa.LargeStringArray") -> pa.StructArray:
    """Return N texts with what is searched beside them as a lexical index counts them, (N,)."""
    return pa.StructArray.from_arrays([texts.cast(pa.large_string()), fields], ["text", "fields"])


def with_file_name(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row, or a hit, with the name of its file as its field `file`, where its words count; see `document_name`."""
    name = _file_name(row.get("source") or "")
    return {**row, "file": name} if name else {**row}


@lru_cache(_FILES)
def _file_name(source: str) -> str:
    """Return what `document_name` says of a source: computed for each row of a log, it took most of the time of a phrase."""
    from wordpipe.corpus import document_name

    return document_name(source)


def field_columns(artifact: Artifact) -> "FieldColumns":
    """Return the columns of an index's or corpus's rows, without vectors, by names that a user knows; none is read yet."""
    from wordpipe.search import FieldColumns

    columns = read_schema(artifact, artifact.kind)
    stored = {shown: name for shown, name in visible_columns(columns).items() if name != "vector"}
    schema = pa.schema([columns.field(name).with_name(shown) for shown, name in stored.items()])

    def batches(names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = [stored[name] for name in names]
        for batch in read_batches(artifact, artifact.kind, wanted):
            yield batch.select(wanted).rename_columns([*names])

    return FieldColumns(schema, batches, row_count(artifact, artifact.kind))


def rows_of_condition(artifact: Artifact, rows: "RowFilter", condition: str) -> npt.NDArray[np.bool_]:
    """Return the rows of an opened index, or of a corpus, of which a condition is true, (N,).

    Raises:
        ConfigError: the condition cannot be read; a field that became the text, the title or the id is named as such.
    """
    try:
        return rows.rows(condition)
    except ConfigError as error:
        name = str(error.got).removeprefix("no column ")
        if name != error.got and (became := fields_used(artifact.place, artifact.manifest).get(name)):
            error.hint = (
                f"in this {artifact.kind}, the field {name} is the column {became}: write {became} in the condition"
            )
        raise


def row_of_id(artifact: Artifact, columns: "FieldColumns", record_id: str) -> int:
    """Return the first row of an opened index whose record came with this id. Raises InputError: no record has the id."""
    stored = visible_columns(read_schema(artifact, "index"))
    name = next((shown for shown, column in stored.items() if column == "record_id"), None)
    if name is None:
        hint = "give the row number instead"
        raise InputError("the records of the index have no ids", where=artifact.path, hint=hint)
    rows = np.flatnonzero(rows_of_id(columns.values(name), record_id))
    if not len(rows):
        raise InputError("no record has this id", where=artifact.path, got=record_id)
    return int(rows[0])


def rows_of_id(ids: pa.ChunkedArray, record_id: str) -> Mask:
    """Return the rows of the record that has an id as it is written, (N,): a document of several windows has several rows."""
    import pyarrow.compute as pc  # 0.17 s, which a query on the command line does without

    found_N: Mask = pc.equal(ids.cast(pa.string()), record_id).fill_null(False).to_numpy()
    return found_N


def rows_of_file(sources: pa.ChunkedArray, name: str) -> Mask:
    """Return the rows of documents in a file that is called so, with its ending, in small letters or capitals, (N,)."""
    from wordpipe.corpus import document_name

    if not document_name(name):
        return np.zeros(len(sources), np.bool_)
    import pyarrow.compute as pc

    coded = sources.combine_chunks().dictionary_encode()
    is_named = [PurePath(one or "").name.lower() == name.lower() for one in coded.dictionary.to_pylist()]
    found_N: Mask = (
        pc.take(pa.array(is_named, pa.bool_()), coded.indices).fill_null(False).to_numpy(zero_copy_only=False)
    )
    return found_N


def rows_of_begun_id(ids: pa.ChunkedArray, beginning: str) -> Mask:
    """Return the rows of records whose id begins like this, in small letters or capitals, (N,)."""
    import pyarrow.compute as pc

    begin = pc.starts_with(ids.cast(pa.string()), beginning, ignore_case=True)
    found_N: Mask = begin.fill_null(False).to_numpy()
    return found_N


def fields_used(path: Path, manifest: Manifest) -> dict[str, str]:
    """Return the fields of records that became text, title and id of the rows of an opened index, or of a corpus.

    Where `ingest` chose the field itself, these are the names by which it chooses.
    """
    if manifest.kind == "corpus":
        from wordpipe.corpus import TEXTS, TITLES
        from wordpipe.corpus.settings import AUTO  # a query without such a field does without

        usual = {"text": TEXTS, "title": TITLES}
        named = {one: str(manifest.settings.get(f"{one}_field")) for one in ("text", "title", "id")}
        chosen = {name: one for one in usual if named[one] in (AUTO, one) for name in usual[one]}
        return chosen | {name: one for one, name in named.items() if name not in (AUTO, "none")}
    from wordpipe.artifacts import input_known  # a query without such a field does without

    for entry in manifest.inputs:
        if entry.kind in ("sentences", "corpus") and (there := input_known(path, entry)) is not None:
            return fields_used(*there)
    return {}


def joined_field(fields: Sequence[pa.Field]) -> pa.Field:
    """Return the column of a field that several indexes have."""
    first = fields[0]
    if all(one.type == first.type for one in fields):
        return first
    try:
        numbers = [one for one in fields if pa.types.is_integer(one.type) or pa.types.is_floating(one.type)]
        if len(numbers) == len(fields):
            schemas = [pa.schema([pa.field("it", one.type)]) for one in fields]
            return first.with_type(pa.unify_schemas(schemas, promote_options="permissive").field(0).type)
    except pa.ArrowException:
        pass
    return first.with_type(pa.string())


def with_columns(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """Return a batch with all wanted columns: of their types, null where the batch has none."""
    arrays = []
    for field in wanted:
        if field.name not in batch.schema.names:
            arrays.append(pa.nulls(len(batch), field.type))
            continue
        column = batch.column(field.name)
        if column.type != field.type and pa.types.is_nested(column.type):
            column = pa.array([None if one is None else str(one) for one in column.to_pylist()], field.type)
        arrays.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)
