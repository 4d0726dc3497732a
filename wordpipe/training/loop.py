"""The training loop: batch, loss, gradient, step; a report now and then, a checkpoint every minute, exact on resuming."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from wordpipe.errors import ConfigError, PeerError
from wordpipe.model.language_model import LanguageModel
from wordpipe.runtime import StopFlag, Stopped
from wordpipe.training.batches import Batches
from wordpipe.training.blocks import Blocks
from wordpipe.training.execution import Execution
from wordpipe.training.gradient_step import GradientStep
from wordpipe.training.objectives import Objective
from wordpipe.training.optimisers import load_optimiser, optimiser_tensors
from wordpipe.training.parallel import World
from wordpipe.training.plan import Plan
from wordpipe.training.precision import LossScaler
from wordpipe.training.probe import too_large
from wordpipe.training.reachable import Reachable
from wordpipe.training.reports import Reports
from wordpipe.training.resuming import CheckpointClock, diverged, other_conditions, threads_of_before
from wordpipe.training.state import Snapshot, StateDir
from wordpipe.training.step import Step
from wordpipe.training.validation import Validation

__all__ = ["Training"]


class Training:
    """One training, from its first step, from its last checkpoint, or from the end of a finished one.

    Args:
        model: with its first weights, on the execution's device; trained in place.
        objective: what to predict.
        blocks: the training stream.
        plan: numbers of steps and sizes of batches.
        execution: device, precision, threads.
        optimiser: over the model's parameters.
        state: where checkpoints are written.
        found: the checkpoint of this very training that is continued, if there is one.
        begin: the end of a finished training that this one goes on from; not used where `found` is.
        world: the processes that train together.
        validation: held-out text, if there is any.
        checkpoint_seconds: time between checkpoints. What is learned does not depend on when they are made.
        checkpoint_steps: also one every this many steps; 0: by time only.
        unigram_entropy: what the loss should fall below, in nats; None: not compared.
        patience: steps after which it should have, 0 = half of all.
        warn: told, at most once, that it has not.
        tick: told the number of every step that is done.

    Attributes:
        step: steps done.
        resumed_from: the step of the checkpoint that was continued, or None.
        extended_from: the step that the finished training ended with, or None.
        notes: what the user should know of what was found.
        threads: CPU threads that it runs on; those of the run before where one is continued.
        bitwise: whether an undisturbed run on the same kind of machine would give the same bytes.
    """

    def __init__(
        self,
        model: LanguageModel,
        objective: Objective,
        blocks: Blocks,
        plan: Plan,
        execution: Execution,
        *,
        optimiser: torch.optim.Optimizer,
        state: StateDir,
        found: Snapshot | None = None,
        begin: Snapshot | None = None,
        world: World | None = None,
        validation: Validation | None = None,
        checkpoint_seconds: float = 60.0,
        checkpoint_steps: int = 0,
        unigram_entropy: float | None = None,
        patience: int = 0,
        warn: Callable[[str], None] | None = None,
        tick: Callable[[int], None] | None = None,
    ) -> None:
        self.model, self.blocks, self.plan, self.execution = model, blocks, plan, execution
        self.world = world or World(execution.device)
        self.step = 0
        self.resumed_from: int | None = None
        self.extended_from: int | None = None
        self.notes = state.notes
        self.threads = execution.threads
        self.bitwise = execution.bitwise
        self._optimiser, self._state, self._validation = optimiser, state, validation
        self._clock = CheckpointClock(checkpoint_seconds, checkpoint_steps)
        self._loss_sum = execution.loss_function()
        self._gradient_step = GradientStep(model, self._loss_sum, optimiser, plan, execution, self.world)
        self._batches = Batches(blocks, objective, plan, execution.device)
        reachable = Reachable(model.config, plan.seq_len, execution.device, execution.dtype, self.world.size)
        self._reports = Reports(plan, reachable, unigram_entropy=unigram_entropy, patience=patience, warn=warn)
        self._predicted = 1.0  # share of the positions, known with the first batch
        self._flag, self._end = StopFlag(), plan.steps
        self._tick = tick
        self._signum: int | None = None  # what the processes agreed on in this step
        self._summing = False  # after they have agreed, the others expect gradients and no words
        self.world.broadcast([weight.detach() for weight in model.parameters()])
        if found is not None:
            self._continue(found)
            self.resumed_from = found.step
        elif begin is not None:
            self._extend(begin)

    @property
    def history(self) -> list[Step]:
        """Every report so far, those of the runs before included."""
        return self._reports.history

    @property
    def seconds(self) -> float:
        """Seconds of work so far, over all runs."""
        return self._reports.seconds

    @property
    def skipped(self) -> int:
        """Steps of a float16 training that changed nothing, because their gradient overflowed."""
        scaler = self._gradient_step.scaler
        return 0 if scaler is None else scaler.skipped

    def steps(self, flag: StopFlag, until: int | None = None) -> Iterator[Step]:
        """Train to the last step, reporting as it goes; only the first of several processes reports.

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
            yield from self._steps()
        except (Stopped, PeerError):
            raise
        except BaseException:
            if not self._summing:  # leaving closes the connection, which the others notice too
                self.world.fail()
            raise

    def snapshot(self) -> Snapshot:
        """The training as it is now, on the CPU: where it trains there, its own tensors, which the next step changes."""
        weights, scaler = self._gradient_step.weights, self._gradient_step.scaler
        log: dict[str, Any] = {
            "step": self.step,
            "history": self._reports.rows(),
            "sums": self._gradient_step.sums.tolist(),
            "seconds": self.seconds,
            "machine": self._machine(),
            "bitwise": self.bitwise,
            "micro_batch": self.plan.micro_batch,
            "seq_len": self.plan.seq_len,
            "extended_from": self.extended_from,
            "scaler": None if scaler is None else scaler.state(),
        }
        on_cpu = {name: weight.detach().cpu() for name, weight in weights.items()}
        return Snapshot(self.step, on_cpu, optimiser_tensors(self.model, self._optimiser), log)

    def _steps(self) -> Iterator[Step]:
        self.model.train()
        if self.step < self._end:
            self._reports.start(self.step)
        while self.step < self._end:
            self._advance()
            if self.world.leads:
                yield from self._reports_due()
            if self.world.is_alone:  # several have agreed before, so that all of them stop after the same step
                self._signum = self._flag.signum
            if self.world.leads and self._checkpoint_is_due():
                self._refuse_divergence()
                self._state.save(self.snapshot())
                self._clock.made()
            if self._signum is not None:
                self.world.agree(self._signum)  # the first process has saved
                newest = self._state.newest  # only the first process has one
                raise Stopped(self._signum, saved=None if newest is None else str(newest))
        self.world.agree(None)

    def _reports_due(self) -> Iterator[Step]:
        last = self.step == self.plan.steps
        if last or self.step % self.plan.report_every == 0:
            yield self._report()
        if self._validation and (last or self.step % self.plan.eval_every == 0):
            yield self._validate(self._validation)

    def _advance(self) -> None:
        """One optimiser step."""
        targets = self._batches.targets(self.step)
        self._predicted = targets.labels.numel() / targets.inputs.numel()
        try:
            loss = self._gradient_step.gradients(self.step, targets)
            self._signum = self.world.agree(self._flag.signum)
            self._summing = True
            self._gradient_step.take(self.step, targets, loss)
            self._summing = False
        except torch.OutOfMemoryError as error:
            raise too_large(self.plan.micro_batch) from error
        self.step += 1
        if self._tick is not None:
            self._tick(self.step)
        if self.step < self.plan.steps:
            self._batches.prefetch(self.step)
        if self.execution.device.type == "cpu":  # elsewhere looking would make the host wait; there reports look
            self._refuse_divergence()

    def _refuse_divergence(self) -> None:
        if self._gradient_step.is_finite():
            return
        loss, _, norm = self._gradient_step.sums.tolist()
        raise diverged(self.step, loss=loss, norm=norm, lr=self.plan.lr, newest=self._state.newest)

    def _report(self) -> Step:
        self._refuse_divergence()
        loss, waited = self._gradient_step.mean_loss(), self._batches.waited
        report = self._reports.train(self.step, loss, predicted=self._predicted, waited=waited)
        self._gradient_step.sums.zero_()
        self._batches.waited = 0.0
        return report

    def _validate(self, validation: Validation) -> Step:
        self._refuse_divergence()
        self._reports.begin_validation()
        with self.execution.attention_kernels():
            loss = validation.loss(self.model, self._loss_sum)
        return self._reports.valid(self.step, loss, validation.n_positions)

    def _checkpoint_is_due(self) -> bool:
        return self.step == self._end or self._signum is not None or self._clock.due(self.step)

    def _continue(self, snapshot: Snapshot) -> None:
        """Be where the snapshot was."""
        self.step, self.extended_from = snapshot.step, snapshot.log.get("extended_from")
        self.model.load_state_dict(dict(snapshot.model))
        load_optimiser(self.model, self._optimiser, snapshot.optimiser)
        self._gradient_step.sums.copy_(torch.tensor(snapshot.log["sums"]))
        self._reports.restore(snapshot.log["history"], snapshot.log["seconds"])
        if self._gradient_step.scaler is not None and snapshot.log.get("scaler"):
            self._gradient_step.scaler = LossScaler(**snapshot.log["scaler"])
        # what one resumption has changed, the next does not mend; states of finished trainings are older than this entry
        self.bitwise = self.bitwise and snapshot.log.get("bitwise", True)
        self._continue_on(snapshot.log["machine"])

    def _extend(self, begin: Snapshot) -> None:
        """Go on from a finished training, whose learning rate had come to its end."""
        if begin.step >= self.plan.steps:
            raise ConfigError(
                "the model has been trained for that long already",
                where="steps",
                got=self.plan.steps,
                expected=f"more than the {begin.step:,} it has",
                hint=f"give --steps with more than {begin.step}",
            )
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

    def _continue_on(self, before: dict[str, Any]) -> None:
        """Take the number of threads of the run before, if this machine has them; say so where anything is not as it was."""
        if before.get("processes", 1) == self.world.size:
            self.threads = threads_of_before(before["threads"], self.threads)
        if note := other_conditions(before, self._machine()):
            self.bitwise = False
            self.notes.append(note)
