"""The Parquet schemas that pass between the stages, and what their columns weigh and hold.

Schemas are checked when written and when read. `corpus`, `sentences` and `index` may carry further columns after those listed
here: first of our own (`OPTIONAL`), then the fields of the user's records under their own names. Where such a name is one of
ours, the column is called `field_NAME`, and the Arrow field has the user's name as metadata (`wordpipe.name`). A field whose
values are objects is JSON text, and its Arrow field says so (`wordpipe.json`).
"""

import json
import math
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wordpipe.artifacts.vectors import Store, vector_field, width_of
from wordpipe.wording import place_of

CORPUS = pa.schema(
    [
        # doc_id: BLAKE3, 80 bits, of the document's text, of a pair's other text, of a record's fields
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("sentence_id", pa.int32(), nullable=False),  # 0, 1, … within the document
        pa.field("title", pa.string()),
        pa.field("text", pa.string(), nullable=False),  # a document's sentences concatenate to its text
        pa.field("split", pa.string(), nullable=False),  # train, valid or test
        pa.field("source", pa.string(), nullable=False),  # the file (or python:package.module) it came from
        pa.field("line", pa.int64(), nullable=False),  # 1-based line or record where the sentence begins
    ]
)

SPANS = pa.list_(
    pa.struct(
        [
            pa.field("start", pa.int64(), nullable=False),  # in characters of the document's text
            pa.field("end", pa.int64(), nullable=False),
            pa.field("label", pa.string()),
        ]
    )
)
TAGS = pa.list_(pa.string())
OPTIONAL = ("record_id", "anchor", "text_b", "label", "tags", "spans")  # in this order, where a corpus has them
OURS = frozenset([*CORPUS.names, *OPTIONAL, "see_also", "id", "row", "vector"])
"""Names of columns that a user's field never has."""

_NAME, _JSON = b"wordpipe.name", {b"wordpipe.json": b"true"}


def user_name(field: pa.Field) -> str:
    """Return the name by which the user knows a field that a column was made of."""
    return str((field.metadata or {}).get(_NAME, field.name.encode()).decode())


def is_ours(field: pa.Field) -> bool:
    """True if a column of texts is one of our own, not a field of the user's records."""
    return field.name in OURS


def is_json(field: pa.Field) -> bool:
    """True if a column holds objects of the user's records, as JSON text."""
    return _JSON.items() <= (field.metadata or {}).items() and pa.types.is_string(field.type)


def type_name(field: pa.Field) -> str:
    """Return the type of a column, for people: `int64`, `list of string`, `JSON`."""
    kind = field.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return "JSON" if is_json(field) else f"list of {kind.value_type}" if is_list else str(kind)


def column_of(name: str, kind: pa.DataType, taken: Container[str], *, as_json: bool = False) -> pa.Field:
    """Return the column for a field of the user's.

    A point in a column's name would be to Parquet a column within another.

    Args:
        name: of the field.
        kind: of its values.
        taken: the names of all fields, and of the columns made before.
        as_json: its values are JSON text, which stands for objects.
    """
    stored = name.replace(".", "_")
    if stored in OURS or not stored:
        stored = f"field_{stored}"
    while stored != name and stored in taken:
        stored = f"field_{stored.removeprefix('field')}"
    about = ({} if stored == name else {_NAME: name.encode()}) | (_JSON if as_json else {})
    return pa.field(stored, kind, metadata=about or None)


_SHOWN = {"record_id": "id"}  # columns that are called otherwise where they are shown


def visible_columns(schema: pa.Schema) -> dict[str, str]:
    """Return visible name → column: fields by the user's names, `id` for the user's id, `row` for our number.

    Where a field has the name of one of ours, ours has an underscore before it.
    """
    if not _holds_texts(schema):
        return {name: name for name in schema.names}
    found = {user_name(field): field.name for field in schema if not is_ours(field)}
    for name in (field.name for field in schema if is_ours(field)):
        shown = _SHOWN.get(name, name)
        while shown in found:
            shown = f"_{shown}"
        found[shown] = name
    return {name: stored for stored in schema.names for name, column in found.items() if column == stored}


