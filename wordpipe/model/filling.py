"""What an encoder expects at masked positions."""

from collections.abc import Sequence

import torch
from torch import Tensor

from wordpipe.errors import DivergedError
from wordpipe.model.language_model import LanguageModel

__all__ = ["likeliest", "span_of_masks"]


@torch.inference_mode()
def likeliest(
    model: LanguageModel, ids: Sequence[int], positions: Sequence[int], allowed_V: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """The likeliest tokens at some positions, each predicted while the others are masked as well.

    Args:
        model: an encoder in evaluation mode.
        ids: a whole sequence, special ids included.
        positions: K places in it.
        allowed_V: bool, on the model's device: the probabilities are shared among these ids alone.
        k: how many.

    Returns:
        ids_KC, probabilities_KC: on the CPU, int64 and float32, the likeliest first; C is k, or fewer where there are fewer
        tokens.

    Raises:
        DivergedError: the model's logits are not finite.
    """
    ids_1T, at_1K = (torch.tensor([numbers], device=allowed_V.device) for numbers in (ids, positions))
    hidden_KD = model.encode(ids_1T, at_BK=at_1K)[0]
    logits_KV = model.logits_at(hidden_KD).float()
    if not torch.isfinite(logits_KV).all():
        raise DivergedError(
            "the model gave logits that are not finite", hint="its weights may have diverged in training"
        )
    shares_KV = logits_KV.masked_fill(~allowed_V, -torch.inf).softmax(dim=-1)
    best = shares_KV.topk(min(k, int(allowed_V.sum())))
    return best.indices.cpu(), best.values.cpu()


def span_of_masks(positions: Sequence[int], n_ids: int, room: int) -> tuple[int, int] | None:
    """Which part of a sequence to read where not all of it fits: all masks, with as much before as after them.

    Args:
        positions: of the masks, ascending.
        n_ids: ids of the whole sequence.
        room: ids that fit.

    Returns:
        First id and the one after the last; None where the masks are too far apart.

    >>> span_of_masks([50], n_ids=100, room=11)
    (45, 56)
    >>> span_of_masks([2], n_ids=100, room=11)
    (0, 11)
    >>> span_of_masks([3, 30], n_ids=100, room=11) is None
    True
    """
    width = positions[-1] - positions[0] + 1
    if width > room:
        return None
    start = max(0, min(positions[0] - (room - width) // 2, n_ids - room))
    return start, min(n_ids, start + room)
