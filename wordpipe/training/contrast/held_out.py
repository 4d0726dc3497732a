"""How well an encoder knows partners again among held-out pairs, without dropout."""

from collections.abc import Callable

import torch
from torch import Tensor

from wordpipe.model.language_model import LanguageModel
from wordpipe.training.contrast.batch import PairBatch, Ragged
from wordpipe.training.contrast.false_negatives import false_negatives
from wordpipe.training.contrast.loss import info_nce, nearest_share
from wordpipe.training.contrast.sequences import Framing, rows_of
from wordpipe.training.contrast.vectors import text_vectors
from wordpipe.training.execution import Execution

__all__ = ["held_out_check"]


def held_out_check(
    model: LanguageModel,
    batch: PairBatch,
    framing: Framing,
    weights_V: Tensor | None,
    execution: Execution,
    *,
    temperature: float,
    at_once: int,
) -> Callable[[], tuple[float, float]]:
    """A function that gives the loss of the pairs and the share of them whose partner is the nearest.

    Args:
        model: in evaluation mode whenever the function is called.
        batch: the pairs, always the same.
        framing: of the sequences.
        weights_V: what each token weighs in the mean; None: all alike.
        execution: device and numbers.
        temperature: of the loss.
        at_once: positions computed at a time.
    """
    same_BB = false_negatives(batch, device=execution.device)

    @torch.no_grad()
    def encode(texts: Ragged) -> Tensor:
        vectors_BD = torch.empty(len(texts.lengths), model.config.dim, device=execution.device)
        for rows in framing.pieces(texts, at_once):
            with execution.autocast():
                vectors_BD[torch.from_numpy(rows)] = text_vectors(
                    model, framing.packed(rows_of(texts, rows)), weights_V
                )
        return vectors_BD

    def check() -> tuple[float, float]:
        first_BD, second_BD = encode(batch.first), encode(batch.second)
        loss = info_nce(first_BD, second_BD, temperature=temperature, same_BN=same_BB)
        return float(loss), nearest_share(first_BD, second_BD)

    return check
