"""The learning rate of each step, as a pure function: nothing to save, nothing to get out of step with."""

import math
from typing import Literal

__all__ = ["learning_rate", "warmup_steps"]


def warmup_steps(warmup: float, steps: int) -> int:
    """Steps of warm-up: a share of all below 1, a number of steps from 1 on, never more than all.

    >>> warmup_steps(0.06, 200), warmup_steps(50, 200)
    (12, 50)
    """
    wanted = round(warmup * steps) if warmup < 1 else int(warmup)
    return min(wanted, steps)


def learning_rate(
    step: int,
    *,
    steps: int,
    peak: float,
    warmup: int,
    min_frac: float,
    schedule: Literal["cosine", "wsd"],
    decay: float,
) -> float:
    """Learning rate of a step.

    It rises linearly over `warmup` steps, the first of which is already above 0, and ends at `min_frac` · `peak`.

    Args:
        step: from 0 to steps - 1.
        steps: of the whole run.
        peak: the highest rate.
        warmup: steps of the rise.
        min_frac: the last rate as a share of the peak.
        schedule: `cosine` falls along half a cosine (Loshchilov & Hutter 2017, equation 5); `wsd` stays at the peak and
            falls along a line in the last `decay` of all steps (Hu et al. 2024, section 4).
        decay: share of the steps in which `wsd` falls.
    """
    if step < warmup:
        return peak * (step + 1) / warmup
    begin = warmup if schedule == "cosine" else max(warmup, steps - math.ceil(decay * steps))
    if step < begin:
        return peak
    done = (step + 1 - begin) / (steps - begin)  # 1 at the last step of all
    left = (1.0 + math.cos(math.pi * done)) / 2.0 if schedule == "cosine" else 1.0 - done
    return peak * (min_frac + (1.0 - min_frac) * left)
