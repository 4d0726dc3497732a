"""One step of the optimiser: the gradient of a whole batch, piece by piece, then the weights."""

import torch
from torch import Tensor

from wordpipe.model.language_model import LanguageModel
from wordpipe.model.seeds import seed_of
from wordpipe.training.exchange import sum_gradients
from wordpipe.training.execution import Execution, LossSum
from wordpipe.training.objectives import Targets
from wordpipe.training.optimisers import clip_gradients
from wordpipe.training.parallel import World
from wordpipe.training.plan import Plan
from wordpipe.training.precision import LossScaler

__all__ = ["GradientStep"]


class GradientStep:
    """Computes gradients and changes weights. On a GPU nothing here waits for the device, but for float16's one number.

    Losses are summed over targets and divided once, by the number of targets of the whole step, which every process knows.

    Args:
        model: trained in place.
        loss_sum: the loss, compiled or not.
        optimiser: over the model's parameters.
        plan: sizes, learning rates, the seed.
        execution: device and numbers.
        world: the processes that train together.

    Attributes:
        weights: the model's parameters by name.
        scaler: of a float16 training, else None.
        sums: loss, targets and lengths of gradients, summed over the steps since it was last set to 0, (3,), float32.
    """

    def __init__(
        self,
        model: LanguageModel,
        loss_sum: LossSum,
        optimiser: torch.optim.Optimizer,
        plan: Plan,
        execution: Execution,
        world: World,
    ) -> None:
        self.weights = dict(model.named_parameters())
        self.scaler = LossScaler() if execution.dtype is torch.float16 else None
        self.sums = torch.zeros(3, device=execution.device)
        self._model, self._loss_sum, self._optimiser, self._plan = model, loss_sum, optimiser, plan
        self._execution, self._world = execution, world

    def gradients(self, step: int, targets: Targets) -> Tensor:
        """Leave the gradients of this process's rows with the weights.

        They are those of the summed loss; with a scaler, of the mean loss times its scale.

        Args:
            step: its number, which dropout depends on.
            targets: of the whole step, all processes' rows.

        Returns:
            The loss summed over this process's targets, a scalar on the device.
        """
        if self._model.config.dropout > 0.0:
            who = () if self._world.is_alone else (self._world.rank,)
            torch.manual_seed(seed_of(self._plan.seed, "dropout", step, *who))
        enlarge = None if self.scaler is None else self.scaler.scale / _count(targets)
        loss = torch.zeros((), device=self._execution.device)
        first, end = self._world.rows(self._plan.batch_size)
        with self._execution.attention_kernels():  # around the backward pass too, which may compute blocks again
            for begin in range(first, end, self._plan.micro_batch):
                rows = targets.rows(begin, min(end, begin + self._plan.micro_batch))
                with self._execution.autocast():
                    part = self._loss_sum(self._model, rows, self._plan.label_smoothing)
                (part if enlarge is None else part * enlarge).backward()  # type: ignore[no-untyped-call]
                loss += part.detach()
        return loss

    def take(self, step: int, targets: Targets, loss: Tensor) -> None:
        """Add up what the processes have, and change the weights, unless a gradient in float16 overflowed.

        Args:
            step: its number, which the learning rate depends on.
            targets: of the whole step.
            loss: from `gradients`.
        """
        sum_gradients(self._world, list(self.weights.values()), loss)
        n_targets = _count(targets)
        divisor = n_targets if self.scaler is None else torch.full_like(n_targets, self.scaler.scale)
        norm = clip_gradients(self.weights.values(), divisor, self._plan.clip)
        if self.scaler is None or self.scaler.accepts(norm):
            for group in self._optimiser.param_groups:
                group["lr"] = self._plan.lr_at(step)
            self._optimiser.step()
            self.sums += torch.stack((loss, n_targets, norm))
        elif self.scaler.is_exhausted:
            self.sums += norm  # which is not finite: the run ends
        elif bool(torch.isfinite(loss)):
            self.sums[:2] += torch.stack((loss, n_targets))
        self._optimiser.zero_grad(set_to_none=True)

    def mean_loss(self) -> float:
        """Mean loss per target of the steps that `sums` holds; not a number if every one of them overflowed."""
        return float(self.sums[0] / self.sums[1])

    def is_finite(self) -> bool:
        """Whether all losses and gradients of the steps that `sums` holds were."""
        return bool(torch.isfinite(self.sums).all())


def _count(targets: Targets) -> Tensor:
    """Targets of a step, at least one: a batch of special tokens alone has none, and a loss of 0 is no divergence."""
    return targets.weights.sum().clamp_min(1.0)
