"""How many sequences a GPU takes at once: tried out, not guessed.

What is tried is a real forward and backward pass of a step's own shapes, so attention, recomputation, the head and the
vocabulary are all in it. The tokens of a step stay what they are: only the number of micro-batches changes. The number found
is kept in the checkpoint, since the order of summation shows in the last bits of the weights.
"""

import gc
from collections.abc import Callable, Iterable
from contextlib import suppress

import torch

from wordpipe.errors import BudgetError
from wordpipe.model.language_model import LanguageModel
from wordpipe.training.execution import Execution
from wordpipe.training.objectives import Targets, loss_sum

__all__ = ["first_that_fits", "largest_micro_batch", "sizes_to_try", "too_large"]

_POSITIONS_AT_ONCE = 1 << 17  # beyond that a GPU is busy enough, and larger matrices are no faster
_ROOM = 0.9  # of the memory that there is: a compiled step and the allocator's gaps need some


def largest_micro_batch(model: LanguageModel, targets: Targets, execution: Execution, *, sequences: int) -> int:
    """The largest divisor of `sequences` that trains on this GPU with room to spare.

    Args:
        model: on the device, without gradients; left as it was.
        targets: of a whole step.
        execution: the device, a CUDA one, and the numbers.
        sequences: of a step that this process computes.

    Raises:
        BudgetError: not even one sequence fits.
    """
    sizes = sizes_to_try(sequences, targets.inputs.shape[1])
    return first_that_fits(sizes, lambda size: _fits(model, targets.rows(0, size), execution))


def sizes_to_try(sequences: int, seq_len: int) -> list[int]:
    """Divisors of a batch, the largest worth trying first, each at most about half of the one before.

    >>> sizes_to_try(512, 128), sizes_to_try(12, 65_536), sizes_to_try(7, 8)
    ([512, 256, 128, 64, 32, 16, 8, 4, 2, 1], [2, 1], [7, 1])
    """
    bound = max(1, min(sequences, _POSITIONS_AT_ONCE // seq_len))
    sizes: list[int] = []
    for size in range(bound, 0, -1):
        if sequences % size == 0 and (size <= bound):
            sizes.append(size)
            bound = max(1, size // 2)
    return sizes


def first_that_fits(sizes: Iterable[int], fits: Callable[[int], bool]) -> int:
    """The first of some sizes for which `fits` is true.

    Raises:
        BudgetError: none fits.
    """
    for size in sizes:
        if fits(size):
            return size
    raise BudgetError(
        "one sequence alone does not fit into the memory of this device",
        where="micro_batch",
        got=1,
        hint="take a shorter --seq-len, --recompute, or a smaller --preset",
    )


def too_large(micro_batch: int) -> BudgetError:
    """What to say when a training's own step does not fit."""
    return BudgetError(
        "the device's memory does not hold a step",
        where="micro_batch",
        got=micro_batch,
        hint=f"give --micro-batch {max(1, micro_batch // 2)}, which learns the same, or --recompute",
    )


def _fits(model: LanguageModel, targets: Targets, execution: Execution) -> bool:
    """Train on the rows without taking a step, and look at the most memory that it took."""
    device = execution.device
    torch.cuda.reset_peak_memory_stats(device)
    fitted = False
    with suppress(torch.OutOfMemoryError):
        with execution.attention_kernels():
            with execution.autocast():
                loss = loss_sum(
                    model, targets
                )  # not compiled: that takes a minute per size, and then needs less memory
            loss.backward()  # type: ignore[no-untyped-call]
        fitted = torch.cuda.max_memory_allocated(device) + _memory_of_optimiser(model) < _ROOM * _memory(device)
    model.zero_grad(set_to_none=True)
    gc.collect()  # the graph of a pass that broke off hangs on its traceback
    torch.cuda.empty_cache()
    return fitted


def _memory(device: torch.device) -> int:
    """Bytes that this process has or could get: others may be on the device."""
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device)


def _memory_of_optimiser(model: LanguageModel) -> int:
    """Bytes: AdamW keeps two numbers per weight, and makes them in its first step."""
    return sum(2 * weight.numel() * weight.element_size() for weight in model.parameters())
