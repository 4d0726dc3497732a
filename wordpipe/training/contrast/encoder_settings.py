"""Settings of `wordpipe train contrastive`: of both encoders, and what a transformer needs beside. Imports nothing heavy."""

from pathlib import Path
from typing import Literal, Self

from pydantic import model_validator

from wordpipe.model.presets import PresetName
from wordpipe.settings import setting
from wordpipe.training.contrast.idle_settings import idle_settings
from wordpipe.training.contrast.settings import ContrastSettings, PairKind

__all__ = ["DEFAULT_POOLING", "ContrastiveSettings", "Pooling"]

Pooling = Literal["mean", "weighted"]
DEFAULT_POOLING: Pooling = "weighted"

_STATIC = (
    "unit", "words", "words_weight", "lexical_weight", "lexical_dim", "lsi_weight", "lsi_dim", "weighting", "min_count",
)  # fmt: skip
_TRANSFORMER = (
    "objective", "preset", "dim", "n_layers", "init_embeddings", "dropout", "pooling", "teacher", "teacher_weight",
    "teacher_temperature", "mlm_weight", "mask_rate", "denoise_rate", "weight_decay", "clip", "longest", "device", "dtype",
)  # fmt: skip
_COMPARING = {
    "goal", "teacher", "teacher_weight", "mlm_weight", "queue", "temperature", "max_similarity", "false_negatives",
    "deletion_rate",
}  # fmt: skip


class ContrastiveSettings(ContrastSettings):
    """How to train an encoder of texts on pairs that belong together, or (denoise) to rebuild texts from their vectors."""

    command = "train contrastive"

    objective: Literal["contrast", "denoise"] = setting(
        "contrast",
        "contrast: partners near, others far; denoise: a small decoder rebuilds each text from the vector of what is left "
        "of it, and is thrown away",
        section="The transformer",
    )
    init: Path | None = setting(
        None,
        "start from the weights of this model: of `train mlm`, or an earlier `train contrastive` of the same encoder",
        metavar="MODEL",
        artifact=("model",),
    )
    init_embeddings: Path | None = setting(
        None,
        "transformer without --init: begin as the mean of these vectors, of words or a static encoder trained with --unit "
        "token; context is learned on top",
        metavar="WORDS|MODEL",
        artifact=("words", "model"),
    )
    preset: PresetName = setting("mini", "transformer without --init: its size")
    dim: int | None = setting(
        None,
        "transformer without --init: its width, else that of the vectors it begins with (multiples of 64), else the preset's",
        ge=2,
        le=16_384,
    )
    n_layers: int | None = setting(None, "transformer without --init: its blocks, else the preset's", ge=1, le=256)
    dropout: float = setting(0.1, "transformer: share of each block's output zeroed in training", ge=0, lt=1)
    pooling: Pooling | None = setting(
        None,
        "transformer: mean of its tokens, or a mean in which a token of share p of this text weighs sif_a / (sif_a + p); "
        "else as the model of --init does, with its weights, and weighted where there is none",
    )
    longest: int = setting(
        0, "transformer: positions of a sequence, special tokens included, 0 = the model's", ge=0, le=65_536
    )
    teacher: Path | None = setting(
        None,
        "transformer: also learn how alike this encoder finds the texts of a batch",
        metavar="MODEL|WORDS",
        artifact=("model", "words"),
    )
    teacher_weight: float = setting(1.0, "weight of that loss beside the contrast", gt=0, le=1000)
    teacher_temperature: float = setting(0.05, "of the softmax over the teacher's similarities", gt=0, le=10)
    mlm_weight: float = setting(
        0.0,
        "transformer: weight of the loss of guessing hidden tokens of the same texts, against forgetting",
        ge=0,
        le=100,
    )
    mask_rate: float = setting(0.3, "with mlm_weight: share of the tokens to guess", gt=0, le=0.9)
    denoise_rate: float = setting(0.6, "denoise: share of a text's tokens that are deleted", gt=0, lt=1)
    weight_decay: float = setting(0.01, "transformer: decoupled weight decay, on matrices only", ge=0, le=10)
    clip: float = setting(1.0, "transformer: largest norm of a step's gradient, 0 = no limit", ge=0)
    device: Literal["auto", "cpu", "cuda", "mps"] = setting("auto", "transformer: where to train")
    dtype: Literal["auto", "float32", "bfloat16"] = setting(
        "auto",
        "transformer: numbers in matrix products; auto: bfloat16 where the device has units for it, else float32",
    )

    @model_validator(mode="after")
    def _fits_the_encoder(self) -> Self:
        others = _STATIC if self.encoder == "transformer" else _TRANSFORMER
        if wrong := sorted(self.model_fields_set.intersection(others)):
            raise ValueError(
                f"{', '.join(wrong)} cannot be chosen for encoder = {self.encoder}: "
                f"{'it has no table' if self.encoder == 'transformer' else 'give encoder = transformer'}"
            )
        return self

    @model_validator(mode="after")
    def _one_start(self) -> Self:
        given = [name for name in ("init", "init_embeddings", "words") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} both say what to start from: give one")
        shape = sorted({"preset", "dim", "n_layers"} & self.model_fields_set)
        if self.init is not None and shape:
            raise ValueError(f"{', '.join(shape)} cannot be chosen here: the model of init has its own size")
        return self

    @model_validator(mode="after")
    def _denoising_has_no_pairs(self) -> Self:
        pairs = {name for name in self.model_fields_set if name.startswith("pair")}
        wrong = _COMPARING & self.model_fields_set | pairs
        if self.objective == "denoise" and wrong:
            raise ValueError(
                f"{', '.join(sorted(wrong))} cannot be chosen with objective = denoise: it compares no texts"
            )
        return self

    @model_validator(mode="after")
    def _something_tells_partners_apart(self) -> Self:
        if self.teacher is None and {"teacher_weight", "teacher_temperature"} & self.model_fields_set:
            raise ValueError("teacher_weight and teacher_temperature mean nothing without a teacher")
        return self

    @model_validator(mode="after")
    def _all_do_something(self) -> Self:
        if (complaint := idle_settings(self)) is not None:
            raise ValueError(complaint)
        return self

    @property
    def shares(self) -> dict[PairKind, float]:
        """See `ContrastSettings.shares`; a transformer that does not start from a model learns what a table learns.

        One that begins as a mean of vectors knows a sentence again under any dropout: from its first step the loss of dropout
        pairs is 0.003 nats (mini, 128 pairs, where chance is 4.85), and nothing is learned.
        """
        kinds = ("pair_dropout", "pair_neighbour", "pair_crop", "pair_title", "pair_deletion")
        is_given = any(getattr(self, kind) is not None for kind in kinds)
        if is_given or self.encoder == "static" or self.init is not None or self.goal == "search":
            return super().shares
        return self.model_copy(update={"pair_neighbour": 0.5, "pair_deletion": 0.5}).shares

    @property
    def peak_lr(self) -> float:
        """The peak learning rate of a transformer, resolved."""
        return self.lr or 3e-4
