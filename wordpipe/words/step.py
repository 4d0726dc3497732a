"""What every word2vec trainer reports and offers."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from wordpipe.runtime import StopFlag

__all__ = ["Step", "Training"]


@dataclass(frozen=True, slots=True)
class Step:
    """One report of the training.

    Attributes:
        step: reports so far, from 1.
        epoch: the epoch it belongs to, from 1.
        tokens: words seen so far, over all epochs.
        total: words that will have been seen at the end.
        split: what `loss` was measured on, `train` or `valid`; `train` where there is none.
        loss: mean loss of a fixed sample of targets in nats, at the end of each epoch; None in between.
        lr: learning rate reached.
        seconds: since the start of the training.
    """

    step: int
    epoch: int
    tokens: int
    total: int
    split: str
    loss: float | None
    lr: float
    seconds: float


class Training(Protocol):
    """A word2vec training, whatever computes it.

    Attributes:
        threads: threads that it trains with.
        bitwise: whether another run would give the same bytes.
    """

    threads: int
    bitwise: bool

    def steps(self, flag: StopFlag) -> Iterator[Step]:
        """Train, reporting as it goes; looks at `flag` between the reports."""
        ...

    @property
    def vectors(self) -> npt.NDArray[np.float32]:
        """The words' vectors (V, D), in the order of the vocabulary."""
        ...

    @property
    def outputs(self) -> npt.NDArray[np.float32]:
        """The output (context) vectors (V, D), in the order of the vocabulary."""
        ...
