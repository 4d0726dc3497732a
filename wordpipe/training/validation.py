"""Loss on held-out text: always the same sequences and the same masks, so that two figures can be compared."""

import math

import torch

from wordpipe.model.language_model import LanguageModel
from wordpipe.model.seeds import seed_of
from wordpipe.training.blocks import Blocks, spread
from wordpipe.training.execution import Execution, LossSum
from wordpipe.training.objectives import Objective

__all__ = ["Validation", "perplexity"]

_SEED = seed_of("validation")  # of the masks; not the run's seed: runs with different seeds are compared too


class Validation:
    """Held-out sequences with their targets, drawn once.

    Args:
        blocks: the held-out stream.
        objective: what its loss measures.
        execution: where the model is.
        n_positions: positions looked at; at least one sequence.
        micro_batch: sequences computed at once.
    """

    def __init__(
        self, blocks: Blocks, objective: Objective, execution: Execution, *, n_positions: int, micro_batch: int
    ) -> None:
        rows = torch.from_numpy(blocks.rows(spread(len(blocks), n_positions // blocks.seq_len))).to(execution.device)
        generator = torch.Generator(execution.device).manual_seed(_SEED)
        self._targets = objective.targets(rows, generator)
        self._execution, self._micro_batch = execution, micro_batch
        self.n_positions = self._targets.inputs.numel()

    @torch.no_grad()
    def loss(self, model: LanguageModel, loss_sum: LossSum) -> float:
        """Mean loss per target, in nats; its exponential is the perplexity. Logits are never kept."""
        model.eval()
        total = torch.zeros((), device=self._execution.device)
        for first in range(0, len(self._targets.inputs), self._micro_batch):
            with self._execution.autocast():
                total += loss_sum(model, self._targets.rows(first, first + self._micro_batch))
        model.train()
        return float(total / self._targets.weights.sum())


def perplexity(loss: float) -> float:
    """How many equally likely tokens the model hesitates between: e to the loss, infinite beyond what a float holds."""
    return math.exp(loss) if loss < 700.0 else math.inf
