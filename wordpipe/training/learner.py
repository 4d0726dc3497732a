"""The learner of a transformer: the gradient of a whole batch, chunk by chunk, then the weights; and its assembly."""

import gc
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch
from torch import Tensor

from wordpipe.artifacts import Checkpoints
from wordpipe.errors import BudgetError, ConfigError, PeerError
from wordpipe.model import seed_of
from wordpipe.training.execution import Execution, LossScaler, sum_gradients
from wordpipe.training.objectives_and_masking import AnyTargets, Examples, Objective
from wordpipe.training.optimisers import clip_gradients, load_optimiser, make_optimiser, optimiser_tensors
from wordpipe.training.plan import Plan, even_chunks, make_plan
from wordpipe.training.processes import World
from wordpipe.training.recipes.data import Held
from wordpipe.training.recipes.table import Opened, recipe_of
from wordpipe.training.settings import PretrainSettings
from wordpipe.training.snapshot import Snapshot, Tensors, load_snapshot
from wordpipe.training.steps import UNTIL_DONE, Ending, Gradients, Measured
from wordpipe.training.trainer import Trainer
from wordpipe.training.validation import Validation

if TYPE_CHECKING:
    from wordpipe.model import Transformer


M = TypeVar("M", bound="Transformer")


class ModelLearner(Generic[M]):
    """A learner of a transformer: weights, an optimiser of torch, and the way in which a step is taken.

    On a GPU nothing here waits for the device, but for float16's one number.

    Args:
        model: on the execution's device; trained in place.
        optimiser: over the model's parameters.
        clip: largest gradient, 0 = any.
        execution: device and numbers.
        world: the processes that train together; None: this one alone.

    Attributes:
        model: as given.
        scaler: of a float16 training, else None.
    """

    def __init__(
        self, model: M, optimiser: torch.optim.Optimizer, clip: float, execution: Execution,
        world: World | None = None,
    ) -> None:  # fmt: skip
        self.model, self.execution, self.world = model, execution, world or World(execution.device)
        self.scaler = LossScaler() if execution.dtype is torch.float16 else None
        self._weights, self._optimiser, self._clip = dict(model.named_parameters()), optimiser, clip
        self.world.broadcast([weight.detach() for weight in self._weights.values()])

    @property
    def is_done(self) -> bool:
        return False

    def replan(self, plan: Plan) -> None:
        """Go on by another plan: nothing to do, see `Learner.replan`."""

    @property
    def skipped(self) -> int:
        """Return the steps of a float16 training that changed nothing, because their gradient overflowed."""
        return 0 if self.scaler is None else self.scaler.skipped

    def take(self, step: int, gradients: Gradients, lr: float) -> Tensor:
        """Let a learner take a step, see `Learner.take`; a gradient in float16 that overflowed changes nothing."""
        del step
        loss, n_targets = gradients.loss, gradients.n_targets
        sum_gradients(self.world, list(self._weights.values()), loss)
        divisor = n_targets if self.scaler is None else torch.full_like(n_targets, self.scaler.scale)
        norm = clip_gradients(self._weights.values(), divisor, self._clip)
        found = torch.zeros(3, device=self.execution.device)
        if self.scaler is None or self.scaler.accepts(norm):
            for group in self._optimiser.param_groups:
                group["lr"] = lr * group.get("share", 1.0)  # of a layer that is to move less than others
            self._optimiser.step()
            found = torch.stack((loss, n_targets, norm))
        elif self.scaler.is_exhausted:
            found += norm  # which is not finite: the run ends
        elif bool(torch.isfinite(loss)):
            found[:2] = torch.stack((loss, n_targets))
        self._optimiser.zero_grad(set_to_none=True)
        return found

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        weights = {name: weight.detach().cpu() for name, weight in self._weights.items()}
        scaler = None if self.scaler is None else asdict(self.scaler)
        return {"model": weights, "optimiser": optimiser_tensors(self.model, self._optimiser)}, {"scaler": scaler}

    @torch.no_grad()
    def load(self, tensors: Tensors, log: Mapping[str, Any]) -> None:
        for name, weight in self._weights.items():
            weight.copy_(tensors["model"][name])
        load_optimiser(self.model, self._optimiser, tensors["optimiser"])
        if self.scaler is not None and log.get("scaler"):
            self.scaler = LossScaler(**log["scaler"])


