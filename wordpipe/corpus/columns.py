"""The columns of records: the kinds of values of a field, the Arrow type that holds all of its values, and Arrow arrays.

A field's kinds grow as records come: `int`, then `int` and `str`. Its type is a function of its kinds, and an array of an
earlier type becomes one of the later type value by value, so that in the end it does not matter which records came first.

    {int} → int64                {int, float} → float64, where every integer is exact in it      {bool} → bool
    {str} → string               {list int} → list of int64                                      {json} → string (JSON text)
    {timestamp[us]}, … → as they are in Parquet                          all other mixtures, also within lists → string

Values are Python's (None, bool, int, float, str, list, dict), or Arrow scalars where Python has nothing exact.
"""

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa

from wordpipe.artifacts import CORPUS, OPTIONAL, SPANS, TAGS, column_of, is_ours, user_name
from wordpipe.corpus.documents import Kinds, Ledger, Record
from wordpipe.corpus.settings import IngestSettings, MetadataType

LONGEST_VALUE = 1 << 16  # bytes of a value that is carried: it stands beside every sentence
MAX_FIELDS = 1000  # columns: records with random names must not fill the memory
_LONGEST_NAME = 255
_EXACT = 1 << 53  # integers up to here are exact in a float
_INT64 = range(-(1 << 63), 1 << 63)
_LIST = "list "
_JSON = {"json", "list json"}
_INTEGERS = {"int", "int8", "int16", "int32", "uint8", "uint16", "uint32"}  # all fit int64
_FLOATS = {"float", "halffloat", "float32"}
_PYTHON = {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64(), "str": pa.string()}
_PARAMETERS = re.compile(r"(timestamp|decimal128|decimal256|decimal32|decimal64|fixed_size_binary)[\[(](.*)[\])]")


class RepeatedFieldError(ValueError):
    """The error for an object of JSON that has a key twice; its message is the key."""


