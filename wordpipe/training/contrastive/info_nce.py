"""InfoNCE: the partner of each text is to be found among all other texts; and learning from another encoder's similarities.

For unit vectors a_i, b_i and temperature t, with s_ij = a_i . b_j / t, the loss is the mean over both directions and all
pairs of -log(exp(s_ii) / sum_j exp(s_ij)), where j runs over the batch but for negatives that are masked.

Source: van den Oord et al. 2018, "Representation Learning with Contrastive Predictive Coding", equation 4; both directions
as Radford et al. 2021 (CLIP).
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from wordpipe.training.contrastive.pairs import PairBatch, same_pairs
from wordpipe.training.contrastive.settings import EncoderSettings
from wordpipe.training.steps import Measured


def info_nce_loss(
    first_BD: Tensor, second_BD: Tensor, *, temperature: float, same_BB: Tensor | None = None,
    max_similarity: float = 1.0,
) -> Tensor:  # fmt: skip
    """Return the mean InfoNCE loss of B pairs, in nats.

    Args:
        first_BD: unit vectors.
        second_BD: unit vectors; row i belongs with row i of `first_BD`.
        temperature: divides the cosines.
        same_BB: symmetric bool: pairs (i, j) that are no negatives of each other; pair (i, i) always stays.
        max_similarity: a negative with a cosine above it is left out too; 1 = none is.

    Returns:
        A scalar of the inputs' type; of 16-bit vectors float32.
    """
    cosine_BB = _wide(first_BD) @ _wide(second_BD).T
    ways = [_one_way(cosines, same_BB, temperature, max_similarity) for cosines in (cosine_BB, cosine_BB.T)]
    return (ways[0] + ways[1]) / 2


def nearest_share(first_BD: Tensor, second_BD: Tensor) -> float:
    """Measure InfoNCE's task: the share of first texts whose partner is nearer than all other second texts.

    A tie is no success.
    """
    cosine_BB = first_BD @ second_BD.T
    partner_B = cosine_BB.diagonal().clone()
    cosine_BB.fill_diagonal_(-torch.inf)
    return float((partner_B > cosine_BB.amax(dim=1)).double().mean())


def pair_loss(first_BD: Tensor, second_BD: Tensor, batch: PairBatch, settings: EncoderSettings) -> Tensor:
    """Return the InfoNCE loss of a batch's unit vectors by the settings."""
    same_BB = false_negatives(batch, first_BD.device) if settings.false_negatives == "drop" else None
    return info_nce_loss(
        first_BD, second_BD, temperature=settings.temperature, same_BB=same_BB, max_similarity=settings.max_similarity
    )


def measured(first_BD: Tensor, second_BD: Tensor, batch: PairBatch, settings: EncoderSettings) -> Measured:
    """Measure InfoNCE on held-out pairs: how well matching texts are found, by their unit vectors."""
    same_BB = false_negatives(batch, first_BD.device)  # whatever is trained on, so that runs compare
    loss = float(info_nce_loss(first_BD, second_BD, temperature=settings.temperature, same_BB=same_BB))
    metrics = {"valid_loss": loss, "valid_nearest": nearest_share(first_BD, second_BD), "valid_pairs": len(first_BD)}
    return Measured(loss, len(batch.first.ids) + len(batch.second.ids), metrics)


def _wide(vectors: Tensor) -> Tensor:
    return vectors.float() if vectors.dtype in (torch.float16, torch.bfloat16) else vectors


def _one_way(cosine_BB: Tensor, same_BB: Tensor | None, temperature: float, max_similarity: float) -> Tensor:
    """Return the InfoNCE loss of one side: each text's partner against all texts of the other side."""
    target_B = torch.arange(len(cosine_BB), device=cosine_BB.device)
    left_out = None if same_BB is None else same_BB.clone()
    if max_similarity < 1:
        near_BB = cosine_BB.detach() > max_similarity
        left_out = near_BB if left_out is None else left_out | near_BB
    logits_BB = cosine_BB / temperature
    if left_out is not None:
        left_out[target_B, target_B] = False  # the partner itself
        logits_BB = logits_BB.masked_fill(left_out, -torch.inf)
    return F.cross_entropy(logits_BB, target_B)


def false_negatives(batch: PairBatch, device: str | torch.device = "cpu") -> Tensor:
    """Return InfoNCE's mask of false negatives as a tensor; see `same_pairs`.

    Args:
        batch: B pairs.
        device: where the mask is wanted.

    Returns:
        (B, B) bool, symmetric, True on the diagonal.
    """
    document_B, first_B, second_B = (
        torch.from_numpy(numbers).to(device)
        for numbers in (batch.document, batch.first.hashes(), batch.second.hashes())
    )
    same_BB: Tensor = same_pairs(document_B, first_B, second_B)
    return same_BB


def relational_loss(student_BD: Tensor, teacher_BE: Tensor, temperature: float) -> Tensor:
    """Return beside InfoNCE the mean KL divergence between the teacher's and the student's similarities.

    For each text the cosines with all others, divided by the temperature, become a distribution; the text itself is left
    out. A constant added to all of the student's cosines costs nothing, their order and their distances do.

    Args:
        student_BD: unit vectors; gradients go there.
        teacher_BE: unit vectors of the same texts, of any width.
        temperature: of both distributions.

    Returns:
        A scalar in nats, float32; 0 for fewer than three texts, where nobody can be nearer than another.

    Source: Liu et al. 2023, "RankCSE", equation 7 (ListNet), with the teacher's texts as they are; Park et al. 2019 for the
    idea of relations.
    """
    B = len(student_BD)
    if B < 3:
        return student_BD.sum() * 0.0
    mine_BB, theirs_BB = (_others(vectors.float(), temperature) for vectors in (student_BD, teacher_BE))
    return F.kl_div(
        torch.log_softmax(mine_BB, dim=1), torch.log_softmax(theirs_BB, dim=1), reduction="batchmean", log_target=True
    )


def _others(vectors_BD: Tensor, temperature: float) -> Tensor:
    """Return the scaled cosines of each text with all other texts, (B, B - 1)."""
    B = len(vectors_BD)
    logits_BB = vectors_BD @ vectors_BD.T / temperature
    return logits_BB.flatten()[1:].view(B - 1, B + 1)[:, :-1].reshape(B, B - 1)  # without the diagonal
