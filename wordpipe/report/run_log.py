"""What a training reported, as arrays to draw."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["AXES", "Course", "RunLog"]

AXES = ("tokens", "steps", "seconds")
_COLUMN = {"tokens": "tokens", "steps": "step", "seconds": "seconds"}


@dataclass(frozen=True)
class Course:
    """A figure as the training went on: N reports.

    Attributes:
        x: how far the training was, (N,), float64, not falling.
        y: the figure, (N,), float64, finite.
    """

    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class RunLog:
    """The log of one training.

    Attributes:
        name: what to call it.
        kind: of the artifact: model or words.
        rows: reports in order: step, tokens, split (train or valid), loss and lr (nats per target, None where there is no
            figure), seconds.
        entropy: of single tokens in the training text, nats; None where nobody measured it.
        finished: whether it came to its end.
    """

    name: str
    kind: str
    rows: tuple[Mapping[str, Any], ...]
    entropy: float | None = None
    finished: bool = True
    _by_split: dict[str, list[Mapping[str, Any]]] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for row in self.rows:
            self._by_split.setdefault(row["split"], []).append(row)

    def since(self, start: float, axis: str) -> "RunLog":
        """The same without the reports before `start`, in the unit of the axis."""
        return replace(self, rows=tuple(row for row in self.rows if row[_COLUMN[axis]] >= start))

    def loss(self, split: str, axis: str) -> Course:
        """The loss on training (`train`) or held-out (`valid`) text.

        Args:
            split: train or valid.
            axis: one of `AXES`.
        """
        return _course(self._by_split.get(split, ()), "loss", axis)

    def lr(self, axis: str) -> Course:
        """The learning rate."""
        return _course(self.rows, "lr", axis)

    def summary(self) -> dict[str, Any]:
        """How far it came: steps, tokens, seconds, the last losses."""
        last = self.rows[-1]
        losses = {split: self.loss(split, "steps").y for split in ("train", "valid")}
        return {
            "name": self.name,
            "kind": self.kind,
            "finished": self.finished,
            "steps": int(last["step"]),
            "tokens": int(last["tokens"]),
            "seconds": float(last["seconds"]),
            "loss": float(losses["train"][-1]) if len(losses["train"]) else None,
            "valid_loss": float(losses["valid"][-1]) if len(losses["valid"]) else None,
            "unigram_entropy": self.entropy,
        }


def _course(rows: Iterable[Mapping[str, Any]], name: str, axis: str) -> Course:
    found = [(row[_COLUMN[axis]], row[name]) for row in rows if row[name] is not None and math.isfinite(row[name])]
    return Course(*np.array(found, dtype=np.float64).reshape(-1, 2).T)
