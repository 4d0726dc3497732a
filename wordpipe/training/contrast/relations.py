"""Learning from another encoder how alike the texts of a batch are, whatever the spaces of the two look like."""

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["relational_loss"]


def relational_loss(student_BD: Tensor, teacher_BE: Tensor, temperature: float) -> Tensor:
    """Mean KL divergence, over the texts, of whom the teacher finds near from whom the student does.

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
    """Scaled cosines with all other texts, (B, B - 1)."""
    B = len(vectors_BD)
    logits_BB = vectors_BD @ vectors_BD.T / temperature
    return logits_BB.flatten()[1:].view(B - 1, B + 1)[:, :-1].reshape(B, B - 1)  # without the diagonal
