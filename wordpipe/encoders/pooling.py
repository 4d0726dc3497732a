"""Poolings: one vector of a window's hidden states, by NumPy and by torch, and one vector of a text's windows.

Shapes: S sequences (or a batch B) of T positions, N positions of all of them, W windows of a text, D numbers of a state,
V token ids. Special tokens count, as in sentence-transformers.

Sources: Reimers and Gurevych 2019, "Sentence-BERT" (mean, cls, max); rising, where a token weighs as much as its place says:
Muennighoff 2022, "SGPT", equation 2; weighted by a / (a + p): Arora et al. 2017, there of word
vectors; first and last layer: Li et al. 2020, "On the Sentence Embeddings from Pre-trained Language Models", section 4.1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from wordpipe.encoders.windows import Ids

if TYPE_CHECKING:
    from torch import Tensor

    from wordpipe.model import Packed

Floats = npt.NDArray[np.float32]

# of a window's weights, as in sentence-transformers: one whose tokens all weigh nothing gets a zero vector
_MIN_WEIGHT = 1e-9


@dataclass(frozen=True, slots=True)
class Pooling:
    """One pooling, which makes one vector of many; its name is a value of `EmbedSettings.pooling`.

    Attributes:
        name: of the pooling.
        rows: by NumPy: states (N, D) of sequences one after the other, their ids (N,), the length of each (S,), and what each
            id weighs (V,) or None; gives (S, D) float32, of a sequence the same bits whatever is around it.
        hidden: by torch, on its device: states (B, T, D) float32, ids (B, T), a mask (B, T), True where there is a token, at
            least one per sequence, or None; what each id weighs (V,) or None. Gives (B, D) float32, to which gradients flow
            back; padding does not count, whatever it holds.
        merge: vectors of the windows of one text (W, D), and the tokens of each, or what they weigh together, (W,): one, (D,).
        layers: what is pooled: the last states, or (ends) those halfway between the first block's input and them.
        is_linear: it is a sum over tokens, so that each has a share in it.
        is_weighted: tokens weigh what the model says.
        exported: what sentence-transformers calls it; "": it has no such module.
        joins: the number of poolings whose vectors it puts side by side.
    """

    name: str
    rows: Callable[[Floats, Ids, Ids, Floats | None], Floats]
    hidden: "Callable[[Tensor, Tensor, Tensor | None, Tensor | None], Tensor]"
    merge: Callable[[Floats, npt.NDArray[np.int64] | Floats], Floats]
    layers: Literal["last", "ends"] = "last"
    is_linear: bool = True
    is_weighted: bool = False
    exported: str = ""
    joins: int = 1

    def merge_windows(self, windows_WD: Floats, tokens_W: npt.NDArray[np.int64] | Floats, counts_N: Ids) -> Floats:
        """Return one vector per text, pooled of the vectors of its windows.

        Args:
            windows_WD: vectors of all windows, text after text.
            tokens_W: see `merge`.
            counts_N: windows of each text; 0 gives a zero vector.

        Returns:
            (N, D) float32. A text of one window keeps its bits.
        """
        merged_ND = np.zeros((len(counts_N), windows_WD.shape[1]), dtype=np.float32)
        starts_N = np.cumsum(counts_N) - counts_N
        merged_ND[counts_N == 1] = windows_WD[starts_N[counts_N == 1]]
        for text in np.flatnonzero(counts_N > 1):
            part = slice(starts_N[text], starts_N[text] + counts_N[text])
            merged_ND[text] = self.merge(windows_WD[part], tokens_W[part])
        return merged_ND


def _mean_rows(states_ND: Floats, ids_N: Ids, lengths_S: Ids, weights_V: Floats | None) -> Floats:
    shares_N, starts_S = token_shares(ids_N, lengths_S, weights_V), np.cumsum(lengths_S) - lengths_S
    sums_SD: Floats = np.add.reduceat(states_ND * shares_N[:, None], starts_S, axis=0)
    return sums_SD


def token_shares(ids_N: Ids, lengths_S: Ids, weights_V: Floats | None) -> Floats:
    """Return the share of each token in the mean pooling of its sequence, (N,) float32.

    The shares of a sequence add up to 1.
    """
    if weights_V is None:
        return np.repeat(1 / lengths_S, lengths_S).astype(np.float32)
    weights_N = weights_V[ids_N]
    sums_S = np.add.reduceat(weights_N, np.cumsum(lengths_S) - lengths_S)
    shares_N: Floats = weights_N / np.repeat(np.maximum(sums_S, np.float32(_MIN_WEIGHT)), lengths_S)
    return shares_N


def _mean_hidden(
    hidden_BTD: "Tensor", ids_BT: "Tensor", mask_BT: "Tensor | None", weights_V: "Tensor | None"
) -> "Tensor":
    import torch

    weights_BT = torch.ones_like(ids_BT, dtype=torch.float32) if weights_V is None else weights_V[ids_BT]
    if mask_BT is not None:
        weights_BT, hidden_BTD = weights_BT * mask_BT, hidden_BTD.masked_fill(~mask_BT.unsqueeze(-1), 0)
    sums_BD = torch.bmm(weights_BT[:, None], hidden_BTD)[:, 0]
    return sums_BD / weights_BT.sum(dim=1, keepdim=True).clamp_min(_MIN_WEIGHT)


def _average(windows_WD: Floats, tokens_W: npt.NDArray[np.int64] | Floats) -> Floats:
    """Return the weighted mean of a text's windows, its pooled vector."""
    if not tokens_W.any():
        return np.zeros_like(windows_WD[0])
    mean_D: Floats = np.average(windows_WD, axis=0, weights=tokens_W)
    return mean_D


