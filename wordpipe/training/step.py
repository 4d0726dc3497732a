"""What a training reports."""

from dataclasses import dataclass

__all__ = ["Step"]


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the log.

    Attributes:
        step: optimiser steps so far.
        tokens: positions trained on so far, special tokens included.
        split: `train`: mean loss since the last report; `valid`: mean loss of the held-out sequences.
        loss: nats per target.
        lr: learning rate of the last step.
        seconds: of work so far, over all runs that a continued training took.
        tokens_per_s: positions per second since the last report; of the held-out sequences for `valid`.
        reachable: `tokens_per_s` as a share of what the device could reach (see reachable.py); None for `valid`.
        waiting: share of the time since the last report in which the device waited for a batch; None for `valid`.
    """

    step: int
    tokens: int
    split: str
    loss: float
    lr: float
    seconds: float
    tokens_per_s: float
    reachable: float | None = None
    waiting: float | None = None
