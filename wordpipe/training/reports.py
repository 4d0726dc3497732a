"""The log of a training: losses with the speed, what it could be, the time lost waiting, the time left."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple
from typing import Any

from wordpipe.training.plan import Plan
from wordpipe.training.reachable import Reachable
from wordpipe.training.step import Step

__all__ = ["Reports"]

_PROGRESS = 0.05  # nats below the unigram entropy; less could be chance


class Reports:
    """What a training reports, and the clocks that it needs for it.

    Args:
        plan: sizes and learning rates.
        reachable: what the speed is compared with.
        unigram_entropy: loss of a model that knows only how frequent each token is, in nats; None: not compared.
        patience: steps after which a loss that is no better is worth a warning, 0 = half of all; never within the warm-up.
        warn: told of it, once.

    Attributes:
        history: every report so far, those of the runs before included.
    """

    def __init__(
        self,
        plan: Plan,
        reachable: Reachable,
        *,
        unigram_entropy: float | None = None,
        patience: int = 0,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self.history: list[Step] = []
        self._plan, self._reachable = plan, reachable
        self._entropy, self._patience, self._warn = (
            unigram_entropy,
            max(patience or plan.steps // 2, plan.warmup, 1),
            warn,
        )
        self._seconds_before = 0.0
        self._begun = self._mark = time.monotonic()
        self._marked_step = 0

    @property
    def seconds(self) -> float:
        """Seconds of work so far, over all runs."""
        return self._seconds_before + time.monotonic() - self._begun

    def restore(self, rows: Iterable[Sequence[Any]], seconds: float) -> None:
        """Go on from the reports and the time of the runs before."""
        self.history, self._seconds_before = [Step(*row) for row in rows], seconds

    def rows(self) -> list[tuple[Any, ...]]:
        """The reports as a checkpoint keeps them."""
        return [astuple(report) for report in self.history]

    def start(self, step: int) -> None:
        """Begin to count time, at a step."""
        self._reachable.tokens_per_s(1.0)  # a device that must be measured is measured now, not in the first interval
        self._mark, self._marked_step = time.monotonic(), step

    def train(self, step: int, loss: float, *, predicted: float, waited: float) -> Step:
        """Report the steps since the last report.

        Args:
            step: steps done.
            loss: their mean, nats per target.
            predicted: share of the positions at which something was predicted.
            waited: seconds that the device waited for batches.
        """
        now = time.monotonic()
        seconds = max(now - self._mark, 1e-9)
        speed = (step - self._marked_step) * self._plan.tokens_per_step / seconds
        share = speed / self._reachable.tokens_per_s(predicted)
        self._warn_without_progress(step, loss)
        return self._log(step, "train", loss, speed, now, reachable=share, waiting=min(1.0, waited / seconds))

    def begin_validation(self) -> None:
        """Begin to count the time of a validation."""
        self._mark = time.monotonic()

    def valid(self, step: int, loss: float, n_positions: int) -> Step:
        """Report a validation: its mean loss and the held-out positions that were looked at."""
        now = time.monotonic()
        return self._log(step, "valid", loss, n_positions / max(now - self._mark, 1e-9), now)

    def _log(self, step: int, split: str, loss: float, speed: float, now: float, **shares: float) -> Step:
        report = Step(
            step=step,
            tokens=step * self._plan.tokens_per_step,
            split=split,
            loss=loss,
            lr=self._plan.lr_at(step - 1),
            seconds=self.seconds,
            tokens_per_s=speed,
            **shares,
        )
        self.history.append(report)
        self._mark, self._marked_step = now, step
        return report

    def _warn_without_progress(self, step: int, loss: float) -> None:
        before = next((report.step for report in reversed(self.history) if report.split == "train"), 0)
        if self._warn is None or self._entropy is None or not before < self._patience <= step:
            return
        if not loss < self._entropy - _PROGRESS:
            self._warn(
                f"after {step:,} steps the loss is {loss:.3f}, hardly better than knowing how frequent each token is "
                f"({self._entropy:.3f}): give it more --steps, or a higher --lr"
            )