def _max_rows(states_ND: Floats, ids_N: Ids, lengths_S: Ids, weights_V: Floats | None) -> Floats:
    largest_SD: Floats = np.maximum.reduceat(states_ND, np.cumsum(lengths_S) - lengths_S, axis=0)
    return largest_SD


def _max_hidden(
    hidden_BTD: "Tensor", ids_BT: "Tensor", mask_BT: "Tensor | None", weights_V: "Tensor | None"
) -> "Tensor":
    if mask_BT is not None:
        hidden_BTD = hidden_BTD.masked_fill(~mask_BT.unsqueeze(-1), -float("inf"))
    return hidden_BTD.amax(dim=1)


def _largest(windows_WD: Floats, tokens_W: npt.NDArray[np.int64] | Floats) -> Floats:
    """Return the largest value of each number in the vectors of a text's windows."""
    largest_D: Floats = windows_WD.max(axis=0)
    return largest_D


def _first_rows(states_ND: Floats, ids_N: Ids, lengths_S: Ids, weights_V: Floats | None) -> Floats:
    first_SD: Floats = states_ND[np.cumsum(lengths_S) - lengths_S]
    return first_SD


def _first_hidden(
    hidden_BTD: "Tensor", ids_BT: "Tensor", mask_BT: "Tensor | None", weights_V: "Tensor | None"
) -> "Tensor":
    return hidden_BTD[:, 0]


def _last_rows(states_ND: Floats, ids_N: Ids, lengths_S: Ids, weights_V: Floats | None) -> Floats:
    last_SD: Floats = states_ND[np.cumsum(lengths_S) - 1]
    return last_SD


def _last_hidden(
    hidden_BTD: "Tensor", ids_BT: "Tensor", mask_BT: "Tensor | None", weights_V: "Tensor | None"
) -> "Tensor":
    if mask_BT is None:
        return hidden_BTD[:, -1]
    return hidden_BTD.gather(1, (mask_BT.sum(dim=1) - 1)[:, None, None].expand(-1, 1, hidden_BTD.shape[2]))[:, 0]


def _root_rows(states_ND: Floats, ids_N: Ids, lengths_S: Ids, weights_V: Floats | None) -> Floats:
    return _mean_rows(states_ND, ids_N, lengths_S, None) * np.sqrt(lengths_S)[:, None].astype(np.float32)


def _root_hidden(
    hidden_BTD: "Tensor", ids_BT: "Tensor", mask_BT: "Tensor | None", weights_V: "Tensor | None"
) -> "Tensor":
    import torch

    lengths_B1 = torch.ones_like(ids_BT).mul(1 if mask_BT is None else mask_BT).sum(dim=1, keepdim=True)
    return _mean_hidden(hidden_BTD, ids_BT, mask_BT, None) * lengths_B1.sqrt()


def _rising_rows(states_ND: Floats, ids_N: Ids, lengths_S: Ids, weights_V: Floats | None) -> Floats:
    starts_S = np.cumsum(lengths_S) - lengths_S
    place_N = (np.arange(1, len(ids_N) + 1) - np.repeat(starts_S, lengths_S)).astype(np.float32)
    share_N1 = (place_N / np.repeat(lengths_S * (lengths_S + 1) / 2, lengths_S))[:, None].astype(np.float32)
    sums_SD: Floats = np.add.reduceat(states_ND * share_N1, starts_S, axis=0)
    return sums_SD


