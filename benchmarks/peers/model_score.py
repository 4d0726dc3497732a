"""The evaluation of masked models: the same held-out sequences with the same masks for everybody, in float32."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

Task = dict[str, Any]
Found = dict[str, Any]

AT_ONCE = 64


@torch.no_grad()
def score(of: Callable[[dict[str, torch.Tensor]], torch.Tensor], model: torch.nn.Module, task: Task) -> Found:
    """Nats per held-out target; each sequence's are kept in `task["kept"]`, so that two models can be compared in pairs.

    Args:
        of: the summed loss of each sequence of a batch with `inputs`, `positions`, `labels` and `weights`.
        model: put in evaluation mode.
        task: where `held_out` is, and where to keep the losses.
    """
    model.eval()
    with np.load(task["held_out"]) as arrays:
        held_out = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    parts = [
        of({name: value[first : first + AT_ONCE] for name, value in held_out.items()})
        for first in range(0, len(held_out["inputs"]), AT_ONCE)
    ]
    sums_N, counts_N = torch.cat(parts).double(), held_out["weights"].sum(1).double()
    np.save(task["kept"], (sums_N / counts_N).numpy())
    return {"loss": float(sums_N.sum() / counts_N.sum())}


def evaluate(task: Task) -> Found:
    """The held-out loss of a model's folder, loaded by wordpipe."""
    from wordpipe.model import load_hf

    torch.set_num_threads(task["threads"])
    folder = Path(task["model"])
    model = load_hf(lambda name: (folder / name).read_bytes()).model

    def losses_of(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        hidden_BTD = model.encode(batch["inputs"])
        at_BKD = batch["positions"][..., None].expand(-1, -1, hidden_BTD.shape[-1])
        logits_BKV = model.logits_at(hidden_BTD.gather(1, at_BKD))
        losses = F.cross_entropy(logits_BKV.flatten(0, 1), batch["labels"].flatten(), reduction="none")
        return (losses.view_as(batch["weights"]) * batch["weights"]).sum(1)

    return {**score(losses_of, model, task), "parameters": sum(weight.numel() for weight in model.parameters())}
