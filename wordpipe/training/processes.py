"""The processes that train together.

    torchrun --nproc-per-node 4 -m wordpipe train clm run/tokens -o run/model

Every process builds the whole step's targets, which are a function of (seed, step), computes the gradient of its rows, and
the gradients are added up over all processes, as the micro-batches of one process are. So the loss is that of one process
with the same batch. Every process prepares the training by itself, from the same files; the first one alone reports,
validates and writes.

What is sent is tensors and JSON, never pickled objects. In each step the processes agree twice: with two numbers on the
host (has a stop signal come, has one failed), and with all gradients on the device. Two, because a host that looks for
the numbers among the gradients waits for its device.

A process alone needs no torch.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from wordpipe.errors import ConfigError, PeerError
from wordpipe.runtime import pick_device, process_number

if TYPE_CHECKING:
    from torch import Tensor

Device = Literal["auto", "cpu", "cuda", "mps"]

_PATIENCE = timedelta(hours=12)  # the others wait while the first prepares a large corpus; a dead peer shows at once


@dataclass(frozen=True)
class World:
    """The processes that train together.

    Attributes:
        device: of this process, a torch.device; None where nothing is of torch.
        rank: number of this process, from 0.
        size: processes in all.
        local_size: processes on this machine.
    """

    device: Any = None
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

    def add_up(self, tensor: "Tensor") -> None:
        """Replace a tensor by its sum over all processes."""
        if not self.is_alone:
            import torch.distributed as dist

            with _talking():
                dist.all_reduce(tensor)

    def broadcast(self, tensors: "Sequence[Tensor]") -> None:
        """Overwrite the tensors with the first process's."""
        if self.is_alone:
            return
        import torch.distributed as dist

        for tensor in tensors:
            with _talking():
                dist.broadcast(tensor, src=0)

    def _agree(self, signum: int, *, failed: bool) -> int:
        """Send a signal number, and whether this process failed, to all processes of the training.

        Return the largest number.
        """
        import torch
        import torch.distributed as dist

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
        import torch

        data = torch.frombuffer(bytearray(json.dumps(message).encode()), dtype=torch.uint8)
        self.broadcast([torch.tensor([len(data)]), data])

    def _receive(self) -> Any:
        """Return the value of the first process's JSON message."""
        import torch

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
    import torch
    import torch.distributed as dist

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
