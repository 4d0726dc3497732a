"""Contrastive learning of a transformer: partners near, all other texts of the batch far, gradients in bounded memory.

The loss compares all texts of a step, but their graphs need not be held all at once: where a step is too large, vectors are
made without gradients, the loss gives the gradient of every vector, and then the texts are encoded again, chunk by chunk,
under the same dropout, each chunk with its vectors' gradient (Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size
under Memory Limited Setup"): a third more work. The gradients are those of the whole.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from wordpipe.encoders import pool_packed
from wordpipe.model import LanguageModel, Packed, pack, seed_of
from wordpipe.training.contrastive.info_nce import measured, pair_loss, relational_loss
from wordpipe.training.contrastive.pairs import PairBatch, Pairs, Ragged
from wordpipe.training.contrastive.settings import ContrastiveSettings
from wordpipe.training.execution import Execution, make_execution
from wordpipe.training.learner import ModelLearner
from wordpipe.training.optimisers import make_optimiser
from wordpipe.training.plan import SpecialIds
from wordpipe.training.steps import Gradients, Measured
from wordpipe.training.token_stream import spans
from wordpipe.training.trainer import Trainer, pair_trainer

_POSITIONS_AT_ONCE = {"cpu": 1 << 15, "mps": 1 << 16, "cuda": 1 << 18}
"""Positions whose graph is held: of `mini` 0.6 GB per 16,384 of them in float32; a constant, as it shows in the last bits."""
_ON_GPU = 16  # lengths are rounded up to a multiple of this: 4 to 8 runs, where every length would be 60 and more


def joined(*texts: Ragged) -> Ragged:
    """Return the texts of all arguments, one after the other."""
    return Ragged(np.concatenate([one.ids for one in texts]), np.concatenate([one.lengths for one in texts]))


def rows_at(texts: Ragged, index_S: npt.NDArray[np.int64]) -> Ragged:
    """Return some of the texts, in the order of `index_S`."""
    lengths_S = texts.lengths[index_S]
    starts_S = (np.cumsum(texts.lengths) - texts.lengths)[index_S]
    return Ragged(texts.ids[spans(starts_S, lengths_S)], lengths_S)


@dataclass(frozen=True)
class Framing:
    """The special tokens around a text, and the room of a sequence.

    Attributes:
        cls_id: stands before the text.
        sep_id: stands after it.
        longest: positions of a sequence, both included; what is longer is cut at its end.
        device: where the sequences go.
    """

    cls_id: int
    sep_id: int
    longest: int
    device: torch.device

    def cut(self, texts: Ragged) -> Ragged:
        """Return the texts without what the model has no room for."""
        kept_S = np.minimum(texts.lengths, self.longest - 2)
        return Ragged(texts.ids[spans(np.cumsum(texts.lengths) - texts.lengths, kept_S)], kept_S)

    def n_cut(self, texts: Ragged) -> int:
        """Count the ids that `cut` takes away."""
        return int(np.maximum(texts.lengths - (self.longest - 2), 0).sum())

    def packed(self, texts: Ragged) -> Packed:
        """Return the framed sequences of the texts that the transformer learns from, packed, on the device."""
        texts = self.cut(texts)
        framed_S = texts.lengths + 2
        ends_S = np.cumsum(framed_S)
        ids = np.empty(int(framed_S.sum()), dtype=np.int64)
        ids[spans(ends_S - framed_S + 1, texts.lengths)] = texts.ids
        ids[ends_S - framed_S], ids[ends_S - 1] = self.cls_id, self.sep_id
        multiple = 1 if self.device.type == "cpu" else _ON_GPU
        return pack(ids, framed_S, multiple=multiple, pad_id=self.sep_id).to(self.device)

    def chunks(self, texts: Ragged, positions: int) -> list[npt.NDArray[np.int64]]:
        """Return rows for the transformer to compute together, like with like in length."""
        order_S = np.argsort(texts.lengths, kind="stable")
        sizes_S = np.minimum(texts.lengths[order_S] + 2, self.longest)
        chunk_S = (np.cumsum(sizes_S) - sizes_S) // max(1, positions)
        return np.split(order_S, np.flatnonzero(np.diff(chunk_S)) + 1)


def text_vectors(model: LanguageModel, packed: Packed, weights_V: Tensor | None) -> Tensor:
    """Return the transformer's unit vectors (S, D) of packed texts, in the order given, float32.

    Args:
        model: an encoder; dropout acts while it is training.
        packed: S sequences.
        weights_V: what a token weighs in the mean; None: all alike, special tokens included.
    """
    return F.normalize(pool_packed(model.encode_packed(packed), packed, weights_V), dim=-1)


TeacherVectors = Callable[[Sequence[Sequence[int]]], npt.NDArray[np.float32]]
"""Unit vectors (S, E) that another encoder gives S texts, which are rows of ids."""


class ContrastLearner(ModelLearner[LanguageModel]):
    """Learner of a transformer encoder: learns from pairs.

    Args:
        model: on the execution's device; trained in place.
        batch: gives the pairs of a step.
        framing: of the sequences.
        weights_V: what each token weighs in the mean, on the device; None: all alike.
        settings: of the loss, and the largest gradient.
        execution: device and numbers.
        optimiser: over the model's parameters; None: nothing is trained, gradients alone are wanted.
        seed: of the dropout.
        positions_at_once: whose graph is held at a time.
        teacher: also learned from, or None.
        held_out: pairs that are looked at now and then, always the same; None: there are none.
    """

    def __init__(
        self, model: LanguageModel, batch: Callable[[int], PairBatch], framing: Framing, weights_V: Tensor | None,
        settings: ContrastiveSettings, execution: Execution, *, optimiser: torch.optim.Optimizer | None = None, seed: int,
        positions_at_once: int, teacher: TeacherVectors | None = None, held_out: PairBatch | None = None,
    ) -> None:  # fmt: skip
        super().__init__(model, optimiser or torch.optim.SGD(model.parameters()), settings.clip, execution)
        self._batch, self._framing, self._weights_V, self._settings = batch, framing, weights_V, settings
        self._seed, self._positions, self._teacher, self._held_out = seed, positions_at_once, teacher, held_out

    def gradients(self, step: int) -> Gradients:
        """Leave the gradients of the contrastive loss with the transformer's weights."""
        self.model.train()
        batch = self._batch(step)
        texts = joined(batch.first, batch.second)
        chunks = self._framing.chunks(texts, self._positions)
        with self.execution.attention_kernels():
            if len(chunks) == 1:
                loss = self._loss(self._vectors(step, 0, texts), batch)
                loss.backward()  # type: ignore[no-untyped-call]
            else:
                loss = self._in_chunks(step, batch, texts, chunks)
        positions, one = len(texts.ids) + 2 * len(texts.lengths), torch.ones((), device=self.execution.device)
        return Gradients(loss.detach().to(one), one, positions, self._framing.n_cut(texts))

    def validate(self) -> Measured | None:
        """Measure the transformer as it learns: how well matching texts are found among held-out pairs."""
        if (batch := self._held_out) is None:
            return None
        self.model.eval()
        sides = [
            self._detached_vectors(0, texts, self._framing.chunks(texts, self._positions))
            for texts in (batch.first, batch.second)
        ]
        return measured(sides[0], sides[1], batch, self._settings)

    def _in_chunks(self, step: int, batch: PairBatch, texts: Ragged, chunks: Sequence[npt.NDArray[np.int64]]) -> Tensor:
        """Return the contrastive loss of a step whose texts the transformer encodes twice, in chunks.

        Gradients are with the weights.
        """
        vectors_SD = self._detached_vectors(step, texts, chunks)
        vectors_SD.requires_grad_()
        loss = self._loss(vectors_SD, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        assert vectors_SD.grad is not None
        for number, rows in enumerate(chunks):
            again = self._vectors(step, number, rows_at(texts, rows))
            again.backward(vectors_SD.grad[torch.from_numpy(rows)])  # type: ignore[no-untyped-call]
        return loss

    @torch.no_grad()
    def _detached_vectors(self, step: int, texts: Ragged, chunks: Sequence[npt.NDArray[np.int64]]) -> Tensor:
        """Return the transformer's unit vectors of all texts, (S, D), without a graph."""
        vectors_SD = torch.empty(len(texts.lengths), self.model.config.dim, device=self.execution.device)
        for number, rows in enumerate(chunks):
            vectors_SD[torch.from_numpy(rows)] = self._vectors(step, number, rows_at(texts, rows))
        return vectors_SD

    def _vectors(self, step: int, number: int, texts: Ragged) -> Tensor:
        """Return unit vectors under the dropout of this chunk of this step."""
        torch.manual_seed(seed_of(self._seed, "dropout", step, number))
        with self.execution.autocast():
            return text_vectors(self.model, self._framing.packed(texts), self._weights_V)

    def _loss(self, vectors_SD: Tensor, batch: PairBatch) -> Tensor:
        """Return the transformer's contrastive loss of a batch, and the teacher's loss if there is one."""
        first_BD, second_BD = vectors_SD.chunk(2)
        loss = pair_loss(first_BD, second_BD, batch, self._settings)
        if self._teacher is None:
            return loss
        # against the teacher each side of the pairs by itself: a partner that is the same text teaches nothing
        texts = joined(batch.first, batch.second)
        rows = [row.tolist() for row in np.split(texts.ids, np.cumsum(texts.lengths)[:-1])]
        sides = zip(
            (first_BD, second_BD), torch.from_numpy(self._teacher(rows)).to(first_BD.device).chunk(2), strict=True
        )
        temperature = self._settings.teacher_temperature
        taught = sum((relational_loss(mine, theirs, temperature) for mine, theirs in sides), torch.zeros(()))
        return loss + self._settings.teacher_weight * (taught / 2)


def assemble_encoder(
    settings: ContrastiveSettings, model: LanguageModel, pairs: Pairs, *, special: SpecialIds,
    weights: npt.NDArray[np.float32] | None, held_out: Pairs | None = None, teacher: TeacherVectors | None = None,
    seed: int | None = None, **given: Any,
) -> Trainer[ContrastLearner]:  # fmt: skip
    """Return a contrastive training of a transformer, ready to run, resumed if `state_dir` holds its checkpoints.

    Args:
        settings: how to train.
        model: an encoder with its first weights, and the dropout it trains with; trained in place.
        pairs: of the training documents.
        special: the tokenizer's special ids; [CLS] and [SEP] are there.
        weights: what each token weighs in the mean, (V,) float32; None: all alike.
        held_out: pairs of held-out documents, one batch of which is looked at.
        teacher: another encoder that is also learned from.
        seed: of dropout; None: the settings'.
        given: `state_dir`, `run_key`, `ending`: see `resumed_trainer`.

    Raises:
        ConfigError: a device that is not there.
    """
    execution = make_execution(settings)
    model.to(execution.device)
    longest = min(settings.longest or model.config.max_len, model.config.max_len)
    weights_V = None
    if weights is not None:  # for every row of the embedding table
        weights_V = F.pad(torch.from_numpy(weights), (0, model.config.vocab_size - len(weights))).to(execution.device)
    framing = Framing(special.need("cls"), special.need("sep"), longest, execution.device)
    optimiser = make_optimiser(
        model, kind="adamw", lr=0.0, weight_decay=settings.weight_decay, beta1=settings.beta1, beta2=settings.beta2,
        momentum=0.0,
    )  # fmt: skip
    learner = ContrastLearner(
        model, pairs.batch, framing, weights_V, settings, execution,
        optimiser=optimiser, seed=settings.seed if seed is None else seed,
        positions_at_once=_POSITIONS_AT_ONCE[execution.device.type], teacher=teacher,
        held_out=None if held_out is None else held_out.batch(0),
    )  # fmt: skip
    return pair_trainer(learner, settings, pairs.n_pairs, **given)
