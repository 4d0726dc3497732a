"""Pooling: one vector of a window's hidden states, by NumPy and by torch, and one vector of a text's windows.

Shapes: S sequences (or a batch B) of T positions, N positions of all of them, D numbers of a state, V token ids.

Sources: Reimers and Gurevych 2019, "Sentence-BERT" (mean, cls, max); weighted by a / (a + p): Arora et al. 2017, there of word
vectors; first and last layer: Li et al. 2020, "On the Sentence Embeddings from Pre-trained Language Models", section 4.1.
"""

from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from wordpipe.sentences.windows import Ids

if TYPE_CHECKING:
    from torch import Tensor

    from wordpipe.model import Packed

Pooling = Literal["mean", "cls", "max", "first-last", "weighted"]
"""The mean over tokens (mean; first-last: of the states halfway between the first block's input and the last one's output),
weighted by what each token weighs (weighted), the first token's state (cls), or the largest number of each dimension (max).
Special tokens count, as in sentence-transformers."""

Floats = npt.NDArray[np.float32]

LINEAR: tuple[Pooling, ...] = ("mean", "first-last", "weighted")
"""Poolings that are a sum over tokens."""

# of a window's weights, as in sentence-transformers: one whose tokens all weigh nothing gets a zero vector
_MIN_WEIGHT = 1e-9


def pool_rows(
    states_ND: Floats, ids_N: Ids, lengths_S: Ids, pooling: Pooling, weights_V: Floats | None = None
) -> Floats:
    """One vector per sequence, by NumPy.

    Args:
        states_ND: hidden states of all sequences, one after the other.
        ids_N: the ids they are of.
        lengths_S: ids of each sequence, at least 1.
        pooling: see `Pooling`.
        weights_V: what each id weighs, for `weighted`.

    Returns:
        (S, D) float32. A sequence has the same bits whatever is around it.
    """
    starts_S = np.cumsum(lengths_S) - lengths_S
    if pooling == "cls":
        first_SD: Floats = states_ND[starts_S]
        return first_SD
    if pooling == "max":
        largest_SD: Floats = np.maximum.reduceat(states_ND, starts_S, axis=0)
        return largest_SD
    shares_N = token_shares(ids_N, lengths_S, pooling, weights_V)
    sums_SD: Floats = np.add.reduceat(states_ND * shares_N[:, None], starts_S, axis=0)
    return sums_SD


def token_shares(ids_N: Ids, lengths_S: Ids, pooling: Pooling, weights_V: Floats | None) -> Floats:
    """What each token counts for in the mean of its sequence, (N,) float32; they add up to 1 in each."""
    if pooling != "weighted":
        return np.repeat(1 / lengths_S, lengths_S).astype(np.float32)
    assert weights_V is not None
    weights_N = weights_V[ids_N]
    sums_S = np.add.reduceat(weights_N, np.cumsum(lengths_S) - lengths_S)
    shares_N: Floats = weights_N / np.repeat(np.maximum(sums_S, np.float32(_MIN_WEIGHT)), lengths_S)
    return shares_N


def pool_hidden(
    hidden_BTD: "Tensor",
    ids_BT: "Tensor",
    mask_BT: "Tensor | None",
    pooling: Pooling,
    weights_V: "Tensor | None" = None,
) -> "Tensor":
    """`pool_rows` by torch, of padded sequences, on their device: (B, D) float32. Padding does not count, whatever it holds.

    Args:
        hidden_BTD: what is pooled; gradients flow back to it.
        ids_BT: the ids it is of.
        mask_BT: True where there is a token, at least one per sequence; None: everywhere.
        pooling: see `Pooling`.
        weights_V: what each id weighs, for `weighted`.
    """
    import torch

    hidden_BTD = hidden_BTD.float()
    if pooling == "cls":
        return hidden_BTD[:, 0]
    if pooling == "max":
        if mask_BT is not None:
            hidden_BTD = hidden_BTD.masked_fill(~mask_BT.unsqueeze(-1), -torch.inf)
        return hidden_BTD.amax(dim=1)
    if pooling == "weighted":
        assert weights_V is not None
        weights_BT = weights_V[ids_BT]
    else:
        weights_BT = torch.ones_like(ids_BT, dtype=torch.float32)
    if mask_BT is not None:
        weights_BT, hidden_BTD = weights_BT * mask_BT, hidden_BTD.masked_fill(~mask_BT.unsqueeze(-1), 0)
    sums_BD = torch.bmm(weights_BT[:, None], hidden_BTD)[:, 0]
    return sums_BD / weights_BT.sum(dim=1, keepdim=True).clamp_min(_MIN_WEIGHT)


def pool_packed(hidden_ND: "Tensor", packed: "Packed", weights_V: "Tensor | None" = None) -> "Tensor":
    """`pool_hidden` of packed sequences: means (S, D) float32 in the order in which the sequences were given.

    Args:
        hidden_ND: what is pooled, as `LanguageModel.encode_packed` gives it.
        packed: the sequences.
        weights_V: what each id weighs in the mean; None: all alike.
    """
    import torch

    pooling: Pooling = "mean" if weights_V is None else "weighted"
    pooled = [
        pool_hidden(hidden_BTD, ids_BT, real_BT, pooling, weights_V)
        for hidden_BTD, ids_BT, real_BT in zip(
            packed.runs(hidden_ND.float()), packed.runs(packed.ids), packed.real, strict=True
        )
    ]
    back_S = torch.from_numpy(np.argsort(packed.order)).to(hidden_ND.device)
    return torch.cat(pooled).index_select(0, back_S)


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
