"""In which numbers matrix products are computed, and the scale that keeps gradients inside float16.

bfloat16 has float32's range, so nothing special is needed. float16 ends at 65504 and loses everything below 6e-8: there the
loss is multiplied by a scale before the backward pass, as large as the gradients bear, and the gradients are divided by it
again. Weights, norms and losses are float32 whatever the numbers.

Source: Micikevicius et al. 2018, "Mixed Precision Training", section 3.2.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from wordpipe.errors import ConfigError

__all__ = ["LossScaler", "Number", "resolve_dtype"]

Number = Literal["auto", "float32", "bfloat16", "float16"]


def resolve_dtype(wanted: Number, device: torch.device) -> torch.dtype:
    """The numbers that `wanted` means on a device.

    `auto` takes what the device has units for: bfloat16 on CUDA and on CPUs with AMX (two cores: 2.3 against 0.29 TFLOP/s),
    float16 on CUDA cards older than bfloat16, else float32. A CPU without such units computes bfloat16 slower than float32.

    Raises:
        ConfigError: numbers that the device lacks.
    """
    if wanted == "auto":
        return _fastest(device)
    if wanted == "bfloat16" and not (device.type == "cpu" or _cuda_has_bfloat16(device)):
        raise ConfigError("this device has no bfloat16", where="dtype", got=str(device), expected="float32 or auto")
    if wanted == "float16" and device.type != "cuda":
        raise ConfigError(
            "training in float16 needs a CUDA device",
            where="dtype",
            got=str(device),
            expected="float32, bfloat16 or auto",
        )
    return {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[wanted]


def _fastest(device: torch.device) -> torch.dtype:
    if device.type == "cuda":
        return torch.bfloat16 if _cuda_has_bfloat16(device) else torch.float16
    return torch.bfloat16 if device.type == "cpu" and _cpu_has_amx() else torch.float32


def _cuda_has_bfloat16(device: torch.device) -> bool:
    # torch.cuda.is_bf16_supported() says yes of cards that only emulate it
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)


def _cpu_has_amx() -> bool:
    found = getattr(
        torch.cpu, "_is_amx_tile_supported", None
    )  # not public, and missing where torch is built without it
    return found is not None and bool(found())


@dataclass
class LossScaler:
    """The scale of a float16 training: halved when a gradient overflows, doubled after a while without overflow.

    It follows from the steps before it alone, and what it remembers is in the checkpoint, so a resumed run goes on with
    the same scales. One number is read from the device in each step, as in torch's GradScaler.

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
        """Whether a step may be taken, by the length of its gradient; adapts the scale for the next one."""
        if not math.isfinite(float(norm)):
            self.scale, self.good_steps, self.skipped = self.scale / 2.0, 0, self.skipped + 1
            return False
        self.good_steps += 1
        if self.good_steps == self.grow_after:
            self.scale, self.good_steps = self.scale * 2.0, 0
        return True

    @property
    def is_exhausted(self) -> bool:
        """Whether the mean loss itself, not enlarged at all, overflows: then the training has diverged."""
        return self.scale < 1.0

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: `LossScaler(**state)` goes on from it."""
        return asdict(self)
