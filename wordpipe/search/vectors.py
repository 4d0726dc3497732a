"""What may enter an index: finite vectors with a direction, made unit length; and how a sample of them is drawn."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import faiss
import numpy as np
import numpy.typing as npt

from wordpipe.errors import ArtifactError, DivergedError, WordpipeError
from wordpipe.runtime import cpu_count

__all__ = ["Blocks", "checked_blocks", "faiss_threads", "sample_rows", "unit_vectors"]

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
        raise error(
            f"{len(bad)} of {len(vectors_ND)} vectors are zero or not finite",
            where=f"row {rows}{' …' if len(bad) > 5 else ''}",
            expected="finite vectors with a direction",
        )
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
