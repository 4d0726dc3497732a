"""What the settings come to for a transformer and a corpus, and the optimiser."""

from dataclasses import dataclass

import torch
from torch import nn

from wordpipe.runtime import cpu_count, keep_freed_memory, pick_device
from wordpipe.training.contrast.encoder_settings import ContrastiveSettings
from wordpipe.training.contrast.length import steps_of
from wordpipe.training.execution import Execution
from wordpipe.training.precision import resolve_dtype
from wordpipe.training.schedules import Schedule, learning_rate, warmup_steps

__all__ = ["POSITIONS_AT_ONCE", "EncoderPlan", "encoder_execution", "encoder_optimiser", "encoder_plan"]

POSITIONS_AT_ONCE = {"cpu": 1 << 15, "mps": 1 << 16, "cuda": 1 << 18}
"""Positions whose graph is held: of `mini` 0.6 GB per 16,384 of them in float32; a constant, as it shows in the last bits."""


@dataclass(frozen=True, kw_only=True)
class EncoderPlan:
    """Everything that decides the steps of a training.

    Attributes:
        steps: of the optimiser.
        batch_size: pairs per step.
        lr: peak learning rate.
        warmup: steps of its rise.
        min_lr_frac: the last learning rate as a share of the peak.
        schedule: its shape.
        decay: share of the steps in which a `wsd` schedule falls.
        clip: longest gradient, 0 = any.
        report_every: steps between two lines of the log.
        eval_every: steps between two validations.
    """

    steps: int
    batch_size: int
    lr: float
    warmup: int
    min_lr_frac: float
    schedule: Schedule
    decay: float
    clip: float
    report_every: int
    eval_every: int

    def lr_at(self, step: int) -> float:
        """Learning rate of a step, from 0."""
        return learning_rate(
            step, steps=self.steps, peak=self.lr, warmup=self.warmup, min_frac=self.min_lr_frac,
            schedule=self.schedule, decay=self.decay,
        )  # fmt: skip


def encoder_plan(settings: ContrastiveSettings, *, n_sentences: int) -> EncoderPlan:
    """The plan of these settings.

    Args:
        settings: how to train.
        n_sentences: in one pass over the training text.
    """
    steps = steps_of(settings, n_sentences)
    return EncoderPlan(
        steps=steps,
        batch_size=settings.pairs_per_step,
        lr=settings.peak_lr,
        warmup=warmup_steps(settings.warmup, steps),
        min_lr_frac=settings.min_lr_frac,
        schedule=settings.schedule,
        decay=settings.decay,
        clip=settings.clip,
        report_every=settings.report_every,
        eval_every=settings.eval_every or max(1, -(-steps // 5)),
    )


def encoder_execution(settings: ContrastiveSettings) -> Execution:
    """Device, numbers and threads; makes torch ready.

    Raises:
        ConfigError: a device that is not there, or numbers that it lacks.
    """
    device = pick_device(settings.device)
    threads = settings.threads or cpu_count()
    torch.set_num_threads(threads)
    keep_freed_memory()
    return Execution(
        device=device,
        dtype=resolve_dtype(settings.dtype, device),
        threads=threads,
        compiled=False,  # every batch has other lengths, for each of which a program would be compiled
        bitwise=device.type == "cpu",
    )


def encoder_optimiser(module: nn.Module, settings: ContrastiveSettings) -> torch.optim.Optimizer:
    """AdamW over all weights, with decay on the matrices of the blocks only (see optimisers.py)."""
    named = dict(module.named_parameters())
    decayed = [name for name, weight in named.items() if weight.dim() == 2 and "blocks." in name]
    groups = [
        {"params": [named[name] for name in decayed], "weight_decay": settings.weight_decay},
        {"params": [weight for name, weight in named.items() if name not in decayed], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=0.0, betas=(settings.beta1, settings.beta2), eps=1e-8, fused=True)
