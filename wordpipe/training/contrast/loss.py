"""InfoNCE: the partner of each text is to be told from all other texts.

For unit vectors a_i, b_i and temperature t, with s_ij = a_i . b_j / t, the loss is the mean over both directions and all
pairs of -log(exp(s_ii) / sum_j exp(s_ij)), where j runs over the batch and the queue but for negatives that are masked.

Source: van den Oord et al. 2018, "Representation Learning with Contrastive Predictive Coding", equation 4; both directions
as Radford et al. 2021 (CLIP); the queue as He et al. 2020 (MoCo).
"""

import torch
from torch import Tensor

__all__ = ["info_nce", "nearest_share"]


def info_nce(
    first_BD: Tensor,
    second_BD: Tensor,
    *,
    temperature: float,
    queue_QD: Tensor | None = None,
    same_BN: Tensor | None = None,
    max_similarity: float = 1.0,
) -> Tensor:
    """The mean loss of B pairs, in nats.

    Args:
        first_BD: unit vectors.
        second_BD: unit vectors; row i belongs with row i of `first_BD`.
        temperature: divides the cosines.
        queue_QD: unit vectors of further texts, negatives of all; no gradient goes there.
        same_BN: bool, (B, N) with N = B or B + Q: pairs (i, j) that are no negatives of each other; pair (i, i) always stays.
            The left (B, B) part is symmetric.
        max_similarity: a negative with a cosine above it is left out too; 1 = none is.

    Returns:
        A scalar of the inputs' type; of 16-bit vectors float32.
    """
    first_BD, second_BD = _wide(first_BD), _wide(second_BD)
    cosine_BB = first_BD @ second_BD.T
    cosine_BN, other_BN = cosine_BB, cosine_BB.T
    if queue_QD is not None and len(queue_QD):
        queue_QD = queue_QD.detach().to(first_BD.dtype)
        cosine_BN = torch.cat([cosine_BB, first_BD @ queue_QD.T], dim=1)
        other_BN = torch.cat([cosine_BB.T, second_BD @ queue_QD.T], dim=1)
    return (
        _one_way(cosine_BN, same_BN, temperature, max_similarity)
        + _one_way(other_BN, same_BN, temperature, max_similarity)
    ) / 2


def nearest_share(first_BD: Tensor, second_BD: Tensor) -> float:
    """Share of the first texts whose partner is nearer than all other second texts; a tie is no success."""
    cosine_BB = first_BD @ second_BD.T
    partner_B = cosine_BB.diagonal().clone()
    cosine_BB.fill_diagonal_(-torch.inf)
    return float((partner_B > cosine_BB.amax(dim=1)).double().mean())


def _wide(vectors: Tensor) -> Tensor:
    return vectors.float() if vectors.dtype in (torch.float16, torch.bfloat16) else vectors


def _one_way(cosine_BN: Tensor, same_BN: Tensor | None, temperature: float, max_similarity: float) -> Tensor:
    target_B = torch.arange(len(cosine_BN), device=cosine_BN.device)
    left_out = None
    if same_BN is not None:
        left_out = torch.zeros(cosine_BN.shape, dtype=torch.bool, device=cosine_BN.device)
        left_out[:, : same_BN.shape[1]] = same_BN
    if max_similarity < 1:
        near_BN = cosine_BN.detach() > max_similarity
        left_out = near_BN if left_out is None else left_out | near_BN
    logits_BN = cosine_BN / temperature
    if left_out is not None:
        left_out[target_B, target_B] = False  # the partner itself
        logits_BN = logits_BN.masked_fill(left_out, -torch.inf)
    return torch.nn.functional.cross_entropy(logits_BN, target_B)
