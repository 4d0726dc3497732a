"""The training of a transformer encoder: gradients, step, report, checkpoint; exact on resuming."""

import time
from collections.abc import Callable, Iterator
from dataclasses import astuple
from typing import Any

import torch

from wordpipe.runtime import StopFlag
from wordpipe.training.contrast.encoder_plan import EncoderPlan
from wordpipe.training.contrast.learner import Learner
from wordpipe.training.execution import Execution
from wordpipe.training.optimisers import clip_gradients, load_optimiser, optimiser_tensors
from wordpipe.training.resuming import CheckpointClock, diverged, other_conditions, threads_of_before
from wordpipe.training.state import Snapshot, StateDir
from wordpipe.training.step import Step

__all__ = ["EncoderTraining"]

_MEMORY = "learner/"  # before the names of what the learner remembers, among the optimiser's tensors


class EncoderTraining:
    """One training, from its first step or from its last checkpoint.

    Args:
        learner: with its first weights, on the execution's device; trained in place.
        optimiser: over the learner's weights.
        plan: numbers of steps, learning rates.
        execution: device, precision, threads.
        state: where checkpoints are written.
        validation: gives a loss and a share of held-out pairs, or None.
        checkpoint_seconds: time between checkpoints. What is learned does not depend on when they are made.
        checkpoint_steps: also one every this many steps; 0: by time only.
        tick: told the number of every step that is done.

    Attributes:
        step: steps done.
        history: every report so far, those of the runs before included.
        metrics: of the last validation: valid_nearest, the share of held-out texts whose partner is nearer than all others.
        cut: ids so far that the model had no room for.
        resumed_from: the step of the checkpoint that was continued, or None.
        notes: what the user should know of what was found.
        threads: CPU threads that it runs on; those of the run before where one is continued.
        bitwise: whether an undisturbed run on the same kind of machine would give the same bytes.
    """

    def __init__(
        self,
        learner: Learner,
        optimiser: torch.optim.Optimizer,
        plan: EncoderPlan,
        execution: Execution,
        *,
        state: StateDir,
        validation: Callable[[], tuple[float, float]] | None = None,
        checkpoint_seconds: float = 60.0,
        checkpoint_steps: int = 0,
        tick: Callable[[int], None] | None = None,
    ) -> None:
        self.plan, self.execution = plan, execution
        self.step, self.positions, self.cut = 0, 0, 0
        self.history: list[Step] = []
        self.metrics: dict[str, float] = {}
        self.resumed_from: int | None = None
        self.threads, self.bitwise = execution.threads, execution.bitwise
        self._learner, self._optimiser, self._state, self._validation = learner, optimiser, state, validation
        self._clock, self._tick = CheckpointClock(checkpoint_seconds, checkpoint_steps), tick
        self._sums = torch.zeros(2, device=execution.device)  # losses and lengths of gradients since the last report
        self._seconds_before, self._begun = 0.0, time.monotonic()
        self._marked, self._marked_at = self._begun, (0, 0)  # step and positions
        found = state.restore()
        self.notes = state.notes
        if found is not None:
            self._continue(found)
            self.resumed_from = found.step

    @property
    def seconds(self) -> float:
        """Seconds of work so far, over all runs."""
        return self._seconds_before + time.monotonic() - self._begun

    def steps(self, flag: StopFlag, until: int | None = None) -> Iterator[Step]:
        """Train to the last step, reporting as it goes.

        Args:
            flag: looked at after every step; when it rises the state is saved first.
            until: save the state and return after this step of the same plan; None: the last one.

        Raises:
            DivergedError: the loss or a gradient is not finite; names the last good checkpoint.
            Stopped: a stop signal came; what was learned is saved.
            OSError: a checkpoint could not be written; the one before it is whole.
        """
        end = self.plan.steps if until is None else min(until, self.plan.steps)
        self._learner.module.train()
        self._marked, self._marked_at = time.monotonic(), (self.step, self.positions)
        while self.step < end:
            self._advance()
            last = self.step == self.plan.steps
            if last or self.step % self.plan.report_every == 0:
                yield self._report()
            if self._validation is not None and (last or self.step % self.plan.eval_every == 0):
                yield self._validate(self._validation)
            if self.step == end or flag.signum is not None or self._clock.due(self.step):
                self._save()
            flag.raise_if_set(saved=None if self._state.newest is None else str(self._state.newest))

    def snapshot(self) -> Snapshot:
        """The training as it is now, on the CPU."""
        module = self._learner.module
        weights = {name: weight.detach().cpu() for name, weight in module.named_parameters()}
        remembered = {f"{_MEMORY}{name}": value.detach().cpu() for name, value in self._learner.state().items()}
        log: dict[str, Any] = {
            "step": self.step, "history": [astuple(report) for report in self.history], "sums": self._sums.tolist(),
            "seconds": self.seconds, "machine": self._machine(), "positions": self.positions, "cut": self.cut,
            "metrics": self.metrics, "bitwise": self.bitwise,
        }  # fmt: skip
        return Snapshot(self.step, weights, optimiser_tensors(module, self._optimiser) | remembered, log)

    def _advance(self) -> None:
        """One step of the optimiser."""
        result = self._learner.gradients(self.step)
        weights = list(self._learner.module.parameters())
        norm = clip_gradients(weights, torch.ones((), device=self.execution.device), self.plan.clip)
        for group in self._optimiser.param_groups:
            group["lr"] = self.plan.lr_at(self.step)
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)
        self._sums += torch.stack((result.loss.to(self._sums), norm.to(self._sums)))
        self.step += 1
        self.positions, self.cut = self.positions + result.positions, self.cut + result.cut
        if self._tick is not None:
            self._tick(self.step)
        if self.execution.device.type == "cpu":  # elsewhere looking would make the host wait; there reports look
            self._refuse_divergence()

    def _report(self) -> Step:
        self._refuse_divergence()
        steps = self.step - self.history_step("train")
        report = self._log("train", float(self._sums[0]) / max(1, steps), self.positions - self._marked_at[1])
        self._sums.zero_()
        return report

    def _validate(self, validation: Callable[[], tuple[float, float]]) -> Step:
        self._refuse_divergence()
        self._marked, module = time.monotonic(), self._learner.module
        module.eval()
        loss, nearest = validation()
        self.metrics = {"valid_loss": loss, "valid_nearest": nearest}
        module.train()
        return self._log("valid", loss, 0)

    def history_step(self, split: str) -> int:
        """The step of the last report of a split, 0 before any."""
        return next((report.step for report in reversed(self.history) if report.split == split), 0)

    def _log(self, split: str, loss: float, positions: int) -> Step:
        now = time.monotonic()
        report = Step(
            step=self.step, tokens=self.positions, split=split, loss=loss, lr=self.plan.lr_at(self.step - 1),
            seconds=self.seconds, tokens_per_s=positions / max(now - self._marked, 1e-9),
        )  # fmt: skip
        self.history.append(report)
        self._marked, self._marked_at = now, (self.step, self.positions)
        return report

    def _save(self) -> None:
        self._refuse_divergence()
        self._state.save(self.snapshot())
        self._clock.made()

    def _refuse_divergence(self) -> None:
        if bool(torch.isfinite(self._sums).all()):
            return
        loss, norm = self._sums.tolist()
        raise diverged(self.step, loss=loss, norm=norm, lr=self.plan.lr, newest=self._state.newest)

    def _machine(self) -> dict[str, Any]:
        """What the last bits of the result depend on."""
        return {**self.execution.facts(), "threads": self.threads}

    def _continue(self, snapshot: Snapshot) -> None:
        """Be where the snapshot was."""
        module, log = self._learner.module, snapshot.log
        with torch.no_grad():
            for name, weight in module.named_parameters():
                weight.copy_(snapshot.model[name])
        remembered = {name: value for name, value in snapshot.optimiser.items() if name.startswith(_MEMORY)}
        optimiser = {name: value for name, value in snapshot.optimiser.items() if name not in remembered}
        load_optimiser(module, self._optimiser, optimiser)
        self._learner.load({name.removeprefix(_MEMORY): value for name, value in remembered.items()})
        self.step, self.positions, self.cut, self.metrics = snapshot.step, log["positions"], log["cut"], log["metrics"]
        self.history, self._seconds_before = [Step(*row) for row in log["history"]], log["seconds"]
        self._sums.copy_(torch.tensor(log["sums"]))
        self.bitwise = self.bitwise and log["bitwise"]  # what one resumption has changed, the next does not mend
        self._continue_on(log["machine"])

    def _continue_on(self, before: dict[str, Any]) -> None:
        """Take the number of threads of the run before, if this machine has them; say so where anything is not as it was."""
        self.threads = threads_of_before(before["threads"], self.threads)
        if note := other_conditions(before, self._machine()):
            self.bitwise = False
            self.notes.append(note)
