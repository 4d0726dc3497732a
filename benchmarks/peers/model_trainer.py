"""The Trainer of transformers, as people use it, on sequences that are masked already."""

import os
import tempfile
import time
from typing import Any

import numpy as np
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    ModernBertConfig,
    ModernBertForMaskedLM,
    PreTrainedModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    default_data_collator,
)

Task = dict[str, Any]
Found = dict[str, Any]

FIRST_ID = 7  # those before are special


class Sequences(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Random sequences with their labels: everywhere for a causal model, at 15 % of the positions for a masked one."""

    def __init__(self, task: Task, count: int) -> None:
        random = np.random.default_rng(0)
        shape = (count, task["seq_len"])
        self._ids = torch.from_numpy(random.integers(FIRST_ID, task["n_tokens"], shape, dtype=np.int64))
        self._labels = self._ids.clone()
        if task["kind"] == "mlm":
            draw, wanted = torch.Generator().manual_seed(0), round(task["mask_rate"] * (task["seq_len"] - 2))
            chosen = torch.rand(shape, generator=draw).argsort(1)[:, :wanted]
            labels = torch.full_like(self._ids, -100)
            self._labels = labels.scatter(1, chosen, self._ids.gather(1, chosen))

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self._ids[number], "labels": self._labels[number]}


class Clock(TrainerCallback):
    """When steps ended, with the device's work done."""

    def __init__(self, warm: int) -> None:
        self._warm = warm
        self.begun = self.ended = 0.0

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Look at the clock after the last step that is not counted, and after the last of all."""
        if state.global_step in (self._warm, state.max_steps):
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            self.ended = time.monotonic()
            self.begun = self.begun or self.ended


def new_model(task: Task) -> PreTrainedModel:
    """The class that our folder loads as, of the same size, at its best: global attention, the head on the targets only."""
    sizes = {
        "vocab_size": task["n_tokens"], "hidden_size": task["dim"], "num_hidden_layers": task["n_layers"],
        "num_attention_heads": task["n_heads"], "intermediate_size": task["ffn_dim"],
        "max_position_embeddings": task["seq_len"], "pad_token_id": 0, "bos_token_id": 5, "eos_token_id": 6,
        "tie_word_embeddings": True,
    }  # fmt: skip
    if task["kind"] == "clm":
        config = LlamaConfig(**sizes, num_key_value_heads=task["n_heads"], use_cache=False)
    else:
        layers = {"layer_types": ["full_attention"] * task["n_layers"], "global_attn_every_n_layers": 1}
        config = ModernBertConfig(**sizes, **layers, cls_token_id=2, sep_token_id=3, sparse_prediction=True)
    config._attn_implementation = "sdpa"
    return (LlamaForCausalLM if task["kind"] == "clm" else ModernBertForMaskedLM)(config)


def train_once(task: Task, micro: int, folder: str) -> Found:
    """So many steps with so many sequences at once; tokens per second after the first ones."""
    batch, cuda = task["batch_size"], task["device"] == "cuda"
    arguments = TrainingArguments(
        output_dir=folder, per_device_train_batch_size=micro, gradient_accumulation_steps=batch // micro,
        max_steps=task["warm"] + task["steps"], learning_rate=3e-4, lr_scheduler_type="cosine", weight_decay=0.05,
        max_grad_norm=1.0, bf16=True, use_cpu=not cuda, torch_compile=task["compile"], optim="adamw_torch_fused",
        save_strategy="no", logging_strategy="steps", logging_steps=1000, report_to="none", disable_tqdm=True,
        dataloader_num_workers=task["workers"], dataloader_pin_memory=cuda, dataloader_drop_last=True, seed=1,
    )  # fmt: skip
    clock = Clock(task["warm"])
    trainer = Trainer(
        model=new_model(task), args=arguments, train_dataset=Sequences(task, batch * (task["warm"] + task["steps"])),
        data_collator=default_data_collator, callbacks=[clock],
    )  # fmt: skip
    trainer.train()
    return {
        "tokens_per_s": round(batch * task["seq_len"] * task["steps"] / (clock.ended - clock.begun)), "micro_batch": micro,
        "parameters": sum(weight.numel() for weight in trainer.model.parameters()),
    }  # fmt: skip


def trainer(task: Task) -> Found:
    """The largest power of two of sequences at once that the memory holds, by trying."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_float32_matmul_precision("high")
    micro = task["batch_size"]
    while True:
        try:
            if torch.cuda.is_available():
                torch.cuda.reset_peak_memory_stats()
            with tempfile.TemporaryDirectory() as folder:
                found = train_once(task, micro, folder)
            break
        except torch.OutOfMemoryError:
            if micro == 1:
                raise
        micro //= 2  # outside of `except`, so that what hung on the error is free
        torch.cuda.empty_cache()
    peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
    return found | {"peak_gpu_bytes": peak}
