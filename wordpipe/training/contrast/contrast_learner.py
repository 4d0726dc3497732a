"""Contrastive learning of a transformer: partners near, all other texts of the batch far, gradients in bounded memory.

The loss compares all texts of a step, but their graphs need not be held all at once: where a step is too large, vectors are
made without gradients, the loss gives the gradient of every vector, and then the texts are encoded again, piece by piece,
under the same dropout, each piece with its vectors' gradient (Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size
under Memory Limited Setup"): a third more work. The gradients are those of the whole.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wordpipe.model.language_model import LanguageModel
from wordpipe.model.seeds import seed_of
from wordpipe.training.contrast.batch import PairBatch, Ragged
from wordpipe.training.contrast.false_negatives import false_negatives
from wordpipe.training.contrast.learner import StepResult
from wordpipe.training.contrast.loss import info_nce
from wordpipe.training.contrast.masked_beside import MaskedBeside
from wordpipe.training.contrast.queue import VectorQueue
from wordpipe.training.contrast.relations import relational_loss
from wordpipe.training.contrast.sequences import Framing, joined, rows_of
from wordpipe.training.contrast.vectors import text_vectors
from wordpipe.training.execution import Execution

__all__ = ["ContrastLearner", "Contrasting", "Teacher"]


@dataclass(frozen=True)
class Teacher:
    """Another encoder, and how much its judgement counts.

    Attributes:
        vectors: gives unit vectors (S, E) float32 of S texts.
        text_of: gives the text that a row of ids stands for.
        weight: of its loss.
        temperature: of its softmax.
    """

    vectors: Callable[[Sequence[str]], npt.NDArray[np.float32]]
    text_of: Callable[[Sequence[Sequence[int]]], list[str]]
    weight: float
    temperature: float


@dataclass(frozen=True)
class Contrasting:
    """The numbers of the loss.

    Attributes:
        temperature: divides the cosines.
        queue: vectors of earlier steps that are further negatives.
        drop_false: texts of one document, and equal texts, are no negatives of each other.
        max_similarity: nor are texts with a cosine above this; 1 = all are.
        seed: of the dropout.
        at_once: positions whose graph is held at a time.
    """

    temperature: float
    queue: int
    drop_false: bool
    max_similarity: float
    seed: int
    at_once: int


class ContrastLearner:
    """Learns from pairs.

    Args:
        model: on the execution's device; trained in place.
        batch: gives the pairs of a step.
        framing: of the sequences.
        weights_V: what each token weighs in the mean, on the device; None: all alike.
        numbers: of the loss.
        execution: device and numbers.
        teacher: also learned from, or None.
        beside: a masked language model's loss that is added, or None.
    """

    def __init__(
        self,
        model: LanguageModel,
        batch: Callable[[int], PairBatch],
        framing: Framing,
        weights_V: Tensor | None,
        numbers: Contrasting,
        execution: Execution,
        *,
        teacher: Teacher | None = None,
        beside: MaskedBeside | None = None,
    ) -> None:
        self.module: nn.Module = model
        self._model, self._batch, self._framing, self._weights_V = model, batch, framing, weights_V
        self._numbers, self._execution, self._teacher, self._beside = numbers, execution, teacher, beside
        self._queue = VectorQueue(numbers.queue, model.config.dim, execution.device)

    def gradients(self, step: int) -> StepResult:
        """See `Learner.gradients`."""
        batch = self._batch(step)
        texts = joined(batch.first, batch.second)
        pieces = self._framing.pieces(texts, self._numbers.at_once)
        with self._execution.attention_kernels():
            loss = (
                self._at_once(step, batch, texts) if len(pieces) == 1 else self._in_pieces(step, batch, texts, pieces)
            )
            if self._beside is not None:
                loss = loss + self._beside.gradients(step, batch.first)
        positions = len(texts.ids) + 2 * len(texts.lengths)
        return StepResult(loss, positions, self._framing.n_cut(texts))

    def state(self) -> dict[str, Tensor]:
        """The queue."""
        return self._queue.state()

    def load(self, state: Mapping[str, Tensor]) -> None:
        """See `Learner.load`."""
        self._queue.load(dict(state))

    def _at_once(self, step: int, batch: PairBatch, texts: Ragged) -> Tensor:
        vectors_SD = self._vectors(step, 0, texts)
        loss = self._loss(vectors_SD, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        self._remember(vectors_SD, batch)
        return loss.detach()

    def _in_pieces(self, step: int, batch: PairBatch, texts: Ragged, pieces: Sequence[npt.NDArray[np.int64]]) -> Tensor:
        vectors_SD = torch.empty(len(texts.lengths), self._model.config.dim, device=self._execution.device)
        with torch.no_grad():
            for number, rows in enumerate(pieces):
                vectors_SD[torch.from_numpy(rows)] = self._vectors(step, number, rows_of(texts, rows))
        vectors_SD.requires_grad_()
        loss = self._loss(vectors_SD, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        assert vectors_SD.grad is not None
        for number, rows in enumerate(pieces):
            again = self._vectors(step, number, rows_of(texts, rows))
            again.backward(vectors_SD.grad[torch.from_numpy(rows)])  # type: ignore[no-untyped-call]
        self._remember(vectors_SD, batch)
        return loss.detach()

    def _vectors(self, step: int, number: int, texts: Ragged) -> Tensor:
        """Unit vectors under the dropout of this piece of this step."""
        torch.manual_seed(seed_of(self._numbers.seed, "dropout", step, number))
        with self._execution.autocast():
            return text_vectors(self._model, self._framing.packed(texts), self._weights_V)

    def _loss(self, vectors_SD: Tensor, batch: PairBatch) -> Tensor:
        first_BD, second_BD = vectors_SD.chunk(2)
        numbers = self._numbers
        loss = info_nce(
            first_BD,
            second_BD,
            temperature=numbers.temperature,
            queue_QD=self._queue.vectors,
            same_BN=false_negatives(batch, self._queue, self._execution.device) if numbers.drop_false else None,
            max_similarity=numbers.max_similarity,
        )
        if self._teacher is None:
            return loss
        return loss + self._teacher.weight * self._relations(first_BD, second_BD, batch, self._teacher)

    def _relations(self, first_BD: Tensor, second_BD: Tensor, batch: PairBatch, teacher: Teacher) -> Tensor:
        """Against the teacher, each side of the pairs by itself: a partner that is the same text teaches nothing."""
        texts = teacher.text_of([*_lists(batch.first), *_lists(batch.second)])
        theirs_SE = torch.from_numpy(teacher.vectors(texts)).to(first_BD.device)
        sides = zip((first_BD, second_BD), theirs_SE.chunk(2), strict=True)
        return sum((relational_loss(mine, theirs, teacher.temperature) for mine, theirs in sides), torch.zeros(())) / 2

    def _remember(self, vectors_SD: Tensor, batch: PairBatch) -> None:
        hashes = torch.from_numpy(batch.second.hashes())
        self._queue.add(vectors_SD.detach().chunk(2)[1], torch.from_numpy(batch.document), hashes)


def _lists(texts: Ragged) -> list[list[int]]:
    return [row.tolist() for row in np.split(texts.ids, np.cumsum(texts.lengths)[:-1])]
