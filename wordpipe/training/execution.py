"""The execution of a training: processes that train together, their devices, threads and kernels, the format of numbers.

    torchrun --nproc-per-node 4 -m wordpipe train clm run/tokens -o run/model

Every process builds the whole step's targets, which are a function of (seed, step), computes the gradient of its rows, and
the gradients are added up over all processes, as the micro-batches of one process are. So the loss is that of one process
with the same batch. Every process prepares the training by itself, from the same files; the first one alone reports,
validates and writes.

What is sent is tensors and JSON, never pickled objects. In each step the processes agree twice: with two numbers on the
host (has a stop signal come, has one failed), and with all gradients on the device. Two, because a host that looks for
the numbers among the gradients waits for its device.

bfloat16 has float32's range, so nothing special is needed. float16 ends at 65504 and loses everything below 6e-8: there the
loss is multiplied by a scale before the backward pass, as large as the gradients bear, and the gradients are divided by it
again. Weights, norms and losses are float32 whatever the numbers.

Source: Micikevicius et al. 2018, "Mixed Precision Training", section 3.2.
"""

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from wordpipe.errors import ConfigError, PeerError
from wordpipe.runtime import cpu_count, keep_freed_memory, pick_device, process_number
from wordpipe.training.objectives_and_masking import RATE_STEPS, loss_sum

Device = Literal["auto", "cpu", "cuda", "mps"]

_PATIENCE = timedelta(hours=12)  # the others wait while the first prepares a large corpus; a dead peer shows at once


@dataclass(frozen=True)
class World:
    """The processes that train together.

    Attributes:
        device: of this process.
        rank: number of this process, from 0.
        size: processes in all.
        local_size: processes on this machine.
    """

    device: torch.device
    rank: int = 0
    size: int = 1
    local_size: int = 1

    @property
    def is_alone(self) -> bool:
        """True if this process trains by itself."""
        return self.size == 1

    @property
    def leads(self) -> bool:
        """True if this is the process that reads, reports and writes."""
        return self.rank == 0

    def rows(self, batch_size: int) -> tuple[int, int]:
        """Return the first row of this process in a batch, and the row after its last."""
        return self.rank * batch_size // self.size, (self.rank + 1) * batch_size // self.size

    def share(self, value: Any) -> Any:
        """Return the first process's value in all processes that execute a training; the others' arguments do not matter.

        Args:
            value: anything that JSON holds.
        """
        if not self.leads:
            return self._receive()
        self._send({"value": value})
        return value

    @contextmanager
    def first_goes_ahead(self) -> Iterator[None]:
        """Let the first process of a training go through a block before the others do.

        Raises:
            PeerError: in the others, where the block raised in the first one; there its own error goes on.
        """
        if not self.leads:
            self._receive()
        try:
            yield
        except BaseException as error:
            if self.leads:
                self._send({"error": _first_line(error)})
            raise
        if self.leads:
            self._send({"value": None})

    def agree(self, signum: int | None) -> int | None:
        """Return the largest signal number that any process of the training brings, None if none does.

        Raises:
            PeerError: a process has called `fail`, or is gone.
        """
        return signum if self.is_alone else self._agree(signum or 0, failed=False) or None

    def fail(self) -> None:
        """Let `agree` fail in all other processes of the training, as soon as they come there. Never raises."""
        if not self.is_alone:
            try:
                self._agree(0, failed=True)
            except PeerError:
                return  # they have failed as well

    def add_up(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over all processes."""
        if not self.is_alone:
            with _talking():
                dist.all_reduce(tensor)

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Overwrite the tensors with the first process's."""
        for tensor in tensors if not self.is_alone else ():
            with _talking():
                dist.broadcast(tensor, src=0)

    def _agree(self, signum: int, *, failed: bool) -> int:
        """Send a signal number, and whether this process failed, to all processes of the training.

        Return the largest number.
        """
        both = torch.tensor([signum, int(failed)])
        with _talking():
            dist.all_reduce(both, op=dist.ReduceOp.MAX)
        if both[1] > 0:
            raise PeerError(
                "another process of this training failed", hint="read the error message of the process that failed"
            )
        return int(both[0])

    def _send(self, message: dict[str, Any]) -> None:
        """Send a JSON message from the first process to the others."""
        if self.is_alone:
            return
        data = torch.frombuffer(bytearray(json.dumps(message).encode()), dtype=torch.uint8)
        self.broadcast([torch.tensor([len(data)]), data])

    def _receive(self) -> Any:
        """Return the value of the first process's JSON message."""
        size = torch.zeros(1, dtype=torch.int64)
        self.broadcast([size])
        data = torch.empty(int(size), dtype=torch.uint8)
        self.broadcast([data])
        message = json.loads(data.numpy().tobytes())
        if "error" in message:
            raise PeerError("the first process of this training failed", got=message["error"])
        return message["value"]


@contextmanager
def join_world(wanted: Device) -> Iterator[World]:
    """Meet the other processes that execute the training, if `torchrun` started several.

    Args:
        wanted: kind of device; with CUDA every process of a machine takes one of its own.

    Raises:
        ConfigError: the device is not there.
        PeerError: the others were not met.
    """
    # one process alone
    size = process_number("WORLD_SIZE", 1)
    if size <= 1:
        yield World(pick_device(wanted))
        return
    # how the others are met
    for variable in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        if not os.environ.get(variable):
            hint = "torchrun sets WORLD_SIZE and this variable; if you do not use torchrun, unset WORLD_SIZE"
            raise ConfigError(f"WORLD_SIZE is {size}, but {variable} is not set", where=variable, hint=hint)
    if (rank := process_number("RANK", 0)) >= size:
        raise ConfigError("RANK is too large", where="RANK", got=rank, expected=f"less than WORLD_SIZE ({size})")
    process_number("MASTER_PORT", 0)
    # the device of this process
    device, local_rank = pick_device(wanted), process_number("LOCAL_RANK", 0)
    if device.type == "mps":
        raise ConfigError(
            "several processes can train together only on CPUs or CUDA GPUs", where="device", got="mps",
            expected="--device cpu",
        )  # fmt: skip
    # of CUDA one GPU each
    if device.type == "cuda":
        if local_rank >= (there := torch.cuda.device_count()):
            raise ConfigError(
                "there are more processes than GPUs on this machine", where="--nproc-per-node", got=size, expected=there
            )
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
    with _talking():  # what the host says goes through gloo, what the GPUs say through NCCL
        dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo", timeout=_PATIENCE)
    # what the block is given, and the end
    world = World(device, dist.get_rank(), size, process_number("LOCAL_WORLD_SIZE", size))
    try:
        yield world
    finally:
        dist.destroy_process_group()


@contextmanager
def _talking() -> Iterator[None]:
    """Turn torch's error of a lost connection between processes into ours."""
    try:
        yield
    except RuntimeError as error:
        raise PeerError(
            "the connection to the other processes of this training was lost",
            got=_first_line(error),
            hint="read the error message of the process that failed first",
        ) from error


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


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
