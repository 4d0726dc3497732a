"""The learning of a model with a head: layers with rates of their own, frozen ones, the best weights kept, an early end.

`HeadLearner` has a learner that takes the steps: of a transformer that of language models, with a head's targets and loss; of
word vectors that of `static_learner`.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from wordpipe.errors import ConfigError
from wordpipe.heads.examples import (
    HeadObjective,
    HeadTargets,
    LabelledExamples,
    head_loss_sum,
    loss_of_scores,
    scores_of,
)
from wordpipe.model import HeadedModel
from wordpipe.training import (
    Execution,
    Gradients,
    LanguageLearner,
    Measured,
    Plan,
    Steps,
    Tensors,
    Trainer,
    World,
    resumed_trainer,
    warmup_steps,
)

if TYPE_CHECKING:
    from wordpipe.heads.settings import HeadSettings

Floats = npt.NDArray[np.float32]
Figures = Callable[[list[Floats], list[Floats]], Mapping[str, float]]
"""Scores and targets of all held-out texts, in their order → figures; the first one decides which weights are best."""
MeasuredTexts = tuple[list[Floats], list[Floats], float]
"""Scores and targets of texts, in their order, and the mean loss."""


class HeadSteps(Steps, Protocol):
    """A learner that takes steps and leaves validation to `HeadLearner`.

    Attributes:
        model: what is trained.
    """

    model: Any


L = TypeVar("L", bound=HeadSteps)

_BLOCK = re.compile(r"blocks\.(\d+)\.")
_IDS_AT_ONCE = 16_384  # of held-out texts: shapes of a few thousand rows are the fastest of a CPU
_ADAM = {"betas": (0.9, 0.999), "eps": 1e-8, "fused": True}


def height_of(name: str, n_layers: int) -> int:
    """Return the height of a weight among the layers: embeddings 0, the blocks 1 to n_layers, all after these n_layers + 1."""
    if found := _BLOCK.match(name):
        return int(found[1]) + 1
    return 0 if "embedding" in name else n_layers + 1


def layered_optimiser(
    model: HeadedModel, *, lr: float, layer_decay: float, weight_decay: float, freeze: int
) -> torch.optim.Optimizer:
    """Return a head's AdamW whose rate falls from the head down, layer by layer; frozen weights have no gradient.

    Args:
        model: on the device where it is trained.
        lr: of the head.
        layer_decay: rate of a layer as a share of that of the layer above it (Clark et al. 2020, ELECTRA, appendix A.2).
        weight_decay: on matrices of the blocks and the head only.
        freeze: how many layers keep their weights, from the embeddings (1) upwards.

    Raises:
        ConfigError: more layers than there are.
    """
    n_layers = model.config.n_layers
    if freeze > n_layers + 1:
        raise ConfigError(
            "freeze is larger than the number of layers", where="freeze", got=freeze, expected=f"at most {n_layers + 1}"
        )
    groups: dict[tuple[float, float], list[torch.Tensor]] = {}
    for name, weight in model.named_parameters():
        height = height_of(name, n_layers)
        weight.requires_grad_(height >= freeze)
        if height >= freeze:
            decay = weight_decay if weight.ndim > 1 and height else 0.0
            groups.setdefault((layer_decay ** (n_layers + 1 - height), decay), []).append(weight)
    return torch.optim.AdamW(
        [{"params": weights, "share": share, "weight_decay": decay} for (share, decay), weights in groups.items()],
        lr=lr, **_ADAM,  # type: ignore[arg-type]
    )  # fmt: skip


class HeadLearner(Generic[L]):
    """Learner of a model with a head: keeps the best weights, and ends early.

    Args:
        learner: takes the steps.
        measure: what the weights say of texts: scores and targets, in the order of the texts, and the mean loss.
        weights: those that move; the best ones are kept.
        held_out: texts on which the best weights are found.
        figures: what is measured on them.
        patience: validations without a better one after which the training ends; 0: none.

    Attributes:
        learner: as given.
        best: the first of the figures of the best weights; None before the first validation.
        best_step: the number of the validation that found them.
    """

    def __init__(
        self, learner: L, measure: Callable[[LabelledExamples], MeasuredTexts], weights: Mapping[str, torch.Tensor], *,
        held_out: LabelledExamples, figures: Figures, patience: int,
    ) -> None:  # fmt: skip
        self.learner, self._measure, self.execution = learner, measure, learner.execution
        self._weights, self._held_out, self._figures, self._patience = weights, held_out, figures, patience
        self.best: float | None = None
        self.best_step, self._since, self._looked = 0, 0, 0
        self._best: dict[str, torch.Tensor] = {}

    @property
    def model(self) -> Any:
        """The model that is trained."""
        return self.learner.model

    @property
    def is_done(self) -> bool:
        """True if so many validations were no better than the best one."""
        return 0 < self._patience <= self._since

    def gradients(self, step: int) -> Gradients:
        return self.learner.gradients(step)

    def take(self, step: int, gradients: Gradients, lr: float) -> Any:
        return self.learner.take(step, gradients, lr)

    def replan(self, plan: Plan) -> None:
        self.learner.replan(plan)

    def measured(self) -> MeasuredTexts:
        """Return the head's figures on the held-out texts."""
        return self._measure(self._held_out)

    def validate(self) -> Measured | None:
        """Measure the head on the held-out texts, and keep the weights if they are the best so far."""
        scores, targets, loss = self.measured()
        figures = {name: float(value) for name, value in self._figures(scores, targets).items()}
        self._looked += 1
        value = next(iter(figures.values()))
        if self.best is None or value > self.best:
            self.best, self.best_step, self._since = value, self._looked, 0
            self._best = {name: weight.detach().clone() for name, weight in self._weights.items()}
        else:
            self._since += 1
        return Measured(loss, int(self._held_out.lengths.sum()), figures)

    @torch.no_grad()
    def take_best(self) -> None:
        """Put the best weights back into the model."""
        for name, weight in self._best.items():
            self._weights[name].copy_(weight)

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        tensors, log = self.learner.state()
        if self._best:
            tensors = {**tensors, "best": {name: weight.cpu() for name, weight in self._best.items()}}
        about = {"best": self.best, "best_step": self.best_step, "since": self._since, "looked": self._looked}
        return tensors, log | about

    def load(self, tensors: Tensors, log: Mapping[str, Any]) -> None:
        self.learner.load(tensors, log)
        self.best, self.best_step, self._since, self._looked = (
            log[name] for name in ("best", "best_step", "since", "looked")
        )
        self._best = {name: one.to(self.execution.device, copy=True) for name, one in tensors.get("best", {}).items()}


