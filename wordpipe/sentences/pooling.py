"""One vector of a window's hidden states, and one vector of a text's windows."""

from typing import Literal

import numpy as np
import numpy.typing as npt

Pooling = Literal["mean", "cls", "max", "first-last", "weighted"]
Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]

LINEAR: tuple[Pooling, ...] = ("mean", "first-last", "weighted")
"""Poolings that are a sum over tokens."""

# of a window's weights, as in sentence-transformers: one whose tokens all weigh nothing gets a zero vector
_LEAST = 1e-9


def pool_rows(
    states_ND: Floats, ids_N: Ids, lengths_S: Ids, pooling: Pooling, weights_V: Floats | None = None
) -> Floats:
    """One vector per sequence, as sentence-transformers pools: special tokens count.

    Args:
        states_ND: hidden states of all sequences, one after the other; for `first-last` those halfway between the first
            block's input and the last one's output.
        ids_N: the ids they are of.
        lengths_S: ids of each sequence, at least 1.
        pooling: the mean over tokens (mean, first-last), weighted by what each token weighs (weighted), the first token's
            state (cls), or the largest number of each dimension (max).
        weights_V: what each id weighs, for `weighted`.

    Returns:
        (S, D) float32. A sequence has the same bits whatever stands around it.

    Source: Reimers and Gurevych 2019, "Sentence-BERT"; weighted by a / (a + p): Arora et al. 2017, there of word vectors;
    first and last layer: Li et al. 2020, "On the Sentence Embeddings from Pre-trained Language Models", section 4.1.
    """
    starts_S = np.cumsum(lengths_S) - lengths_S
    if pooling == "cls":
        first_SD: Floats = states_ND[starts_S]
        return first_SD
    if pooling == "max":
        largest_SD: Floats = np.maximum.reduceat(states_ND, starts_S, axis=0)
        return largest_SD
    shares_N = shares_of(ids_N, lengths_S, pooling, weights_V)
    sums_SD: Floats = np.add.reduceat(states_ND * shares_N[:, None], starts_S, axis=0)
    return sums_SD


def shares_of(ids_N: Ids, lengths_S: Ids, pooling: Pooling, weights_V: Floats | None) -> Floats:
    """What each token counts for in the mean of its sequence, (N,) float32; they add up to 1 in each."""
    if pooling != "weighted":
        return np.repeat(1 / lengths_S, lengths_S).astype(np.float32)
    assert weights_V is not None
    weights_N = weights_V[ids_N]
    sums_S = np.add.reduceat(weights_N, np.cumsum(lengths_S) - lengths_S)
    shares_N: Floats = weights_N / np.repeat(np.maximum(sums_S, np.float32(_LEAST)), lengths_S)
    return shares_N


def merge_windows(
    windows_WD: Floats, tokens_W: npt.NDArray[np.int64] | Floats, counts_N: Ids, pooling: Pooling
) -> Floats:
    """One vector per text of the vectors of its windows.

    Means and cls are averaged with the windows' tokens as weights, max takes the largest of each dimension.

    Args:
        windows_WD: vectors of all windows, text after text.
        tokens_W: tokens of each window, or for `weighted` what they weigh together.
        counts_N: windows of each text; 0 gives a zero vector.
        pooling: how the windows were pooled.

    Returns:
        (N, D) float32. A text of one window keeps its bits.
    """
    merged_ND = np.zeros((len(counts_N), windows_WD.shape[1]), dtype=np.float32)
    starts_N = np.cumsum(counts_N) - counts_N
    merged_ND[counts_N == 1] = windows_WD[starts_N[counts_N == 1]]
    for text in np.flatnonzero(counts_N > 1):
        part = slice(starts_N[text], starts_N[text] + counts_N[text])
        if pooling == "max":
            merged_ND[text] = windows_WD[part].max(axis=0)
        elif tokens_W[part].any():
            merged_ND[text] = np.average(windows_WD[part], axis=0, weights=tokens_W[part])
    return merged_ND
