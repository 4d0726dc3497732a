"""The learning rate of each step, as a pure function: nothing to save, nothing to get out of step with."""

import math
from typing import Literal

Schedule = Literal["cosine", "linear", "wsd", "noam", "constant"]


def warmup_steps(warmup: float, steps: int) -> int:
    """Steps of warm-up: a share of all below 1, a number of steps from 1 on, never more than all.

    >>> warmup_steps(0.06, 200), warmup_steps(50, 200)
    (12, 50)
    """
    wanted = round(warmup * steps) if warmup < 1 else int(warmup)
    return min(wanted, steps)


def learning_rate(
    step: int, *, steps: int, peak: float, warmup: int, min_frac: float, schedule: Schedule, decay: float
) -> float:
    """Learning rate of a step.

    It rises linearly over `warmup` steps, the first of which is already above 0 and the last of which has the peak. Then

        cosine      falls along half a cosine to min_frac · peak (Loshchilov & Hutter 2017, equation 5)
        linear      falls along a line to min_frac · peak
        wsd         stays at the peak, and falls along a line in the last `decay` of all steps (Hu et al. 2024, section 4)
        noam        falls as peak · sqrt(warmup / (step + 1)), never below min_frac · peak (Vaswani et al. 2017, equation 3,
                    where the peak is factor / sqrt(width · warmup); without warm-up it falls from the first step on)
        constant    stays at the peak

    What `noam`, `constant` and the phases of `wsd` before its fall give a step does not depend on `steps`.

    Args:
        step: from 0 to steps - 1.
        steps: of the whole run.
        peak: the highest rate.
        warmup: steps of the rise.
        min_frac: the lowest rate after the rise as a share of the peak.
        schedule: the shape.
        decay: share of the steps in which `wsd` falls.
    """
    if step < warmup:
        return peak * (step + 1) / warmup
    if schedule == "constant":
        return peak
    if schedule == "noam":
        return peak * max(min_frac, math.sqrt(max(1, warmup) / (step + 1)))
    begin = max(warmup, steps - math.ceil(decay * steps)) if schedule == "wsd" else warmup
    if step < begin:
        return peak
    done = (step + 1 - begin) / (steps - begin)  # 1 at the last step of all
    left = (1.0 + math.cos(math.pi * done)) / 2.0 if schedule == "cosine" else 1.0 - done
    return peak * (min_frac + (1.0 - min_frac) * left)