def row_shower(schema: pa.Schema) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function that shows a row: of texts our columns, the user's id as `id`, and the user's fields in `metadata`.

    What was an object is one again. On a page, slide or cell of its file a row has a `place`: `report.pdf p. 12`.
    """
    if not _holds_texts(schema):
        return dict
    ours = {field.name: _SHOWN.get(field.name, field.name) for field in schema if is_ours(field)}
    order = sorted(ours, key=lambda name: (name != "row", name != "record_id"))
    users = {
        field.name: (user_name(field), _parsed if is_json(field) else _finite) for field in schema if not is_ours(field)
    }

    def shown(row: dict[str, Any]) -> dict[str, Any]:
        own = {ours[name]: row[name] for name in order if name in row} | place_of(row)
        return {**own, "metadata": {name: as_given(row[key]) for key, (name, as_given) in users.items() if key in row}}

    return shown


def _parsed(text: str | None) -> Any:
    """Return the value of a JSON text; the text itself if it is no JSON: a file may have been written by others."""
    try:
        return None if text is None else _finite(json.loads(text))
    except (ValueError, RecursionError):
        return text


def _finite(value: Any) -> Any:
    """Return a value of JSON, with None for numbers that JSON does not have (NaN, infinity)."""
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _holds_texts(schema: pa.Schema) -> bool:
    """True if the rows are texts of documents, as in a corpus, sentences or an index over sentences."""
    return {"doc_id", "text"} <= {*schema.names}


SOURCES = pa.schema(  # sources.parquet beside the corpus: what each source, or piece of one, gave, in order; a log
    [   # digest: BLAKE3 of its content, of a piece its first byte and the one after its last; empty for a stream
        *(pa.field(name, pa.string(), nullable=False) for name in ("source", "digest")),
        *(pa.field(name, kind, nullable=False) for name, kind in (("rows", pa.int64()), ("told", pa.string()))),
    ]   # told: counts and warnings, JSON
)  # fmt: skip
REMOVED = pa.schema([pa.field("record_id", pa.string()), pa.field("document", pa.string())])
"""Schema of removed.parquet beside the corpus: what stays out of it, by ids, or, without an id, by doc_ids; a log."""


def tokens_schema(id_type: pa.DataType, *, pairs: bool = False) -> pa.Schema:
    """Return the schema of tokens: one row per sentence, with subword ids without special tokens and word numbers.

    Of pairs one row each, and with `ids_b`, the ids of the second text, which has no numbers of words: only word vectors are
    trained from these, and they read the first.
    """
    ids = pa.list_(pa.field("item", id_type, nullable=False))
    return pa.schema(
        [
            pa.field("doc_id", pa.string(), nullable=False),
            pa.field("sentence_id", pa.int32(), nullable=False),
            pa.field("split", pa.string(), nullable=False),
            pa.field("ids", ids, nullable=False),
            pa.field("word_ids", pa.list_(pa.field("item", pa.uint32(), nullable=False)), nullable=False),
            *([pa.field("ids_b", ids, nullable=False)] if pairs else []),
        ]
    )


TOKENS_16 = tokens_schema(pa.uint16())  # a vocabulary of up to 65,536
TOKENS_32 = tokens_schema(pa.uint32())

VOCABULARY = pa.schema(  # words.parquet beside the tokens: the row number is the word id, the commonest word first
    [pa.field("word", pa.string(), nullable=False), pa.field("count", pa.int64(), nullable=False)]
)

COUNTS = pa.schema(  # counts.parquet and counts_b.parquet beside the tokens: what a tokenizer was trained from
    [pa.field("pretoken", pa.string(), nullable=False), pa.field("count", pa.int64(), nullable=False)]
)

STEPS = pa.schema(  # one row per report of any training; a log, outside the digest
    [
        pa.field("step", pa.int64(), nullable=False),
        pa.field("tokens", pa.int64(), nullable=False),  # seen so far
        pa.field("split", pa.string(), nullable=False),  # train or valid: what the loss was measured on
        pa.field("loss", pa.float64()),  # nats per target; null where the backend gives no honest figure
        pa.field("lr", pa.float64()),
        pa.field("seconds", pa.float64(), nullable=False),
    ]
)


def words_schema(dim: int, store: Store = "float32") -> pa.Schema:
    """Return the schema of words: one row per word with its vector, the most frequent first."""
    return pa.schema([*VOCABULARY, vector_field(dim, store)])


def ngrams_schema(dim: int, store: Store = "float32") -> pa.Schema:
    """Return the schema of n-grams: one row per character n-gram, `<` and `>` for word ends, the most frequent first."""
    return pa.schema([pa.field("ngram", pa.string(), nullable=False), vector_field(dim, store)])


def vectors_schema(dim: int, store: Store = "float32") -> pa.Schema:
    """Return the schema of vectors alone: output vectors, a row for each row of the table of words."""
    return pa.schema([vector_field(dim, store)])


def sentences_schema(dim: int, metadata: pa.Schema | None = None, store: Store = "float32") -> pa.Schema:
    """Return the schema of sentences, a row per text, with its vector if `dim` is not 0; `metadata` comes from the source."""
    return pa.schema(
        [
            pa.field("row", pa.int64(), nullable=False),
            pa.field("doc_id", pa.string(), nullable=False),
            pa.field("title", pa.string()),
            pa.field("text", pa.string(), nullable=False),
            pa.field("source", pa.string(), nullable=False),
            pa.field("line", pa.int64(), nullable=False),
            *([vector_field(dim, store)] if dim else []),
            *(metadata or []),
        ]
    )


def clusters_schema(dim: int) -> pa.Schema:
    """Return the schema of clusters: one row per cluster, the largest first."""
    return pa.schema(
        [
            pa.field("cluster", pa.int32(), nullable=False),  # 0, 1, …
            pa.field("size", pa.int64(), nullable=False),  # rows in it
            pa.field("share", pa.float64(), nullable=False),  # of all rows
            pa.field("label", pa.string(), nullable=False),  # words that tell it from the others, parted by commas
            pa.field("central", _list_type(pa.string()), nullable=False),  # the texts nearest to its centre
            pa.field("central_rows", _list_type(pa.int64()), nullable=False),  # their rows
            vector_field(dim),  # the centre, a unit vector
        ]
    )


def members_schema(kept: Iterable[pa.Field]) -> pa.Schema:
    """Return the schema of a clustering's texts: one row per text, in order; `kept` are columns of the sentences."""
    return pa.schema(
        [
            pa.field("row", pa.int64(), nullable=False),  # its number among the sentences
            *kept,
            pa.field("cluster", pa.int32(), nullable=False),  # -1: the text has no vector
            pa.field("similarity", pa.float32()),  # cosine with the centre; null: the text has no vector
        ]
    )


