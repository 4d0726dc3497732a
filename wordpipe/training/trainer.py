"""The training loop of every model: step, report now and then, validation, checkpoint every minute; exact on resuming.

What is trained is a `Learner`: the transformer of `train mlm` and `train clm`, the transformer or the static table of
`train contrastive`. It makes the gradients of a step, takes the step, and knows its own state.
"""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import astuple, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

from wordpipe.artifacts import Checkpoints
from wordpipe.errors import ConfigError, PeerError
from wordpipe.pace import COOL_DOWN, Finish
from wordpipe.runtime import StopFlag, Stopped, stop_signal
from wordpipe.training.plan import Plan, pair_plan
from wordpipe.training.processes import World
from wordpipe.training.snapshot import (
    Snapshot,
    diverged,
    load_snapshot,
    other_conditions,
    snapshot_files,
    threads_of_before,
)
from wordpipe.training.steps import UNTIL_DONE, Ending, L, Step

if TYPE_CHECKING:
    from wordpipe.training.contrastive.settings import EncoderSettings

_VALIDATING = 0.2  # of the time at most, where nobody says when
_PROGRESS = 0.05  # nats below the unigram entropy; less could be chance
_NOTHING = (0.0, 0.0, 0.0)


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
        ending: when it ends.

    Attributes:
        step: steps done.
        positions: read so far.
        cut: ids so far that the model had no room for.
        history: every report so far, those of the runs before included.
        metrics: further figures of the last validation.
        resumed_from: the step of the checkpoint that was continued, or None.
        extended_from: the step that the finished training ended with, or None.
        finished_from: the step of the checkpoint at which a stopped run was ended, or None.
        planned: the steps that it then had been planned for.
        limit: the time that it may take, or None.
        notes: what the user should know: of what was found, and that a loss does not fall.
        threads: CPU threads that it runs on; those of the run before where one is continued.
        bitwise: whether an undisturbed run on the same kind of machine would give the same bytes.
    """

    def __init__(
        self, learner: L, plan: Plan, *, state: Checkpoints, found: Snapshot | None = None,
        begin: Snapshot | None = None, world: World | None = None, checkpoint_seconds: float = 60.0,
        checkpoint_steps: int = 0, unigram_entropy: float | None = None, patience: int = 0, ending: Ending = UNTIL_DONE,
    ) -> None:  # fmt: skip
        self.learner, self.plan, self.execution = learner, plan, (execution := learner.execution)
        self.world = world or World()
        self.step = self.positions = self.cut = 0
        self.history: list[Step] = []
        self.metrics: dict[str, float] = {}
        self.resumed_from: int | None = None
        self.extended_from: int | None = None
        self.finished_from: int | None = None
        self.planned = plan.steps
        self.limit, self._finishing = ending.limit if ending.finish is None else None, ending.finish is not None
        self.notes, self.threads, self.bitwise = state.notes, execution.threads, execution.bitwise
        self._state, self._checkpoint_seconds, self._checkpoint_steps = state, checkpoint_seconds, checkpoint_steps
        self._sums = execution.sums(_NOTHING)  # loss, targets, gradients' lengths since the last report
        self._entropy = unigram_entropy
        self._patience_given = patience
        self._seconds_before, self._begun = 0.0, time.monotonic()
        self._saved = self._begun  # when the last checkpoint was written
        self._mark, self._marked = self._begun, 0  # when the last report was, and the positions then
        self._signum: int | None = None  # what the processes agreed on in this step
        self._summing = False  # after they have agreed, the others expect gradients and no words
        self._flag, self._end = StopFlag(), plan.steps
        if found is not None:
            self._continue(found)
            self.resumed_from = found.step
            if "limit" in found.log:  # of a training within a time the plan is that of the run before
                if self.limit is not None:
                    self.limit.go_on(found.log["limit"])
                self._replan(self.plan.lasting(found.log["steps"]))
        elif begin is not None:
            self._extend(begin)
        if ending.finish is not None:
            self._end_early(ending.finish)

    def length(self, what: str) -> str:
        """Return the length of the training in words: its steps, or its minutes; `what` is in each step."""
        if self.limit is None or self.limit.planned:
            return f"{self.plan.steps:,} steps with {what} each"
        if self.limit.most < math.inf:
            return f"{self.plan.steps:,} steps with {what} each, but for at most {self.limit.shown}"
        return f"steps with {what} each, for {self.limit.shown}"

    @property
    def seconds(self) -> float:
        """Return the seconds of work so far, over all runs of the training."""
        return self._seconds_before + time.monotonic() - self._begun

    def steps(self, flag: StopFlag, until: int | None = None) -> Iterator[Step]:
        """Yield the reports of `every_step`, the training's log."""
        return (report for report in self.every_step(flag, until) if report is not None)

    def every_step(self, flag: StopFlag, until: int | None = None) -> Iterator[Step | None]:
        """Run the trainer's loop to the last step: None for each that is done, then its reports.

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
            with self.execution.running(self.threads):
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
        """Return a snapshot of the trainer now; on the CPU with its own tensors, which the next step changes."""
        tensors, learned = self.learner.state()
        log = {
            "step": self.step, "history": [astuple(report) for report in self.history], "sums": self._sums.tolist(),
            "seconds": self.seconds, "machine": self._machine(), "bitwise": self.bitwise, "positions": self.positions,
            "cut": self.cut, "metrics": self.metrics, "extended_from": self.extended_from, "steps": self.plan.steps,
            **({} if self.limit is None else {"limit": self.limit.log()}),
        }  # fmt: skip
        return Snapshot(self.step, tensors, log | learned)

    def _loop(self) -> Iterator[Step | None]:
        """Train step by step: reports and checkpoints where they are due, and an end at a stop signal."""
        self._mark, self._marked = time.monotonic(), self.positions
        if self.limit is not None and self.world.leads:
            self.limit.refuse_past()
        if self._finishing and self.step == self._end and self.world.leads:
            yield from self._reports_at_the_end()
        # each step, its reports, its checkpoint
        while self.step < self._end and not self.learner.is_done:
            self._advance()
            self._follow_pace()
            yield None
            if self.world.leads:
                yield from self._reports_due()
            if self.learner.is_done:
                self._end = self.step
            if self.world.is_alone:  # several have agreed before, so that all of them stop after the same step
                self._signum = self._flag.signum
            if self.world.leads and (self.step == self._end or self._signum is not None or self._is_checkpoint_due()):
                self._refuse_divergence()
                if not self._finishing:  # the stopped run stays where it was
                    self._save()
            # a stop signal ends all processes after the same step
            if self._signum is not None:
                self.world.agree(self._signum)  # the first process has saved
                newest = self._state.newest if self.world.leads else None
                raise Stopped(self._signum, saved=None if newest is None else str(newest))
        self.world.agree(None)

    def _save(self) -> None:
        self._state.about["steps"] = self.plan.steps
        with self._beside("saving"):
            self._state.save(self.step, snapshot_files(self.snapshot()))
        self._saved = time.monotonic()

    def _beside(self, kind: str) -> AbstractContextManager[None]:
        """Return the context of work beside the training, such as a validation, which is no part of its pace."""
        return nullcontext() if self.limit is None else self.limit.beside(kind)

    def _follow_pace(self) -> None:
        """Plan the steps that fit into a limit of time, as soon as the pace is known, and when it has changed."""
        if self.limit is None:
            return
        total, (closing, between) = None, self._aside()
        self._summing = True  # where the first process refuses, the others hear it here
        with self.world.first_goes_ahead():
            if self.world.leads:
                total = self.limit.replanned(self.step, closing=closing, between=between, settle=self.execution.settle)
        total = self.world.share(total)
        self._summing = False
        if total is not None:
            self._replan(self.plan.lasting(total))

    def _replan(self, plan: Plan) -> None:
        self.plan, self._end = plan, plan.steps
        self.learner.replan(plan)

    def _aside(self) -> tuple[float, float]:
        """Return the seconds that the trainer spends on other work: validations, checkpoints, the folder."""
        assert self.limit is not None
        limit, plan = self.limit, self.plan
        saving, validation = limit.saving(self._bytes), limit.apart.get("validation", 0.0)
        validations = math.ceil(plan.steps / plan.eval_every) - self.step // plan.eval_every - 1
        left = max(0.0, limit.seconds - limit.spent)
        # what is kept at the end (the best weights, their mean) is measured once more
        return 2 * (validation + saving), max(0, validations) * validation + saving * left / self._checkpoint_seconds

    @cached_property
    def _bytes(self) -> int:
        """Return the size of a checkpoint in bytes."""
        return sum(one.nbytes for file in self.learner.state()[0].values() for one in file.values())

    def _is_checkpoint_due(self) -> bool:
        by_steps = self._checkpoint_steps > 0 and self.step % self._checkpoint_steps == 0
        return by_steps or time.monotonic() - self._saved >= self._checkpoint_seconds

    def _advance(self) -> None:
        """Take one optimiser step in the trainer's loop."""
        gradients = self.learner.gradients(self.step)
        self._signum = self.world.agree(self._flag.signum)
        self._summing = True
        self._sums += self.learner.take(self.step, gradients, self.plan.lr_at(self.step))
        self._summing = False
        self.step += 1
        self.positions, self.cut = self.positions + gradients.positions, self.cut + gradients.cut
        if self.execution.is_on_cpu:  # elsewhere looking would make the host wait; there reports look
            self._refuse_divergence()

    def _reports_due(self) -> Iterator[Step]:
        last = self.step == self.plan.steps
        if last or self.step % self.plan.report_every == 0:
            yield self._report()
        if (last or self.step % self.plan.eval_every == 0) and (report := self._validate()) is not None:
            yield report

    def _reports_at_the_end(self) -> Iterator[Step]:
        """Yield the reports of a stopped run that is ended at its checkpoint."""
        if float(self._sums[1]) > 0:
            yield self._report()
        last = next((report.step for report in reversed(self.history) if report.split == "valid"), None)
        if last != self.step and (report := self._validate()) is not None:
            yield report

    def _report(self) -> Step:
        """Return the trainer's report of the training loss since the last report."""
        self._refuse_divergence()
        # mean over the targets; not a number if every float16 step since the last report overflowed
        loss = float(self._sums[0] / self._sums[1])
        self._note_without_progress(loss)
        seconds = max(time.monotonic() - self._mark, 1e-9)
        report = self._log("train", loss, (self.positions - self._marked) / seconds)
        self._sums = self.execution.sums(_NOTHING)
        return report

    def _validate(self) -> Step | None:
        self._refuse_divergence()
        begun = time.monotonic()
        with self._beside("validation"):
            found = self.learner.validate()
        if found is None:
            return None
        if self.limit is not None and self.plan.evaluations:  # a few, where each takes long
            most = max(1, int(_VALIDATING * self.limit.seconds / max(self.limit.apart["validation"], 1e-3)))
            self._replan(replace(self.plan, evaluations=min(most, self.plan.evaluations)).lasting(self.plan.steps))
        self.metrics = dict(found.metrics)
        return self._log("valid", found.loss, found.positions / max(time.monotonic() - begun, 1e-9))

    def _log(self, split: str, loss: float, speed: float) -> Step:
        """Append a report to the trainer's history."""
        lr = self.plan.lr_at(self.step - 1)
        report = Step(self.step, self.positions, split, loss, lr, self.seconds, speed)
        self.history.append(report)
        self._mark, self._marked = time.monotonic(), self.positions
        return report

    def _note_without_progress(self, loss: float) -> None:
        before = next((report.step for report in reversed(self.history) if report.split == "train"), 0)
        patience = max(self._patience_given or (self.plan.scheduled or self.plan.steps) // 2, self.plan.warmup, 1)
        if self._entropy is None or not before < patience <= self.step:
            return
        if not loss < self._entropy - _PROGRESS:
            self.notes.append(
                f"after {self.step:,} steps the loss is {loss:.3f}, but a model that knows only the frequency of each "
                f"token has a loss of {self._entropy:.3f}. Use more --steps or a higher --lr"
            )

    def _refuse_divergence(self) -> None:
        loss, n_targets, norm = self._sums.tolist()
        if not math.isfinite(loss + n_targets + norm):
            raise diverged(self.step, loss=loss, norm=norm, lr=self.plan.lr, newest=self._state.newest)

    def _continue(self, snapshot: Snapshot) -> None:
        """Restore the trainer from a snapshot."""
        log = snapshot.log
        self.learner.load(snapshot.tensors, log)
        self.step, self.extended_from = snapshot.step, log["extended_from"]
        self.positions, self.cut, self.metrics = log["positions"], log["cut"], log["metrics"]
        self.history, self._seconds_before = [Step(*row) for row in log["history"]], log["seconds"]
        self._sums = self.execution.sums(log["sums"])
        self.bitwise = self.bitwise and log["bitwise"]  # what one resumption has changed, the next does not mend
        before = log["machine"]
        if before["processes"] == self.world.size:
            self.threads = threads_of_before(before["threads"], self.threads)
        if note := other_conditions(before, self._machine()):
            self.bitwise = False
            self.notes.append(note)

    def _end_early(self, finish: Finish) -> None:
        """End a stopped run where its checkpoint is, or a tenth of its steps later.

        Raises:
            ArtifactError: it has no checkpoint that can be used.
        """
        if self.resumed_from is None:
            raise self._state.nothing_to_finish()
        planned = self.plan.steps
        more = min(max(1, round(COOL_DOWN * self.step)), planned - self.step) if finish == "cool-down" else 0
        if self.step < planned:
            self.finished_from, self.planned = self.step, planned
            self._replan(self.plan.ending(self.step, more))
            self.bitwise = False

    def _extend(self, begin: Snapshot) -> None:
        """Go on from a finished training, whose learning rate had come to its end."""
        if self.limit is not None and begin.step >= self.plan.steps and self.limit.most == math.inf:
            self._replan(self.plan.lasting(2 * begin.step))  # until the pace is known
        if begin.step >= self.plan.steps:
            raise ConfigError(
                "the model was already trained for this number of steps", where="steps", got=self.plan.steps,
                expected=f"more than {begin.step:,} steps", hint=f"set --steps to a number above {begin.step}",
            )  # fmt: skip
        self._continue(begin)
        self.extended_from = begin.step
        as_longer = all(row.lr == self.plan.lr_at(row.step - 1) for row in self.history)
        before, now = self.history[-1].lr if self.history else 0.0, self.plan.lr_at(begin.step)
        rates = (
            "the earlier steps used the learning rates of the longer training, so the result equals one long training"
            if as_longer
            else f"the learning rate changes from {before:.2e} to {now:.2e}, because the earlier steps had another "
            "schedule"
        )
        far = f"up to step {self.plan.steps:,}" if self.limit is None else f"for {self.limit.shown}"
        self.notes.append(f"the training continues after step {begin.step:,} {far}; {rates}")

    def _machine(self) -> dict[str, Any]:
        """Return what the last bits of the result depend on."""
        return {**self.execution.facts(), "threads": self.threads, "processes": self.world.size}


def resumed_trainer(
    learner: L, plan: Plan, settings: Any, lengths: Sequence[float | None], *, state_dir: Path, run_key: str,
    ending: Ending = UNTIL_DONE,
) -> Trainer[L]:  # fmt: skip
    """Return the trainer of one process, from its last checkpoint if there is one.

    Args:
        learner: with its first weights; trained in place.
        plan: numbers of steps and sizes of batches.
        settings: say how often checkpoints are written.
        lengths: the settings that say how long to train; None where they are not given.
        state_dir: the folder of checkpoints; need not exist.
        run_key: what is trained, with which settings, on which data.
        ending: when it ends.
    """
    state = Checkpoints(state_dir, run_key, about={**ending.about})
    return Trainer(
        learner, plan, state=state, found=state.restore(partial(load_snapshot, library=learner.execution.library)),
        ending=ending.wanting(plan, *lengths),
        checkpoint_seconds=settings.checkpoint_seconds, checkpoint_steps=settings.checkpoint_steps,
    )  # fmt: skip


def pair_trainer(learner: L, settings: "EncoderSettings", n_pairs: int, **given: Any) -> Trainer[L]:
    """Return a contrastive training of either encoder; `given`: the further arguments of `resumed_trainer`."""
    return resumed_trainer(learner, pair_plan(settings, n_pairs), settings, [settings.steps, settings.epochs], **given)
