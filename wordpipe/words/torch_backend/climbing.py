"""One step up: the movements of a batch, combined per row, scaled and added to a matrix.

word2vec goes up pair by pair, and each step sees what the last one did. A batch knows nothing of that: the thousand
gradients that a frequent word collects, all taken at one place, point the same way, and their sum times the learning rate
goes far beyond the top. Where the gradient falls in proportion to the way gone, with curvature c in all, taking the steps
one after the other comes to

    (1 - exp(-lr c)) / c   times the sum of the gradients,

the learning rate itself for a rare word (c small) and one Newton step for a frequent one.
"""

import torch
from torch import Tensor

from wordpipe.words.torch_backend.ascent import Ascent

__all__ = ["climb"]


def climb(matrix_VD: Tensor, ascent: Ascent, slot_V: Tensor, lr: float) -> None:
    """Add a batch's movements to the matrix.

    Every movement of a row is added up in one place, so that the row is read and written once. The places are found without
    sorting: all of them write their number into the row's slot, and the one that is left there, whichever it is, is it.

    Args:
        matrix_VD: float32; changed in place.
        ascent: movements.
        slot_V: int64 scratch, one number per row; what it holds does not matter.
        lr: learning rate of one pair.
    """
    rows_R = ascent.rows.long()
    slot_V[rows_R] = torch.arange(len(rows_R), device=rows_R.device)
    place_R = slot_V[rows_R]
    sum_RD = torch.zeros_like(ascent.ascent).index_add_(0, place_R, ascent.ascent)
    curvature_R = torch.zeros_like(ascent.curvature).index_add_(0, place_R, ascent.curvature)
    matrix_VD.index_add_(0, rows_R, sum_RD.mul_(_rate(curvature_R, lr)[:, None]))  # the other places hold zeros


def _rate(curvature_R: Tensor, lr: float) -> Tensor:
    """What sums of gradients are multiplied by."""
    positive_R = curvature_R.clamp(min=1e-9)
    return torch.expm1(positive_R * -lr).neg_().div_(positive_R)