def without_repeats(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the names and values of an object as a dict, of JSON's too.

    Raises:
        RepeatedFieldError: a name comes twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise RepeatedFieldError(next(repr(name[:100]) for name in found if names.count(name) > 1))
    return found


def kinds_of(values: Iterable[Any]) -> set[str]:
    """Return the kinds of values of a field, which decide its column's type; none of None, `list ` of empty lists."""
    values = values if isinstance(values, (list, tuple)) else [*values]
    found: set[str] = set()
    kinds: set[type[Any]] = set(map(type, values))
    for kind in kinds:
        if kind is str:
            found.add("str")
        elif kind is int:
            found |= _kinds_of_integers([value for value in values if type(value) is int])
        elif kind is float:
            found.add("float")
        elif kind is bool:
            found.add("bool")
        # lists: the kinds of their items; a list of lists or objects is JSON
        elif kind is list:
            lists = [value for value in values if type(value) is list]
            items = [*chain.from_iterable(lists)]
            if not {list, dict}.isdisjoint(map(type, items)):  # each by itself: it must not matter which come together
                found.add("list json")
                lists = [value for value in lists if {list, dict}.isdisjoint(map(type, value))]
                items = [*chain.from_iterable(lists)]
            found |= {_LIST + item for item in kinds_of(items) or [""]} if lists else set()
        elif kind is dict:
            found.add("json")
        elif issubclass(kind, pa.Scalar):
            found |= {_name_of(value.type) for value in values if type(value) is kind}
    return found


def _kinds_of_integers(values: list[int]) -> set[str]:
    low, high = min(values), max(values)
    if low >= -_EXACT and high <= _EXACT:
        return {"int"}
    return {"inexact", *("int" if value in _INT64 else "bigint" for value in values)}  # Arrow makes no floats of them


def type_of(kinds: Collection[str]) -> pa.DataType:
    """Return the type of a column that holds values of all these kinds; string where no value was ever seen."""
    if kinds and all(kind.startswith(_LIST) for kind in kinds):
        items = {kind[len(_LIST) :] for kind in kinds} - {""}
        kind = _type_of_scalars(items)
        return kind if pa.types.is_string(kind) and not items <= {"str"} else pa.list_(kind)
    return _type_of_scalars(kinds)


def _type_of_scalars(kinds: Collection[str]) -> pa.DataType:
    some = {kind for kind in kinds if kind not in ("inexact", "")}
    if some <= _INTEGERS and len(some) > 1:
        return pa.int64()
    if some & _FLOATS and some <= _FLOATS | _INTEGERS and len(some) > 1 and "inexact" not in kinds:
        return pa.float64()
    if len(some) != 1:
        return pa.string()
    (kind,) = some
    if kind in _PYTHON:
        return _PYTHON[kind]
    return pa.string() if kind in ("bigint", "json") or kind.startswith(_LIST) else _parse_type(kind)


def is_mixed(kinds: Collection[str]) -> bool:
    """True if the values are of several types, and therefore strings."""
    lists = {kind for kind in kinds if kind.startswith(_LIST)}
    if lists and len(lists) == len(kinds):
        some = {kind[len(_LIST) :] for kind in lists} - {"", "inexact"}
        return len(some) > 1 and "json" not in some and pa.types.is_string(type_of(kinds))
    some = {kind for kind in kinds if kind != "inexact"}
    return len(some) > 1 and not some <= _JSON and pa.types.is_string(type_of(kinds))


def _name_of(kind: pa.DataType) -> str:
    return "float32" if pa.types.is_float32(kind) else str(kind)


def _parse_type(name: str) -> pa.DataType:
    """Return the type that `_name_of` named."""
    found = _PARAMETERS.fullmatch(name)
    if found is None or (found[1] == "timestamp" and "," not in found[2]):
        return pa.type_for_alias(name)
    arguments = [part.strip() for part in found[2].split(",")]
    if found[1] == "timestamp":
        return pa.timestamp(arguments[0], found[2].partition("tz=")[2])
    return {"fixed_size_binary": pa.binary}.get(found[1], getattr(pa, found[1], pa.binary))(*map(int, arguments))


def to_array(values: Sequence[Any], kinds: Collection[str], kind: pa.DataType | None = None) -> pa.Array:
    """Return the values as an array of the type of these kinds, which are at least their own; or of the type given."""
    kind = type_of(kinds) if kind is None else kind
    if pa.types.is_string(kind):
        return pa.array(values if kinds == {"str"} else [None if v is None else text_of(v) for v in values], kind)
    if pa.types.is_list(kind):
        values = [[v] if v is not None and type(v) is not list else v for v in values]
        if len({*kinds} - {_LIST, "list inexact"}) > 1:
            values = [v and [_plain(item) for item in v] for v in values]
        return pa.array(values, kind)
    return pa.array([_plain(v) for v in values] if len({*kinds} - {"inexact"}) > 1 else values, kind)


def _plain(value: Any) -> Any:
    return value.as_py() if isinstance(value, pa.Scalar) else value


def text_of(value: Any) -> str:
    """Return the text of a record's value in a column of strings: a string as it is, JSON of all else; 3.0 is written as 3."""
    if isinstance(value, str):
        return value
    if isinstance(value, pa.Scalar):
        return _text_of_scalar(value)
    if isinstance(value, list):
        value = [_plain_number(_json_of(item)) for item in value]
    elif not isinstance(value, (dict, bool, int, float, type(None))):
        return str(value)
    return json.dumps(_plain_number(value), ensure_ascii=False, default=_json_of)


def _json_of(value: Any) -> Any:
    """Return the JSON value of a value that JSON does not know: the number of an Arrow scalar, else a text."""
    if isinstance(value, pa.Scalar):
        is_number = pa.types.is_integer(value.type) or pa.types.is_floating(value.type)
        return value.as_py() if is_number else _text_of_scalar(value)
    return value if isinstance(value, (str, bool, int, float, list, dict, type(None))) else str(value)


def _plain_number(value: Any) -> Any:
    """Return an integer for a float that is one."""
    return int(value) if type(value) is float and math.isfinite(value) and value == int(value) in _INT64 else value


def _text_of_scalar(value: pa.Scalar) -> str:
    kind = value.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return text_of(value.as_py())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return str(value.as_py().hex())
    try:
        return str(value.cast(pa.string()).as_py())
    except (pa.ArrowException, ValueError):
        return str(value)


Strings = Callable[[pa.Array], list[str | None]]
"""Gives the strings of an array of bytes."""


def _strings(column: pa.Array) -> list[str | None]:
    return list(column.cast(pa.large_string()).to_pylist())


def natives(column: pa.Array, strings: Strings = _strings) -> list[Any]:
    """Return the values of a column: Python's where they are exact, else Arrow scalars; nested ones as lists and dicts.

    A value of a dictionary that comes often is one object: a string of 20 MB in 60 rows takes 20 MB.

    Raises:
        RepeatedFieldError: a struct has two fields of one name, or a map a key twice.
    """
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        return natives(column.storage, strings)
    if pa.types.is_dictionary(kind):
        used = column.indices.unique().drop_null()
        values = dict(zip(used.to_pylist(), natives(column.dictionary.take(used), strings), strict=True))
        return [None if number is None else values[number] for number in column.indices.to_pylist()]
    # nested ones: lists, structs, maps
    if pa.types.is_fixed_size_list(kind):
        column = column.cast(pa.list_(kind.value_type))
    if pa.types.is_list(column.type) or pa.types.is_large_list(kind):
        offsets = column.offsets.to_pylist()
        items = natives(column.values.slice(offsets[0], offsets[-1] - offsets[0]), strings)
        valid, first = column.is_valid().to_pylist(), offsets[0]
        return [items[start - first : end - first] if is_valid else None
                for start, end, is_valid in zip(offsets, offsets[1:], valid, strict=False)]  # fmt: skip
    # a row of a struct is a dict
    if pa.types.is_struct(kind):
        parts = [natives(column.field(number), strings) for number in range(kind.num_fields)]
        names = [kind.field(number).name for number in range(kind.num_fields)]
        rows = (
            (without_repeats([*zip(names, row, strict=True)]) for row in zip(*parts, strict=True))
            if parts
            else ({} for _ in column)
        )
        return [row if valid else None for row, valid in zip(rows, column.is_valid().to_pylist(), strict=True)]
    # so is one of a map, by its keys
    if pa.types.is_map(kind):
        entries = natives(pa.ListArray.from_arrays(column.offsets, _entries(column)), strings)
        whole = zip(entries, column.is_valid().to_pylist(), strict=True)
        return [without_repeats([(text_of(one["key"]), one["value"]) for one in some or ()]) if valid else None
                for some, valid in whole]  # fmt: skip
    # scalars: strings, what Python has exactly, and Arrow's own for the others
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return strings(column.cast(pa.large_binary()))
    if kind in _PYTHON.values() or pa.types.is_null(kind):
        return list(column.to_pylist())
    if pa.types.is_float16(kind):  # which no database reads
        column = column.cast(pa.float32())
    if pa.types.is_binary_view(kind):
        column = column.cast(pa.large_binary())
    return [value if value.is_valid else None for value in column]


def _entries(column: pa.MapArray) -> pa.StructArray:
    return pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])


