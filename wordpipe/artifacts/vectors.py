"""Vectors in the column of a table: as lists of float32, or shorter, as float16 or as int8 with a scale for each row.

A shorter vector is not a list but bytes of a fixed number: Arrow puts every number of a list together from its levels. Of 29
million numbers lists took 0.19 s of processor time to read as float32, 0.26 as float16, 0.30 as int8; bytes 0.03 and 0.01.

    float16    D numbers of 2 bytes
    int8       the scale, a float32, and D numbers of 1 byte; number times scale is the vector: of a text at length 1, of a
               word as long as it was, as what a word weighs is in the length

Who reads a table finds lists of float32, whatever is stored. Stored vectors come out of their bytes and go into them again
unchanged.
"""

from collections.abc import Iterator
from typing import Literal, TypeVar, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wordpipe.errors import DivergedError, WordpipeError

Store = Literal["float32", "float16", "int8"]
VECTOR = "vector"
_STORE = b"wordpipe.vectors"  # in the metadata of a field of bytes: a Store
_MOST = 127  # of int8; -128 is not used
Number = TypeVar("Number", bound=np.generic)
_Rows = TypeVar("_Rows", pa.RecordBatch, pa.Table)


def vector_field(dim: int, store: Store = "float32") -> pa.Field:
    """Return the column for vectors of a width in a number format."""
    if store == "float32":
        return pa.field(VECTOR, pa.list_(pa.field("item", pa.float32(), nullable=False), dim), nullable=False)
    size = 2 * dim if store == "float16" else 4 + dim
    return pa.field(VECTOR, pa.binary(size), nullable=False, metadata={_STORE: store.encode()})


