"""How much each row of an Arrow batch weighs, and what Parquet calls its columns."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["leaf_paths", "row_bytes"]

_OFFSET = 4  # bytes that a string or list costs beside its content
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
_UNKNOWN = 16  # a guess, for types whose content is not looked at


def row_bytes(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """Bytes of each row, at least 1: a function of the row's values alone, however the batch was cut.

    Returns:
        int64[rows].
    """
    weights = np.ones(len(batch), np.int64)
    for column in batch.columns:
        weights += _weights(column)
    return weights


def leaf_paths(field: pa.Field, prefix: str = "") -> Iterator[str]:
    """The dotted names by which Parquet knows the leaf columns of a field, such as `ids.list.element`."""
    path = f"{prefix}{field.name}"
    yield from _leaves(path, field.type)


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    if _is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from leaf_paths(field, f"{path}.")
    else:
        yield path


def _weights(column: pa.Array) -> NDArray[np.int64]:
    kind = column.type
    if (width := _width(kind)) is not None:
        return np.full(len(column), width, np.int64)
    if _is_list(kind):
        return _list_weights(column)
    if pa.types.is_struct(kind):
        return np.asarray(np.sum([_weights(child) for child in column.flatten()], axis=0), np.int64)
    if any(test(kind) for test in _TEXTS):
        return _lengths(column) + _OFFSET
    return np.full(len(column), _UNKNOWN, np.int64)


def _list_weights(column: pa.Array) -> NDArray[np.int64]:
    lengths = _lengths(column)
    if (width := _width(column.type.value_type)) is not None:
        return lengths * width + _OFFSET
    total = np.concatenate(([0], np.cumsum(_weights(column.flatten()))))
    ends = np.cumsum(lengths)
    return np.asarray(total[ends] - total[ends - lengths] + _OFFSET, np.int64)


def _lengths(column: pa.Array) -> NDArray[np.int64]:
    """Bytes of each text, values of each list."""
    import pyarrow.compute as pc  # 50 ms that who only reads tables, as a query does, need not wait

    lengths = pc.list_value_length(column) if _is_list(column.type) else pc.binary_length(column)
    return np.asarray(pc.fill_null(lengths, 0).to_numpy(zero_copy_only=False), np.int64)


def _width(kind: pa.DataType) -> int | None:
    """Bytes of a value of a fixed-width type."""
    if pa.types.is_primitive(kind):
        return max(1, int(kind.bit_width) // 8)
    return None


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