def size_of(value: Any) -> int:
    """Return the bytes of a value that is to be in a column: of text its UTF-8, of lists their items, else the JSON."""
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode(errors="replace"))
    if isinstance(value, list) and {list, dict}.isdisjoint(map(type, value)):
        return sum(map(size_of, value))
    if isinstance(value, (list, dict)):
        try:
            return len(json.dumps(value, default=text_of))
        except RecursionError:
            return LONGEST_VALUE + 1
    if isinstance(value, pa.Scalar) and hasattr(value, "as_buffer"):
        return value.as_buffer().size if value.is_valid else 0
    return 8


def without_long(values: list[Any], leave_out: Callable[[int], object]) -> list[Any]:
    """Return the values of a column, None for those that are too long; `leave_out` is called with how many."""
    short = LONGEST_VALUE // 4  # so many characters are never too many bytes
    flat = {*map(type, values)} <= {str, int, float, bool, type(None)}
    if flat and max((len(value) for value in values if type(value) is str), default=0) <= short:
        return values
    long = [number for number, value in enumerate(values) if value is not None and size_of(value) > LONGEST_VALUE]
    if not long:
        return values
    leave_out(len(long))
    values = [*values]
    for number in long:
        values[number] = None
    return values


def recast(column: pa.Array, kinds: Collection[str]) -> pa.Array:
    """Return a column, made when fewer kinds were known, as the type of all `kinds`."""
    return column if column.type == type_of(kinds) else to_array(natives(column), kinds)


def cast_back(column: pa.Array, kinds: Collection[str]) -> pa.Array:
    """Return a column whose values are all of these kinds, as their type, though it was stored as one that holds others too.

    Raises:
        pa.ArrowException: of this type no text can be read back.
    """
    kind = type_of(kinds)
    if column.type == kind:
        return column
    if pa.types.is_string(column.type):
        return _from_text(column, kind)
    if pa.types.is_list(column.type) and not pa.types.is_list(kind):  # one label, where other records had several
        column = pa.array([one[0] if one else None for one in column.to_pylist()], column.type.value_type)
    return column.cast(kind)


