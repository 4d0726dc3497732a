"""The training of a transformer encoder from its parts: the text, the model, the settings, where its checkpoints are."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wordpipe.model.language_model import LanguageModel
from wordpipe.model.seeds import seed_of
from wordpipe.training.contrast.contrast_learner import Contrasting, ContrastLearner, Teacher
from wordpipe.training.contrast.denoising import Autoencoder, DenoisingLearner
from wordpipe.training.contrast.encoder_plan import (
    POSITIONS_AT_ONCE,
    encoder_execution,
    encoder_optimiser,
    encoder_plan,
)
from wordpipe.training.contrast.encoder_settings import ContrastiveSettings
from wordpipe.training.contrast.encoder_training import EncoderTraining
from wordpipe.training.contrast.held_out import held_out_check
from wordpipe.training.contrast.learner import Learner
from wordpipe.training.contrast.masked_beside import MaskedBeside
from wordpipe.training.contrast.pair_text import PairText
from wordpipe.training.contrast.positives import FilePairs, Pairs
from wordpipe.training.contrast.sequences import Framing
from wordpipe.training.contrast.settings import PairKind
from wordpipe.training.execution import Execution
from wordpipe.training.plan import SpecialIds
from wordpipe.training.state import StateDir

__all__ = ["EncoderWork", "assemble_encoder", "held_out_pairs", "pairs_of"]

_LEAST_HELD_OUT = 4  # documents


@dataclass(frozen=True)
class EncoderWork:
    """What a transformer encoder is trained on, and with.

    Attributes:
        text: the documents as rows of token ids.
        given: the user's own pairs, if there are any.
        special: the tokenizer's special ids; [CLS], [SEP] and, with an MLM loss, [MASK] are there.
        weights: what each token weighs in the mean, (V,) float32; None: all alike.
        teacher: gives unit vectors of texts, and how ids become texts; None: nobody teaches.
    """

    text: PairText
    given: FilePairs | None
    special: SpecialIds
    weights: npt.NDArray[np.float32] | None
    teacher: Teacher | None = None


def assemble_encoder(
    settings: ContrastiveSettings,
    model: LanguageModel,
    work: EncoderWork,
    *,
    state_dir: Path,
    run_key: str,
    seed: int | None = None,
    tick: Callable[[int], None] | None = None,
) -> EncoderTraining:
    """A training that is ready to run, resumed if `state_dir` holds its checkpoints.

    Args:
        settings: how to train.
        model: an encoder with its first weights, and the dropout it trains with; trained in place.
        work: what on, and what with.
        state_dir: the folder of checkpoints; need not exist.
        run_key: what is trained, with which settings, on which data.
        seed: of dropout, masks and deletion; None: the settings'.
        tick: told the number of every step that is done.

    Raises:
        InputError: no sentence to train on.
        ConfigError: a device that is not there.
    """
    execution = encoder_execution(settings)
    model.to(execution.device)
    framing = _framing(settings, model, work.special, execution)
    weights_V = None if work.weights is None else _padded(work.weights, model).to(execution.device)
    pairs = pairs_of(settings, work)
    learner = _learner(
        settings, model, work, pairs, framing, weights_V, execution, settings.seed if seed is None else seed
    )
    learner.module.to(execution.device)
    return EncoderTraining(
        learner,
        encoder_optimiser(learner.module, settings),
        encoder_plan(settings, n_sentences=pairs.n_pairs),
        execution,
        state=StateDir(state_dir, run_key),
        validation=_validation(settings, model, work, framing, weights_V, execution),
        checkpoint_seconds=settings.checkpoint_seconds,
        checkpoint_steps=settings.checkpoint_steps,
        tick=tick,
    )


def pairs_of(settings: ContrastiveSettings, work: EncoderWork) -> Pairs:
    """The pairs that are trained on; for denoising single sentences, each as a pair of itself."""
    if settings.objective == "denoise":
        alone = _only(settings, "dropout").model_copy(update={"false_negatives": "keep"})  # nothing is compared
        return Pairs(work.text, alone)
    return Pairs(work.text, settings, given=work.given)


def held_out_pairs(settings: ContrastiveSettings, text: PairText) -> Pairs | None:
    """Neighbouring sentences of held-out documents, whatever is trained on, so that runs compare; None: there are too few.

    Sentences of one document are no negatives of each other, so that a single document would ask nothing at all. A sentence
    and itself, as in dropout pairs, would be known again by any encoder.
    """
    filled = np.diff(text.documents)[text.splits == 1] > 0
    if filled.sum() < _LEAST_HELD_OUT:
        return None
    neighbours = _only(settings, "neighbour")
    found = Pairs(text, neighbours, split="valid", batch_size=settings.valid_pairs)
    if found.n_pairs < settings.valid_pairs:
        found = Pairs(text, neighbours, split="valid", batch_size=found.n_pairs)
    return found if found.n_pairs > 1 else None


def _only(settings: ContrastiveSettings, kind: PairKind) -> ContrastiveSettings:
    """The settings with pairs of one kind alone."""
    shares = {f"pair_{name}": None for name in ("dropout", "neighbour", "crop", "title", "deletion", "file")}
    return settings.model_copy(update={**shares, "pairs": None, f"pair_{kind}": 1.0})


def _framing(settings: ContrastiveSettings, model: LanguageModel, special: SpecialIds, execution: Execution) -> Framing:
    assert special.cls is not None
    assert special.sep is not None
    longest = min(settings.longest or model.config.max_len, model.config.max_len)
    return Framing(special.cls, special.sep, longest, execution.device)


def _padded(weights_V: npt.NDArray[np.float32], model: LanguageModel) -> Tensor:
    """The weights for every row of the embedding table."""
    padded_V = torch.zeros(model.config.vocab_size)
    padded_V[: len(weights_V)] = torch.from_numpy(weights_V)
    return padded_V


def _learner(
    settings: ContrastiveSettings,
    model: LanguageModel,
    work: EncoderWork,
    pairs: Pairs,
    framing: Framing,
    weights_V: Tensor | None,
    execution: Execution,
    seed: int,
) -> Learner:
    at_once = POSITIONS_AT_ONCE[execution.device.type]
    if settings.objective == "denoise":
        return DenoisingLearner(
            Autoencoder(model, seed), pairs.batch, framing, weights_V, execution,
            rate=settings.denoise_rate, seed=seed, at_once=at_once,
        )  # fmt: skip
    beside = None
    if settings.mlm_weight:
        assert work.special.mask is not None
        beside = MaskedBeside(
            model, framing, execution, settings.mlm_weight, settings.mask_rate, work.special.mask,
            seed_of(seed, "masked beside"), at_once,
        )  # fmt: skip
    numbers = Contrasting(
        temperature=settings.temperature,
        queue=settings.queue,
        drop_false=settings.false_negatives == "drop",
        max_similarity=settings.max_similarity,
        seed=seed,
        at_once=at_once,
    )
    return ContrastLearner(
        model, pairs.batch, framing, weights_V, numbers, execution, teacher=work.teacher, beside=beside
    )


def _validation(
    settings: ContrastiveSettings,
    model: LanguageModel,
    work: EncoderWork,
    framing: Framing,
    weights_V: Tensor | None,
    execution: Execution,
) -> Callable[[], tuple[float, float]] | None:
    pairs = held_out_pairs(settings, work.text)
    if pairs is None:
        return None
    return held_out_check(
        model, pairs.batch(0), framing, weights_V, execution,
        temperature=settings.temperature, at_once=POSITIONS_AT_ONCE[execution.device.type],
    )  # fmt: skip
