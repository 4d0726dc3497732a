"""One vector of a window's hidden states, and one vector of a text's windows."""

from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

__all__ = ["Pooling", "merge_windows", "pool_hidden"]

Pooling = Literal["mean", "cls", "max"]


def pool_hidden(hidden_BTD: torch.Tensor, mask_BT: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    """One vector per sequence, as sentence-transformers pools: special tokens count, padding does not.

    Args:
        hidden_BTD: last hidden states.
        mask_BT: True where there is a token; at least one per sequence.
        pooling: mean over tokens, the first token (cls), or the largest number of each dimension (max).

    Returns:
        (B, D) float32.

    Source: Reimers and Gurevych 2019, "Sentence-BERT".
    """
    hidden_BTD = hidden_BTD.float()
    if pooling == "cls":
        return hidden_BTD[:, 0]
    mask_BT1 = mask_BT.unsqueeze(-1)
    if pooling == "max":
        return hidden_BTD.masked_fill(~mask_BT1, -torch.inf).amax(dim=1)
    return hidden_BTD.masked_fill(~mask_BT1, 0).sum(dim=1) / mask_BT1.sum(dim=1)


def merge_windows(
    windows_WD: npt.NDArray[np.float32],
    tokens_W: npt.NDArray[np.int64],
    counts_N: npt.NDArray[np.int64],
    pooling: Pooling,
) -> npt.NDArray[np.float32]:
    """One vector per text of the vectors of its windows.

    Mean and cls are averaged with the windows' tokens as weights, max takes the largest of each dimension.

    Args:
        windows_WD: vectors of all windows, text after text.
        tokens_W: tokens of each window.
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
        else:
            merged_ND[text] = np.average(windows_WD[part], axis=0, weights=tokens_W[part])
    return merged_ND
