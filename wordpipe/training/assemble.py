"""A training from its parts: the streams, the model, the settings and where its checkpoints are."""

from pathlib import Path

from wordpipe.model.language_model import LanguageModel
from wordpipe.training.blocks import Blocks
from wordpipe.training.execution import Execution
from wordpipe.training.loop import Training
from wordpipe.training.optimisers import make_optimiser
from wordpipe.training.plan import Plan, make_plan
from wordpipe.training.settings import PretrainSettings
from wordpipe.training.state import StateDir
from wordpipe.training.stream import Ids
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
    execution: Execution,
    state_dir: Path,
    run_key: str,
) -> Training:
    """A training that is ready to run, resumed if `state_dir` holds its checkpoints.

    Args:
        settings: how to train.
        task: what to train on.
        model: with its first weights; trained in place.
        train_ids: the training stream.
        valid_ids: the held-out stream; an empty one, or one too short to predict anything in, means no validation.
        execution: where to train.
        state_dir: the folder of checkpoints; need not exist.
        run_key: what is trained, with which settings, on which data.

    Raises:
        InputError: the training stream is empty.
    """
    blocks = task.blocks(train_ids, model.config.max_len)
    plan = make_plan(settings, model.config, n_blocks=len(blocks), seq_len=blocks.seq_len, device=execution.device.type)
    model.to(execution.device)
    optimiser = make_optimiser(
        model, lr=plan.lr, weight_decay=settings.weight_decay, beta1=settings.beta1, beta2=settings.beta2
    )
    return Training(
        model,
        task.objective(execution.device),
        blocks,
        plan,
        execution,
        optimiser=optimiser,
        state=StateDir(state_dir, run_key),
        validation=_validation(settings, task, valid_ids, blocks, plan, execution),
        checkpoint_seconds=settings.checkpoint_seconds,
        checkpoint_steps=settings.checkpoint_steps,
    )


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
