"""Settings of `wordpipe train mlm` and `wordpipe train clm`. Imports nothing heavy."""

from pathlib import Path
from typing import Literal, Self

from pydantic import model_validator

from wordpipe.model.presets import PresetName
from wordpipe.settings import Settings, setting

__all__ = ["CausalSettings", "MaskedSettings", "PretrainSettings"]


class PretrainSettings(Settings):
    """How to train a transformer, whatever it learns to predict."""

    displaces = {"steps": ("epochs",), "epochs": ("steps",)}  # noqa: RUF012  (declared in the base)

    preset: PresetName = setting("mini", "size of the model, with a batch and a learning rate that suit it")
    steps: int | None = setting(None, "optimiser steps", ge=1, le=10**9)
    epochs: float | None = setting(
        None, "passes over the training text, instead of steps; with neither: 3, and at least 200 steps", gt=0, le=10**6
    )
    dim: int | None = setting(None, "width of the model, else the preset's", ge=2, le=16_384)
    n_layers: int | None = setting(None, "blocks, else the preset's", ge=1, le=256)
    n_heads: int | None = setting(None, "attention heads, else the preset's", ge=1, le=256)
    ffn_dim: int | None = setting(None, "width of the gated feed-forward, else the preset's", ge=1, le=65_536)
    seq_len: int | None = setting(
        None, "positions of a sequence, special tokens included, else the preset's", ge=8, le=65_536
    )
    batch_size: int | None = setting(None, "sequences per step, else the preset's", ge=1, le=1_000_000)
    micro_batch: int = setting(
        0, "sequences computed at once (gradients add up over the step), 0 = what the device takes", ge=0, le=1_000_000
    )
    lr: float | None = setting(None, "peak learning rate, else the preset's", gt=0, le=1e3)
    min_lr_frac: float = setting(0.1, "learning rate at the end, as a share of the peak", ge=0, le=1)
    # 0.2 and not the usual 0.06: a masked model sits at the unigram entropy until it learns to look around, and leaves it
    # sooner. tiny, 600 steps, held-out loss of two seeds 6.47 and 6.42 against 7.00 and 6.84; causal the same (6.93, 6.95)
    warmup: float = setting(
        0.2,
        "steps in which the learning rate rises: a share of all below 1, a number of steps from 1 on",
        ge=0,
        le=10**9,
    )
    schedule: Literal["cosine", "wsd"] = setting(
        "cosine", "after the warm-up: fall along a cosine, or stay and fall at the end (warm-up-stable-decay)"
    )
    decay: float = setting(0.2, "share of the steps in which a wsd schedule falls", gt=0, le=1)
    weight_decay: float = setting(0.05, "AdamW's weight decay, on matrices only", ge=0, le=10)
    beta1: float = setting(0.9, "AdamW's memory of gradients", ge=0, lt=1)
    beta2: float = setting(0.98, "AdamW's memory of squared gradients", ge=0, lt=1)
    clip: float = setting(1.0, "largest norm of a step's gradient, 0 = no limit", ge=0)
    dropout: float = setting(0.0, "share of each block's output zeroed in training", ge=0, lt=1)
    seed: int = setting(1, "seed of weights, order, masks and dropout", ge=0, lt=2**32)
    device: Literal["auto", "cpu", "cuda", "mps"] = setting("auto", "where to train; auto takes the fastest there is")
    dtype: Literal["auto", "float32", "bfloat16"] = setting(
        "auto", "numbers in matrix products; auto: bfloat16 on CUDA, float32 elsewhere (weights stay float32)"
    )
    threads: int = setting(
        0, "CPU threads, 0 = one per core; another number gives slightly other weights", ge=0, le=1024
    )
    compile: Literal["auto", "on", "off"] = setting("auto", "torch.compile: worth its first minute on CUDA (auto)")
    deterministic: bool = setting(False, "same bytes from every run on a GPU too, slower; a CPU always gives them")
    checkpoint_seconds: float = setting(60, "seconds between checkpoints", gt=0, recipe=False)
    checkpoint_steps: int = setting(0, "also a checkpoint every this many steps, 0 = by time only", ge=0, recipe=False)
    report_every: int = setting(10, "steps between two lines of the log", ge=1, recipe=False)
    eval_every: int = setting(0, "steps between validations, 0 = five over the run", ge=0, recipe=False)
    valid_tokens: int = setting(32_768, "held-out positions looked at in each validation", ge=1, recipe=False)
    init_embeddings: Path | None = setting(
        None,
        "start from the vectors of this words artifact, trained with --unit token",
        metavar="WORDS",
        artifact=("words",),
    )

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if self.steps is not None and self.epochs is not None:
            raise ValueError(f"steps = {self.steps} and epochs = {self.epochs} both say how long to train: give one")
        return self


class MaskedSettings(PretrainSettings):
    """Masked language modelling: guess hidden tokens from both sides."""

    mask_rate: float = setting(0.3, "share of the tokens to guess in training", gt=0, le=0.9)
    mask_share: float = setting(0.8, "of these, the share shown as [MASK]", ge=0, le=1)
    random_share: float = setting(
        0.1, "of these, the share shown as a random token; the rest is shown as it is", ge=0, le=1
    )

    @model_validator(mode="after")
    def _shares_add_up(self) -> Self:
        if self.mask_share + self.random_share > 1:
            total = self.mask_share + self.random_share
            raise ValueError(f"mask_share + random_share = {total:g} should be at most 1")
        return self


class CausalSettings(PretrainSettings):
    """Causal language modelling: guess each token from those before it."""