def _list_type(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("item", kind, nullable=False))


PREDICTED: dict[str, tuple[pa.Field, ...]] = {  # what a model says of a text, by what it has learned
    "classifier": (
        pa.field("labels", _list_type(pa.string()), nullable=False),  # that the text has, the most probable first
        pa.field("probabilities", _list_type(pa.float32()), nullable=False),  # of all labels, in the order of the facts
    ),
    "score": (pa.field("score", pa.float32(), nullable=False),),
    "tagger": (
        pa.field("tags", _list_type(pa.string()), nullable=False),  # one a word
        pa.field("spans", _list_type(pa.struct([
            pa.field("start", pa.int64(), nullable=False), pa.field("end", pa.int64(), nullable=False),  # in characters
            pa.field("label", pa.string(), nullable=False), pa.field("probability", pa.float32(), nullable=False),
        ])), nullable=False),
    ),
    "reader": (
        pa.field("answer", pa.string(), nullable=False),  # empty: none
        pa.field("start", pa.int64(), nullable=False),  # in characters of the text; -1: none
        pa.field("end", pa.int64(), nullable=False),
        pa.field("probability", pa.float32(), nullable=False),
        pa.field("no_answer", pa.float32(), nullable=False),  # the probability that there is none
    ),
}  # fmt: skip
GOLD = {"label": "gold_label", "tags": "gold_tags", "spans": "gold_spans"}
"""Column of a corpus → the column of predictions that has the same."""
_OF_RECORD = ("doc_id", "record_id", "title", "text", "text_b", "source", "line")


