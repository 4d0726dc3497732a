"""Where and in which numbers a training runs: device, precision, threads, attention kernels, compilation."""

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from wordpipe.model.language_model import LanguageModel
from wordpipe.runtime import cpu_count, keep_freed_memory
from wordpipe.training.objectives import RATE_STEPS, Targets, loss_sum
from wordpipe.training.parallel import World, alone
from wordpipe.training.precision import resolve_dtype
from wordpipe.training.settings import PretrainSettings

__all__ = ["Execution", "LossSum", "make_execution"]

_CUDNN, _FLASH = SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION
_OTHERS = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


class LossSum(Protocol):
    """`objectives.loss_sum`, as it is or compiled."""

    def __call__(self, model: LanguageModel, targets: Targets, label_smoothing: float = 0.0) -> Tensor:
        """Loss summed over the targets."""
        ...


@dataclass(frozen=True)
class Execution:
    """Resolved choices.

    Attributes:
        device: where the model and the batches are.
        dtype: of matrix products; weights, norms and losses are float32 whatever it is.
        threads: CPU threads of this process.
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

    def attention_kernels(self) -> AbstractContextManager[object]:
        """The context in which attention takes the device's fastest kernel that can do what is asked.

        On Hopper cuDNN's is 1.7 to 2.3 times as fast as flash attention at the shapes of a training, and slower than it
        on other cards (0.82 on an A100); torch tries flash attention first everywhere.
        """
        if self.device.type != "cuda":
            return nullcontext()
        is_hopper = torch.cuda.get_device_capability(self.device)[0] == 9
        first = [_CUDNN, _FLASH] if is_hopper else [_FLASH, _CUDNN]
        return sdpa_kernel([*first, *_OTHERS], set_priority=True)

    def loss_function(self) -> LossSum:
        """`loss_sum`, compiled where that was chosen."""
        if not self.compiled:
            return loss_sum
        # the shapes of a training hardly change, and a program for any shape is slower: one for each stair of a mask rate that
        # moves, one for held-out text, one for a last short micro-batch
        limit = torch._dynamo.config.recompile_limit
        torch._dynamo.config.recompile_limit = max(limit, RATE_STEPS + 8)
        return torch.compile(loss_sum, dynamic=False)

    def facts(self) -> dict[str, Any]:
        """What the last bits of a result depend on, but for the threads, which a resumed run takes from its checkpoint."""
        return {
            "device": self.device.type,
            "dtype": str(self.dtype).removeprefix("torch."),
            "compiled": self.compiled,
            "torch": torch.__version__,
        }


def make_execution(settings: PretrainSettings, world: World | None = None) -> Execution:
    """Resolve `auto` and make torch ready: threads, deterministic kernels.

    Args:
        settings: what was asked for.
        world: the processes that train together; None: this one alone.

    Raises:
        ConfigError: a device that is not there, or numbers that it lacks.
    """
    world = world or alone(settings.device)
    threads = settings.threads or max(1, cpu_count() // world.local_size)
    torch.set_num_threads(threads)
    keep_freed_memory()
    if settings.deterministic and world.device.type != "cpu":  # a CPU is so anyway
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it when CUDA starts
        torch.use_deterministic_algorithms(True)
    return Execution(
        device=world.device,
        dtype=resolve_dtype(settings.dtype, world.device),
        threads=threads,
        compiled=settings.compile == "on" or (settings.compile == "auto" and world.device.type == "cuda"),
        bitwise=world.device.type == "cpu" or settings.deterministic,
    )
