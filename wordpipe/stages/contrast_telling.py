"""Tells how far a contrastive training is, and writes its log."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from wordpipe.artifacts.layout import STEPS
from wordpipe.report.sparkline import trend
from wordpipe.runtime import StopFlag, stop_signal
from wordpipe.stages.making import Job
from wordpipe.training.step import Step

__all__ = ["ContrastTelling", "Tellable"]


class Tellable(Protocol):
    """A training of either encoder."""

    @property
    def history(self) -> Sequence[Step]:
        """Every report so far, those of the runs before included."""
        ...

    @property
    def metrics(self) -> Mapping[str, float]:
        """Of the last validation: valid_loss and valid_nearest; empty before."""
        ...

    def steps(self, flag: StopFlag) -> Iterator[Step]:
        """Train to the end."""
        ...


class ContrastTelling:
    """Tells a job's user of steps and of what was measured.

    Args:
        job: told.

    Attributes:
        total: steps of the training.
    """

    def __init__(self, job: Job) -> None:
        self.job, self.total = job, 0
        self._figures: dict[str, str] = {}

    def tick(self, step: int) -> None:
        """A step is done."""
        self.job.report("training", step, self.total, "steps", **self._figures)

    def train(self, training: Tellable, pairs_per_step: int) -> None:
        """Train to the end; write the log of all runs that the training took."""
        job = self.job
        with stop_signal(lambda _: job.note("stopping after this step, saving (press again to stop now)")) as flag:
            for step in training.steps(flag):
                self._report(step, training.metrics.get("valid_nearest"))
        with job.table("steps", STEPS, single=True, log=True) as log:
            rows = [{name: getattr(step, name) for name in STEPS.names} for step in training.history]
            log.write(pa.RecordBatch.from_pylist(rows, schema=STEPS))
        self._sum_up(training, pairs_per_step)

    def _report(self, step: Step, nearest: float | None) -> None:
        if step.split == "valid":
            share = "" if nearest is None else f", {nearest:.1%} of held-out texts are nearest to their partner"
            self.job.note(f"step {step.step:,}: validation loss {step.loss:.4f}{share}")
            return
        self._figures = {"loss": f"{step.loss:.3f}", "lr": f"{step.lr:.2e}", "tokens/s": f"{step.tokens_per_s:,.0f}"}
        self.tick(step.step)

    def _sum_up(self, training: Tellable, pairs_per_step: int) -> None:
        job, history = self.job, training.history
        losses = [step.loss for step in history if step.split == "train"]
        job.metrics |= {"loss": round(losses[-1], 6)} | {name: round(one, 6) for name, one in training.metrics.items()}
        job.note(trend("loss", losses, width=40))
        if not training.metrics:
            job.note("too few documents are held out to validate on")
        last = history[-1]
        seconds = max(last.seconds, 1e-9)
        job.rates = {
            "tokens_per_s": round(last.tokens / seconds, 1), "pairs_per_s": round(last.step * pairs_per_step / seconds, 1)
        }  # fmt: skip
