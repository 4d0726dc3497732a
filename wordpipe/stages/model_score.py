"""How much a text surprises one language model."""

import math
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.runtime import Progress
from wordpipe.stages.judged_text import JudgedText
from wordpipe.stages.models import OpenModel
from wordpipe.tokens.vocabulary import number_of_ids
from wordpipe.training.objectives import Task
from wordpipe.training.plan import SpecialIds
from wordpipe.training.precision import Execution
from wordpipe.training.settings import CausalSettings, MaskedSettings
from wordpipe.training.token_stream import Ids
from wordpipe.training.validation import Scorer, Total, Validation

__all__ = ["Score", "score_model"]

_LONGEST = 2048  # positions of a sequence, unless more are asked for: attention grows with its square
_POSITIONS_AT_ONCE = {"cpu": 1 << 12, "mps": 1 << 14, "cuda": 1 << 15}


@dataclass(frozen=True)
class Score:
    """What one model makes of a text.

    Attributes:
        seq_len: positions of a sequence.
        nats: -Σ log p of the targets.
        n_targets: tokens that were to be guessed, ends of documents included.
        n_first: targets that were given the highest probability.
        n_tokens: tokens of the text.
        n_unknown: those that stand for what the vocabulary cannot spell.
        n_documents: documents that have a token.
        n_ends: targets that end a document.
    """

    seq_len: int
    nats: float
    n_targets: int
    n_first: int
    n_tokens: int
    n_unknown: int
    n_documents: int
    n_ends: int


def score_model(opened: OpenModel, text: JudgedText, device: torch.device, seq_len: int | None = None) -> Score:
    """Tokenize the text by the model's tokenizer, lay it into sequences as training does, and add up the surprise.

    Args:
        opened: moved to the device.
        text: told how far the work is.
        device: where to compute.
        seq_len: positions of a sequence; None: the model's length, at most 2048.

    Raises:
        ArtifactError: the tokenizer lacks a token that the task needs, or the model's probabilities are no numbers.
        ConfigError: the model has no such positions.
        InputError: too few tokens.
    """
    length, task = _length(opened, seq_len), _task(opened)
    opened.model.to(device)
    with TemporaryDirectory(prefix="wordpipe-") as folder:
        stream, n_unknown = text.write_ids(Path(folder) / "ids", opened.tokenizer, task.before, task.after)
        scorer, total = _total(opened, task, stream.open(), length, device, text)
    if not math.isfinite(total.nats):
        raise ArtifactError("the model's probabilities are no numbers", where=opened.path, hint="train it again")
    return Score(
        seq_len=length,
        nats=total.nats,
        n_targets=total.n_targets,
        n_first=scorer.n_first,
        n_tokens=stream.n_tokens,
        n_unknown=n_unknown,
        n_documents=stream.n_documents,
        n_ends=stream.n_documents if opened.model.config.causal and task.after else 0,
    )


def _length(opened: OpenModel, wanted: int | None) -> int:
    """Positions of a sequence; more than the model was made for only where it needs no table of positions."""
    config = opened.model.config
    if wanted is not None and wanted > config.max_len and config.positions in ("learned", "sinusoidal"):
        raise ConfigError(
            "the model has no more positions", where="seq_len", got=wanted, expected=f"at most {config.max_len}"
        )
    return wanted or min(config.max_len, _LONGEST)


def _task(opened: OpenModel) -> Task:
    """What the model was trained for, with its own special ids around documents."""
    special: dict[str, int | None] = dict(opened.special)
    roles = {one.name for one in fields(SpecialIds)}
    ids = SpecialIds(**{role: number for role, number in special.items() if role in roles})
    settings = CausalSettings() if opened.model.config.causal else MaskedSettings()
    return Task(settings, n_tokens=number_of_ids(opened.tokenizer), special=ids)


def _total(
    opened: OpenModel, task: Task, ids: Ids, seq_len: int, device: torch.device, text: JudgedText
) -> tuple[Scorer, Total]:
    execution = Execution(device, torch.float32, torch.get_num_threads(), compiled=False, bitwise=device.type == "cpu")
    blocks = task.blocks(ids, seq_len)
    validation = Validation(
        blocks,
        task.objective(device, valid=True),
        execution,
        n_positions=None,
        micro_batch=max(1, _POSITIONS_AT_ONCE[device.type] // blocks.seq_len),
    )
    phase = f"judging {Path(opened.path).name}"
    scorer = Scorer(lambda done: text.report(Progress(phase, done, validation.n_positions, "positions")))
    return scorer, validation.total(opened.model, scorer)
