"""Where and in which numbers a training runs: device, precision, threads, compilation."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from wordpipe.errors import ConfigError
from wordpipe.model.language_model import LanguageModel
from wordpipe.runtime import cpu_count, pick_device
from wordpipe.training.objectives import Targets, loss_sum
from wordpipe.training.settings import PretrainSettings

__all__ = ["Execution", "make_execution"]

LossSum = Callable[[LanguageModel, Targets], Tensor]


@dataclass(frozen=True)
class Execution:
    """Resolved choices.

    Attributes:
        device: where the model and the batches are.
        dtype: of matrix products; weights, norms and losses are float32 whatever it is.
        threads: CPU threads.
        compiled: whether the loss goes through torch.compile.
        bitwise: whether another run on this kind of machine gives the same bytes.
    """

    device: torch.device
    dtype: torch.dtype
    threads: int
    compiled: bool
    bitwise: bool

    def autocast(self) -> AbstractContextManager[object]:
        """The context in which matrix products are computed in `dtype`."""
        if self.dtype is torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype)

    def loss_function(self) -> LossSum:
        """`loss_sum`, compiled where that was chosen."""
        # the shapes of a training never change, and a program for any shape is slower
        return torch.compile(loss_sum, dynamic=False) if self.compiled else loss_sum


def make_execution(settings: PretrainSettings) -> Execution:
    """Resolve `auto` and make torch ready: threads, deterministic kernels.

    Raises:
        ConfigError: a device that is not there, or a number type that it lacks.
    """
    device = pick_device(settings.device)
    threads = settings.threads or cpu_count()
    torch.set_num_threads(threads)
    if settings.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it when CUDA starts
    torch.use_deterministic_algorithms(settings.deterministic)
    return Execution(
        device=device,
        dtype=_dtype(settings, device),
        threads=threads,
        compiled=settings.compile == "on" or (settings.compile == "auto" and device.type == "cuda"),
        bitwise=device.type == "cpu" or settings.deterministic,
    )


def _dtype(settings: PretrainSettings, device: torch.device) -> torch.dtype:
    has_bfloat16 = device.type == "cpu" or (device.type == "cuda" and torch.cuda.is_bf16_supported())
    if settings.dtype == "bfloat16" and not has_bfloat16:
        raise ConfigError("this device has no bfloat16", where="dtype", got=str(device), expected="float32 or auto")
    wants = settings.dtype == "bfloat16" or (settings.dtype == "auto" and device.type == "cuda" and has_bfloat16)
    return torch.bfloat16 if wants else torch.float32
