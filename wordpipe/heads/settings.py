"""The settings of the trainings of heads."""

from pathlib import Path
from typing import ClassVar, Literal, Self

from wordpipe.settings import Settings, minutes_setting, setting

_LR, _WORD_LR = 5e-4, 0.01
_STEPS, _WORD_STEPS = 200, 600


class HeadSettings(Settings):
    """Training of a head on a transformer, or on word vectors."""

    init: Path | None = setting(
        None, "what to start from: a model of train mlm or clm, or a folder of transformers; or, to be done in seconds, word "
        "vectors or a static encoder", metavar="MODEL|WORDS", artifact=("model", "words"),
    )  # fmt: skip
    epochs: float | None = setting(
        None,
        "passes over the labelled texts, else 5, of a tagger 8, of a reader 3, and at least 200 steps; of word vectors 600",
        gt=0,
        le=10**4,
    )
    minutes: float | None = minutes_setting()
    lr: float | None = setting(
        None, "peak learning rate of the head, else 5e-4, of word vectors 0.01; lower layers have shares of this rate", gt=0,
        le=1,
    )  # fmt: skip
    batch_size: int = setting(32, "texts per step", ge=1, le=65_536)
    seeds: int = setting(
        1, "train so many models, of different seeds, and keep the one best on held-out text", ge=1, le=100
    )
    freeze: int = setting(
        0, "leave so many layers as they are, counted from the embeddings (1: these alone)", ge=0, le=257
    )
    seed: int = setting(1, "seed of the head, the order and dropout", ge=0, lt=2**32)
    device: Literal["auto", "cpu", "cuda", "mps"] = setting("auto", "where to train; auto takes the fastest there is")

    held_out: float = setting(
        0.1, "share of the texts held out, by a hash of the text, where the corpus holds out fewer: on them the best "
        "weights are found and probabilities calibrated", gt=0, lt=1, section="Learning", expert=True,
    )  # fmt: skip
    layer_decay: float = setting(
        0.8, "learning rate of a layer as a share of that of the next layer above", gt=0, le=1, expert=True
    )
    warmup: float = setting(
        0.1, "steps in which the learning rate rises: a share of all below 1, a number of steps from 1 on", ge=0,
        le=10**9, expert=True,
    )  # fmt: skip
    weight_decay: float = setting(0.01, "decoupled weight decay, on matrices only", ge=0, le=10, expert=True)
    dropout: float = setting(
        0.1, "share of each block's output, and of the head's input, zeroed", ge=0, lt=1, expert=True
    )
    patience: int = setting(
        0, "stop when so many validations in a row are no better than the best one, 0 = go on to the end", ge=0, le=1000,
        expert=True,
    )  # fmt: skip
    evaluations: int = setting(
        10, "validations over the run; the best weights of all are kept", ge=1, le=1000, expert=True
    )
    seq_len: int | None = setting(
        None, "tokens of a text that are read, special ones included, else as many as the model has", ge=8, le=65_536,
        expert=True,
    )  # fmt: skip
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = setting(
        "auto", "numbers in matrix products; auto: the fastest of the device", expert=True
    )
    threads: int = setting(
        0,
        "CPU threads, 0 = one per core, of word vectors one; another number gives slightly other weights",
        ge=0,
        le=1024,
        expert=True,
    )
    checkpoint_seconds: float = setting(60, "seconds between checkpoints", gt=0, recipe=False, option=False)
    checkpoint_steps: int = setting(
        0, "also a checkpoint every this many steps, 0 = by time only", ge=0, recipe=False, option=False
    )
    report_every: int = setting(10, "steps between two rows of the log", ge=1, recipe=False, option=False)

    usual_epochs: ClassVar[float] = 5

    def of_transformer(self, n_texts: int) -> Self:
        """Return the settings with the `epochs` and `lr` that a transformer needs, where they are not given."""
        return self._with(n_texts, _STEPS, _LR)

    def of_words(self, n_texts: int) -> Self:
        """Return the settings with the `epochs` and `lr` that word vectors need, where they are not given."""
        return self._with(n_texts, _WORD_STEPS, _WORD_LR)

    def _with(self, n_texts: int, steps: int, lr: float) -> Self:
        """16 steps, as 100 texts have in 5 passes, are too few for any rate."""
        epochs = max(self.usual_epochs, steps * min(self.batch_size, n_texts) / n_texts)
        return self.model_copy(update={
            "epochs": epochs if self.epochs is None else self.epochs, "lr": lr if self.lr is None else self.lr,
        })  # fmt: skip


class ClassifierSettings(HeadSettings):
    """Labels of whole texts, or of pairs of texts."""

    command = "train classifier"

    problem: Literal["auto", "single", "several", "score"] = setting(
        "auto", "what a text has: a single label, several, or a score; auto: as the labels are (a list: several, numbers with "
        "a fraction: a score)",
    )  # fmt: skip
    class_weights: Literal["none", "balanced"] = setting(
        "none", "balanced: each label counts as much as each other, however rare", expert=True
    )


class ReaderSettings(HeadSettings):
    """Answers of questions, out of passages."""

    command = "train reader"

    usual_epochs = 3

    max_query: int = setting(
        64, "tokens of a question that are read, and at most half of the model's", ge=1, le=1024, section="Reading",
        expert=True,
    )  # fmt: skip
    max_answer: int = setting(30, "tokens of an answer, at most", ge=1, le=1024, expert=True)
    stride: int = setting(
        128, "tokens from one window of a long passage to the next, and at most half of a window", ge=1, le=65_536,
        expert=True,
    )  # fmt: skip
    n_best: int = setting(20, "answers among which probabilities are shared", ge=1, le=1000, expert=True)


class PredictSettings(Settings):
    """The prediction by a model with a head."""

    command = "predict"

    device: Literal["auto", "cpu", "cuda", "mps"] = setting("auto", "where to compute; auto takes the fastest there is")
    threads: int = setting(0, "CPU threads, 0 = one per core", ge=0, le=1024, expert=True)


class TaggerSettings(HeadSettings):
    """Tags of words: names in a text, parts of speech."""

    command = "train tagger"

    usual_epochs = 8
