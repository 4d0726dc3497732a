"""A training from its parts: the streams, the model, the settings and where its checkpoints are."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from wordpipe.errors import ConfigError
from wordpipe.model.language_model import LanguageModel
from wordpipe.training.batches import Batches
from wordpipe.training.blocks import Blocks
from wordpipe.training.exchange import share_snapshot
from wordpipe.training.execution import Execution
from wordpipe.training.loop import Training
from wordpipe.training.optimisers import make_optimiser
from wordpipe.training.parallel import World
from wordpipe.training.plan import Plan, even_pieces, make_plan
from wordpipe.training.probe import largest_micro_batch
from wordpipe.training.settings import PretrainSettings
from wordpipe.training.state import Snapshot, StateDir
from wordpipe.training.stream import Flags, Ids
from wordpipe.training.tasks import Task
from wordpipe.training.validation import Validation

__all__ = ["assemble"]


def assemble(
    settings: PretrainSettings,
    task: Task,
    model: LanguageModel,
    train_ids: Ids,
    valid_ids: Ids,
    *,
    seq_len: int | None = None,
    word_starts: Flags | None = None,
    execution: Execution,
    state_dir: Path,
    run_key: str,
    world: World | None = None,
    begin: Snapshot | None = None,
    unigram_entropy: float | None = None,
    warn: Callable[[str], None] | None = None,
    tick: Callable[[int], None] | None = None,
    seed: int | None = None,
) -> Training:
    """A training that is ready to run, resumed if `state_dir` holds its checkpoints.

    Several processes call it together, each with the same arguments, but for those that only the first one needs:
    `model` (its weights), `state_dir`, `begin` and `warn`.

    Args:
        settings: how to train.
        task: what to train on.
        model: with its first weights; trained in place.
        train_ids: the training stream.
        valid_ids: the held-out stream; an empty one, or one too short to predict anything in, means no validation.
        seq_len: positions of a sequence; None: as many as the model has.
        word_starts: whether a word begins at each id of the training stream, if `task.needs_word_starts`.
        execution: where to train.
        state_dir: the folder of checkpoints; need not exist.
        run_key: what is trained, with which settings, on which data.
        world: the processes that train together; None: this one alone.
        begin: the end of a finished training that this one goes on from, unless a checkpoint of this one is found.
        unigram_entropy: of the training stream, in nats: what the loss should fall below.
        warn: told if it does not.
        tick: told the number of every step that is done.
        seed: of order, masks and dropout; None: that of the settings.

    Raises:
        InputError: the training stream is empty.
        ConfigError: a batch that cannot be cut as asked; fewer steps than `begin` has.
        BudgetError: not even one sequence fits on the device.
    """
    world = world or World(execution.device)
    blocks = task.blocks(train_ids, seq_len or model.config.max_len, word_starts)
    plan = make_plan(settings, model.config, n_blocks=len(blocks), seq_len=blocks.seq_len, device=execution.device.type)
    plan = plan if seed is None else replace(plan, seed=seed)
    _refuse_uneven(settings, plan, world)
    model.to(execution.device)
    model.recompute = settings.recompute
    optimiser = make_optimiser(
        model,
        kind=settings.optimiser,
        lr=plan.lr,
        weight_decay=settings.weight_decay,
        beta1=settings.beta1,
        beta2=settings.beta2,
        momentum=settings.momentum,
    )
    objective, state = task.objective(execution.device), StateDir(state_dir, run_key)
    found = share_snapshot(world, state.restore)
    begin = None if found else share_snapshot(world, lambda: begin)
    batches = Batches(blocks, objective, plan, execution.device)
    plan = replace(plan, micro_batch=_micro_batch(settings, plan, model, batches, execution, world, found or begin))
    return Training(
        model,
        objective,
        blocks,
        plan,
        execution,
        optimiser=optimiser,
        state=state,
        found=found,
        begin=begin,
        world=world,
        validation=_validation(settings, task, valid_ids, blocks, plan, execution),
        checkpoint_seconds=settings.checkpoint_seconds,
        checkpoint_steps=settings.checkpoint_steps,
        unigram_entropy=None if plan.label_smoothing else unigram_entropy,  # a smoothed loss lies above the entropy
        patience=settings.patience,
        warn=warn,
        tick=tick,
    )


def _refuse_uneven(settings: PretrainSettings, plan: Plan, world: World) -> None:
    share = min(settings.micro_batch or 1, max(1, plan.batch_size // world.size))
    if not world.is_alone and plan.batch_size % (world.size * share):
        raise ConfigError(
            "the processes cannot share out a batch evenly",
            where="batch_size",
            got=plan.batch_size,
            expected=f"a multiple of {world.size} processes × micro-batch {share}",
            hint=f"give --batch-size {math.ceil(plan.batch_size / (world.size * share)) * world.size * share}",
        )


def _micro_batch(
    settings: PretrainSettings,
    plan: Plan,
    model: LanguageModel,
    batches: Batches,
    execution: Execution,
    world: World,
    before: Snapshot | None,
) -> int:
    """Sequences that a process computes at once: as asked, as in the run before, as a GPU takes, or as planned."""
    if settings.micro_batch:
        return plan.micro_batch
    mine, wanted = plan.batch_size // world.size, plan.micro_batch
    if before is not None:  # checkpoints without the number are from when it was always the planned one
        wanted = before.log.get("micro_batch", wanted)
    elif execution.device.type == "cuda":
        largest = batches.largest()
        wanted = world.first_does(lambda: largest_micro_batch(model, largest, execution, sequences=mine))
    return even_pieces(mine, wanted)


def _validation(
    settings: PretrainSettings, task: Task, ids: Ids, blocks: Blocks, plan: Plan, execution: Execution
) -> Validation | None:
    if len(ids) < 2:
        return None
    return Validation(
        task.blocks(ids, blocks.seq_len),
        task.objective(execution.device, valid=True),
        execution,
        n_positions=settings.valid_tokens,
        micro_batch=plan.micro_batch,
    )