@torch.no_grad()
def measured_texts(
    model: HeadedModel, execution: Execution, examples: LabelledExamples, *, per_position: bool
) -> MeasuredTexts:
    """Return the scores of a head that learns and the targets of all texts, in their order, and the mean loss."""
    was_training, has_rows = model.training, model.head_config.kind != "sequence"
    model.eval()
    # one place for each text, filled in the order of their lengths
    scores: list[Any] = [None] * len(examples)
    wanted: list[Any] = [None] * len(examples)
    loss = count = 0.0
    with execution.attention_kernels():
        # texts of about one length together
        for index_B in examples.batches(_IDS_AT_ONCE):
            batch = HeadTargets(examples.rows(index_B).to(execution.device), per_position)
            # scores, and the loss
            with execution.autocast():
                found, packed = scores_of(model, batch)
                loss += float(loss_of_scores(found, packed, model.head_config, batch))
            count += float(batch.n_targets)
            # packed by length: back to the order of the texts, without padding
            runs = [run.cpu().numpy() for run in packed.runs(found)] if has_rows else [found.cpu().numpy()]
            rows = [row for run in runs for row in run]
            # the targets are in the order of the batch
            targets, lengths = batch.given.targets, batch.given.lengths
            true = np.split(targets, np.cumsum(lengths)[:-1]) if per_position else targets
            for place, row in zip(packed.order, rows, strict=True):
                scores[index_B[place]] = row[: lengths[place]] if has_rows else row
                wanted[index_B[place]] = true[place]
    model.train(was_training)
    return scores, wanted, loss / max(1.0, count)


