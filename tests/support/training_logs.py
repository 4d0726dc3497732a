"""Made-up logs of trainings."""

import math

from wordpipe.stages import run_figures


def made_log(
    name="model", *, steps=400, every=10, floor=4.0, valid=4, entropy=7.0, finished=True, kind="model", lr=1e-3
):
    """A loss that falls from 9 towards `floor`, with some noise, `valid` held-out losses a little above it."""
    rows = []
    for step in range(every, steps + 1, every):
        loss = floor + (9.0 - floor) * math.exp(-step / (steps / 6)) + 0.05 * math.sin(7.0 * step)
        row = {"step": step, "tokens": step * 4096, "lr": lr * (1 - step / (steps + 1)), "seconds": step * 0.5}
        rows.append({**row, "split": "train", "loss": loss})
        if valid and step % max(1, steps // valid) == 0:
            rows.append({**row, "split": "valid", "loss": loss + 0.2})
    return run_figures(name, kind, rows, entropy, finished=finished)