def width_of(field: pa.Field) -> int:
    """Return the numbers in a vector of a column that `vector_field` made; 0 of any other column."""
    kind, store = field.type, _store_of(field)
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) if kind.value_type == pa.float32() else 0
    if not pa.types.is_fixed_size_binary(kind):
        return 0
    size = int(kind.byte_width)
    return {"float16": size // 2 if size % 2 == 0 else 0, "int8": max(0, size - 4)}.get(store, 0)


def _store_of(field: pa.Field) -> Store:
    """Return the number format of a column that `vector_field` made."""
    found = (field.metadata or {}).get(_STORE, b"").decode(errors="replace")
    return next((one for one in get_args(Store) if one == found), "float32")


def plain_numbers(array: pa.Array, dtype: type[Number]) -> NDArray[Number]:
    """Return the numbers of an array of this type; without a copy, and read-only, where none is missing.

    `to_numpy` loads pandas where it is installed, which takes 0.3 s of a query.
    """
    if array.null_count:
        missing: NDArray[Number] = array.to_numpy(zero_copy_only=False)
        return missing
    data = array.buffers()[1] or b""
    return np.frombuffer(data, dtype, len(array), array.offset * np.dtype(dtype).itemsize)


def matrix_of(vectors: pa.FixedSizeListArray) -> NDArray[np.float32]:
    """Return the matrix of a column of vectors, (N, D), without a copy."""
    width = vectors.type.list_size
    inside = vectors.values.slice(vectors.offset * width, len(vectors) * width)
    numbers = vectors.flatten() if vectors.null_count else inside  # `flatten` loads pyarrow.compute: 50 ms of a query
    if numbers.type != pa.float32():  # another program's table: its bytes are not ours
        numbers = numbers.cast(pa.float32())
    return plain_numbers(numbers, np.float32).reshape(-1, width)


def vector_column(matrix_ND: NDArray[np.float32], store: Store = "float32", *, unit: bool = True) -> pa.Array:
    """Return a column of vectors that has the rows of a matrix, none of them null; zero stays zero.

    Vectors of int8 come out at length 1, or, without `unit`, as long as they went in.
    """
    kind = vector_field(matrix_ND.shape[1], store).type
    if store == "float32":
        values = np.ascontiguousarray(matrix_ND, dtype=np.float32)
        # of a buffer: `pa.array` loads pandas, too
        numbers = pa.Array.from_buffers(pa.float32(), values.size, [None, pa.py_buffer(values)])
        return pa.FixedSizeListArray.from_arrays(numbers, type=kind)
    if store == "float16":
        stored_NB = np.ascontiguousarray(matrix_ND, dtype=np.float16).view(np.uint8)
    else:
        most_N1 = np.abs(matrix_ND).max(axis=1, keepdims=True)
        numbers_ND = np.rint(matrix_ND * (np.float32(_MOST) / np.where(most_N1 > 0, most_N1, 1))).astype(np.int8)
        scale_N1 = most_N1 / np.float32(_MOST)
        if unit:
            squares_N1 = np.einsum("nd,nd->n", numbers_ND, numbers_ND, dtype=np.int64)[:, None]
            scale_N1 = np.where(squares_N1 > 0, 1 / np.sqrt(np.maximum(squares_N1, 1)), 0).astype(np.float32)
        stored_NB = np.concatenate([scale_N1.view(np.uint8), numbers_ND.view(np.uint8)], axis=1)
    return pa.FixedSizeBinaryArray.from_buffers(kind, len(matrix_ND), [None, pa.py_buffer(stored_NB)])


def with_lists(rows: _Rows) -> _Rows:
    """Return the rows of a table with its vectors as lists of float32; as they are where they have no other vectors."""
    at = rows.schema.get_field_index(VECTOR)
    if at < 0 or not pa.types.is_fixed_size_binary(rows.schema.field(at).type):
        return rows
    field, column = rows.schema.field(at), rows.column(at)
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    parts = [vector_column(_numbers_of(chunk, field)) for chunk in chunks]
    read = parts[0] if isinstance(rows, pa.RecordBatch) else pa.chunked_array(parts, listed(field).type)
    return rows.set_column(at, listed(field), read)


def listed(field: pa.Field) -> pa.Field:
    """Return the field of a table as who reads the table finds it: of vectors that are bytes, lists of float32."""
    if field.name != VECTOR or not pa.types.is_fixed_size_binary(field.type):
        return field
    return vector_field(width_of(field))


def is_int8(schema: pa.Schema) -> bool:
    """Return True if the vectors of a table are stored as int8; see `bytes_of`."""
    return VECTOR in schema.names and _store_of(schema.field(VECTOR)) == "int8"


def bytes_of(column: pa.FixedSizeBinaryArray) -> NDArray[np.uint8]:
    """Return the bytes of a column of vectors as they are stored, (N, S), without a copy."""
    size, (_, data) = column.type.byte_width, column.buffers()
    return np.frombuffer(data, np.uint8, len(column) * size, column.offset * size).reshape(-1, size)


def _numbers_of(column: pa.FixedSizeBinaryArray, field: pa.Field) -> NDArray[np.float32]:
    """Return the vectors that a column of bytes has stored, (N, D)."""
    stored_NB = bytes_of(column)
    if _store_of(field) == "float16":
        return stored_NB.view(np.float16).astype(np.float32)
    scale_N1 = np.ascontiguousarray(stored_NB[:, :4]).view(np.float32)
    return stored_NB[:, 4:].view(np.int8) * scale_N1


def unit_vectors(
    vectors_ND: NDArray[np.float32], *, first: int = 0, zero: bool = False, error: type[WordpipeError] = DivergedError
) -> NDArray[np.float32]:
    """Return the vectors of a table's column at length 1, C-contiguous float32; vectors of length 1 keep their bits.

    A vector that is not finite, or is zero unless `zero` ones are to stay, raises `error`, which names its row, counted from
    `first`.
    """
    norms_N = np.sqrt(np.einsum("nd,nd->n", vectors_ND, vectors_ND))  # linalg.norm writes the squares down first
    norms_N[(norms_N == 0) & zero] = 1
    bad = np.flatnonzero(~np.isfinite(norms_N) | (norms_N == 0))
    if len(bad):
        rows = ", ".join(str(first + row) for row in bad[:5])
        what, where = f"{len(bad)} of {len(vectors_ND)} vectors are zero or not finite", f"row {rows}"
        raise error(what, where=where + " …" * (len(bad) > 5), expected="finite vectors that are not zero")
    off = np.abs(norms_N - 1) > 1e-5
    if not off.any():
        return np.ascontiguousarray(vectors_ND, dtype=np.float32)
    scale_N1 = np.where(off, norms_N, 1)[:, None]
    return np.ascontiguousarray(vectors_ND / scale_N1, dtype=np.float32)


def vector_batches(
    schema: pa.Schema, vectors_ND: NDArray[np.float32], *columns: pa.Array, rows: int = 16_384
) -> Iterator[pa.RecordBatch]:
    """Yield batches of a table: some columns and, as the last, vectors of words, in the number format of the schema."""
    store = _store_of(schema.field(VECTOR))
    for first in range(0, len(vectors_ND), rows):
        vectors = vector_column(vectors_ND[first : first + rows], store, unit=False)
        arrays = [*(column.slice(first, rows) for column in columns), vectors]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
