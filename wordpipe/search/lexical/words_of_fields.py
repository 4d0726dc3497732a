"""The fields of records whose words are words of their rows: names of hosts, numbers of tickets, tags, authors.

A row is found by a word of its text, of its title, or of a field, and ranked by all of them (`bm25.py` says how a field
counts). Fields with texts are searched, and lists of texts. Numbers, dates and objects are not; nor are the columns that say
where a text comes from. The name of a document's file is a field, `file`; that of records or a log would stand in every row.

Shapes: N rows.
"""

from collections.abc import Iterator, Mapping, Set
from typing import TYPE_CHECKING, Any

from wordpipe.artifacts import is_json
from wordpipe.search.lexical.analysis import END, Analyser

if TYPE_CHECKING:
    import pyarrow as pa

_NOT_SEARCHED = ("text", "doc_id", "split", "source", "anchor", "see_also")
_OWN = ("file", "id", "title", "text_b", "label", "tags")  # of a hit: our columns that may be searched as fields


def searched_fields(schema: "pa.Schema", *, titled: bool) -> list[str]:
    """Return the columns of rows whose words are searched beside the text; `titled` where titles are read with their texts."""
    left_out = {*_NOT_SEARCHED, *(["title"] if titled else [])}
    return [column.name for column in schema if column.name not in left_out and _has_texts(column)]


def _has_texts(column: "pa.Field") -> bool:
    """True if a column holds texts, or lists of texts."""
    import pyarrow as pa

    kind = column.type
    while pa.types.is_dictionary(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = kind.value_type
    return (pa.types.is_string(kind) or pa.types.is_large_string(kind)) and not is_json(column)


def values_of_fields(columns: "Mapping[str, pa.Array]") -> "pa.LargeStringArray":
    """Return the values of fields of N rows with END behind each of them, (N,) without nulls; "" for none.

    An id that is a number is none: it is found as an id, and *page 17* asks for no 17th record.

    >>> import pyarrow as pa
    >>> found = values_of_fields({"host": pa.array(["db-07", None]), "tags": pa.array([["disk", "full"], []])})
    >>> [one.split(END) for one in found.to_pylist()]
    [['db-07', 'disk', 'full', ''], ['']]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    nothing, end = pa.scalar("", pa.large_string()), pa.scalar(END, pa.large_string())
    # with "" in every row, as Arrow leaves out rows of which all values are null
    parts = [_as_texts(column, names_alone=name == "record_id") for name, column in columns.items()]
    return pc.binary_join_element_wise(*parts, nothing, end, null_handling="skip")


def _as_texts(column: "pa.Array", *, names_alone: bool) -> "pa.LargeStringArray":
    """Return the values of a column as one text each, (N,); null for none, and for a number where names alone count."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        texts = column.cast(pa.large_string())
        is_none = pc.equal(pc.binary_length(texts), 0)
        return pc.if_else(pc.or_(is_none, pc.utf8_is_digit(texts)) if names_alone else is_none, None, texts)
    items = pc.list_flatten(column).cast(pa.large_string()).fill_null("")
    ends = pc.cumulative_sum(pc.list_value_length(column).fill_null(0).cast(pa.int64()))
    lists = pa.LargeListArray.from_arrays(pa.concat_arrays([pa.array([0], pa.int64()), ends]), items)
    texts = pc.binary_join(lists, pa.scalar(END, pa.large_string()))
    return pc.if_else(pc.equal(pc.binary_length(texts), 0), None, texts)


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts of a field's value: of a list each by itself, as no phrase runs over the border of two."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield from (item for item in value if isinstance(item, str))


def fields_of_hit(hit: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a hit that may be searched beside its text, by the names that a user knows."""
    return {**{name: hit[name] for name in _OWN if hit.get(name) is not None}, **(hit.get("metadata") or {})}


def fields_with(terms: Set[str], hit: Mapping[str, Any], analyser: Analyser) -> dict[str, list[str]]:
    """Return the fields of a hit that have some terms, each with those that it has."""
    found = {}
    for name, value in fields_of_hit(hit).items():
        own = {term for text in texts_in(value) for term in analyser(text)}
        if here := terms & own:
            found[name] = sorted(here)
    return found
