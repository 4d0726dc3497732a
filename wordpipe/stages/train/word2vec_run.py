"""The training of word vectors: where it goes on from, its checkpoints and its log."""

import json
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from wordpipe.artifacts import STEPS, Checkpoint, Checkpoints, array_blocks
from wordpipe.errors import DivergedError, InputError
from wordpipe.runtime import stop_signal
from wordpipe.stages.job import Job
from wordpipe.words import NativeTraining, Step
from wordpipe.words.settings import Word2VecPlan

if TYPE_CHECKING:
    from wordpipe.words import GensimTraining

Training: TypeAlias = "NativeTraining | GensimTraining"

_STATE = "state.json"
_WORTH = 20  # a checkpoint that takes longer than a second may cost a twentieth of the time


class TrainingRun:
    """Runs a training to its end, or to a stop signal, keeping its state beside the output.

    `begin` gives the training as it is before its first step; the job's recipe says which checkpoints are of it.
    """

    def __init__(self, job: Job, begin: Callable[[], Training], plan: Word2VecPlan, distinct: int) -> None:
        self.training = begin()
        self._job, self._begin, self._plan = job, begin, plan
        self._checkpoints = Checkpoints(job.partial, job.recipe)
        self._chance = math.log(2) * (1 + plan.negatives) if plan.loss == "ns" else math.log(max(distinct, 2))
        self._log: list[dict[str, Any]] = []
        self._seconds_before = 0.0
        self._kept_at = time.monotonic()
        self._between = plan.checkpoint_seconds

    def resume(self) -> bool:
        """Fill the training with the newest checkpoint of the same recipe, if there is one."""
        state = self._checkpoints.restore(self._load) if self.training.arrays() else None
        for note in self._checkpoints.notes:
            self._job.warn(note)
        if state is None:
            if self._checkpoints.tried:  # a refused checkpoint may have left anything in the arrays
                del self.training  # before there is another as large
                self.training = self._begin()
            return False
        self.training.progress = state["progress"]
        self._log, self._seconds_before = state["log"], state["seconds"]
        same = state["threads"] == self.training.threads
        self.training.bitwise = self.training.bitwise and state["bitwise"] and same
        self._job.note(f"continuing a stopped run at {int(state['progress']['words']):,} words")
        return True

    def run(self) -> None:
        """Train.

        Raises:
            Stopped: a stop signal came; what was learned is kept where the backend can go on from it.
            DivergedError: the loss is far above that of guessing, or the vectors are no longer finite.
            InputError: nothing predicted anything.
        """
        last: Step | None = None  # stays None where only the end of a run was left to do
        told = "stopping, saving (press again to stop now)"
        if not self.training.arrays():
            told = "stopping: this backend cannot go on later, so nothing is kept"
        with stop_signal(lambda _: self._job.note(told)) as flag:
            for step in self.training.steps(flag, self._due):
                if step.loss is not None:
                    self._add_to_log(step)
                if step.resting and (flag.signum is not None or (self._due() and step.tokens < step.total)):
                    self._keep(step)
                    flag.raise_if_set(saved=self._saved)
                self._report(step)
                last = step
            if flag.signum is not None and last is not None and last.resting:
                self._keep(last)
            flag.raise_if_set(saved=self._saved)
        self._refuse_untrained()
        self._figures(last)
        with self._job.table("steps", STEPS, single=True, log=True) as log:
            log.write(pa.RecordBatch.from_pylist(self._log, schema=STEPS))

    @property
    def _saved(self) -> str | None:
        """Where the newest checkpoint is."""
        return None if self._checkpoints.newest is None else str(self._checkpoints.newest)

    def _due(self) -> bool:
        return time.monotonic() - self._kept_at >= self._between

    def _keep(self, step: Step) -> None:
        """Save the state; how long that takes decides when it is worth doing again."""
        start = time.monotonic()
        state = {
            "progress": self.training.progress, "log": self._log, "threads": self.training.threads,
            "bitwise": self.training.bitwise, "seconds": self._seconds_before + step.seconds,
        }  # fmt: skip
        arrays = self.training.arrays()
        files = [(f"{name}.f32", array_blocks(array)) for name, array in arrays.items()]
        self._checkpoints.save(step.tokens, [*files, (_STATE, [json.dumps(state).encode()])])
        self._kept_at = time.monotonic()
        took = self._kept_at - start
        self._between = max(self._plan.checkpoint_seconds, _WORTH * took if took > 1 else 0)

    def _load(self, checkpoint: Checkpoint) -> dict[str, Any]:
        for name, array in self.training.arrays().items():
            checkpoint.read_into(f"{name}.f32", array)
        state: dict[str, Any] = json.loads(checkpoint.read_bytes(_STATE))
        return state

    def _refuse_untrained(self) -> None:
        if self.training.arrays() and "train" not in self._losses():
            hint = "raise --subsample (0 keeps all words), lower --min-count, or give --context document"
            raise InputError("no word has a neighbour to learn from", hint=hint)

    def _add_to_log(self, step: Step) -> None:
        """A loss; one far above that of guessing is none to go on with."""
        if step.loss is not None and step.loss > 2 * self._chance:
            where, got, expected = f"epoch {step.epoch}", f"{step.loss:.4g} nats", f"less than {self._chance:.4g}"
            hint = f"lower --lr (it was {self._plan.lr})"
            raise DivergedError(
                "the loss is far above that of guessing", where=where, got=got, expected=expected, hint=hint
            )
        self._log.append(
            {"step": step.epoch, "tokens": step.tokens, "split": step.split, "loss": step.loss, "lr": step.lr,
             "seconds": self._seconds_before + step.seconds}
        )  # fmt: skip

    def _report(self, step: Step) -> None:
        """The progress line, with the last losses that were measured."""
        speed = step.tokens / max(self._seconds_before + step.seconds, 1e-9)
        figures = {"epoch": str(step.epoch), "lr": f"{step.lr:.4f}", "words/s": f"{speed:,.0f}"}
        figures |= {f"{split} loss": f"{loss:.4f}" for split, loss in self._losses().items()}
        self._job.report("training", step.tokens, step.total, "words", **figures)

    def _losses(self) -> dict[str, float]:
        """The last loss of each split."""
        return {row["split"]: row["loss"] for row in self._log}

    def _figures(self, last: Step | None) -> None:
        if last is not None:
            self._job.rates = {"words_per_s": round(last.tokens / max(self._seconds_before + last.seconds, 1e-9), 1)}
        names = {"train": "loss", "valid": "valid_loss"}
        self._job.metrics = {names[split]: round(loss, 6) for split, loss in self._losses().items()}
