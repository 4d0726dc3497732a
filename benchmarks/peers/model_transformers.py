"""The training step of transformers on the batches and from the weights that a training of ours was recorded with.

It gets every advantage: the batches lie in memory, masked already; AdamW is fused; nothing is looked at between the steps.
"""

import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

Task = dict[str, Any]
Found = dict[str, Any]

EMBEDDINGS = ("embed_tokens", "tok_embeddings", "decoder", "lm_head")


def load(task: Task) -> torch.nn.Module:
    """The recorded model before its first step."""
    kind = AutoModelForMaskedLM if task["kind"] == "mlm" else AutoModelForCausalLM
    found = kind.from_pretrained(
        task["record"], attn_implementation=task["attention"], dtype=torch.float32, **task["config"]
    )
    found.train()
    return found


def make_adamw(model: torch.nn.Module, task: Task) -> torch.optim.AdamW:
    """Fused AdamW that lets the same weights decay as ours."""
    decayed, spared = [], []
    for name, weight in model.named_parameters():
        is_matrix = weight.dim() > 1 and not any(part in name for part in EMBEDDINGS)
        (decayed if is_matrix else spared).append(weight)
    groups = [{"params": decayed, "weight_decay": task["weight_decay"]}, {"params": spared, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1.0, betas=tuple(task["betas"]), eps=1e-8, fused=True)


def transformers(task: Task) -> Found:
    """Seconds per token of every step, and the losses."""
    torch.set_num_threads(task["threads"])
    model = load(task)
    optimiser, weights = make_adamw(model, task), list(model.parameters())
    with np.load(Path(task["record"]) / "batches.npz") as arrays:
        inputs, labels = (torch.from_numpy(arrays[name]) for name in ("inputs", "labels"))
    call = torch.compile(model, dynamic=False) if task["compile"] else model
    further = {} if task["kind"] == "mlm" else {"use_cache": False}
    seconds, losses = [], []
    for step, rate in enumerate(task["rates"]):
        if task["kind"] == "clm":
            further["shift_labels"] = labels[step]
        begun = time.monotonic()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=task["dtype"] == "bfloat16"):
            loss = call(input_ids=inputs[step], labels=labels[step], **further).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, task["clip"])
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        seconds.append((time.monotonic() - begun) / inputs[step].numel())
        losses.append(float(loss.detach()))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {
        "token_seconds": seconds, "losses": losses, "parameters": sum(weight.numel() for weight in weights),
        "peak_memory_bytes": peak, "kind": type(model).__name__,
    }  # fmt: skip
