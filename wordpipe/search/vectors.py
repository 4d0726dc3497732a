"""What may enter an index: finite vectors with a direction, made unit length, and a sample of them; and the index's file."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import faiss
import numpy as np
import numpy.typing as npt

from wordpipe.errors import ArtifactError, DivergedError, WordpipeError
from wordpipe.runtime import cpu_count

_REFINED, _HEAD = b"IxRF", 37  # how lists with vectors beside them begin, and where the lists themselves do
_ABOUT_ITSELF = re.compile(r"^Error in .* at \S+:\d+: ")  # which line of faiss complains

Blocks = Callable[[], Iterator[npt.NDArray[np.float32]]]
"""Gives the vectors from the beginning, as (B, D) blocks, every time it is called."""


@contextmanager
def faiss_threads(threads: int) -> Iterator[int]:
    """Let faiss use `threads` threads (0: one per core) inside; gives the number."""
    before = faiss.omp_get_max_threads()
    count = threads or cpu_count()
    faiss.omp_set_num_threads(count)
    try:
        yield count
    finally:
        faiss.omp_set_num_threads(before)


def unit_vectors(
    vectors_ND: npt.NDArray[np.float32], *, first: int = 0, error: type[WordpipeError] = DivergedError
) -> npt.NDArray[np.float32]:
    """The vectors at length 1, C-contiguous float32; those that have it already keep their bits.

    Args:
        vectors_ND: any vectors.
        first: number of the first row, for the message.
        error: raised for a vector that is not finite or is zero, naming the rows.
    """
    norms_N = np.sqrt(np.einsum("nd,nd->n", vectors_ND, vectors_ND))  # linalg.norm writes the squares down first
    bad = np.flatnonzero(~np.isfinite(norms_N) | (norms_N == 0))
    if len(bad):
        rows = ", ".join(str(first + row) for row in bad[:5])
        what, where = f"{len(bad)} of {len(vectors_ND)} vectors are zero or not finite", f"row {rows}"
        raise error(what, where=where + " …" * (len(bad) > 5), expected="finite vectors with a direction")
    off = np.abs(norms_N - 1) > 1e-5
    if not off.any():
        return np.ascontiguousarray(vectors_ND, dtype=np.float32)
    scale_N1 = np.where(off, norms_N, 1)[:, None]
    return np.ascontiguousarray(vectors_ND / scale_N1, dtype=np.float32)


def checked_blocks(blocks: Blocks, n: int) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
    """Unit vectors block by block, each with the number of its first row.

    Raises:
        DivergedError: a vector is zero or not finite.
        ArtifactError: there are not `n` vectors.
    """
    row = 0
    for block in blocks():
        yield row, unit_vectors(block, first=row)
        row += len(block)
    _refuse_other_count(row, n)


def sample_rows(blocks: Blocks, n: int, samples: Sequence[npt.NDArray[np.int64]]) -> list[npt.NDArray[np.float32]]:
    """The unit vectors at several lists of row numbers (each ascending), collected in one pass.

    Raises:
        DivergedError: one of them is zero or not finite; the others are not looked at.
        ArtifactError: there are not `n` vectors.
    """
    parts: list[list[npt.NDArray[np.float32]]] = [[] for _ in samples]
    first = 0
    for block in blocks():
        for part, rows in zip(parts, samples, strict=True):
            inside = rows[np.searchsorted(rows, first) : np.searchsorted(rows, first + len(block))]
            part.append(_unit_rows(block, inside - first, first))
        first += len(block)
    _refuse_other_count(first, n)
    return [np.concatenate(part) for part in parts]


def _unit_rows(block_BD: npt.NDArray[np.float32], rows_R: npt.NDArray[np.int64], first: int) -> npt.NDArray[np.float32]:
    """Some rows of a block at length 1; where one cannot be, the error names all such rows of the block."""
    try:
        return unit_vectors(block_BD[rows_R])
    except DivergedError:
        return unit_vectors(block_BD, first=first)[rows_R]


def _refuse_other_count(found: int, n: int) -> None:
    if found != n:
        raise ArtifactError("not the promised number of vectors", got=found, expected=n)


def write_index(index: Any, file: Any) -> None:
    """Write the index to anything with a `write` for bytes, such as a writer that hashes; an error of it passes through.

    Faiss never gets a path: on a full disk `faiss.write_index` to one returns as if all were well and leaves an empty file.
    """
    faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))  # type: ignore[attr-defined]


def read_index(file: BinaryIO, *, size: int, where: str | None = None) -> Any:
    """Read an index, of the kinds that earlier versions built too: its width of search travels with it.

    Args:
        file: from its current position to its end.
        size: bytes to come; no part of the index may claim more, whatever its header says.
        where: what to call the file in an error.

    Raises:
        ArtifactError: not an index, cut short, or one that claims more than it has.
    """
    before = faiss.get_deserialization_vector_byte_limit()
    faiss.set_deserialization_vector_byte_limit(size + 1)
    try:
        return faiss.read_index(faiss.PyCallbackIOReader(file.read))  # type: ignore[attr-defined]
    except (RuntimeError, MemoryError) as error:
        reason = _ABOUT_ITSELF.sub("", str(error).rpartition("Error: ")[2].splitlines()[0])
        hint = "build it again with: wordpipe index"
        raise ArtifactError("not a readable FAISS index", where=where, got=reason, hint=hint) from None
    finally:
        faiss.set_deserialization_vector_byte_limit(before)


def read_lists(file: BinaryIO, *, size: int, where: str | None = None) -> Any:
    """Read an ivf-pq index but for the vectors beside its lists, nine tenths of it: they are to be filled in.

    Faiss writes a header of 37 bytes, the lists, the vectors, and how many candidates are compared. What is given, and what
    is raised, is as in `read_index`.
    """
    if file.read(_HEAD)[: len(_REFINED)] != _REFINED:
        file.seek(0)
        return read_index(file, size=size, where=where)
    lists: Any = read_index(file, size=size, where=where)
    index: Any = faiss.index_factory(lists.d, "Flat,RFlat", lists.metric_type)
    index.base_index.this.own(True)  # the empty place of the lists goes when this line is done
    index.base_index, index.is_trained = lists, lists.is_trained
    lists.this.disown()
    return index
