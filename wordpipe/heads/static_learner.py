"""The training of static heads: labelled texts as rows, a torch model over their sums, the rows changed by their own Adam.

A step costs what its texts have, not what the table has: only rows that occur in labelled texts are copied and trained, and a
step changes those of its own texts (`RowAdam`). Rows that only held-out texts have stay as they were.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wordpipe.errors import ConfigError
from wordpipe.heads.examples import Encoded, HeadObjective, HeadTargets, LabelledExamples, Rows, loss_of_rows
from wordpipe.heads.learner import Figures, Floats, HeadLearner, MeasuredTexts, head_plan
from wordpipe.heads.static_model import (
    REACH,
    WORD_UNITS,
    Split,
    StaticHeadConfig,
    UnitRows,
    bags_of,
    divisors,
    pair_features,
    windows_of,
)
from wordpipe.model import HeadConfig, seed_of
from wordpipe.training import (
    Execution,
    Gradients,
    ModelLearner,
    Plan,
    Tensors,
    Trainer,
    resumed_trainer,
)
from wordpipe.training.contrastive import RowAdam

if TYPE_CHECKING:
    from wordpipe.heads.settings import HeadSettings

_BETA1, _BETA2 = 0.9, 0.999
_STD = 0.02  # of a fresh head's weights
_BLOCK = 1 << 22  # numbers of vectors of held-out texts at a time


class RowEncoder:
    """Encoder of records to rows of a static head's table, as `TextEncoder` turns records into ids.

    Args:
        units: the unit of each row.
        split: text to words.
        max_words: of a text that are read; None: all.

    Attributes:
        used: the rows that were given, (V,) bool.
        n_units: units of all records so far.
        n_unknown: those of them without a row, which are left out.
    """

    def __init__(self, units: UnitRows, split: Split, max_words: int | None) -> None:
        self.units, self._split, self._most = units, split, max_words
        self.used = np.zeros(len(units), np.bool_)
        self.n_units = self.n_unknown = 0

    def encode(self, texts: Sequence[tuple[str, ...]], *, words: bool = False) -> list[Encoded]:
        """Return texts, or pairs, as rows of the table that a static head learns; -1 for none.

        With `words` the `WORD_UNITS` rows of each word side by side, -1 for none.
        """
        found = [bags_of(one, self._split, words=words, most=self._most) for one in texts]
        rows = self.units.rows_of([unit for bags, _ in found for bag in bags for unit in bag])
        self.used[rows[rows >= 0]] = True
        self.n_units, self.n_unknown = self.n_units + len(rows), self.n_unknown + int((rows < 0).sum())
        encoded, first = [], 0
        for bags, cut in found:
            sizes = [len(bag) for bag in bags]
            mine, first = rows[first : first + sum(sizes)], first + sum(sizes)
            if words:
                firsts = np.append(np.arange(len(bags)) * WORD_UNITS, np.full(cut, -1)).astype(np.int32)
                encoded.append(Encoded(mine, len(mine), cut, firsts))
                continue
            second = int((mine[: sizes[0]] >= 0).sum())
            ids = mine[mine >= 0]
            encoded.append(Encoded(ids, second if len(bags) > 1 else len(ids), cut, np.zeros(0, np.int32)))
        return encoded


class StaticModel(nn.Module):
    """The torch model of a static head, which reads the sums of bags; the twin of `StaticHead`, without its table.

    Args:
        config: what it says.
        head: the same in the words of the trainings of heads.
        seed: of the weights: normal, of deviation 0.02, those of a hidden layer by its fan-in; offsets are 0.
    """

    def __init__(self, config: StaticHeadConfig, head: HeadConfig, seed: int) -> None:
        super().__init__()
        self.static_config, self.head_config = config, head
        generator = torch.Generator().manual_seed(seed_of(seed, "head"))
        shapes = config.shapes
        self.hidden = _linear(shapes["hidden.weight"], None, generator) if "hidden.weight" in shapes else None
        self.classifier = _linear(shapes["classifier.weight"], _STD, generator)
        self.head_dropout = nn.Dropout(head.dropout)

    def scores(self, sums_ND: Tensor, lengths: npt.NDArray[np.int64]) -> Tensor:
        """Return the scores of texts by the static head that is learning, (N, V), of pairs, (N / 2, V), or of words.

        Args:
            sums_ND: of the bags, divided.
            lengths: of a tagger: words of each text.
        """
        features = sums_ND
        if self.static_config.kind == "sequence" and self.static_config.pairs:
            features = pair_features(sums_ND, torch)
        if self.hidden is not None:
            around = torch.cat([sums_ND, sums_ND.new_zeros(1, sums_ND.shape[1])])
            features = around[torch.from_numpy(windows_of(lengths, REACH))].flatten(1)
            features = torch.tanh(self.hidden(self.head_dropout(features)))
        scores: Tensor = self.classifier(self.head_dropout(features))
        return scores


def _linear(shape: tuple[int, ...], deviation: float | None, generator: torch.Generator) -> nn.Linear:
    found = nn.Linear(shape[1], shape[0])
    nn.init.normal_(found.weight, 0.0, deviation or math.sqrt(1.0 / shape[1]), generator=generator)
    nn.init.zeros_(found.bias)
    return found


class RowsLearner(ModelLearner[Any]):
    """Learns a static head and, unless they are frozen, the rows of its units: see `HeadLearner`.

    Args:
        model: trained in place.
        table_VD: all rows; those in use are copied.
        used: which are, (V,) bool.
        share: learning rate of the rows as a share of the head's; 0: they are frozen.
        optimiser: of the head.
        objective: what is learned.
        examples: the labelled texts.
        plan: sizes, the seed.
        execution: on the CPU.

    Attributes:
        rows: the rows in use, in their order, (U, D) float32.
    """

    def __init__(
        self, model: StaticModel, table_VD: Floats, used: npt.NDArray[np.bool_], share: float,
        optimiser: torch.optim.Optimizer, objective: HeadObjective, examples: LabelledExamples, plan: Plan,
        execution: Execution,
    ) -> None:  # fmt: skip
        super().__init__(model, optimiser, plan.clip, execution)
        self._static, self._share, self._objective = model, share, objective
        self._examples, self._plan = examples, plan
        self._numbers, self.rows = np.flatnonzero(used), np.ascontiguousarray(table_VD[used])
        self._adam = RowAdam(
            self.rows, np.ones(len(self.rows), np.float32), beta1=_BETA1, beta2=_BETA2, threads=execution.threads
        )
        self._bags = np.zeros(0, np.int32), np.zeros(0, np.int64)  # of the step: rows, and how many are each bag's
        self._gradient_ND = np.zeros((0, self.rows.shape[1]), np.float32)

    @property
    def static_config(self) -> StaticHeadConfig:
        """The config of the static head."""
        return self._static.static_config

    @property
    def moving(self) -> dict[str, Tensor]:
        """The weights of the static head that are trained, by name; the rows under `rows`."""
        return dict(self._static.named_parameters()) | ({"rows": torch.from_numpy(self.rows)} if self._share else {})

    def gradients(self, step: int) -> Gradients:
        order_B = self._examples.order(step, batch_size=self._plan.batch_size, seed=self._plan.seed)
        targets = HeadTargets(self._examples.rows(order_B), self._objective.per_position, self._objective.weights)
        ids, lengths = self._bags_of(targets.given)
        sums_ND = torch.from_numpy(self._adam.sums(ids, lengths) / divisors(lengths)[:, None])
        sums_ND.requires_grad_(self._share > 0)
        self._static.train()
        if self._static.head_config.dropout > 0.0:
            torch.manual_seed(seed_of(self._plan.seed, "dropout", step))
        loss = self._loss(self._scores(sums_ND, targets.given), targets)
        loss.backward()  # type: ignore[no-untyped-call]
        self._bags = ids, lengths
        if sums_ND.grad is not None:  # of the mean loss by the sums of the rows
            self._gradient_ND = sums_ND.grad.numpy() / (float(targets.n_targets) * divisors(lengths)[:, None])
        return Gradients(loss.detach(), targets.n_targets, len(ids))

    def take(self, step: int, gradients: Gradients, lr: float) -> Tensor:
        found = super().take(step, gradients, lr)
        if self._share > 0:
            ids, lengths = self._bags
            self._adam.update(ids, lengths, self._gradient_ND, lr=lr * self._share, step=step + 1)
        return found

    def replan(self, plan: Plan) -> None:
        self._plan = plan

    @torch.no_grad()
    def measure(self, examples: LabelledExamples) -> MeasuredTexts:
        was_training, per_word = self._static.training, self.static_config.kind == "token"
        self._static.eval()
        scores: list[Any] = [None] * len(examples)
        wanted: list[Any] = [None] * len(examples)
        loss = count = 0.0
        for index_B in examples.batches(max(1, _BLOCK // self.rows.shape[1])):
            batch = HeadTargets(examples.rows(index_B), per_word)
            ids, lengths = self._bags_of(batch.given)
            sums_ND = torch.from_numpy(self._adam.sums(ids, lengths) / divisors(lengths)[:, None])
            found = self._scores(sums_ND, batch.given)
            loss, count = loss + float(self._loss(found, batch)), count + float(batch.n_targets)
            ends = np.cumsum(_words(batch.given))[:-1]
            rows = np.split(found.numpy(), ends) if per_word else found.numpy()
            true = np.split(batch.given.targets[::WORD_UNITS], ends) if per_word else batch.given.targets
            for number, row, one in zip(index_B, rows, true, strict=True):
                scores[number], wanted[number] = row, one
        self._static.train(was_training)
        return scores, wanted, loss / max(1.0, count)

    def table(self, table_VD: Floats) -> Floats:
        """Return all rows of the table, with those that were trained."""
        whole_VD = table_VD.copy()
        whole_VD[self._numbers] = self.rows
        return whole_VD

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        tensors, log = super().state()
        return {
            **tensors,
            "rows": {name: torch.from_numpy(array.copy()) for name, array in self._arrays().items()},
        }, log

    def load(self, tensors: Tensors, log: Mapping[str, Any]) -> None:
        super().load(tensors, log)
        for name, array in self._arrays().items():
            array[:] = tensors["rows"][name].numpy()

    def _arrays(self) -> dict[str, Floats]:
        return {"rows": self.rows, "mean": self._adam.mean_VD, "square": self._adam.square_VD} if self._share else {}

    def _bags_of(self, given: Rows) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Return the rows that a static head learns of a batch's bags, and how many are each bag's."""
        there = given.ids >= 0
        if self.static_config.kind == "token":
            lengths = there.reshape(-1, WORD_UNITS).sum(1)
        elif self.static_config.pairs:
            lengths = np.stack([given.seconds, given.lengths - given.seconds], 1).ravel()
        else:
            lengths = given.lengths
        return np.searchsorted(self._numbers, given.ids[there]).astype(np.int32), lengths.astype(np.int64)

    def _scores(self, sums_ND: Tensor, given: Rows) -> Tensor:
        return self._static.scores(sums_ND, _words(given))

    def _loss(self, scores: Tensor, targets: HeadTargets) -> Tensor:
        wanted = torch.from_numpy(targets.given.targets)
        wanted = wanted[::WORD_UNITS].long() if targets.per_position else wanted
        return loss_of_rows(scores, wanted, self._static.head_config, targets)


