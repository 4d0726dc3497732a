"""The execution of a training: its device, threads and kernels, the format of numbers.

bfloat16 has float32's range, so nothing special is needed. float16 ends at 65504 and loses everything below 6e-8: there the
loss is multiplied by a scale before the backward pass, as large as the gradients bear, and the gradients are divided by it
again. Weights, norms and losses are float32 whatever the numbers.

Source: Micikevicius et al. 2018, "Mixed Precision Training", section 3.2.
"""

import math
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from wordpipe.errors import ConfigError
from wordpipe.runtime import cpu_count, keep_freed_memory, pick_device, torch_threads
from wordpipe.training.objectives_and_masking import RATE_STEPS, loss_sum
from wordpipe.training.processes import World


@torch.no_grad()
def sum_gradients(world: World, weights: Sequence[Tensor], loss: Tensor) -> None:
    """Replace each gradient, and the loss, by its sum over all processes of the training.

    Args:
        world: the processes.
        weights: parameters, the same in every process.
        loss: float32 scalar on their device, overwritten.
    """
    if world.is_alone:
        return
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    flat = torch.cat([*(gradient.flatten() for gradient in gradients), loss.reshape(1)])
    world.add_up(flat)
    *parts, total = torch.split(flat, [*(gradient.numel() for gradient in gradients), 1])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))
    loss.copy_(total[0])


Number = Literal["auto", "float32", "bfloat16", "float16"]


def resolve_dtype(wanted: Number, device: torch.device) -> torch.dtype:
    """Return the number format of the training's matrix products that `wanted` means on a device.

    `auto` takes what the device has units for: bfloat16 on CUDA and on CPUs with AMX (two cores: 2.3 against 0.29 TFLOP/s) or
    AVX-512's bfloat16 (AMD EPYC, two cores: 0.90 against 0.43), float16 on CUDA cards older than bfloat16, else float32. A CPU
    without such units computes bfloat16 slower than float32.

    Raises:
        ConfigError: numbers that the device lacks.
    """
    if wanted == "auto" and device.type == "cuda":
        return torch.bfloat16 if _cuda_has_bfloat16(device) else torch.float16
    if wanted == "auto":
        return torch.bfloat16 if device.type == "cpu" and _cpu_has_bfloat16() else torch.float32
    if wanted == "bfloat16" and not (device.type == "cpu" or _cuda_has_bfloat16(device)):
        raise ConfigError(
            "this device does not support bfloat16", where="dtype", got=str(device), expected="float32 or auto"
        )
    if wanted == "float16" and device.type != "cuda":
        raise ConfigError(
            "training in float16 needs a CUDA device", where="dtype", got=str(device),
            expected="float32, bfloat16 or auto",
        )  # fmt: skip
    return {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[wanted]


def _cuda_has_bfloat16(device: torch.device) -> bool:
    # torch.cuda.is_bf16_supported() says yes of cards that only emulate it
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)


