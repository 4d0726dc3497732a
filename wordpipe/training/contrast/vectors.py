"""One vector per text of a transformer's hidden states, with gradients."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from wordpipe.model.language_model import LanguageModel
from wordpipe.model.packed import Packed

__all__ = ["pool_packed", "text_vectors"]

_LEAST = 1e-9  # of a text's weights: one of special tokens only has none, and sentence-transformers divides by this too


def text_vectors(model: LanguageModel, packed: Packed, weights_V: Tensor | None) -> Tensor:
    """Unit vectors (S, D) of packed texts, in the order in which they were given, float32.

    Args:
        model: an encoder; dropout acts while it is training.
        packed: S sequences.
        weights_V: what a token weighs in the mean; None: all alike, special tokens included.
    """
    return F.normalize(pool_packed(model.encode_packed(packed), packed, weights_V), dim=-1)


def pool_packed(hidden_ND: Tensor, packed: Packed, weights_V: Tensor | None) -> Tensor:
    """Weighted means (S, D) of the hidden states of each sequence, in the given order, float32.

    Source: mean: Reimers and Gurevych 2019; weighted by a / (a + p): Arora et al. 2017, there of word vectors.
    """
    pooled = []
    for hidden_BTD, ids_BT, real_BT in zip(
        packed.runs(hidden_ND.float()), packed.runs(packed.ids), packed.real, strict=True
    ):
        shares_BT = torch.ones_like(ids_BT, dtype=torch.float32) if weights_V is None else weights_V[ids_BT]
        if real_BT is not None:
            shares_BT = shares_BT * real_BT
        summed_BD = torch.bmm(shares_BT[:, None], hidden_BTD)[:, 0]
        pooled.append(summed_BD / shares_BT.sum(dim=1, keepdim=True).clamp_min(_LEAST))
    back_S = torch.from_numpy(np.argsort(packed.order)).to(hidden_ND.device)
    return torch.cat(pooled).index_select(0, back_S)
