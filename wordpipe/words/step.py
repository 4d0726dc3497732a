"""What every word2vec trainer reports and offers."""

from collections.abc import Callable, Iterator, Mapping
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
        epoch: the epoch it belongs to, from 1.
        tokens: words seen so far, over all epochs.
        total: words that will have been seen at the end.
        split: what `loss` was measured on, `train` or `valid`; `train` where there is none.
        loss: at the end of each epoch, nats: for `train` the mean over all predictions of the epoch, as each was made, where
            the backend counts them (native: no score counts as beyond 30); for `valid` the mean over a fixed sample of
            held-out text. None in between.
        lr: learning rate reached.
        seconds: since the start, or since this training was taken up again.
        resting: nothing is being trained: the weights and the position belong together, and may be kept.
    """

    epoch: int
    tokens: int
    total: int
    split: str
    loss: float | None
    lr: float
    seconds: float
    resting: bool = False


class Training(Protocol):
    """A word2vec training, whatever computes it.

    Attributes:
        threads: threads that it trains with.
        bitwise: whether another run would give the same bytes.
        progress: how far it is, as JSON values; set together with what is in `arrays`, before `steps`, to go on from there.
    """

    threads: int
    bitwise: bool
    progress: dict[str, float]

    def steps(self, flag: StopFlag, due: Callable[[], bool] = ...) -> Iterator[Step]:
        """Train, reporting as it goes, until the flag rises.

        Where `due` says so, or the flag has risen, and at the end of an epoch, the threads come to rest and a report with
        `resting` follows. A training that cannot be continued never rests, and raises Stopped instead.
        """
        ...

    def arrays(self) -> Mapping[str, npt.NDArray[np.float32]]:
        """What training changes, by name, C-contiguous; empty where it cannot be continued."""
        ...

    @property
    def vectors(self) -> npt.NDArray[np.float32]:
        """The words' vectors (V, D), in the order of the vocabulary."""
        ...

    @property
    def outputs(self) -> npt.NDArray[np.float32]:
        """The output vectors (V, D), in the order of the vocabulary."""
        ...
