"""Averages of word vectors, weighted by how much a word says."""

import numpy as np
import numpy.typing as npt

__all__ = ["sif_weights", "sum_segments"]

_BLOCK = 4_096  # rows gathered at a time; at 65,536 they fall out of the cache and it is three times as slow


def sif_weights(counts_V: npt.NDArray[np.int64], a: float) -> npt.NDArray[np.float32]:
    """Smooth inverse frequency: a / (a + p), with p a word's share of the text.

    Args:
        counts_V: how often each word occurs, the commonest first. Where all are 0 nobody counted, and p follows Zipf's law:
            it falls as 1 / rank.
        a: smoothing.

    Source: Arora et al. 2017, "A Simple but Tough-to-Beat Baseline for Sentence Embeddings", equation 3.
    """
    falling_V = counts_V if counts_V.any() else 1 / np.arange(1, len(counts_V) + 1)
    weights: npt.NDArray[np.float32] = (a / (a + falling_V / falling_V.sum())).astype(np.float32)
    return weights


def sum_segments(
    table_VD: npt.NDArray[np.float32], rows: npt.NDArray[np.int64], lengths_N: npt.NDArray[np.int64]
) -> npt.NDArray[np.float32]:
    """The sums of table rows over N consecutive segments; zero for an empty one.

    Args:
        table_VD: vectors.
        rows: rows of all segments, one after the other; they sum to `lengths_N.sum()`.
        lengths_N: rows per segment.

    Returns:
        (N, D) float32. A segment is always added up in the same order, whatever is around it.
    """
    sums_ND = np.zeros((len(lengths_N), table_VD.shape[1]), dtype=np.float32)
    filled = np.flatnonzero(lengths_N)
    ends = np.cumsum(lengths_N[filled])
    starts = ends - lengths_N[filled]
    first = 0
    while first < len(filled):
        stop = max(int(np.searchsorted(ends, starts[first] + _BLOCK, side="right")), first + 1)
        begin, end = int(starts[first]), int(ends[stop - 1])
        sums_ND[filled[first:stop]] = np.add.reduceat(table_VD[rows[begin:end]], starts[first:stop] - begin, axis=0)
        first = stop
    return sums_ND