class LanguageLearner(ModelLearner["Transformer"]):
    """Learner of a language model: it learns to predict tokens.

    Losses are summed over targets and divided once, by the number of targets of the whole step, which every process knows.

    Args:
        model: on the execution's device; trained in place.
        optimiser: over its parameters.
        objective: what to predict.
        blocks: the training stream.
        plan: sizes, the seed.
        execution: device and numbers.
        world: the processes that train together.
        validation: held-out text, if there is any.
        also: what else a validation measures of the model, by name.
        loss: summed over the targets of some rows, with a label smoothing; None: of tokens, as the execution computes it.

    Attributes:
        blocks: as given.
        micro_batch: sequences computed at once: the plan's, halved whenever the device's memory did not hold them, in each
            process by itself. It is kept in the checkpoint, since the order of summation shows in the last bits.
    """

    def __init__(
        self, model: "Transformer", optimiser: torch.optim.Optimizer, objective: Objective, blocks: Examples, plan: Plan,
        execution: Execution, world: World, validation: Validation | None = None,
        also: "Callable[[Transformer], dict[str, float]] | None" = None, loss: Callable[..., Tensor] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(model, optimiser, plan.clip, execution, world)
        self._also = also
        self.blocks, self._objective = blocks, objective
        self._ahead: tuple[int, Any] | None = None  # the rows of a step that are on their way to a GPU
        self.micro_batch = plan.micro_batch
        self._plan, self._validation, self._loss_sum = plan, validation, loss or execution.loss_function()
        self._summed: dict[str, Tensor] = {}  # weights that are averaged at the end, added up
        self._n_summed = 0

    def gradients(self, step: int) -> Gradients:
        """Leave the learner's gradients of this process's rows with the weights.

        They are those of the summed loss; with a scaler, of the mean loss times its scale.

        Raises:
            BudgetError: the device's memory does not hold a single sequence.
        """
        targets = self.targets(step)
        while True:
            try:
                return Gradients(self._of_rows(step, targets), _count(targets), targets.n_positions)
            except torch.OutOfMemoryError as error:
                if self.micro_batch == 1:
                    raise _too_large() from error
            # out of the handler: the graph of the pass that broke off hung on the traceback
            self.micro_batch = even_chunks(self.micro_batch, math.ceil(self.micro_batch / 2))
            self._optimiser.zero_grad(set_to_none=True)
            gc.collect()
            torch.cuda.empty_cache()

    def take(self, step: int, gradients: Gradients, lr: float) -> Tensor:
        """Let the learner take a step, see `Learner.take`; the next batch is on its way meanwhile."""
        try:
            found = super().take(step, gradients, lr)
        except torch.OutOfMemoryError as error:
            raise _too_large() from error
        # the host runs ahead of a GPU anyway, but for the steps after which it looks at a loss
        if step + 1 < self._plan.steps and self.execution.device.type == "cuda":
            self._ahead = (step + 1, self._rows(step + 1))
        if self._plan.averages(step + 1):
            self._add_to_mean()
        return found

    def replan(self, plan: Plan) -> None:
        self._plan = plan

    @torch.no_grad()
    def _add_to_mean(self) -> None:
        """Add the weights to the sum of the weights that are averaged at the end."""
        self._n_summed += 1
        for name, weight in self._weights.items():
            self._summed[name] = self._summed[name] + weight if name in self._summed else weight.clone()

    @torch.no_grad()
    def take_mean(self) -> int:
        """Let the weights be the mean of those that were added up, at the end; return how many there are."""
        for name, summed in self._summed.items():
            self._weights[name].copy_(summed / self._n_summed)
        return self._n_summed

    def targets(self, step: int) -> AnyTargets:
        """Return the targets of a step, for the sequences of all processes."""
        rows = self._ahead[1] if self._ahead is not None and self._ahead[0] == step else self._rows(step)
        generator = torch.Generator(self.execution.device).manual_seed(seed_of(self._plan.seed, "masks", step))
        return self._objective.targets(rows, generator, step / self._plan.steps)

    def validate(self) -> Measured | None:
        """Measure the learner's loss of held-out text."""
        if self._validation is None:
            return None
        with self.execution.attention_kernels():
            loss = self._validation.total(self.model, self._loss_sum).loss
            more = {} if self._also is None else self._also(self.model)
        return Measured(loss, self._validation.n_positions, more)

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        tensors, log = super().state()
        if self._summed:
            tensors = {**tensors, "mean": {name: summed.cpu() for name, summed in self._summed.items()}}
        return tensors, log | {
            "micro_batch": self.micro_batch, "seq_len": self._plan.seq_len, "averaged": self._n_summed,
        }  # fmt: skip

    def load(self, tensors: Tensors, log: Mapping[str, Any]) -> None:
        super().load(tensors, log)
        device, mean = self.execution.device, tensors.get("mean", {})
        self._summed = {name: summed.to(device, copy=True) for name, summed in mean.items()}
        # what a finished training was extended from has no sums, and counts none
        self._n_summed = log["averaged"] if mean else 0

    def _rows(self, step: int) -> Any:
        """Return the sequences of a step's batch, on the device."""
        order_B = self.blocks.order(step, batch_size=self._plan.batch_size, seed=self._plan.seed)
        return self.blocks.rows(order_B).to(self.execution.device)

    def _of_rows(self, step: int, targets: AnyTargets) -> Tensor:
        """Return the learner's loss summed over this process's targets, a scalar on the device.

        Gradients are with the weights.
        """
        self.model.train()
        if self.model.config.dropout > 0.0:
            who = () if self.world.is_alone else (self.world.rank,)
            torch.manual_seed(seed_of(self._plan.seed, "dropout", step, *who))
        enlarge = None if self.scaler is None else self.scaler.scale / _count(targets)
        loss = torch.zeros((), device=self.execution.device)
        first, end = self.world.rows(len(targets))
        if is_idle := first == end:  # fewer sequences than processes: gradients of nothing, as the others send theirs
            first, end = 0, 1
        # a batch of short pairs has more of them, and as many positions
        at_once = max(1, len(targets) * self.micro_batch // self._plan.batch_size)
        with self.execution.attention_kernels():  # around the backward pass too, which may compute blocks again
            for begin in range(first, end, at_once):
                rows = targets.rows(begin, min(end, begin + at_once))
                with self.execution.autocast():
                    part = self._loss_sum(self.model, rows, self._plan.label_smoothing)
                if is_idle:
                    part = part * 0.0
                (part if enlarge is None else part * enlarge).backward()  # type: ignore[no-untyped-call]
                loss += part.detach()
        return loss


def assemble(
    settings: PretrainSettings, opened: Opened, model: "Transformer", held: Held, *, execution: Execution, **given: Any
) -> Trainer[LanguageLearner]:
    """Assemble the learner of a language model's training by the recipe of its settings.

    Args:
        settings: how to train.
        opened: what is known of the texts.
        model: with its first weights; trained in place.
        held: what to train on, and what is held out.
        execution: where to train.
        given: the further arguments of `assemble_learner`.
    """
    recipe = recipe_of(settings)
    objective = recipe.objective(settings, opened, execution.device)
    return assemble_learner(
        settings, model, held.train, held.valid, objective=objective,
        valid_objective=recipe.measured_by(settings, opened, execution.device),
        execution=replace(execution, compiled=execution.compiled and objective.compiled),
        also=None if held.as_trained is None else partial(objective.measure, blocks=held.as_trained), **given,
    )  # fmt: skip


def assemble_learner(
    settings: PretrainSettings, model: "Transformer", blocks: Examples, valid_blocks: Examples | None, *,
    objective: Objective, valid_objective: Objective, execution: Execution, state_dir: Path, run_key: str,
    world: World | None = None, begin: Snapshot | None = None, unigram_entropy: float | None = None,
    seed: int | None = None, also: "Callable[[Transformer], dict[str, float]] | None" = None,
    ending: Ending = UNTIL_DONE,
) -> Trainer[LanguageLearner]:  # fmt: skip
    """Assemble a learner: a language model's training that is ready to run, or resumed.

    Several processes call it together, each with the same arguments.

    Args:
        settings: how to train.
        model: with its first weights; trained in place.
        blocks: what to train on.
        valid_blocks: what is held out; None: nothing is, and there is no validation.
        objective: what is learned.
        valid_objective: what the held-out loss measures.
        execution: where to train.
        state_dir: the folder of checkpoints; need not exist.
        run_key: what is trained, with which settings, on which data.
        world: the processes that train together; None: this one alone.
        begin: the end of a finished training that this one goes on from, unless a checkpoint of this one is found.
        unigram_entropy: of the labels, smoothed as they are, in nats: what the loss should fall below.
        seed: of order, masks and dropout; None: that of the settings.
        also: what else a validation measures of the model, by name.
        ending: when it ends.

    Raises:
        ConfigError: a batch that cannot be cut as asked; fewer steps than `begin` has.
        PeerError: the processes do not find the same checkpoint.
    """
    # the plan, the optimiser
    world = world or World(execution.device)
    plan = make_plan(settings, model.config, n_blocks=len(blocks), seq_len=blocks.seq_len, device=execution.device.type)
    plan = plan if seed is None else replace(plan, seed=seed)
    _refuse_uneven(settings, plan, world)
    model.to(execution.device)
    model.recompute = settings.recompute
    optimiser = make_optimiser(
        model, kind=settings.optimiser, lr=plan.lr, weight_decay=settings.weight_decay, beta1=settings.beta1,
        beta2=settings.beta2, momentum=settings.momentum,
    )  # fmt: skip
    # what a stopped run left, the same in all processes
    state = Checkpoints(state_dir, run_key, about={**ending.about})
    found = state.restore(load_snapshot)
    identity = [run_key, None if found is None else found.step]
    if identity != (first := world.share(identity)):
        raise PeerError(
            "this process and the first process have different inputs or checkpoints",
            where=state_dir, got=identity, expected=first,
            hint="store inputs and output on a disk that all machines can access",
        )  # fmt: skip
    # the micro-batch of the run before, as the order of summation shows in the last bits
    before = found or begin
    wanted, mine = plan.micro_batch, plan.batch_size // world.size
    if before is not None and not settings.micro_batch:
        wanted = before.log["micro_batch"]
    plan = replace(plan, micro_batch=wanted if settings.micro_batch else even_chunks(mine, wanted))
    # what the trainer runs
    validation = None
    if valid_blocks is not None:
        validation = Validation(
            valid_blocks, valid_objective, execution, n_positions=settings.valid_tokens, micro_batch=plan.micro_batch
        )
    learner = LanguageLearner(model, optimiser, objective, blocks, plan, execution, world, validation, also)
    return Trainer(
        learner, plan, state=state, found=found, begin=begin, world=world,
        checkpoint_seconds=settings.checkpoint_seconds, checkpoint_steps=settings.checkpoint_steps,
        unigram_entropy=unigram_entropy, patience=settings.patience,
        ending=ending.wanting(plan, settings.steps, settings.epochs, begin=begin),
    )  # fmt: skip


def _refuse_uneven(settings: PretrainSettings, plan: Plan, world: World) -> None:
    """Refuse a batch that the processes of a learner cannot divide evenly."""
    share = min(settings.micro_batch or 1, max(1, plan.batch_size // world.size))
    if not world.is_alone and plan.batch_size % (world.size * share):
        raise ConfigError(
            "the batch cannot be divided evenly among the processes", where="batch_size", got=plan.batch_size,
            expected=f"a multiple of {world.size} processes × micro-batch {share}",
            hint=f"give --batch-size {math.ceil(plan.batch_size / (world.size * share)) * world.size * share}",
        )  # fmt: skip


def _count(targets: AnyTargets) -> Tensor:
    """Return the targets of a step, at least one: a batch of special tokens alone has none, and its loss of 0 is right."""
    return targets.n_targets.clamp_min(1.0)


def _too_large() -> BudgetError:
    """Return the error of a learner's device whose memory is too small for one sequence."""
    return BudgetError(
        "the memory of the device is too small for one sequence and the optimiser", where="micro_batch", got=1,
        hint="use a smaller --seq-len, a smaller --preset, or --recompute",
    )  # fmt: skip