def predictions_schema(task: str, corpus: pa.Schema) -> pa.Schema:
    """Return the schema of predictions: one row per record of a corpus, in its order.

    Args:
        task: a key of `PREDICTED`.
        corpus: the columns of the corpus; what names its records and what they are labelled as is carried on.
    """
    kept = [corpus.field(name) for name in _OF_RECORD if name in corpus.names]
    gold = [corpus.field(name).with_name(new).with_nullable(True) for name, new in GOLD.items() if name in corpus.names]
    return pa.schema([*kept, *PREDICTED[task], *gold])


def predicted_task(found: pa.Schema) -> str | None:
    """Return the task whose columns of predictions a table has, a key of `PREDICTED`; None: no task's."""
    return next((task for task, own in PREDICTED.items() if {field.name for field in own} <= {*found.names}), None)


_NEEDED = {  # what each table has to have, whatever else it carries
    "corpus": CORPUS.names,
    "tokens": TOKENS_16.names,
    "words": VOCABULARY.names,
    "sources": SOURCES.names,
    "removed": REMOVED.names,
    "counts": COUNTS.names,
    "counts_b": COUNTS.names,
    "steps": STEPS.names,
    "ngrams": ["ngram"],
    "sentences": ["doc_id", "text", "source", "line"],
    "index": ["doc_id", "text", "source", "line"],
    "predictions": ["doc_id", "text", "source", "line"],
}
_WITH_VECTORS = ("words", "ngrams", "outputs", "sentences", "index")
_OF_TYPE = {field.name: field for schema in (TOKENS_16, SOURCES, CORPUS) for field in schema}
_OF_PREDICTIONS = {field.name: field for some in ([*CORPUS], *PREDICTED.values()) for field in some}
_OF_LOG = {field.name: field for field in STEPS}
_OF_WORDS = {field.name: field for field in (*COUNTS, *VOCABULARY, pa.field("ngram", pa.string(), nullable=False))}


def misfit_of(found: pa.Schema, file: str, *, has_vectors: bool = True) -> str | None:
    """Return how the schema of a table differs from the one that wordpipe writes; None if it fits.

    Args:
        found: its schema.
        file: its name, `sentences-00000.parquet`.
        has_vectors: False of rows that are found by words alone.
    """
    stem, is_part = file.removesuffix(".parquet").partition("-")[0], "-" in file
    over_words = stem in ("words", "ngrams", "counts", "counts_b") or (stem == "index" and "word" in found.names)
    ours = _OF_LOG if stem == "steps" else _OF_WORDS if over_words else _OF_TYPE
    ours = _OF_PREDICTIONS if stem == "predictions" else ours
    needed = VOCABULARY.names if over_words and stem == "index" else _NEEDED.get(stem, [])
    wants_vector = stem in _WITH_VECTORS and is_part and has_vectors
    for name in [*needed, *(["vector"] if wants_vector else [])]:
        if found.get_field_index(name) < 0:  # not there, or twice
            return f"the table has no column {name}"
    if stem == "predictions" and predicted_task(found) is None:
        return "the table has no column with predictions"
    # columns of ours must have our types
    for field in found:
        if field.name == "vector" and wants_vector:
            fits = width_of(field) > 0
        # ids are of 16 or of 32 bits; what is none of ours may be anything
        elif field.name in ("ids", "ids_b") and stem == "tokens":
            fits = field.type in (TOKENS_16.field("ids").type, TOKENS_32.field("ids").type)
        elif (known := ours.get(field.name)) is not None and stem in _NEEDED:
            fits = field.type == known.type and field.nullable <= known.nullable
        else:
            continue
        if not fits:
            return f"the column {field.name} has the type {field.type}{' with null values' * field.nullable}"
    return None


