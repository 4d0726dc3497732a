"""Loss on held-out text: always the same sequences and the same masks, so that two figures can be compared."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from wordpipe.model.language_model import LanguageModel
from wordpipe.model.seeds import seed_of
from wordpipe.training.blocks import Blocks, spread
from wordpipe.training.execution import Execution, LossSum
from wordpipe.training.objectives import Objective, Targets

__all__ = ["Total", "Validation"]

_SEED = seed_of("validation")  # of the masks; not the run's seed: runs with different seeds are compared too
_AT_ONCE = 1024  # sequences whose masks are drawn together: a constant, as masks must not depend on memory


@dataclass(frozen=True)
class Total:
    """A loss before it is divided.

    Attributes:
        nats: summed over the targets.
        n_targets: their number.
    """

    nats: float
    n_targets: int

    @property
    def loss(self) -> float:
        """Nats per target; 0 where there is none."""
        return self.nats / max(1, self.n_targets)


class Validation:
    """Held-out sequences with their targets.

    Args:
        blocks: the held-out stream.
        objective: what its loss measures.
        execution: where the model is.
        n_positions: positions looked at, spread evenly over the stream, at least one sequence; None: the whole stream, each
            of its ids once (what the last block repeats to be full is no target there).
        micro_batch: sequences computed at once.
    """

    def __init__(
        self, blocks: Blocks, objective: Objective, execution: Execution, *, n_positions: int | None, micro_batch: int
    ) -> None:
        wanted = len(blocks) if n_positions is None else n_positions // blocks.seq_len
        self._blocks, self._objective, self._index = blocks, objective, spread(len(blocks), wanted)
        self._execution, self._micro_batch = execution, micro_batch
        self._counts_once = n_positions is None
        self.n_positions = len(self._index) * blocks.seq_len

    def loss(self, model: LanguageModel, loss_sum: LossSum) -> float:
        """Mean loss per target, in nats; its exponential is the perplexity."""
        return self.total(model, loss_sum).loss

    @torch.no_grad()
    def total(self, model: LanguageModel, loss_sum: LossSum) -> Total:
        """The loss of all targets, without label smoothing and dropout. Logits are never kept."""
        was_training = model.training
        model.eval()
        nats, n_targets = 0.0, 0
        for targets in self._targets():
            chunk = torch.zeros((), device=self._execution.device)
            for first in range(0, len(targets.inputs), self._micro_batch):
                with self._execution.autocast():
                    chunk += loss_sum(model, targets.rows(first, first + self._micro_batch))
            nats, n_targets = nats + float(chunk), n_targets + int(targets.weights.sum())
        model.train(was_training)
        return Total(nats, n_targets)

    def _targets(self) -> Iterator[Targets]:
        """The sequences with their masks, drawn anew each time, the same ones: a thousandth of the work, and no memory."""
        device = self._execution.device
        for chunk, first in enumerate(range(0, len(self._index), _AT_ONCE)):
            index_B = self._index[first : first + _AT_ONCE]
            generator = torch.Generator(device).manual_seed(_SEED if chunk == 0 else seed_of("validation", chunk))
            targets = self._objective.targets(self._blocks.rows(index_B).to(device), generator, 1.0)
            yield self._once(targets) if self._counts_once and index_B[-1] == len(self._blocks) - 1 else targets

    def _once(self, targets: Targets) -> Targets:
        """Without the targets of the last block that the block before it has, too."""
        places_K = (
            np.arange(targets.labels.shape[1]) if targets.positions is None else targets.positions[-1].cpu().numpy()
        )
        is_repeated_K = places_K < len(self._blocks.opening) + self._blocks.n_repeated
        weights = targets.weights.clone()
        weights[-1, torch.from_numpy(is_repeated_K)] = 0.0
        return replace(targets, weights=weights)
