"""Loss on held-out text: always the same sequences and the same masks, so that two figures can be compared.

The loss is -Σ log p of the tokens, in nats. A loss per token depends on the tokenizer: the same text in fewer tokens has a
higher loss for each. What is divided by words or bytes of the text itself does not: it compares models with different
tokenizers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from wordpipe.model import LanguageModel, seed_of
from wordpipe.training.execution import Execution, LossSum
from wordpipe.training.objectives_and_masking import AnyTargets, Examples, Objective, Targets
from wordpipe.training.token_stream import Blocks, spread

if TYPE_CHECKING:
    from wordpipe.model import Transformer

_SEED = seed_of("validation")  # of the masks; not the run's seed: runs with different seeds are compared too
_AT_ONCE = 1024  # sequences whose masks are drawn together: a constant, as masks must not depend on memory


@dataclass(frozen=True)
class Total:
    """The loss of held-out targets before it is divided by their number.

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
        self, blocks: Examples, objective: Objective, execution: Execution, *, n_positions: int | None, micro_batch: int
    ) -> None:
        wanted = len(blocks) if n_positions is None else n_positions // blocks.seq_len
        self._blocks, self._objective, self._index = blocks, objective, spread(len(blocks), wanted)
        self._execution, self._micro_batch = execution, micro_batch
        self._counts_once = n_positions is None
        self.n_positions = len(self._index) * blocks.seq_len

    @torch.no_grad()
    def total(self, model: "Transformer", loss_sum: LossSum) -> Total:
        """Return the loss of all held-out targets, without label smoothing and dropout. Logits are never kept."""
        was_training = model.training
        model.eval()
        nats, n_targets = 0.0, 0
        for targets in self._targets():
            chunk = torch.zeros((), device=self._execution.device)
            for first in range(0, len(targets), self._micro_batch):
                with self._execution.autocast():
                    chunk += loss_sum(model, targets.rows(first, first + self._micro_batch))
            nats, n_targets = nats + float(chunk), n_targets + int(targets.n_targets)
        model.train(was_training)
        return Total(nats, n_targets)

    def _targets(self) -> Iterator[AnyTargets]:
        """Yield the held-out sequences of a validation with their masks, drawn anew each time, the same ones."""
        device = self._execution.device
        for chunk, first in enumerate(range(0, len(self._index), _AT_ONCE)):
            index_B = self._index[first : first + _AT_ONCE]
            generator = torch.Generator(device).manual_seed(_SEED if chunk == 0 else seed_of("validation", chunk))
            targets = self._objective.targets(self._blocks.rows(index_B).to(device), generator, 1.0)
            is_last = self._counts_once and index_B[-1] == len(self._blocks) - 1
            yield self._once(targets, self._blocks) if is_last and isinstance(self._blocks, Blocks) else targets

    def _once(self, targets: AnyTargets, blocks: Blocks) -> Targets:
        """Return a validation's targets without those of the last block that the block before it has, too."""
        assert isinstance(targets, Targets)
        places_K = (
            np.arange(targets.labels.shape[1]) if targets.positions is None else targets.positions[-1].cpu().numpy()
        )
        is_repeated_K = places_K < len(blocks.opening) + blocks.n_repeated
        weights = targets.weights.clone()
        weights[-1, torch.from_numpy(is_repeated_K)] = 0.0
        return replace(targets, weights=weights)


_LOGITS_AT_ONCE = {"cpu": 1 << 21, "mps": 1 << 25, "cuda": 1 << 28}  # 8 MiB, 128 MiB, 1 GiB of float32


class Scorer:
    """The loss of a finished model, in the place of `loss_sum`: without gradients, float32, logits a few rows at a time.

    Args:
        on_positions: called with how many positions were looked at so far.

    Attributes:
        n_first: targets to which the model gave a higher probability than to any other id.
    """

    def __init__(self, on_positions: Callable[[int], None] = lambda _: None) -> None:
        self.n_first = 0
        self._on_positions, self._n_positions = on_positions, 0

    @torch.no_grad()
    def __call__(self, model: LanguageModel, targets: Targets) -> Tensor:
        """Σ weight · -log p of the targets, in nats, float32, on the model's device.

        Args:
            model: in evaluation mode.
            targets: of K labels each; their weights are 0 or 1.
        """
        hidden_BKD = model.encode_to_guess(targets.inputs, targets.positions, segments_BT=targets.segments)
        hidden_ND = hidden_BKD.flatten(0, 1)
        labels_N, weights_N = targets.labels.flatten(), targets.weights.flatten()
        rows = max(1, _LOGITS_AT_ONCE[hidden_ND.device.type] // model.config.vocab_size)
        nats, first = torch.zeros((), device=hidden_ND.device), torch.zeros((), device=hidden_ND.device)
        for begin in range(0, len(labels_N), rows):
            chunk = slice(begin, begin + rows)
            labels_C1, weights_C = labels_N[chunk, None], weights_N[chunk]
            log_p_CV = torch.log_softmax(model.logits_at(hidden_ND[chunk]).float(), dim=1)
            log_p_C = log_p_CV.gather(1, labels_C1)[:, 0]
            # argmax would say the same and take twice as long as the softmax: 10.9 ms for 2,048 rows of 1,024, these two 1.5
            best_other_C = log_p_CV.scatter_(1, labels_C1, -torch.inf).amax(dim=1)
            nats -= (log_p_C * weights_C).sum()
            first += ((log_p_C > best_other_C) * weights_C).sum()
        self.n_first += int(first)
        self._n_positions += targets.inputs.numel()
        self._on_positions(self._n_positions)
        return nats