def _words(given: Rows) -> npt.NDArray[np.int64]:
    """Return the number of words of each text of a tagger."""
    return given.lengths // WORD_UNITS


def static_trainer(
    settings: "HeadSettings", model: StaticModel, table_VD: Floats, used: npt.NDArray[np.bool_], objective: HeadObjective,
    examples: LabelledExamples, held_out: LabelledExamples, *, figures: Figures, seed: int, **given: Any,
) -> Trainer[HeadLearner[RowsLearner]]:  # fmt: skip
    """Return a training of a static head that is ready to run, resumed if `state_dir` holds its checkpoints.

    Args:
        settings: how to train, `epochs` and `lr` resolved.
        model: with its first weights; trained in place.
        table_VD: all rows.
        used: those that occur in the examples.
        objective: what is learned.
        examples: to learn from.
        held_out: see `HeadLearner`.
        figures: see `HeadLearner`.
        seed: of order and dropout.
        given: `state_dir`, `run_key`, `ending`: see `resumed_trainer`.

    Raises:
        ConfigError: more layers are frozen than there are.
    """
    if settings.freeze > 1:
        raise ConfigError(
            "word vectors have only one layer to freeze", where="freeze", got=settings.freeze,
            expected="1 (the vectors) or 0",
        )  # fmt: skip
    execution = static_execution(settings.threads)
    plan = head_plan(settings, len(examples), seed)
    decayed = [weight for weight in model.parameters() if weight.ndim > 1]
    offsets = [weight for weight in model.parameters() if weight.ndim == 1]
    optimiser = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": offsets, "weight_decay": 0.0}],
        lr=plan.lr, betas=(_BETA1, _BETA2), eps=1e-8, fused=True,
    )  # fmt: skip
    share = 0.0 if settings.freeze else settings.layer_decay
    learner = RowsLearner(model, table_VD, used, share, optimiser, objective, examples, plan, execution)
    head = HeadLearner(
        learner, learner.measure, learner.moving, held_out=held_out, figures=figures, patience=settings.patience
    )
    return resumed_trainer(head, plan, settings, [plan.steps], **given)


def static_execution(threads: int) -> Execution:
    """Return the execution of a static head's training: on the CPU, in float32, by one thread unless set.

    By one thread, unless more are asked for.

    A step is too short to be shared: two threads wait for each other, on a busy machine for most of the time.
    """
    return Execution(torch.device("cpu"), torch.float32, threads or 1, compiled=False, bitwise=True)
