"""Contrastive learning of a static table: vectors of words whose sums are near for texts that belong together.

A step adds up the rows of its texts, compares the sums by InfoNCE, and changes the rows that took part. On two cores that
is thousands of pairs a second, so a corpus takes minutes.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wordpipe.training.checkpoint import Tensors
from wordpipe.training.contrastive.info_nce import false_negatives, info_nce_loss, nearest_share
from wordpipe.training.contrastive.pairs import Pairs
from wordpipe.training.contrastive.row_adam import RowAdam
from wordpipe.training.contrastive.settings import ContrastiveSettings
from wordpipe.training.trainer import Gradients, Measured

_SHORTEST = 1e-3  # of a sum; those of training texts begin with a length of about 1


class StaticLearner:
    """Learns a table from pairs.

    Args:
        pairs: of the training documents.
        table_VD: where it starts, float32; changed in place.
        settings: everything else.
        threads: that change rows side by side; their number does not change a bit.
        held_out: pairs of held-out documents, one batch of which is looked at; None: there are none.

    Attributes:
        table: (V, D) float32, as it is now.
        optimiser: of its rows; to be closed, as it has threads.
    """

    def __init__(
        self, pairs: Pairs, table_VD: npt.NDArray[np.float32], settings: ContrastiveSettings, *, threads: int,
        held_out: Pairs | None = None,
    ) -> None:  # fmt: skip
        self.table, self._pairs, self._settings = table_VD, pairs, settings
        self._held_out = None if held_out is None else held_out.batch(0)
        self.optimiser = RowAdam(
            table_VD, _paces(table_VD), beta1=settings.beta1, beta2=settings.beta2, threads=threads
        )
        self._texts = np.zeros(0, np.int32), np.zeros(0, np.int64)  # of the step: ids and lengths
        self._gradient_BD = np.zeros((0, table_VD.shape[1]), np.float32)

    def gradients(self, step: int) -> Gradients:
        """See `Learner.gradients`."""
        batch, settings = self._pairs.batch(step), self._settings
        ids = np.concatenate([batch.first.ids, batch.second.ids])
        lengths = np.concatenate([batch.first.lengths, batch.second.lengths])
        sums_BD = torch.from_numpy(self.optimiser.sums(ids, lengths)).requires_grad_()
        first_BD, second_BD = _unit(sums_BD).chunk(2)
        same_BB = false_negatives(batch) if settings.false_negatives == "drop" else None
        loss = info_nce_loss(
            first_BD, second_BD, temperature=settings.temperature, same_BB=same_BB,
            max_similarity=settings.max_similarity,
        )  # fmt: skip
        loss.backward()  # type: ignore[no-untyped-call]
        assert sums_BD.grad is not None
        self._texts, self._gradient_BD = (ids, lengths), sums_BD.grad.numpy()
        return Gradients(loss.detach(), torch.ones(()), len(ids))

    def take(self, step: int, gradients: Gradients, lr: float) -> Tensor:
        """See `Learner.take`."""
        ids, lengths = self._texts
        self.optimiser.update(ids, lengths, self._gradient_BD, lr=lr, step=step + 1)
        norm = torch.linalg.vector_norm(torch.from_numpy(self._gradient_BD))
        return torch.stack((gradients.loss, gradients.n_targets, norm))

    def validate(self) -> Measured | None:
        """How well partners are known again among the held-out pairs."""
        if (batch := self._held_out) is None:
            return None
        sums = [torch.from_numpy(self.optimiser.sums(side.ids, side.lengths)) for side in (batch.first, batch.second)]
        first_BD, second_BD = (_unit(side) for side in sums)
        same_BB = false_negatives(batch)  # whatever is trained on, so that runs compare
        loss = float(info_nce_loss(first_BD, second_BD, temperature=self._settings.temperature, same_BB=same_BB))
        metrics = {"valid_loss": loss, "valid_nearest": nearest_share(first_BD, second_BD)}
        return Measured(loss, len(batch.first.ids) + len(batch.second.ids), metrics)

    def waited(self) -> None:
        """See `Learner.waited`."""

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        """See `Learner.state`."""
        return {"state": {name: torch.from_numpy(array) for name, array in self._arrays().items()}}, {}

    def load(self, tensors: Tensors, log: Mapping[str, Any]) -> None:
        """See `Learner.load`.

        Raises:
            ValueError: it is of another table.
        """
        for name, array in self._arrays().items():
            found = tensors["state"][name].numpy()
            if found.shape != array.shape:
                raise ValueError(f"{name} of {found.shape}, not of {array.shape}")
            array[:] = found

    def _arrays(self) -> dict[str, npt.NDArray[np.float32]]:
        of_rows = self.optimiser
        return {"table": self.table, "mean": of_rows.mean_VD, "square": of_rows.square_VD, "pace": of_rows.pace_V}


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
