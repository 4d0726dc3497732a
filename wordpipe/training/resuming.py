"""When a training writes checkpoints, what it says when it fails, and what another machine means for one that goes on."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from wordpipe.errors import DivergedError
from wordpipe.runtime import cpu_count

__all__ = ["CheckpointClock", "diverged", "other_conditions", "threads_of_before"]

_TAME = 3e-3  # a third of a rate that nobody should give is no advice


class CheckpointClock:
    """When the next checkpoint is due. What is learned does not depend on it.

    Args:
        seconds: between two checkpoints.
        steps: also one every this many steps; 0: by time only.
    """

    def __init__(self, seconds: float, steps: int) -> None:
        self._seconds, self._steps = seconds, steps
        self._last = time.monotonic()

    def due(self, step: int) -> bool:
        """Whether one is to be written after this step."""
        by_steps = self._steps > 0 and step % self._steps == 0
        return by_steps or time.monotonic() - self._last >= self._seconds

    def made(self) -> None:
        """One has been written now."""
        self._last = time.monotonic()


def diverged(step: int, *, loss: float, norm: float, lr: float, newest: Path | None) -> DivergedError:
    """The loss or its gradient is no longer finite.

    Args:
        step: steps done.
        loss: summed since the last report.
        norm: of the gradients, likewise.
        lr: peak learning rate; a third of it is advised.
        newest: the last checkpoint, if there is any.
    """
    good = f"the last good checkpoint is {newest}" if newest else "there is no checkpoint yet"
    return DivergedError(
        "the loss or its gradient is no longer a number",
        where=f"step {step}",
        got=f"loss {loss}, gradient norm {norm}",
        hint=f"lower the learning rate, for example --lr {min(lr / 3, _TAME):.2g}; {good}",
    )


def threads_of_before(before: int, now: int) -> int:
    """Take the number of threads of the run that is continued, if this machine has them: others show in the last bits."""
    if before > cpu_count():
        return now
    torch.set_num_threads(before)
    return before


def other_conditions(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """What to tell where a run goes on under conditions that change its last bits; None where they are the same.

    Args:
        before: device, numbers, versions, threads of the run that is continued; a fact it does not have is not compared.
        now: those of this one.
    """
    changed = [f"{key} {before[key]} → {now[key]}" for key in sorted(now) if before.get(key, now[key]) != now[key]]
    return f"the run was begun under other conditions ({', '.join(changed)}): last bits may differ" if changed else None
