"""The steps of a training: gradients, a learner that takes a step, reports, the end.

Nothing here is of torch: the transformers have its tensors, the static table has NumPy's arrays.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from wordpipe.pace import Finish, TimeLimit
from wordpipe.training.plan import Plan
from wordpipe.training.snapshot import Snapshot, Tensors


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the log.

    Attributes:
        step: optimiser steps so far.
        tokens: positions trained on so far, special tokens included.
        split: `train`: mean loss since the last report; `valid`: loss of the held-out text.
        loss: nats per target.
        lr: learning rate of the last step.
        seconds: of work so far, over all runs that a continued training took.
        tokens_per_s: positions per second since the last report; of the held-out text for `valid`.
    """

    step: int
    tokens: int
    split: str
    loss: float
    lr: float
    seconds: float
    tokens_per_s: float


@dataclass(frozen=True)
class Gradients:
    """The result of a step before the weights are changed; its gradients are with the weights.

    Attributes:
        loss: summed over the targets of this process, a scalar, on the device where there is one.
        n_targets: of the whole step, likewise, at least 1.
        positions: that were read.
        cut: ids of texts that the model had no room for.
    """

    loss: Any
    n_targets: Any
    positions: int
    cut: int = 0


@dataclass(frozen=True)
class Measured:
    """The result of a validation.

    Attributes:
        loss: nats per target.
        positions: that were looked at.
        metrics: further figures.
    """

    loss: float
    positions: int
    metrics: Mapping[str, float] = field(default_factory=dict)


class Running(Protocol):
    """The execution of a learner, as far as it matters to the training loop.

    Attributes:
        device: a device of torch, or the name of one.
        threads: CPU threads of this process.
        bitwise: whether another run on this kind of machine gives the same bytes.
        library: whose arrays the learner's state is made of.
    """

    @property
    def device(self) -> Any:
        """See the class."""
        ...

    @property
    def threads(self) -> int:
        """See the class."""
        ...

    @property
    def bitwise(self) -> bool:
        """See the class."""
        ...

    @property
    def library(self) -> Literal["torch", "numpy"]:
        """See the class."""
        ...

    @property
    def is_on_cpu(self) -> bool:
        """True if the host need not wait for a device."""
        ...

    def sums(self, values: Sequence[float]) -> Any:
        """Return numbers as float32 where the learner computes."""
        ...

    def settle(self) -> None:
        """Wait until all is done that was begun."""
        ...

    def running(self, threads: int) -> AbstractContextManager[None]:
        """Return the context in which so many threads compute."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return what the last bits of a result depend on, but for the threads."""
        ...


class Steps(Protocol):
    """A learner with weights that learns step by step.

    Attributes:
        execution: device, precision, threads.
    """

    @property
    def execution(self) -> Running:
        """See the class."""
        ...

    def gradients(self, step: int) -> Gradients:
        """Make the gradients of a step, a function of the weights, the seed and the step alone."""
        ...

    def take(self, step: int, gradients: Gradients, lr: float) -> Any:
        """Add up what the processes have, and change the weights: loss, targets, length of the mean gradient, (3,) float32."""
        ...

    def replan(self, plan: Plan) -> None:
        """Go on by another plan of the training from the next step on."""
        ...

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        """Return all that the steps to come depend on: arrays on the CPU, which the next step may change, and JSON values."""
        ...

    def load(self, tensors: Tensors, log: Mapping[str, Any]) -> None:
        """Restore the state of the learner that `state` returned."""
        ...


class Learner(Steps, Protocol):
    """A learner that is also validated on held-out text."""

    def validate(self) -> Measured | None:
        """Look at held-out text, always the same; None: there is none."""
        ...

    @property
    def is_done(self) -> bool:
        """True if it has learned enough, by what its validations found: the training ends before its last step."""
        ...


L = TypeVar("L", bound=Learner)


@dataclass(frozen=True)
class Ending:
    """When a training ends, if not by its settings alone.

    Attributes:
        limit: the time that it may take; None: any.
        finish: end a stopped run where its last checkpoint is; None: go on with it.
        about: what its checkpoints say of it beside what they hold.
    """

    limit: TimeLimit | None = None
    finish: Finish | None = None
    about: dict[str, Any] = field(default_factory=dict)

    def wanting(self, plan: Plan, *lengths: float | None, begin: Snapshot | None = None) -> "Ending":
        """Return how the trainer ends, with a time for this plan's steps at most where a length was given."""
        if self.limit is not None:
            asked = any(length is not None for length in lengths)
            self.limit.wanting(plan.steps if asked else math.inf, start=0 if begin is None else begin.step)
        return self


UNTIL_DONE = Ending()


def perplexity(nats: float, n: int = 1) -> float | None:
    """Return the perplexity of held-out text, the number of equally likely tokens: exp(-(1/N) Σ log p).

    Args:
        nats: -Σ log p over all tokens.
        n: tokens, for the perplexity per token; words, for that per word; 1 where `nats` is a mean already.

    Returns:
        At least 1 where the probabilities sum to 1; None where there is nothing to divide by, or beyond what a float holds.

    Source: Jelinek et al. 1977, "Perplexity: a measure of the difficulty of speech recognition tasks"; per word over other
    units: Mielke 2019, "Can you compare perplexity across different segmentations?"

    >>> round(perplexity(3 * math.log(10), 3), 9)
    10.0
    """
    try:
        return math.exp(nats / n) if n > 0 else None
    except OverflowError:
        return None


def bits_per_byte(nats: float, n_bytes: int) -> float | None:
    """Return the size of held-out text as the model would compress it, bits for each byte of UTF-8.

    None where there is no byte.

    Source: Gao et al. 2020, "The Pile", section 3.1.

    >>> round(bits_per_byte(8 * math.log(2) * 5, 5), 9)
    8.0
    """
    return nats / math.log(2) / n_bytes if n_bytes > 0 else None