_OFFSET_BYTES = 4  # bytes that a string or list costs beside its content
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
_OTHER_BYTES = 16  # a guess, for types whose content is not looked at


def row_bytes(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """Return the bytes of each row of a table with a schema of ours, (rows,), at least 1, however the batch was cut."""
    weights = np.ones(len(batch), np.int64)
    for column in batch.columns:
        weights += _weights(column)
    return weights


def leaf_paths(field: pa.Field) -> Iterator[str]:
    """Return the dotted names by which Parquet knows the leaf columns of a field, such as `ids.list.element`."""
    return _leaf_paths_of(field.name, field.type)


def _leaf_paths_of(path: str, kind: pa.DataType) -> Iterator[str]:
    if _is_list(kind):
        yield from _leaf_paths_of(f"{path}.list.element", kind.value_type)
    elif pa.types.is_map(kind):
        yield from _leaf_paths_of(f"{path}.key_value.key", kind.key_type)
        yield from _leaf_paths_of(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _leaf_paths_of(f"{path}.{field.name}", field.type)
    else:
        yield path


def _weights(column: pa.Array) -> NDArray[np.int64]:
    """Return the bytes of each value of a column."""
    kind = column.type
    if pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind):
        return np.full(len(column), max(1, kind.bit_width // 8), np.int64)
    if _is_list(kind):
        lengths, item = _lengths(column), kind.value_type
        if pa.types.is_primitive(item):
            return lengths * max(1, int(item.bit_width) // 8) + _OFFSET_BYTES
        total = np.concatenate(([0], np.cumsum(_weights(column.flatten()))))
        ends = np.cumsum(lengths)
        return np.asarray(total[ends] - total[ends - lengths] + _OFFSET_BYTES, np.int64)
    if pa.types.is_struct(kind):
        return np.asarray(np.sum([_weights(child) for child in column.flatten()], axis=0), np.int64)
    if any(test(kind) for test in _TEXTS):
        return _lengths(column) + _OFFSET_BYTES
    return np.full(len(column), _OTHER_BYTES, np.int64)


def _lengths(column: pa.Array) -> NDArray[np.int64]:
    """Return the bytes of each text, or the number of values of each list, in a column."""
    import pyarrow.compute as pc  # 50 ms that who only reads tables, as a query does, need not wait

    lengths = pc.list_value_length(column) if _is_list(column.type) else pc.binary_length(column)
    return np.asarray(pc.fill_null(lengths, 0).to_numpy(zero_copy_only=False), np.int64)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


class DocumentStarts:
    """The beginnings of documents in a corpus or tokens table, batch after batch."""

    def __init__(self) -> None:
        self._last: tuple[str, int] | None = None

    def of(self, rows: pa.RecordBatch) -> NDArray[np.bool_]:
        """Return which rows of a table begin a document: another doc_id, or the same text once more.

        The rows, one at least, with doc_id and sentence_id, follow those of the call before.
        """
        import pyarrow.compute as pc

        doc_ids, sentence_ids = rows["doc_id"], rows["sentence_id"].to_numpy(zero_copy_only=False)
        opens = np.ones(rows.num_rows, dtype=bool)
        changed = pc.not_equal(doc_ids[1:], doc_ids[:-1]).to_numpy(zero_copy_only=False)
        opens[1:] = changed | (sentence_ids[1:] <= sentence_ids[:-1])
        if self._last is not None:
            opens[0] = doc_ids[0].as_py() != self._last[0] or sentence_ids[0] <= self._last[1]
        self._last = (doc_ids[-1].as_py(), int(sentence_ids[-1]))
        return opens
