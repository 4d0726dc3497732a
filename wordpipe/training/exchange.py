"""What the processes of one training tell each other: gradients in every step, and where to go on at the beginning."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from wordpipe.training.parallel import World
from wordpipe.training.state import Snapshot

__all__ = ["share_snapshot", "sum_gradients"]


@torch.no_grad()
def sum_gradients(world: World, weights: Sequence[Tensor], loss: Tensor) -> None:
    """Replace each gradient, and the loss, by its sum over all processes: one message, however many weights there are.

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


def share_snapshot(world: World, read: Callable[[], Snapshot | None]) -> Snapshot | None:
    """The snapshot that the first process reads, in every process.

    Args:
        world: the processes.
        read: called in the first process only.

    Raises:
        PeerError: in the others, where `read` raised in the first one.
    """
    if world.is_alone:
        return read()
    own: list[Snapshot] = []

    def header() -> dict[str, Any] | None:
        own.extend(found for found in [read()] if found is not None)
        return None if not own else _header(own[0])

    head = world.first_does(header)
    if head is None:
        return None
    snapshot = own[0] if world.leads else _hollow(head)
    world.broadcast([*snapshot.model.values(), *snapshot.optimiser.values()])
    return snapshot


def _header(snapshot: Snapshot) -> dict[str, Any]:
    shapes = {
        part: [(name, list(tensor.shape), str(tensor.dtype).removeprefix("torch.")) for name, tensor in tensors.items()]
        for part, tensors in (("model", snapshot.model), ("optimiser", snapshot.optimiser))
    }
    return {"step": snapshot.step, "log": snapshot.log, **shapes}


def _hollow(head: dict[str, Any]) -> Snapshot:
    """A snapshot whose tensors are still to be filled."""
    model, optimiser = (
        {name: torch.empty(shape, dtype=getattr(torch, dtype)) for name, shape, dtype in head[part]}
        for part in ("model", "optimiser")
    )
    return Snapshot(head["step"], model, optimiser, head["log"])