def _cpu_has_bfloat16() -> bool:
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False  # or it was told not to use them (ATEN_CPU_CAPABILITY)
    # not public, and missing where torch is built without them
    tests = (getattr(torch.cpu, name, None) for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"))
    return any(has() for has in tests if has is not None)


@dataclass
class LossScaler:
    """The scale of a float16 training: halved when a gradient overflows, doubled after a while without overflow.

    It follows from the steps before it alone, and what it remembers is in the checkpoint, so a resumed run goes on with
    the same scales: `LossScaler(**asdict(it))`. One number is read from the device in each step, as in torch's GradScaler.

    Attributes:
        scale: what the mean loss is multiplied by.
        good_steps: steps since it last changed.
        skipped: steps of the run that changed no weight, because their gradient overflowed.
    """

    scale: float = 65536.0
    good_steps: int = 0
    skipped: int = 0

    grow_after = 2000  # steps, as in torch's GradScaler

    def accepts(self, norm: Tensor) -> bool:
        """Return True if a step in float16 may be taken, by the length of its gradient; adapt the scale."""
        if not math.isfinite(float(norm)):
            self.scale, self.good_steps, self.skipped = self.scale / 2.0, 0, self.skipped + 1
            return False
        self.good_steps += 1
        if self.good_steps == self.grow_after:
            self.scale, self.good_steps = self.scale * 2.0, 0
        return True

    @property
    def is_exhausted(self) -> bool:
        """True if the mean loss itself, not enlarged at all, overflows: the training has diverged."""
        return self.scale < 1.0


_CUDNN, _FLASH = SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION
_OTHERS = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


LossSum = Callable[..., Tensor]
"""`objectives_and_masking.loss_sum`, as it is or compiled."""


@dataclass(frozen=True)
class Execution:
    """The device, number format, threads and compilation of a training, resolved.

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

    library: ClassVar[Literal["torch"]] = "torch"

    @property
    def is_on_cpu(self) -> bool:
        """True if the host need not wait for a device."""
        return self.device.type == "cpu"

    def sums(self, values: Sequence[float]) -> Tensor:
        """Return numbers as float32 on the device of the execution."""
        return torch.tensor(values, dtype=torch.float32, device=self.device)

    def settle(self) -> None:
        """Wait until the device of the execution has done all that it was given."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def running(self, threads: int) -> AbstractContextManager[None]:
        """Return the context in which the execution has so many threads."""
        return torch_threads(threads)

    def autocast(self) -> AbstractContextManager[object]:
        """Return the context in which matrix products are computed in `dtype`."""
        if self.dtype is torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype)

    def attention_kernels(self) -> AbstractContextManager[object]:
        """Return the context in which a training's attention takes the device's fastest kernel.

        On Hopper cuDNN's is 1.7 to 2.3 times as fast as flash attention at the shapes of a training, and slower than it
        on other cards (0.82 on an A100); torch tries flash attention first everywhere.
        """
        if self.device.type != "cuda":
            return nullcontext()
        is_hopper = torch.cuda.get_device_capability(self.device)[0] == 9
        first = [_CUDNN, _FLASH] if is_hopper else [_FLASH, _CUDNN]
        return sdpa_kernel([*first, *_OTHERS], set_priority=True)

    def loss_function(self) -> LossSum:
        """Return `loss_sum` as the execution computes it: compiled where that was chosen."""
        if not self.compiled:
            return loss_sum
        # the shapes of a training hardly change, and a program for any shape is slower: one for each stair of a mask rate that
        # moves, one for held-out text, one for a last short micro-batch
        limit = torch._dynamo.config.recompile_limit
        torch._dynamo.config.recompile_limit = max(limit, RATE_STEPS + 8)
        return torch.compile(loss_sum, dynamic=False)

    def facts(self) -> dict[str, Any]:
        """Return the facts of the execution that the last bits of a result depend on, but for the threads."""
        return {
            "device": self.device.type,
            "dtype": str(self.dtype).removeprefix("torch."),
            "compiled": self.compiled,
            "torch": torch.__version__,
        }


def make_execution(settings: Any, world: World | None = None) -> Execution:
    """Resolve `auto` and make torch ready: threads, deterministic kernels.

    Args:
        settings: `device`, `dtype` and `threads`; some have `compile` and `deterministic`.
        world: the processes that train together; None: this one alone.

    Raises:
        ConfigError: a device that is not there, or numbers that it lacks.
    """
    world = world or World(pick_device(settings.device))
    threads = settings.threads or max(1, cpu_count() // world.local_size)
    torch.set_num_threads(threads)
    keep_freed_memory()
    # a contrastive step has lengths of its own, for which a program would be compiled: it has no such setting
    wanted = getattr(settings, "compile", "off")
    compiled, deterministic = wanted == "on", getattr(settings, "deterministic", False)
    compiled |= wanted == "auto" and world.device.type == "cuda"
    if deterministic and world.device.type != "cpu":  # a CPU is so anyway
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it when CUDA starts
        torch.use_deterministic_algorithms(True)
    return Execution(
        device=world.device, dtype=resolve_dtype(settings.dtype, world.device), threads=threads, compiled=compiled,
        bitwise=world.device.type == "cpu" or deterministic,
    )  # fmt: skip
