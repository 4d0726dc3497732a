"""The training loop: batch, loss, gradient, step; a report now and then, a checkpoint every minute, exact on resuming."""

import time
from collections.abc import Iterator
from dataclasses import astuple
from typing import Any

import torch

from wordpipe.errors import DivergedError
from wordpipe.model.language_model import LanguageModel
from wordpipe.model.seeds import seed_of
from wordpipe.runtime import StopFlag
from wordpipe.training.blocks import Blocks, block_order
from wordpipe.training.execution import Execution
from wordpipe.training.objectives import Objective, Targets
from wordpipe.training.optimisers import clip_gradients, load_optimiser, optimiser_tensors
from wordpipe.training.plan import Plan
from wordpipe.training.state import Snapshot, StateDir
from wordpipe.training.step import Step
from wordpipe.training.validation import Validation

__all__ = ["Training"]


class Training:
    """One training, from its first step or from its last checkpoint.

    Args:
        model: with its first weights; moved to the execution's device, and trained in place.
        objective: what to predict.
        blocks: the training stream.
        plan: numbers of steps and sizes of batches.
        execution: device, precision, threads.
        optimiser: over the model's parameters, already on the device.
        state: where checkpoints are; one that is found there is continued.
        validation: held-out text, if there is any.
        checkpoint_seconds: time between checkpoints. What is learned does not depend on when they are made.
        checkpoint_steps: also one every this many steps; 0: by time only.

    Attributes:
        step: steps done.
        resumed_from: the step of the checkpoint that was continued, or None.
        history: every report so far, those of the runs before included.
        notes: what the user should know of the checkpoints found.
        threads: CPU threads that it runs on; those of the checkpoint where one is continued.
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
        validation: Validation | None = None,
        checkpoint_seconds: float = 60.0,
        checkpoint_steps: int = 0,
    ) -> None:
        self.model, self.blocks, self.plan = model, blocks, plan
        self.step = 0
        self.resumed_from: int | None = None
        self.history: list[Step] = []
        self.notes = state.notes
        self.threads = execution.threads
        self.bitwise = execution.bitwise
        self._objective, self._execution = objective, execution
        self._optimiser, self._state, self._validation = optimiser, state, validation
        self._checkpoint_seconds, self._checkpoint_steps = checkpoint_seconds, checkpoint_steps
        self._loss_sum = execution.loss_function()
        self._weights = dict(model.named_parameters())
        self._sums = torch.zeros(3, device=execution.device)  # loss, targets and gradient norms since the last report
        self._seconds_before = 0.0
        self._begun = self._checkpointed = self._mark = time.monotonic()
        self._marked_step = 0
        self._resume()

    def steps(self, flag: StopFlag) -> Iterator[Step]:
        """Train to the last step, reporting as it goes.

        Args:
            flag: looked at after every step; when it rises, the state is saved first.

        Raises:
            DivergedError: the loss or a gradient is not finite; names the last good checkpoint.
            Stopped: a stop signal came; what was learned is saved.
            OSError: a checkpoint could not be written; the one before it is whole.
        """
        self.model.train()
        self._mark, self._marked_step = time.monotonic(), self.step
        while self.step < self.plan.steps:
            self._advance()
            last = self.step == self.plan.steps
            if last or self.step % self.plan.report_every == 0:
                yield self._report()
            if self._validation and (last or self.step % self.plan.eval_every == 0):
                yield self._validate(self._validation)
            if last or flag.signum is not None or self._checkpoint_is_due():
                self._save()
            flag.raise_if_set(saved=str(self._state.newest))

    @property
    def seconds(self) -> float:
        """Seconds of work so far, over all runs."""
        return self._seconds_before + time.monotonic() - self._begun

    def _advance(self) -> None:
        """One optimiser step."""
        targets = self._batch(self.step)
        n_targets = targets.weights.sum()
        lr = self.plan.lr_at(self.step)
        if self.model.config.dropout > 0.0:
            torch.manual_seed(seed_of(self.plan.seed, "dropout", self.step))
        loss = torch.zeros((), device=self._execution.device)
        for first in range(0, self.plan.batch_size, self.plan.micro_batch):
            with self._execution.autocast():
                part = self._loss_sum(self.model, targets.rows(first, first + self.plan.micro_batch))
            part.backward()  # type: ignore[no-untyped-call]
            loss += part.detach()
        norm = clip_gradients(self._weights.values(), n_targets, self.plan.clip)
        for group in self._optimiser.param_groups:
            group["lr"] = lr
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)
        self._sums += torch.stack((loss, n_targets, norm))
        self.step += 1
        if self._execution.device.type == "cpu":  # elsewhere looking would make the host wait; there reports look
            self._refuse_divergence()

    def _batch(self, step: int) -> Targets:
        """The inputs and targets of a step: a function of (seed, step) alone."""
        order_B = block_order(step, batch_size=self.plan.batch_size, n_blocks=len(self.blocks), seed=self.plan.seed)
        rows = torch.from_numpy(self.blocks.rows(order_B))
        device = self._execution.device
        if device.type == "cuda":  # from pinned memory the copy does not wait for the step before
            rows = rows.pin_memory()
        rows = rows.to(device, non_blocking=True)
        generator = torch.Generator(device).manual_seed(seed_of(self.plan.seed, "masks", step))
        return self._objective.targets(rows, generator)

    def _refuse_divergence(self) -> None:
        if bool(torch.isfinite(self._sums).all()):
            return
        newest = self._state.newest
        good = f"the last good checkpoint is {newest}" if newest else "there is no checkpoint yet"
        raise DivergedError(
            "the loss or its gradient is no longer a number",
            where=f"step {self.step}",
            got=f"loss {float(self._sums[0])}, gradient norm {float(self._sums[2])}",
            hint=f"lower the learning rate, for example --lr {self.plan.lr / 3:.2g}; {good}",
        )

    def _report(self) -> Step:
        self._refuse_divergence()
        loss = float(self._sums[0] / self._sums[1])
        report = self._log("train", loss, (self.step - self._marked_step) * self.plan.tokens_per_step)
        self._sums.zero_()
        return report

    def _validate(self, validation: Validation) -> Step:
        self._refuse_divergence()
        self._mark = time.monotonic()
        loss = validation.loss(self.model, self._loss_sum)
        return self._log("valid", loss, validation.n_positions)

    def _log(self, split: str, loss: float, n_positions: int) -> Step:
        now = time.monotonic()
        report = Step(
            step=self.step,
            tokens=self.step * self.plan.tokens_per_step,
            split=split,
            loss=loss,
            lr=self.plan.lr_at(self.step - 1),
            seconds=self.seconds,
            tokens_per_s=n_positions / max(now - self._mark, 1e-9),
        )
        self.history.append(report)
        self._mark, self._marked_step = now, self.step
        return report

    def _checkpoint_is_due(self) -> bool:
        by_steps = self._checkpoint_steps > 0 and self.step % self._checkpoint_steps == 0
        return by_steps or time.monotonic() - self._checkpointed >= self._checkpoint_seconds

    def _save(self) -> None:
        self._refuse_divergence()
        log: dict[str, Any] = {
            "history": [astuple(report) for report in self.history],
            "sums": self._sums.tolist(),
            "seconds": self.seconds,
            "machine": self._machine(),
        }
        weights = {name: weight.detach().cpu() for name, weight in self._weights.items()}
        self._state.save(Snapshot(self.step, weights, optimiser_tensors(self.model, self._optimiser), log))
        self._checkpointed = time.monotonic()

    def _resume(self) -> None:
        snapshot = self._state.restore()
        if snapshot is None:
            return
        self.step = self.resumed_from = snapshot.step
        self.model.load_state_dict(dict(snapshot.model))
        load_optimiser(self.model, self._optimiser, snapshot.optimiser)
        self.history = [Step(*row) for row in snapshot.log["history"]]
        self._sums = torch.tensor(snapshot.log["sums"], device=self._execution.device)
        self._seconds_before = snapshot.log["seconds"]
        self._continue_on(snapshot.log["machine"])

    def _machine(self) -> dict[str, Any]:
        """What the last bits of the result depend on."""
        execution = self._execution
        return {
            "device": execution.device.type,
            "dtype": str(execution.dtype).removeprefix("torch."),
            "compiled": execution.compiled,
            "threads": self.threads,
            "torch": torch.__version__,
        }

    def _continue_on(self, before: dict[str, Any]) -> None:
        """Take the number of threads of the checkpoint; say so where anything else is not as it was."""
        self.threads = before["threads"]
        torch.set_num_threads(self.threads)
        now = self._machine()
        changed = [f"{key} {before[key]} → {now[key]}" for key in sorted(now) if before.get(key) != now[key]]
        if changed:
            self.bitwise = False
            self.notes.append(f"the run was begun under other conditions ({', '.join(changed)}): last bits may differ")
