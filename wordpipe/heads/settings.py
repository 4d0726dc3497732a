"""The settings of the trainings of heads."""

from pathlib import Path
from typing import ClassVar, Literal, Self

from wordpipe.settings import Settings, minutes_setting, setting

_LR, _WORD_LR = 5e-4, 0.01
_STEPS, _WORD_STEPS = 200, 600


class HeadSettings(Settings):
    """Settings of the training of a head on a transformer, or on word vectors."""

    init: Path | None = setting(
        None, "model to start from: a model of train mlm or train clm, or a model folder of Hugging Face transformers; "
        "word vectors or a static encoder are also possible, and train in a few seconds",
        metavar="MODEL|WORDS", artifact=("model", "words"),
    )  # fmt: skip
    epochs: float | None = setting(
        None,
        "number of passes over the labelled texts; default: 5 (tagger: 8, reader: 3), but at least 200 steps (with word "
        "vectors: at least 600 steps)",
        gt=0,
        le=10**4,
    )
    minutes: float | None = minutes_setting()
    lr: float | None = setting(
        None, "peak learning rate of the head; default: 5e-4 (with word vectors: 0.01); lower layers have a lower "
        "rate, see layer_decay", gt=0,
        le=1,
    )  # fmt: skip
    batch_size: int = setting(32, "texts per step", ge=1, le=65_536)
    seeds: int = setting(
        1,
        "number of models to train, each with a different seed; only the model that is best on held-out texts is kept",
        ge=1,
        le=100,
    )
    freeze: int = setting(
        0, "number of layers that are not trained, starting with the embeddings (1 = only the embeddings)", ge=0, le=257
    )
    seed: int = setting(
        1, "seed for the initial weights of the head, the order of the texts and dropout", ge=0, lt=2**32
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = setting(
        "auto", "device to train on; auto: the fastest available device"
    )

    held_out: float = setting(
        0.1, "fraction of the texts to hold out, chosen by a hash of the text, if the corpus holds out fewer; held-out "
        "texts are used to choose the best weights and to calibrate the probabilities",
        gt=0, lt=1, section="Learning", expert=True,
    )  # fmt: skip
    layer_decay: float = setting(
        0.8, "learning rate of a layer, divided by the learning rate of the next higher layer", gt=0, le=1, expert=True
    )
    warmup: float = setting(
        0.1, "number of steps in which the learning rate rises; a value below 1 is a fraction of all steps", ge=0,
        le=10**9, expert=True,
    )  # fmt: skip
    weight_decay: float = setting(0.01, "decoupled weight decay, only for matrices", ge=0, le=10, expert=True)
    dropout: float = setting(
        0.1,
        "fraction of the values that are set to zero in the output of each block and in the input of the head",
        ge=0,
        lt=1,
        expert=True,
    )
    patience: int = setting(
        0, "stop after this number of validations in a row without a better result; 0 = never stop early", ge=0, le=1000,
        expert=True,
    )  # fmt: skip
    evaluations: int = setting(
        10, "number of validations during the training; the best weights are kept", ge=1, le=1000, expert=True
    )
    seq_len: int | None = setting(
        None, "maximum number of tokens to read from each text, including special tokens; default: the maximum of the model",
        ge=8, le=65_536,
        expert=True,
    )  # fmt: skip
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = setting(
        "auto", "number format of matrix products; auto: the fastest format on the device", expert=True
    )
    threads: int = setting(
        0,
        "number of CPU threads; 0 = one per core (with word vectors: one); a different number changes the weights slightly",
        ge=0,
        le=1024,
        expert=True,
    )
    checkpoint_seconds: float = setting(60, "seconds between checkpoints", gt=0, recipe=False, option=False)
    checkpoint_steps: int = setting(
        0, "also save a checkpoint after this number of steps; 0 = only by time", ge=0, recipe=False, option=False
    )
    report_every: int = setting(10, "number of steps between two rows of the log", ge=1, recipe=False, option=False)

    usual_epochs: ClassVar[float] = 5

    def of_transformer(self, n_texts: int) -> Self:
        """Return the settings with the `epochs` and `lr` that a transformer needs, where they are not given."""
        return self._with(n_texts, _STEPS, _LR)

    def of_words(self, n_texts: int) -> Self:
        """Return the settings with the `epochs` and `lr` that word vectors need, where they are not given."""
        return self._with(n_texts, _WORD_STEPS, _WORD_LR)

    def _with(self, n_texts: int, steps: int, lr: float) -> Self:
        """Return the settings with at least so many steps and this rate: 16 steps (100 texts, 5 passes) are too few."""
        epochs = max(self.usual_epochs, steps * min(self.batch_size, n_texts) / n_texts)
        return self.model_copy(update={
            "epochs": epochs if self.epochs is None else self.epochs, "lr": lr if self.lr is None else self.lr,
        })  # fmt: skip


class ClassifierSettings(HeadSettings):
    """Settings of `train classifier`: labels of whole texts, or of pairs of texts."""

    command = "train classifier"

    problem: Literal["auto", "single", "several", "score"] = setting(
        "auto", "label of a text: single = one label, several = any number of labels, score = a number; auto: depends on "
        "the data (several for lists of labels, score for numbers with a fraction)",
    )  # fmt: skip
    class_weights: Literal["none", "balanced"] = setting(
        "none", "balanced: every label has the same total weight, even if the label is rare", expert=True
    )


class ReaderSettings(HeadSettings):
    """Settings of `train reader`: answers to questions, out of passages."""

    command = "train reader"

    usual_epochs = 3

    max_query: int = setting(
        64, "maximum number of tokens to read from a question; at most half of the tokens that the model can read",
        ge=1, le=1024, section="Reading",
        expert=True,
    )  # fmt: skip
    max_answer: int = setting(30, "maximum number of tokens in an answer", ge=1, le=1024, expert=True)
    stride: int = setting(
        128, "number of tokens between the starts of two neighbouring windows of a long passage; at most half of a window",
        ge=1, le=65_536,
        expert=True,
    )  # fmt: skip
    n_best: int = setting(
        20, "number of best answers to keep; their probabilities add up to 1", ge=1, le=1000, expert=True
    )


class PredictSettings(Settings):
    """Settings of `predict`, by a model with a head."""

    command = "predict"

    device: Literal["auto", "cpu", "cuda", "mps"] = setting(
        "auto", "device that runs the model; auto: the fastest available device"
    )
    threads: int = setting(0, "number of CPU threads; 0 = one per core", ge=0, le=1024, expert=True)


class TaggerSettings(HeadSettings):
    """Settings of `train tagger`: tags of words, such as names in a text or parts of speech."""

    command = "train tagger"

    usual_epochs = 8
