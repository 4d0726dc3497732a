"""Which texts of a step are no good negatives of each other: those of one document, and equal ones."""

import torch
from torch import Tensor

from wordpipe.training.contrast.batch import PairBatch
from wordpipe.training.contrast.queue import VectorQueue

__all__ = ["false_negatives"]


def false_negatives(batch: PairBatch, queue: VectorQueue | None = None, device: str | torch.device = "cpu") -> Tensor:
    """The mask that `info_nce` takes: pairs that are of one document, or have a text in common, on whichever side.

    That first text i is second text j makes (i, j) and (j, i) no negatives, as if the same side had it twice.

    Args:
        batch: B pairs.
        queue: texts of earlier steps; n are in it, on the device.
        device: where the mask is wanted.

    Returns:
        (B, B + n) bool; the left (B, B) part is symmetric, True on the diagonal.
    """
    document_B = torch.from_numpy(batch.document).to(device)
    first_B, second_B = (torch.from_numpy(side.hashes()).to(device) for side in (batch.first, batch.second))
    same_BN = _equal(document_B, document_B) | _equal(first_B, first_B) | _equal(second_B, second_B)
    same_BN |= _equal(first_B, second_B) | _equal(second_B, first_B)
    if queue is None:
        return same_BN
    queued_BQ = _equal(document_B, queue.documents) | _equal(first_B, queue.texts) | _equal(second_B, queue.texts)
    return torch.cat([same_BN, queued_BQ], dim=1)


def _equal(mine_B: Tensor, theirs_N: Tensor) -> Tensor:
    return mine_B[:, None] == theirs_N[None, :]
