"""What the training of a transformer encoder asks of the thing it trains: the gradients of a step."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn

__all__ = ["Learner", "StepResult"]


@dataclass(frozen=True)
class StepResult:
    """What one step came to.

    Attributes:
        loss: mean over the step's targets, a scalar on the device; its gradients are with the weights.
        positions: that the encoder read.
        cut: ids of the texts that the encoder had no room for.
    """

    loss: Tensor
    positions: int
    cut: int


class Learner(Protocol):
    """Something with weights that learns from pairs of texts.

    Attributes:
        module: everything that has weights.
    """

    module: nn.Module

    def gradients(self, step: int) -> StepResult:
        """Leave the gradients of a step's mean loss with the weights; a function of the weights, the seed and the step."""
        ...

    def state(self) -> dict[str, Tensor]:
        """What it remembers beside the weights, on any device."""
        ...

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on where `state` was taken."""
        ...
