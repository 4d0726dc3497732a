"""BERT of transformers, trained by a plain good loop: AdamW, warm-up and a line to zero, clipping, the head on targets only.

It reads arrays (see model_text.py) and knows nothing of wordpipe.
"""

import time
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F
from transformers import BertConfig, BertForMaskedLM

from peers.model_score import score
from peers.model_text import hide, ordinary

Task = dict[str, Any]
Found = dict[str, Any]

WEIGHT_DECAY, CLIP, BETAS = 0.01, 1.0, (0.9, 0.98)


def new_bert(task: Task) -> BertForMaskedLM:
    """A fresh BERT. No dropout: the text is not seen twice, and then it only hurts."""
    torch.manual_seed(task["seed"])
    config = BertConfig(
        vocab_size=task["n_tokens"], hidden_size=task["dim"], num_hidden_layers=task["n_layers"],
        num_attention_heads=task["n_heads"], intermediate_size=task["ffn_dim"], max_position_embeddings=task["seq_len"],
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, pad_token_id=task["special"]["[PAD]"],
    )  # fmt: skip
    config._attn_implementation = "sdpa"
    return BertForMaskedLM(config)


def losses_of(model: BertForMaskedLM, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Cross-entropy summed over each sequence's targets, (B,); the head sees nothing else."""
    hidden_BTD = model.bert(batch["inputs"]).last_hidden_state
    at_BKD = batch["positions"][..., None].expand(-1, -1, hidden_BTD.shape[-1])
    logits_BKV = model.cls(hidden_BTD.gather(1, at_BKD)).float()
    losses = F.cross_entropy(logits_BKV.flatten(0, 1), batch["labels"].flatten(), reduction="none")
    return (losses.view_as(batch["weights"]) * batch["weights"]).sum(1)


def rate(step: int, steps: int, share: float) -> float:
    """Share of the peak learning rate: up in a share of the steps, then down to zero along a line."""
    warmup = max(1, round(share * steps))
    return (step + 1) / warmup if step < warmup else (steps - step) / max(1, steps - warmup)


def make_adamw(model: torch.nn.Module, lr: float) -> torch.optim.AdamW:
    """AdamW in one pass over the weights; norms and offsets do not decay."""
    matrices = [weight for weight in model.parameters() if weight.dim() > 1]
    others = [weight for weight in model.parameters() if weight.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=BETAS, fused=True)


def train_bert(task: Task) -> Found:
    """Train on the rows in their order, then score the held-out text."""
    torch.set_num_threads(task["threads"])
    model, B = new_bert(task), task["batch_size"]
    optimiser = make_adamw(model, task["lr"])
    rows = np.load(task["rows"], mmap_mode="r")
    ordinary_V, steps, losses = ordinary(task["n_tokens"], task["special"]), task["steps"], []
    begun = time.monotonic()
    for step in range(steps):
        ids_BT = torch.from_numpy(rows[step * B : (step + 1) * B].astype(np.int64))
        batch = hide(ids_BT, ordinary_V, task["special"]["[MASK]"], task["seed"] * 1_000_003 + step)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=task["dtype"] == "bfloat16"):
            loss = losses_of(model, batch).sum() / batch["weights"].sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        for group in optimiser.param_groups:
            group["lr"] = task["lr"] * rate(step, steps, task["warmup"])
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))
        if (step + 1) % 50 == 0:
            mean, seconds = np.mean(losses[-50:]), time.monotonic() - begun
            print(f"step {step + 1}/{steps} loss {mean:.3f}, {seconds:.0f} s", flush=True)
    seconds = time.monotonic() - begun
    return {
        **score(lambda batch: losses_of(model, batch), model, task),
        "train_loss": float(np.mean(losses[-50:])), "parameters": sum(weight.numel() for weight in model.parameters()),
        "train_seconds": round(seconds, 1), "tokens_per_s": round(rows.shape[1] * B * steps / seconds),
    }  # fmt: skip
