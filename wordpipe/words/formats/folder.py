"""Word vectors as NumPy has them: a folder with vectors.npy, words.txt (a word per line) and, maybe, counts.npy."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from wordpipe.errors import InputError
from wordpipe.words.formats.rows import WordFile, WordRows, checked_dim, up_to_bad

__all__ = ["COUNTS_NPY", "VECTORS_NPY", "WORDS_TXT", "folder_files", "open_folder"]

VECTORS_NPY, WORDS_TXT, COUNTS_NPY = "vectors.npy", "words.txt", "counts.npy"
_BYTES = 4 << 20  # of vectors at a time


def folder_files(folder: Path) -> list[Path]:
    """The files of such a folder.

    Raises:
        InputError: vectors.npy or words.txt is missing.
    """
    for name in (VECTORS_NPY, WORDS_TXT):
        if not (folder / name).is_file():
            hint = (
                f"a folder is read where it holds {VECTORS_NPY}, {WORDS_TXT} and, maybe, {COUNTS_NPY}; or name a file"
            )
            raise InputError(f"the folder has no {name}", where=folder, hint=hint)
    return [path for name in (VECTORS_NPY, WORDS_TXT, COUNTS_NPY) if (path := folder / name).is_file()]


def open_folder(folder: Path, stack: ExitStack, *, name: str) -> WordFile:
    """Open a folder of arrays; its files are closed with `stack`.

    Raises:
        InputError: a file is missing, is no array of the right kind, or they hold different numbers of words.
    """
    files = {path.name: stack.enter_context(path.open("rb")) for path in folder_files(folder)}
    (size, dim), dtype = _header(files[VECTORS_NPY], 2, "f", f"{name}/{VECTORS_NPY}")
    counts: tuple[BinaryIO, np.dtype[np.generic]] | None = None
    if COUNTS_NPY in files:
        (other,), integers = _header(files[COUNTS_NPY], 1, "iu", f"{name}/{COUNTS_NPY}")
        if other != size:
            where = f"{name}/{COUNTS_NPY}"
            raise InputError("another number of counts than of vectors", where=where, got=other, expected=size)
        counts = (files[COUNTS_NPY], integers)
    rows = _rows(files[VECTORS_NPY], dtype, files[WORDS_TXT], counts, (size, dim), name)
    return WordFile("numpy", checked_dim(dim, f"{name}/{VECTORS_NPY}"), size, "line", rows)


def _header(file: BinaryIO, axes: int, kinds: str, where: str) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
    """Shape and type of an array file whose header is read here, and whose numbers come next."""
    try:
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, by_column, dtype = read(file)
    except (ValueError, EOFError) as error:
        raise InputError("not a .npy file", where=where, got=str(error).splitlines()[0]) from None
    if dtype.kind not in kinds or len(shape) != axes:
        expected = f"{'words × numbers, float16, float32 or float64' if axes == 2 else 'a row of whole numbers'}"
        raise InputError("an array of another kind", where=where, got=f"{dtype} {shape}", expected=expected)
    if by_column and axes == 2:
        hint = "numpy.save(FILE, numpy.ascontiguousarray(vectors))"
        raise InputError("the array lies column by column, and is read row by row", where=where, hint=hint)
    return shape, dtype


def _rows(
    vectors: BinaryIO,
    dtype: np.dtype[np.generic],
    words: BinaryIO,
    counts: tuple[BinaryIO, np.dtype[np.generic]] | None,
    shape: tuple[int, int],
    name: str,
) -> Iterator[WordRows]:
    size, dim = shape
    step = max(1, _BYTES // (4 * dim))
    for first in range(0, size, step):
        n = min(step, size - first)
        with np.errstate(over="ignore"):  # too large for float32: not finite, which is an error
            vectors_RD = _array(vectors, dtype, n * dim, f"{name}/{VECTORS_NPY}").astype(np.float32).reshape(n, dim)
        found = [line.rstrip(b"\r\n") for line in islice(words, n)]
        if len(found) < n:
            got, where = first + len(found), f"{name}/{WORDS_TXT}, line {first + len(found) + 1}"
            raise InputError("fewer words than vectors", where=where, got=f"{got:,}", expected=f"{size:,}")
        number = None if counts is None else _counts(*counts, n, name, first)
        rows = WordRows(found, vectors_RD, first + 1 + np.arange(n), number)
        yield from up_to_bad(rows, partial(_not_finite, name, first))
    if words.read(1):
        raise InputError("more words than vectors", where=f"{name}/{WORDS_TXT}, line {size + 1}", expected=f"{size:,}")


def _not_finite(name: str, first: int, row: int) -> InputError:
    return InputError("a number is not finite", where=f"{name}/{VECTORS_NPY}, row {first + row}")


def _counts(file: BinaryIO, dtype: np.dtype[np.generic], n: int, name: str, first: int) -> NDArray[np.int64]:
    values = _array(file, dtype, n, f"{name}/{COUNTS_NPY}")
    found = values.astype(np.int64)
    for row in np.flatnonzero(found < 0)[:1]:
        where = f"{name}/{COUNTS_NPY}, row {first + row}"
        raise InputError("not a count", where=where, got=values[row], expected="0 to 2**63 - 1")
    return found


def _array(file: BinaryIO, dtype: np.dtype[np.generic], n: int, where: str) -> NDArray[np.generic]:
    data = file.read(n * dtype.itemsize)
    if len(data) < n * dtype.itemsize:
        hint = "the file is cut short: fetch or make it again"
        raise InputError("the file ends before all the numbers that its header promises", where=where, hint=hint)
    return np.frombuffer(data, dtype)
