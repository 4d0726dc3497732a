"""The training loop of every model: step, report now and then, validation, checkpoint every minute; exact on resuming.

What is trained is a `Learner`: the transformer of `train mlm` and `train clm`, the transformer or the static table of
`train contrastive`. It makes the gradients of a step, takes the step, and knows its own state.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from wordpipe.artifacts import Checkpoints
from wordpipe.errors import ConfigError, PeerError
from wordpipe.runtime import StopFlag, Stopped, stop_signal, torch_threads
from wordpipe.training.checkpoint import (
    Snapshot,
    Tensors,
    as_now,
    diverged,
    other_conditions,
    snapshot_files,
    threads_of_before,
)
from wordpipe.training.distributed import World
from wordpipe.training.plan import Plan
from wordpipe.training.precision import Execution

_PROGRESS = 0.05  # nats below the unigram entropy; less could be chance


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
    """What a step came to before the weights are changed; its gradients are with the weights.

    Attributes:
        loss: summed over the targets of this process, a scalar on the device.
        n_targets: of the whole step, a scalar on the device, at least 1.
        positions: that were read.
        cut: ids of texts that the model had no room for.
    """

    loss: Tensor
    n_targets: Tensor
    positions: int
    cut: int = 0


@dataclass(frozen=True)
class Measured:
    """What a validation found.

    Attributes:
        loss: nats per target.
        positions: that were looked at.
        metrics: further figures.
    """

    loss: float
    positions: int
    metrics: Mapping[str, float] = field(default_factory=dict)


class Learner(Protocol):
    """Something with weights that learns.

    Attributes:
        execution: device, precision, threads.
    """

    execution: Execution

    def gradients(self, step: int) -> Gradients:
        """Make the gradients of a step, a function of the weights, the seed and the step alone."""
        ...

    def take(self, step: int, gradients: Gradients, lr: float) -> Tensor:
        """Add up what the processes have, and change the weights: loss, targets, length of the mean gradient, (3,) float32."""
        ...

    def validate(self) -> Measured | None:
        """Look at held-out text, always the same; None: there is none."""
        ...

    @property
    def is_done(self) -> bool:
        """Whether it has learned enough, by what its validations found: the training ends before its last step."""
        ...

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        """All that the steps to come depend on: tensors on the CPU, which the next step may change, and JSON values."""
        ...

    def load(self, tensors: Tensors, log: Mapping[str, Any]) -> None:
        """Be where `state` was taken."""
        ...


L = TypeVar("L", bound=Learner)


class Trainer(Generic[L]):
    """One training, from its first step, from its last checkpoint, or from the end of a finished one.

    Args:
        learner: with its first weights, on the execution's device; trained in place.
        plan: numbers of steps and sizes of batches.
        state: where checkpoints are written.
        found: the checkpoint of this very training that is continued, if there is one.
        begin: the end of a finished training that this one goes on from; not used where `found` is.
        world: the processes that train together.
        checkpoint_seconds: time between checkpoints. What is learned does not depend on when they are made.
        checkpoint_steps: also one every this many steps; 0: by time only.
        unigram_entropy: loss of a model that knows only how frequent each token is, in nats; None: not compared.
        patience: steps after which a loss that is no better is worth a note, 0 = half of all; never within the warm-up.

    Attributes:
        step: steps done.
        positions: read so far.
        cut: ids so far that the model had no room for.
        history: every report so far, those of the runs before included.
        metrics: further figures of the last validation.
        resumed_from: the step of the checkpoint that was continued, or None.
        extended_from: the step that the finished training ended with, or None.
        notes: what the user should know: of what was found, and that a loss does not fall.
        threads: CPU threads that it runs on; those of the run before where one is continued.
        bitwise: whether an undisturbed run on the same kind of machine would give the same bytes.
    """

    def __init__(
        self, learner: L, plan: Plan, *, state: Checkpoints, found: Snapshot | None = None,
        begin: Snapshot | None = None, world: World | None = None, checkpoint_seconds: float = 60.0,
        checkpoint_steps: int = 0, unigram_entropy: float | None = None, patience: int = 0,
    ) -> None:  # fmt: skip
        self.learner, self.plan, self.execution = learner, plan, (execution := learner.execution)
        self.world = world or World(execution.device)
        self.step = self.positions = self.cut = 0
        self.history: list[Step] = []
        self.metrics: dict[str, float] = {}
        self.resumed_from: int | None = None
        self.extended_from: int | None = None
        self.notes, self.threads, self.bitwise = state.notes, execution.threads, execution.bitwise
        self._state, self._checkpoint_seconds, self._checkpoint_steps = state, checkpoint_seconds, checkpoint_steps
        self._sums = torch.zeros(3, device=execution.device)  # loss, targets, gradients' lengths since the last report
        self._entropy = unigram_entropy
        self._patience = max(patience or plan.steps // 2, plan.warmup, 1)
        self._seconds_before, self._begun = 0.0, time.monotonic()
        self._saved = self._begun  # when the last checkpoint was written
        self._mark, self._marked = self._begun, 0  # when the last report was, and the positions then
        self._flag, self._end = StopFlag(), plan.steps
        self._signum: int | None = None  # what the processes agreed on in this step
        self._summing = False  # after they have agreed, the others expect gradients and no words
        if found is not None:
            self._continue(found)
            self.resumed_from = found.step
        elif begin is not None:
            self._extend(begin)

    @property
    def seconds(self) -> float:
        """Seconds of work so far, over all runs."""
        return self._seconds_before + time.monotonic() - self._begun

    def steps(self, flag: StopFlag, until: int | None = None) -> Iterator[Step]:
        """The reports of `every_step`."""
        return (report for report in self.every_step(flag, until) if report is not None)

    def every_step(self, flag: StopFlag, until: int | None = None) -> Iterator[Step | None]:
        """Train to the last step: None for each that is done, then its reports; only the first of several processes reports.

        Args:
            flag: looked at after every step; when it rises in any process, the state is saved first.
            until: save the state and return after this step of the same plan; None: the last one.

        Raises:
            DivergedError: the loss or a gradient is not finite; names the last good checkpoint.
            BudgetError: the device's memory does not hold a step.
            Stopped: a stop signal came; what was learned is saved.
            OSError: a checkpoint could not be written; the one before it is whole.
            PeerError: another process failed.
        """
        self._flag, self._end = flag, self.plan.steps if until is None else min(until, self.plan.steps)
        try:
            with torch_threads(self.threads):
                yield from self._loop()
        except (Stopped, PeerError):
            raise
        except BaseException:
            if not self._summing:  # leaving closes the connection, which the others notice too
                self.world.fail()
            raise

    def follow(self) -> None:
        """Train along with the first process, which reports and writes."""
        with stop_signal() as flag:
            for _ in self.every_step(flag):
                pass

    def snapshot(self) -> Snapshot:
        """The training as it is now, on the CPU: where it trains there, its own tensors, which the next step changes."""
        tensors, learned = self.learner.state()
        log = {
            "step": self.step, "history": [astuple(report) for report in self.history], "sums": self._sums.tolist(),
            "seconds": self.seconds, "machine": self._machine(), "bitwise": self.bitwise, "positions": self.positions,
            "cut": self.cut, "metrics": self.metrics, "extended_from": self.extended_from,
        }  # fmt: skip
        return Snapshot(self.step, tensors, log | learned)

    def _loop(self) -> Iterator[Step | None]:
        self._mark, self._marked = time.monotonic(), self.positions
        while self.step < self._end and not self.learner.is_done:
            self._advance()
            yield None
            if self.world.leads:
                yield from self._reports_due()
            if self.learner.is_done:
                self._end = self.step
            if self.world.is_alone:  # several have agreed before, so that all of them stop after the same step
                self._signum = self._flag.signum
            if self.world.leads and (self.step == self._end or self._signum is not None or self._is_checkpoint_due()):
                self._refuse_divergence()
                self._state.save(self.step, snapshot_files(self.snapshot()))
                self._saved = time.monotonic()
            if self._signum is not None:
                self.world.agree(self._signum)  # the first process has saved
                newest = self._state.newest if self.world.leads else None
                raise Stopped(self._signum, saved=None if newest is None else str(newest))
        self.world.agree(None)

    def _is_checkpoint_due(self) -> bool:
        by_steps = self._checkpoint_steps > 0 and self.step % self._checkpoint_steps == 0
        return by_steps or time.monotonic() - self._saved >= self._checkpoint_seconds

    def _advance(self) -> None:
        """One optimiser step."""
        gradients = self.learner.gradients(self.step)
        self._signum = self.world.agree(self._flag.signum)
        self._summing = True
        self._sums += self.learner.take(self.step, gradients, self.plan.lr_at(self.step))
        self._summing = False
        self.step += 1
        self.positions, self.cut = self.positions + gradients.positions, self.cut + gradients.cut
        if self.execution.device.type == "cpu":  # elsewhere looking would make the host wait; there reports look
            self._refuse_divergence()

    def _reports_due(self) -> Iterator[Step]:
        last = self.step == self.plan.steps
        if last or self.step % self.plan.report_every == 0:
            yield self._report()
        if (last or self.step % self.plan.eval_every == 0) and (report := self._validate()) is not None:
            yield report

    def _report(self) -> Step:
        self._refuse_divergence()
        # mean over the targets; not a number if every float16 step since the last report overflowed
        loss = float(self._sums[0] / self._sums[1])
        self._note_without_progress(loss)
        seconds = max(time.monotonic() - self._mark, 1e-9)
        report = self._log("train", loss, (self.positions - self._marked) / seconds)
        self._sums.zero_()
        return report

    def _validate(self) -> Step | None:
        self._refuse_divergence()
        begun = time.monotonic()
        found = self.learner.validate()
        if found is None:
            return None
        self.metrics = dict(found.metrics)
        return self._log("valid", found.loss, found.positions / max(time.monotonic() - begun, 1e-9))

    def _log(self, split: str, loss: float, speed: float) -> Step:
        lr = self.plan.lr_at(self.step - 1)
        report = Step(self.step, self.positions, split, loss, lr, self.seconds, speed)
        self.history.append(report)
        self._mark, self._marked = time.monotonic(), self.positions
        return report

    def _note_without_progress(self, loss: float) -> None:
        before = next((report.step for report in reversed(self.history) if report.split == "train"), 0)
        if self._entropy is None or not before < self._patience <= self.step:
            return
        if not loss < self._entropy - _PROGRESS:
            self.notes.append(
                f"after {self.step:,} steps the loss is {loss:.3f}, hardly better than knowing how frequent each token is "
                f"({self._entropy:.3f}): give it more --steps, or a higher --lr"
            )

    def _refuse_divergence(self) -> None:
        if not bool(torch.isfinite(self._sums).all()):
            loss, _, norm = self._sums.tolist()
            raise diverged(self.step, loss=loss, norm=norm, lr=self.plan.lr, newest=self._state.newest)

    def _continue(self, snapshot: Snapshot) -> None:
        """Be where the snapshot was."""
        log = as_now(snapshot.log)
        self.learner.load(snapshot.tensors, log)
        self.step, self.extended_from = snapshot.step, log.get("extended_from")
        self.positions = log.get("positions", snapshot.step * self.plan.tokens_per_step)
        self.cut, self.metrics = log.get("cut", 0), log.get("metrics", {})
        self.history, self._seconds_before = [Step(*row) for row in log["history"]], log["seconds"]
        self._sums.copy_(torch.tensor(log["sums"]))
        # what one resumption has changed, the next does not mend; states of finished trainings are older than this entry
        self.bitwise = self.bitwise and log.get("bitwise", True)
        before = log["machine"]
        if before.get("processes", 1) == self.world.size:
            self.threads = threads_of_before(before["threads"], self.threads)
        if note := other_conditions(before, self._machine()):
            self.bitwise = False
            self.notes.append(note)

    def _extend(self, begin: Snapshot) -> None:
        """Go on from a finished training, whose learning rate had come to its end."""
        if begin.step >= self.plan.steps:
            raise ConfigError(
                "the model has been trained for that long already", where="steps", got=self.plan.steps,
                expected=f"more than the {begin.step:,} it has", hint=f"give --steps with more than {begin.step}",
            )  # fmt: skip
        self._continue(begin)
        self.extended_from = begin.step
        as_longer = all(row.lr == self.plan.lr_at(row.step - 1) for row in self.history)
        before, now = self.history[-1].lr if self.history else 0.0, self.plan.lr_at(begin.step)
        rates = (
            "the learning rates so far were those of the longer schedule"
            if as_longer
            else f"the learning rate goes from {before:.2e} to {now:.2e}; what was learned so far followed another schedule"
        )
        self.notes.append(f"going on after step {begin.step:,} of now {self.plan.steps:,}: {rates}")

    def _machine(self) -> dict[str, Any]:
        """What the last bits of the result depend on."""
        return {**self.execution.facts(), "threads": self.threads, "processes": self.world.size}
