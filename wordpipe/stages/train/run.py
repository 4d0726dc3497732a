"""One training as its user sees it: progress, validations, the log of its steps, the last figures."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from wordpipe.artifacts import STEPS, Artifact, read_batches, row_count
from wordpipe.metrics import perplexity
from wordpipe.report import trend
from wordpipe.runtime import stop_signal
from wordpipe.stages.job import Job
from wordpipe.training import Step, Trainer

if TYPE_CHECKING:
    from wordpipe.training.contrastive import Pairs


def token_rows(job: Job, source: Artifact, column: str) -> Iterator[pa.RecordBatch]:
    """The rows of a tokens artifact with one column of ids; tells how many are read."""
    total, done = row_count(source, "tokens"), 0
    for batch in read_batches(source, "tokens", ["doc_id", "sentence_id", "split", column]):
        yield batch
        done += len(batch)
        job.report("preparing", done, total, "sentences")


class TrainingRun:
    """Tells a job's user how far a training is: the step at every step, what was measured whenever it is.

    Args:
        job: told.
    """

    def __init__(self, job: Job) -> None:
        self._job, self._steps = job, 0
        self._figures: dict[str, str] = {}

    def tick(self, step: int) -> None:
        """A step is done."""
        self._job.report("training", step, self._steps, "steps", **self._figures)

    def train(self, trainer: Trainer[Any]) -> None:
        """Train to the end; write the log of all runs that the training took."""
        job, self._steps = self._job, trainer.plan.steps
        with stop_signal(lambda _: job.note("stopping after this step, saving (press again to stop now)")) as flag:
            self.tick(trainer.step)
            for step in trainer.steps(flag):
                self._report(step, trainer.metrics.get("valid_nearest"))
        job.bitwise = trainer.bitwise
        with job.table("steps", STEPS, single=True, log=True) as log:
            rows = [{name: getattr(step, name) for name in STEPS.names} for step in trainer.history]
            log.write(pa.RecordBatch.from_pylist(rows, schema=STEPS))
        last = trainer.history[-1]
        for step in trainer.history:
            job.metrics["loss" if step.split == "train" else "valid_loss"] = round(step.loss, 6)
        job.metrics |= {name: round(one, 6) for name, one in trainer.metrics.items()}
        job.note(trend("loss", [step.loss for step in trainer.history if step.split == "train"], width=40))
        job.rates = {"tokens_per_s": round(last.tokens / max(last.seconds, 1e-9), 1)}

    def _report(self, step: Step, nearest: float | None) -> None:
        if step.split == "valid":
            more = "" if (value := perplexity(step.loss)) is None else f", perplexity {value:.1f}"
            if nearest is not None:
                more = f", {nearest:.1%} of held-out texts are nearest to their partner"
            self._job.note(f"step {step.step:,}: validation loss {step.loss:.4f}{more}")
            return
        self._figures = {"loss": f"{step.loss:.3f}", "lr": f"{step.lr:.2e}", "tokens/s": f"{step.tokens_per_s:,.0f}"}
        if step.waiting is not None:
            self._figures["waiting"] = f"{step.waiting:.0%}"
        self.tick(step.step)


def train_on_pairs(job: Job, run: TrainingRun, training: Trainer[Any], pairs: "Pairs") -> None:
    """Train either encoder to the end, and say and count what is to be known of its pairs."""
    for line in (*pairs.notes, *training.notes):
        job.warn(line)
    job.counts |= {name: count for name, count in pairs.counts.items() if count} | {"steps": training.plan.steps}
    job.threads = training.threads
    if training.resumed_from is not None:
        job.note(f"continuing a stopped run at step {training.resumed_from:,}")
    run.train(training)
    if not training.metrics:
        job.note("too few documents are held out to validate on")
    last = training.history[-1]
    job.rates["pairs_per_s"] = round(last.step * training.plan.batch_size / max(last.seconds, 1e-9), 1)