def can_cast_back(stored: pa.DataType, kinds: Collection[str]) -> bool:
    """True if `cast_back` can do it; it cannot make a time of day, nor a list of values that JSON does not have."""
    kind = type_of(kinds)
    if stored == kind or not pa.types.is_string(stored):
        return True
    if pa.types.is_list(kind):
        return kind.value_type in _PYTHON.values()
    if pa.types.is_large_binary(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return True
    try:
        pa.array([], stored).cast(kind)
    except pa.ArrowNotImplementedError:
        return False
    return True


def _from_text(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the values of a column of strings that `text_of` made of values of a type."""
    texts = column.to_pylist()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.array([None if text is None else bytes.fromhex(text) for text in texts], kind)
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if numbers or pa.types.is_boolean(kind) or pa.types.is_list(kind):
        return pa.array([None if text is None else json.loads(text) for text in texts], kind)
    return column.cast(kind)


_CASTS: dict[MetadataType, str] = {"int": "int", "float": "float", "bool": "bool", "str": "str", "date": "date32[day]"}
_OWN_TYPES = {
    "anchor": pa.string(), "text_b": pa.string(), "tags": TAGS, "spans": SPANS,
    "see_also": pa.list_(pa.field("item", pa.string(), nullable=False)),
}  # fmt: skip
_Places = dict[str, dict[str, str]]
"""Column → kind of its values → place of the first."""


class Columns:
    """The columns of a corpus, as far as it has been read.

    Args:
        settings: which fields are carried, and which fill columns of ours.
        see_also: whether a source is a package.
    """

    def __init__(self, settings: IngestSettings, *, see_also: bool) -> None:
        self._types = {name: _CASTS[kind] for name, kind in settings.metadata_types.items() if kind}
        self._named = {*settings.own_fields, *["text_b"] * settings.is_pairs, *["see_also"] * see_also}
        self._fields: _Places = {name: {} for name in settings.metadata_types}
        self._own: _Places = {}
        self._schema: pa.Schema | None = None

    @property
    def schema(self) -> pa.Schema:
        """The corpus schema, columns of ours that fields fill, the fields in the order in which they came, and `see_also`."""
        if self._schema is None:
            own = [name for name in OPTIONAL if name in self._named or self._own.get(name)]
            fields = [*CORPUS]
            fields += [pa.field(name, _OWN_TYPES.get(name, type_of(self._own_kinds(name)))) for name in own]
            ids = {"id", "_id"} if self._own.get("record_id") else set()
            taken = {*self._fields}
            for name, places in self._fields.items():
                if places or name not in ids:  # one that is the id is no other column too
                    as_json = set() < {*self._kinds(name)} - {_LIST} <= _JSON
                    fields.append(column_of(name, self._type(name), taken, as_json=as_json))
                    taken.add(fields[-1].name)
            if "see_also" in self._named:
                fields.append(pa.field("see_also", _OWN_TYPES["see_also"]))
            self._schema = pa.schema(fields)
        return self._schema

    def arrays(self, records: Sequence[Record], ledger: Ledger) -> dict[str, pa.Array]:
        """Return the columns beyond the corpus schema, for records of one source; its ledger learns their kinds."""
        # fields that are new, as long as there is room
        metas = [record.metadata for record in records]
        names = [*dict.fromkeys(chain.from_iterable(metas))]
        for name in names:
            if name not in self._fields:
                if len(self._fields) >= MAX_FIELDS or len(name) > _LONGEST_NAME:
                    ledger.add_named("fields_not_carried", name, sum(name in meta for meta in metas))
                    continue
                self._fields[name], self._schema = {}, None
            ledger.kinds.setdefault(name, {})
        # the values of each field and of each column of ours, whose kinds are learned
        values_of: dict[str, list[Any]] = {}
        for name in filter(self._fields.__contains__, names):
            values = [meta.get(name) for meta in metas]
            values_of[name] = without_long(values, partial(ledger.add_named, "values_left_out", name))
            self._learn(self._fields, ledger.kinds, name, values_of[name], records)
        own_of: dict[str, list[Any]] = {}
        for name in dict.fromkeys(chain.from_iterable(record.own for record in records)):
            own_of[name] = [record.own.get(name) for record in records]
            self._learn(self._own, ledger.own_kinds, name, own_of[name], records)
        # arrays of the types that the columns now have
        found = {}
        for field in list(self.schema)[len(CORPUS) :]:
            name, among = (field.name, own_of) if is_ours(field) else (user_name(field), values_of)
            kinds = self._own_kinds(name) if is_ours(field) else self._kinds(name)
            given = among.get(name)
            found[field.name] = (
                pa.nulls(len(records), field.type) if given is None else to_array(given, {*kinds}, field.type)
            )
        return found

    def adopt(self, ledger: Ledger, source: str) -> None:
        """Learn the columns and kinds of a source that is copied."""
        for places, kinds in ((self._fields, ledger.kinds), (self._own, ledger.own_kinds)):
            for name, lines in kinds.items():
                for kind, line in lines.items():
                    places.setdefault(name, {}).setdefault(kind, f"{source}, line {line}")
                places.setdefault(name, {})
        self._schema = None

    def has_room(self, ledger: Ledger, schema: pa.Schema) -> bool:
        """True if all fields of a source that is to be copied are columns now, and their values can be restored exactly.

        Args:
            ledger: of the source.
            schema: of the corpus from which it would be copied.
        """
        if ledger.named("fields_not_carried") or len({*self._fields, *ledger.kinds}) > MAX_FIELDS:
            return False
        stored = {user_name(field): field.type for field in schema if not is_ours(field)}
        kinds = ((stored.get(name), {*lines}) for name, lines in ledger.kinds.items() if lines)
        return all(kind is None or can_cast_back(kind, some) for kind, some in kinds)

    def converted(self, batch: pa.RecordBatch, ledger: Ledger | None = None) -> pa.RecordBatch:
        """Return rows of an earlier schema, or of an earlier corpus and the source of a ledger, in the schema of now."""
        if batch.schema.equals(self.schema, check_metadata=True):
            return batch
        before = {(is_ours(field), user_name(field)): number for number, field in enumerate(batch.schema)}
        columns = []
        for field in self.schema:
            key = is_ours(field), user_name(field)
            column = batch.column(before[key]) if key in before else None
            if column is not None and ledger is not None and column.type != field.type:
                lines = (ledger.own_kinds if key[0] else ledger.kinds).get(key[1])
                column = cast_back(column, {*lines}) if lines else None
            if column is None:
                column = pa.nulls(len(batch), field.type)
            elif column.type != field.type:
                column = recast(column, self._own_kinds(key[1]) if key[0] else {*self._fields[key[1]]})
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def mixed(self) -> dict[str, str]:
        """Return the fields whose values are of several types, and the place of the first of another type."""
        found = {}
        for name, places in self._fields.items():
            if name not in self._types and is_mixed(places):
                kinds = [*places]
                first = next(n for n in range(len(kinds)) if is_mixed(kinds[: n + 1]))
                found[name] = places[kinds[first]]
        return found

    def _learn(
        self, places: _Places, kinds_of_source: Kinds, name: str, values: list[Any], records: Sequence[Record]
    ) -> None:
        """Note the kinds of a column's values, and where the first of each stands."""
        kinds = {self._types[name]} if places is self._fields and name in self._types else kinds_of(values)
        if name in _OWN_TYPES and places is self._own:
            kinds = {"str"}
        lines = kinds_of_source.setdefault(name, {})
        if kinds <= lines.keys() and name in places:
            return
        new = []
        for kind in kinds - lines.keys():
            fixed = kinds_of(values).isdisjoint(kinds)
            at = (n for n, value in enumerate(values) if value is not None and (fixed or kind in kinds_of([value])))
            new.append((records[next(at, 0)].line, kind))
        known = places.setdefault(name, {})
        for line, kind in sorted(new):
            lines[kind] = line
            if kind not in known:
                known[kind], self._schema = f"{records[0].source}, line {line}", None

    def _kinds(self, name: str) -> Mapping[str, str] | set[str]:
        return {self._types[name]} if name in self._types else self._fields[name]

    def _type(self, name: str) -> pa.DataType:
        return type_of({*self._kinds(name)})

    def _own_kinds(self, name: str) -> set[str]:
        """Return the kinds of a column of ours; where some records have several labels, one label is a list of one."""
        kinds = {*self._own.get(name, {})}
        if name == "label" and any(kind.startswith(_LIST) for kind in kinds):
            kinds = {kind if kind.startswith(_LIST) else _LIST + kind for kind in kinds}
        return kinds
