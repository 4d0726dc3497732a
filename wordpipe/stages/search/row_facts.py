"""Facts of all rows of an artifact at once: their columns, conditions on them, their documents, their order by a field.

A field is read when it is first asked for, and what is computed of it stays in memory as long as the index is open.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.artifacts import (
    ENCODER,
    Artifact,
    Manifest,
    has_vectors,
    input_of,
    is_json,
    read_batches,
    read_schema,
    row_count,
    visible_columns,
)
from wordpipe.elsewhere import did_you_mean
from wordpipe.encoders import ENCODER_FILE, load_facts
from wordpipe.errors import ConfigError, InputError
from wordpipe.search import folded
from wordpipe.search.settings import sort_key

if TYPE_CHECKING:
    from wordpipe.search import FieldColumns, RowFilter

Ranks = npt.NDArray[np.int32]

_FIELDS = 8  # of which what is computed is remembered
_MISSING = -1


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

    @cached_property
    def _ranks(self) -> Callable[[str], Ranks]:
        # a function of the columns, not of this object, which would keep itself in memory
        return lru_cache(_FIELDS)(partial(_ranks_of_field, self._columns))


def _ranks_of_field(columns: "FieldColumns", name: str) -> Ranks:
    """Return the rank of each row's value of a field; see `ranks_of`."""
    return ranks_of(columns.values(name))


def ranks_of(values: pa.ChunkedArray) -> Ranks:
    """Return the rank of each of N values among the different ones, (N,); -1 for a missing value and for NaN.

    Texts are compared without case and marks, equal ones as written.

    >>> ranks_of(pa.chunked_array([["b", "A", None, "a", "B"]])).tolist()
    [2, 0, -1, 1, 3]
    """
    coded = values.combine_chunks()
    coded = coded if pa.types.is_dictionary(coded.type) else coded.dictionary_encode()
    # the different values, in order
    if pa.types.is_string(coded.dictionary.type) or pa.types.is_large_string(coded.dictionary.type):
        texts = coded.dictionary.to_pylist()
        order = sorted(range(len(texts)), key=lambda place: (folded(texts[place]), texts[place]))
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


def field_columns(artifact: Artifact) -> "FieldColumns":
    """Return the columns of an index's rows, without vectors, by the names that a user knows; none is read yet."""
    from wordpipe.search import FieldColumns

    columns = read_schema(artifact, "index")
    stored = {shown: name for shown, name in visible_columns(columns).items() if name != "vector"}
    schema = pa.schema([columns.field(name).with_name(shown) for shown, name in stored.items()])

    def batches(names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = [stored[name] for name in names]
        for batch in read_batches(artifact, "index", wanted):
            yield batch.select(wanted).rename_columns([*names])

    return FieldColumns(schema, batches, row_count(artifact, "index"))


def rows_of_condition(artifact: Artifact, rows: "RowFilter", condition: str) -> npt.NDArray[np.bool_]:
    """Return the rows of an opened index of which a condition is true, (N,).

    Raises:
        ConfigError: the condition cannot be read; a field that became the text, the title or the id is named as such.
    """
    try:
        return rows.rows(condition)
    except ConfigError as error:
        name = str(error.got).removeprefix("no column ")
        if name != error.got and (became := _fields_used(artifact.place, artifact.manifest).get(name)):
            error.hint = f"in this index, the field {name} is the column {became}: write {became} in the condition"
        raise


def row_of_id(artifact: Artifact, columns: "FieldColumns", record_id: str) -> int:
    """Return the first row of an opened index whose record came with this id. Raises InputError: no record has the id."""
    import pyarrow.compute as pc  # 0.17 s, which a query on the command line does without

    stored = visible_columns(read_schema(artifact, "index"))
    name = next((shown for shown, column in stored.items() if column == "record_id"), None)
    if name is None:
        hint = "give the row number instead"
        raise InputError("the records of the index have no ids", where=artifact.path, hint=hint)
    row = pc.index(pc.cast(columns.values(name), pa.string()), pa.scalar(record_id, pa.string())).as_py()
    if row < 0:
        raise InputError("no record has this id", where=artifact.path, got=record_id)
    return int(row)


def _fields_used(path: Path, manifest: Manifest) -> dict[str, str]:
    """Return the fields of records that became text, title and id of an opened index's rows."""
    for entry in manifest.inputs:
        if entry.kind in ("sentences", "corpus") and (there := input_of(path, entry)) is not None:
            settings = there[1].settings
            named = {str(settings.get(f"{one}_field")): one for one in ("text", "title", "id")}
            return named if entry.kind == "corpus" else _fields_used(*there)
    return {}
