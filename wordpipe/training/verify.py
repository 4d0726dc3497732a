"""Proof, on the user's own text, settings and device, that a stopped training ends with the bytes of one that was not."""

import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from wordpipe.errors import ConfigError, WordpipeError
from wordpipe.runtime import StopFlag
from wordpipe.training.loop import Training
from wordpipe.training.state import Snapshot

__all__ = ["ResumeCheck", "compare", "refuse_inexact", "verify_resume"]


@dataclass(frozen=True)
class ResumeCheck:
    """What came of it.

    Attributes:
        steps: trained both ways.
        identical: every weight and every number of the optimiser has the same bytes.
        differs: the first tensor that has not, `model/NAME` or `optimiser/NAME`, or None.
        difference: the largest one between two numbers, over all tensors.
    """

    steps: int
    identical: bool
    differs: str | None = None
    difference: float = 0.0


def verify_resume(make: Callable[[Path], Training], folder: Path, *, n: int = 3) -> ResumeCheck:
    """Train 2n steps in one go, and n steps, a checkpoint, everything anew from the disk, and n steps more; compare.

    Args:
        make: a fresh training (model, optimiser and all) that keeps its checkpoints in the given folder, and continues those
            that it finds there. It is called three times; its step numbers and learning rates are those of the real run.
        folder: for the checkpoints; what is left in it may be removed.
        n: steps before the stop; fewer where the whole training is shorter.
    """
    straight = make(folder / "straight")
    begun, n = straight.step, min(n, (straight.plan.steps - straight.step) // 2)
    want = _run_to(straight, begun + 2 * n)
    del straight  # two models on one device may be one too many
    _run_to(make(folder / "halves"), begun + n)
    torch.manual_seed(random.getrandbits(32))  # whatever else draws random numbers must not matter
    again = make(folder / "halves")
    if n and again.resumed_from != begun + n:
        raise WordpipeError("the checkpoint just written was not continued", where=folder, got="; ".join(again.notes))
    return compare(want, _run_to(again, begun + 2 * n), steps=2 * n)


def refuse_inexact(check: ResumeCheck, training_is_bitwise: bool) -> None:
    """Stop here if resuming changed anything.

    Raises:
        ConfigError: it did, on a device that only promises the same bytes with --deterministic.
        WordpipeError: it did where it never should: a bug.
    """
    if check.identical:
        return
    kind, hint = (
        WordpipeError,
        "this should not happen on this device: please report it, with `wordpipe show` of the tokens",
    )
    if not training_is_bitwise:
        kind, hint = (
            ConfigError,
            "give --deterministic, which is slower and the same each time, or leave --verify-resume out",
        )
    raise kind(
        "a stopped training would not end with the same bytes",
        where=check.differs,
        got=f"a largest difference of {check.difference:.3g} after {check.steps} steps",
        expected="none",
        hint=hint,
    )


def compare(want: Snapshot, got: Snapshot, *, steps: int) -> ResumeCheck:
    """Two snapshots after the same steps, byte by byte."""
    differs: str | None = None
    largest = 0.0
    for name, a, b in _pairs(want, got):
        if a is None or b is None or a.dtype != b.dtype or a.shape != b.shape:
            return ResumeCheck(steps, identical=False, differs=name, difference=math.inf)
        if not torch.equal(_bytes(a), _bytes(b)):
            differs = differs or name
            largest = max(largest, float((a.double() - b.double()).abs().max()))
    return ResumeCheck(steps, identical=differs is None, differs=differs, difference=largest)


def _run_to(training: Training, step: int) -> Snapshot:
    """Train up to a step, with what the training does besides."""
    for _ in training.steps(StopFlag(), until=step):
        pass
    if training.execution.compiled:
        torch.compiler.reset()  # each training compiles for itself, and after eight of them torch gives up compiling
    return training.snapshot()


def _pairs(want: Snapshot, got: Snapshot) -> Iterator[tuple[str, Tensor | None, Tensor | None]]:
    for kind in ("model", "optimiser"):
        left: Mapping[str, Tensor] = getattr(want, kind)
        right: Mapping[str, Tensor] = getattr(got, kind)
        for name in sorted(left.keys() | right.keys()):
            yield f"{kind}/{name}", left.get(name), right.get(name)


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(-1).view(torch.uint8)
