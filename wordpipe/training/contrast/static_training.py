"""Training of a static encoder: a table of vectors whose sums are near for texts that belong together.

A step adds up the rows of its texts, compares the sums by InfoNCE, and changes the rows that took part. On two cores that
is thousands of pairs a second, so a corpus takes minutes.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wordpipe.errors import DivergedError
from wordpipe.runtime import StopFlag, cpu_count, torch_threads
from wordpipe.training.contrast.batch import PairBatch
from wordpipe.training.contrast.false_negatives import false_negatives
from wordpipe.training.contrast.length import steps_of
from wordpipe.training.contrast.loss import info_nce, nearest_share
from wordpipe.training.contrast.positives import Pairs
from wordpipe.training.contrast.queue import VectorQueue
from wordpipe.training.contrast.row_adam import RowAdam
from wordpipe.training.contrast.settings import ContrastSettings
from wordpipe.training.schedules import learning_rate, warmup_steps
from wordpipe.training.step import Step

__all__ = ["STATIC_LR", "StaticTraining"]

STATIC_LR = 0.01
_VALIDATIONS = 5
_SHORTEST = 1e-3  # of a sum; those of training texts begin with a length of about 1


class StaticTraining:
    """A run over the pairs.

    Args:
        pairs: of the training documents.
        table_VD: where it starts, float32; changed in place.
        settings: everything else.
        valid: pairs of held-out documents, one batch of which is looked at.
        save: writes `state` somewhere and says where; called when a checkpoint is due, and before a stop.

    Attributes:
        table: (V, D) float32, as it is now.
        step: steps done.
        n_steps: steps in all.
        threads: CPU threads that it runs on.
        history: all reports so far.
        metrics: of the last validation: valid_loss, and valid_nearest: the share of held-out texts whose partner is nearer
            than all other partners.
        resumed_from: the step that `load` went back to.
        bitwise: whether an undisturbed run on the same kind of machine would give the same bytes.
    """

    def __init__(
        self,
        pairs: Pairs,
        table_VD: npt.NDArray[np.float32],
        settings: ContrastSettings,
        *,
        valid: Pairs | None = None,
        save: Callable[["StaticTraining"], str] | None = None,
    ) -> None:
        self.table, self.step = table_VD, 0
        self.n_steps = steps_of(settings, pairs.n_pairs)
        self.threads = settings.threads or cpu_count()
        self.history: list[Step] = []
        self.metrics: dict[str, float] = {}
        self.resumed_from: int | None = None
        self.bitwise = True
        self._pairs, self._settings, self._save = pairs, settings, save
        self._valid = None if valid is None else valid.batch(0)
        self._queue = VectorQueue(settings.queue, table_VD.shape[1])
        self._optimiser = RowAdam(
            table_VD, _paces(table_VD), beta1=settings.beta1, beta2=settings.beta2, threads=self.threads
        )
        self._tokens, self._seconds = 0, 0.0
        self._losses: list[float] = []  # since the last report
        self._reported = (0, 0.0)  # tokens and seconds at the last report
        self._eval_every = settings.eval_every or max(1, -(-self.n_steps // _VALIDATIONS))

    def steps(self, flag: StopFlag, until: int | None = None) -> Iterator[Step]:
        """Train to the last step, reporting as it goes.

        Args:
            flag: looked at after every step; when it has risen the state is saved first.
            until: save and return after this step; None: the last one.

        Raises:
            DivergedError: the loss is not finite.
            Stopped: a stop signal came; what was learned is saved.
        """
        end = self.n_steps if until is None else min(until, self.n_steps)
        checkpointed = time.monotonic()
        with torch_threads(self.threads), closing(self._optimiser):
            while self.step < end:
                self._advance()
                yield from self._reports_due()
                by_steps = self._settings.checkpoint_steps > 0 and self.step % self._settings.checkpoint_steps == 0
                by_time = time.monotonic() - checkpointed >= self._settings.checkpoint_seconds
                if by_steps or by_time or self.step == end or flag.signum is not None:
                    saved = None if self._save is None else self._save(self)
                    checkpointed = time.monotonic()
                    flag.raise_if_set(saved)

    def lr_at(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        settings = self._settings
        return learning_rate(
            step,
            steps=self.n_steps,
            peak=settings.lr or STATIC_LR,
            warmup=warmup_steps(settings.warmup, self.n_steps),
            min_frac=settings.min_lr_frac,
            schedule=settings.schedule,
            decay=settings.decay,
        )

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All that the steps to come depend on: tensors, which the next step changes, and JSON values."""
        optimiser = self._optimiser
        tensors = {
            "table": torch.from_numpy(self.table),
            "mean": torch.from_numpy(optimiser.mean_VD),
            "square": torch.from_numpy(optimiser.square_VD),
            "pace": torch.from_numpy(optimiser.pace_V),
            **self._queue.state(),
        }
        log = {
            "step": self.step,
            "history": [asdict(row) for row in self.history],
            "metrics": dict(self.metrics),
            "tokens": self._tokens,
            "seconds": self._seconds,
            "losses": [*self._losses],
            "reported": list(self._reported),
            "threads": self.threads,
            "bitwise": self.bitwise,
        }
        return tensors, log

    def load(self, tensors: Mapping[str, Tensor], log: Mapping[str, Any]) -> None:
        """Be where `state` was taken.

        Raises:
            ValueError: it is of another table or queue.
            KeyError: a part is missing.
        """
        optimiser = self._optimiser
        kept = {
            "table": self.table, "mean": optimiser.mean_VD, "square": optimiser.square_VD, "pace": optimiser.pace_V
        }  # fmt: skip
        for name, array in kept.items():
            if tuple(tensors[name].shape) != array.shape:
                raise ValueError(f"{name} of {tuple(tensors[name].shape)}, not of {array.shape}")
            array[:] = tensors[name].numpy()
        self._queue.load(tensors)
        self.step = self.resumed_from = int(log["step"])
        if log["threads"] <= cpu_count():  # last bits of the loss depend on it
            self.threads = int(log["threads"])
        self.bitwise = bool(log["bitwise"]) and self.threads == log["threads"]
        self.history = [Step(**row) for row in log["history"]]
        self.metrics = dict(log["metrics"])
        self._tokens, self._seconds = int(log["tokens"]), float(log["seconds"])
        self._losses, self._reported = list(log["losses"]), (int(log["reported"][0]), float(log["reported"][1]))

    def _advance(self) -> None:
        """One optimiser step."""
        begun = time.monotonic()
        batch = self._pairs.batch(self.step)
        ids = np.concatenate([batch.first.ids, batch.second.ids])
        lengths = np.concatenate([batch.first.lengths, batch.second.lengths])
        sums_BD = torch.from_numpy(self._optimiser.sums(ids, lengths)).requires_grad_()
        loss, second_BD = self._loss(sums_BD, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        assert sums_BD.grad is not None
        gradient_BD = sums_BD.grad.numpy()
        self._losses.append(float(loss.detach()))
        if not np.isfinite(self._losses[-1]) or not np.isfinite(gradient_BD).all():
            raise self._diverged()
        self._optimiser.update(ids, lengths, gradient_BD, lr=self.lr_at(self.step), step=self.step + 1)
        hashes = torch.from_numpy(batch.second.hashes())
        self._queue.add(second_BD.detach(), torch.from_numpy(batch.document), hashes)
        self.step += 1
        self._tokens += len(ids)
        self._seconds += time.monotonic() - begun

    def _loss(self, sums_BD: Tensor, batch: PairBatch) -> tuple[Tensor, Tensor]:
        """The loss of a batch out of the sums of its first and second texts, and the unit vectors of the second."""
        unit_BD = _unit(sums_BD)
        first_BD, second_BD = unit_BD.chunk(2)
        loss = info_nce(
            first_BD,
            second_BD,
            temperature=self._settings.temperature,
            queue_QD=self._queue.vectors,
            same_BN=false_negatives(batch, self._queue) if self._settings.false_negatives == "drop" else None,
            max_similarity=self._settings.max_similarity,
        )
        return loss, second_BD

    def _reports_due(self) -> Iterator[Step]:
        last = self.step == self.n_steps
        if last or self.step % self._settings.report_every == 0:
            yield self._report()
        if self._valid is not None and (last or self.step % self._eval_every == 0):
            yield self._validate(self._valid)

    def _report(self) -> Step:
        tokens, seconds = self._reported
        rate = (self._tokens - tokens) / max(self._seconds - seconds, 1e-9)
        self._reported = (self._tokens, self._seconds)
        loss, self._losses = float(np.mean(self._losses)), []
        return self._noted("train", loss, rate)

    def _validate(self, batch: PairBatch) -> Step:
        begun = time.monotonic()
        sums = [torch.from_numpy(self._optimiser.sums(side.ids, side.lengths)) for side in (batch.first, batch.second)]
        first_BD, second_BD = (_unit(side) for side in sums)
        same_BB = false_negatives(batch)  # whatever is trained on, so that runs compare
        loss = float(info_nce(first_BD, second_BD, temperature=self._settings.temperature, same_BN=same_BB))
        self.metrics = {"valid_loss": loss, "valid_nearest": nearest_share(first_BD, second_BD)}
        seconds = time.monotonic() - begun
        return self._noted("valid", loss, (len(batch.first.ids) + len(batch.second.ids)) / max(seconds, 1e-9))

    def _noted(self, split: str, loss: float, tokens_per_s: float) -> Step:
        step = Step(
            self.step, self._tokens, split, loss, self.lr_at(self.step - 1), self._seconds, tokens_per_s,
            None, 0.0 if split == "train" else None,
        )  # fmt: skip
        self.history.append(step)
        return step

    def _diverged(self) -> DivergedError:
        lr = self.lr_at(self.step)
        return DivergedError(
            "the loss or its gradient is no longer a number",
            where=f"step {self.step + 1}",
            got=f"loss {self._losses[-1]} at learning rate {lr:.2g}",
            hint=f"lower the learning rate, for example --lr {(self._settings.lr or STATIC_LR) / 3:.2g}",
        )


def _unit(sums_BD: Tensor) -> Tensor:
    """The sums at length 1.

    Where rows cancel out or are zero, the gradient of a direction has no bound; such sums are divided by `_SHORTEST` instead.
    """
    return torch.nn.functional.normalize(sums_BD, dim=1, eps=_SHORTEST)


def _paces(table_VD: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """How large a number each row has at the start, (V,): the root mean square; for a row of zeros what is usual.

    A step of Adam is as long for every row. The rows of common words, which begin a hundred times shorter than those of rare
    ones, would be made noise in a few steps, and the weights of the words would be lost.
    """
    size_V: npt.NDArray[np.float32] = np.sqrt(np.square(table_VD, dtype=np.float32).mean(axis=1))
    filled_V = size_V > 0
    size_V[~filled_V] = np.median(size_V[filled_V]) if filled_V.any() else 1.0
    return size_V