def _rising_hidden(
    hidden_BTD: "Tensor", ids_BT: "Tensor", mask_BT: "Tensor | None", weights_V: "Tensor | None"
) -> "Tensor":
    import torch

    place_BT = torch.arange(1, ids_BT.shape[1] + 1, device=ids_BT.device, dtype=torch.float32).expand(ids_BT.shape)
    if mask_BT is not None:
        place_BT, hidden_BTD = place_BT * mask_BT, hidden_BTD.masked_fill(~mask_BT.unsqueeze(-1), 0)
    return torch.bmm(place_BT[:, None], hidden_BTD)[:, 0] / place_BT.sum(dim=1, keepdim=True)


POOLINGS = {
    one.name: one
    for one in (
        Pooling("mean", _mean_rows, _mean_hidden, _average, exported="mean_tokens"),
        Pooling("cls", _first_rows, _first_hidden, _average, is_linear=False, exported="cls_token"),
        Pooling("max", _max_rows, _max_hidden, _largest, is_linear=False, exported="max_tokens"),
        Pooling("last", _last_rows, _last_hidden, _average, is_linear=False, exported="lasttoken"),
        Pooling("mean-root", _root_rows, _root_hidden, _average, exported="mean_sqrt_len_tokens"),
        Pooling("rising", _rising_rows, _rising_hidden, _average, is_linear=False, exported="weightedmean_tokens"),
        Pooling("first-last", _mean_rows, _mean_hidden, _average, layers="ends"),
        Pooling("weighted", _mean_rows, _mean_hidden, _average, is_weighted=True, exported="mean_tokens"),
    )
}
"""The poolings of a model's states, by name."""


def pooling_named(name: str) -> Pooling | None:
    """Return the pooling of a name; `cls+mean`: vectors side by side. None if no pooling has this name.

    Only poolings of the last states, whose tokens all weigh alike, can stand side by side.
    """
    first, *others = (POOLINGS.get(part) for part in name.split("+"))
    if first is None or not others:
        return first
    parts = [part for part in (first, *others) if part is not None and part.exported and not part.is_weighted]
    return _side_by_side(name, parts) if len(parts) == 1 + len(others) else None


def _side_by_side(name: str, parts: "list[Pooling]") -> Pooling:
    """Return the pooling whose vector is those of several, one after the other."""

    def rows(states_ND: Floats, ids_N: Ids, lengths_S: Ids, weights_V: Floats | None) -> Floats:
        return np.concatenate([part.rows(states_ND, ids_N, lengths_S, weights_V) for part in parts], axis=1)

    def hidden(
        hidden_BTD: "Tensor", ids_BT: "Tensor", mask_BT: "Tensor | None", weights_V: "Tensor | None"
    ) -> "Tensor":
        import torch

        return torch.cat([part.hidden(hidden_BTD, ids_BT, mask_BT, weights_V) for part in parts], dim=1)

    def merge(windows_WD: Floats, tokens_W: npt.NDArray[np.int64] | Floats) -> Floats:
        own = zip(parts, np.split(windows_WD, len(parts), axis=1), strict=True)
        return np.concatenate([part.merge(windows, tokens_W) for part, windows in own])

    return Pooling(name, rows, hidden, merge, is_linear=False, exported=name, joins=len(parts))


def pool_packed(hidden_ND: "Tensor", packed: "Packed", weights_V: "Tensor | None" = None) -> "Tensor":
    """Return the means of packed sequences by torch, (S, D) float32 in the order in which the sequences were given.

    Args:
        hidden_ND: what is pooled, as `LanguageModel.encode_packed` gives it.
        packed: the sequences.
        weights_V: what each id weighs in the mean; None: all alike.
    """
    import torch

    runs = zip(packed.runs(hidden_ND.float()), packed.runs(packed.ids), packed.real, strict=True)
    pooled = [_mean_hidden(hidden_BTD, ids_BT, real_BT, weights_V) for hidden_BTD, ids_BT, real_BT in runs]
    back_S = torch.from_numpy(np.argsort(packed.order)).to(hidden_ND.device)
    return torch.cat(pooled).index_select(0, back_S)