class SeenRows:
    """The rows of an embedding table whose tokens occur: a training computes with these alone, and is the same training.

    A row of which no text has the token gets no gradient, and rows do not decay, so it never moves. 16,000 rows of
    256 of which 6,900 occur, on two cores of an AMD EPYC with AVX2: the optimiser takes 8 ms of a step and not 11.

    Args:
        table_VD: all rows; they stay as they are.
        examples: the texts in which the tokens occur.

    Attributes:
        numbers: of these rows, ascending, int64.
        place_V: where each token's row stands among them, int32; 0 of those that do not occur.
    """

    def __init__(self, table_VD: torch.Tensor, examples: Sequence[LabelledExamples]) -> None:
        seen_V = np.zeros(len(table_VD), bool)
        for some in examples:
            some.mark(seen_V)
        seen_V[0] |= not seen_V.any()
        self._table_VD, self.numbers = table_VD.detach().cpu(), torch.from_numpy(np.flatnonzero(seen_V))
        self.place_V = np.maximum(np.cumsum(seen_V, dtype=np.int32) - 1, 0).astype(np.int32)

    @property
    def n_left_out(self) -> int:
        """Numbers in the rows of the embedding table that are left out."""
        return (len(self._table_VD) - len(self.numbers)) * self._table_VD.shape[1]

    def rows(self) -> torch.Tensor:
        """A copy of the rows of the embedding table whose tokens occur."""
        return self._table_VD[self.numbers]

    def whole(self, model: HeadedModel) -> HeadedModel:
        """Return a trained model with a head, with its whole embedding table, on the CPU: nothing more is learned."""
        model = model.cpu().eval()
        table_VD = self._table_VD.clone().index_copy_(0, self.numbers, model.embedding.detach())
        model.embedding = torch.nn.Parameter(table_VD)
        return model


def head_plan(settings: "HeadSettings", n_examples: int, seed: int) -> Plan:
    """Return the plan of a head's training on so many examples: after the warm-up a line down to nothing, as is usual."""
    assert settings.epochs is not None, "of_transformer, of_words"
    assert settings.lr is not None
    size = min(settings.batch_size, n_examples)
    steps = max(1, math.ceil(settings.epochs * n_examples / size))
    return Plan(
        steps=steps, batch_size=size, lr=settings.lr, warmup=warmup_steps(settings.warmup, steps), min_lr_frac=0.0,
        schedule="linear", decay=1.0, report_every=settings.report_every,
        eval_every=max(1, math.ceil(steps / settings.evaluations)), clip=1.0, seed=seed, micro_batch=size,
        warmup_share=settings.warmup, evaluations=settings.evaluations,
    )  # fmt: skip


def head_trainer(
    settings: "HeadSettings", model: HeadedModel, objective: HeadObjective, examples: LabelledExamples,
    held_out: LabelledExamples, *, figures: Figures, execution: Execution, seed: int, seen: SeenRows | None = None,
    **given: Any,
) -> Trainer[HeadLearner[LanguageLearner]]:  # fmt: skip
    """Return a head's training that is ready to run, resumed if `state_dir` holds its checkpoints.

    Args:
        settings: how to train.
        model: with its first weights; trained in place.
        objective: what is learned.
        examples: to learn from.
        held_out: see `HeadLearner`.
        figures: see `HeadLearner`.
        execution: where to train.
        seed: of order and dropout.
        seen: the rows of its embeddings that the model is left with, see `SeenRows.whole`; None: all.
        given: `state_dir`, `run_key`, `ending`: see `resumed_trainer`.
    """
    plan = head_plan(settings, len(examples), seed)
    if seen is not None:
        model.embedding = torch.nn.Parameter(seen.rows())
        examples, held_out = (some.numbered(seen.place_V) for some in (examples, held_out))
    model.to(execution.device)
    optimiser = layered_optimiser(
        model, lr=plan.lr, layer_decay=settings.layer_decay, weight_decay=settings.weight_decay, freeze=settings.freeze
    )
    learner = LanguageLearner(
        model, optimiser, objective, examples, plan, execution, World(execution.device), loss=head_loss_sum
    )
    measure = partial(measured_texts, model, execution, per_position=objective.per_position)
    weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    head = HeadLearner(learner, measure, weights, held_out=held_out, figures=figures, patience=settings.patience)
    return resumed_trainer(head, plan, settings, [plan.steps], **given)
