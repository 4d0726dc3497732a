"""The batches of a training, one per step, each a function of (seed, step) alone; on a GPU made one step ahead."""

import time

import torch

from wordpipe.model.seeds import seed_of
from wordpipe.training.blocks import Blocks, Rows, block_order
from wordpipe.training.objectives import Objective, Targets
from wordpipe.training.plan import Plan

__all__ = ["Batches"]


class Batches:
    """Inputs and targets by step.

    Args:
        blocks: the training stream.
        objective: what to predict.
        plan: sizes and the seed.
        device: where the batches are wanted.

    Attributes:
        waited: seconds that the device stood idle because a batch was not ready, since this was last set to 0.
    """

    def __init__(self, blocks: Blocks, objective: Objective, plan: Plan, device: torch.device) -> None:
        self._blocks, self._objective, self._plan, self._device = blocks, objective, plan, device
        self._ahead: tuple[int, Rows] | None = None
        self.waited = 0.0

    def targets(self, step: int) -> Targets:
        """What a step is trained on, the rows of all processes."""
        begun = time.monotonic()
        rows = self._rows_of(step)
        generator = torch.Generator(self._device).manual_seed(seed_of(self._plan.seed, "masks", step))
        targets = self._objective.targets(rows, generator, step / self._plan.steps)
        if self._device.type != "cuda":  # there the masks take their turn among the device's other work
            self.waited += time.monotonic() - begun
        return targets

    def largest(self) -> Targets:
        """The first or the last step's, whichever has more to predict: the share of masks may move on the way."""
        return max((self.targets(step) for step in (0, self._plan.steps - 1)), key=lambda each: each.labels.numel())

    def prefetch(self, step: int) -> None:
        """Send a step's rows to a GPU while it is busy with the step before. On a CPU nothing would be won.

        The host runs ahead of a GPU anyway, but for the steps after which it looks at a loss: there the next rows are
        already on their way.
        """
        if self._device.type != "cuda":
            return
        begun, launched = time.monotonic(), torch.cuda.Event()  # type: ignore[no-untyped-call]
        launched.record()
        self._ahead = (step, self._send(step))
        if launched.query():  # type: ignore[no-untyped-call]  # it was done before the rows were: at most all that time is lost
            self.waited += time.monotonic() - begun

    def _rows_of(self, step: int) -> Rows:
        if self._ahead is not None and self._ahead[0] == step:
            return self._ahead[1]
        begun = time.monotonic()
        rows = self._send(step)
        if self._device.type == "cuda":
            self.waited += time.monotonic() - begun
        return rows

    def _send(self, step: int) -> Rows:
        n_blocks, batch_size = len(self._blocks), self._plan.batch_size
        order_B = block_order(step, batch_size=batch_size, n_blocks=n_blocks, seed=self._plan.seed)
        return self._blocks.rows(order_B).to(self._device)
