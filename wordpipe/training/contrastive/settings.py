"""Settings of `wordpipe train static` and `wordpipe train contrastive`, out of parts. Imports nothing heavy.

Parts of both: what is learned from (`FromPairs`), the loss (`Contrast`), the learning rate (`Pace`), where it runs (`Runs`).
A static encoder has its `Table`, a transformer its `Start`. The fields of the last base come first, in help too; of two
checks with one name the first alone is called, so each part names its own.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from wordpipe.model import PresetName
from wordpipe.settings import Settings, checked, minutes_setting, setting
from wordpipe.training.settings import STEPS_OR_EPOCHS, refuse_two_lengths

Goal = Literal["similarity", "search"]
Pooling = Literal["mean", "weighted"]
PairKind = Literal["dropout", "neighbour", "crop", "title", "deletion", "pairs"]
KINDS: tuple[PairKind, ...] = ("dropout", "neighbour", "crop", "title", "deletion", "pairs")
"""The kinds of pairs, by their source; a pair's `kind` is the place in this tuple."""

DEFAULT_POOLING: Pooling = "weighted"
LEAST_STEPS = 200
"""Steps of a training where nobody says how long.

On 1,000 texts of each of four collections (Cranfield, CISI, NPL, CACM) `train static` found with 25, 50, 100 and 200 steps by
vectors 36.7, 36.7, 37.2 and 38.2 (nDCG@10), and on Cranfield and CISI the loss on held-out neighbours still fell at the end;
on 300 texts 42.3, 42.5, 42.9 and 42.6, on 100 texts 55.6, 56.5, 56.1 and 55.5. One draw, no intervals:
an early end seems to lose where there is enough to measure it by, and below 400 texts there are no held-out neighbours."""

_FINISH = ("number_weight", "punctuation_weight", "piece_weight", "negation_weight")


class TableParts(NamedTuple):
    """The shares of the parts of a static table, and how often a word must come to have a row."""

    words: float
    lexical: float
    lsi: float
    min_count: int


_PARTS: dict[Goal, TableParts] = {"similarity": TableParts(1.0, 1.0, 0.0, 2), "search": TableParts(0.25, 0.5, 1.0, 1)}
"""By goal. For search, chosen on Cranfield, CISI, NPL and CACM so that vectors alone are significantly below LSI on none:
with equal lexical and latent shares they were, on Cranfield; hybrid search changed by 0.1 points of nDCG@10."""

Idle = tuple[tuple[str, ...], Callable[[Any], bool], str]
"""Settings, when they do nothing, and why."""


def default_shares(goal: Goal, *, by_dropout: bool) -> dict[PairKind, float]:
    """Return the kinds of pairs, and their shares, of a training for which no share is given.

    For a transformer and similarity the sentence itself, seen through dropout (SimCSE, Gao et al. 2021, table 2: 82.5 against
    67.1 for neighbours and 75.9 for deletion). For search spans of one document (Contriever, Izacard et al. 2022, table 6:
    33.8 with deletion against 25.9 for a sentence and its surroundings) and titles, which are the nearest to questions. A
    static table has no dropout, so its sentences lose words instead.
    """
    if goal == "search":
        return {"crop": 0.7, "title": 0.3}
    return {"dropout": 1.0} if by_dropout else {"deletion": 0.5, "neighbour": 0.5}


def refuse_idle(settings: Settings, idle: Sequence[Idle]) -> None:
    """Refuse settings of a contrastive training that were given and would change nothing."""
    given = {name for name in settings.model_fields_set if getattr(settings, name) is not None}
    for names, is_idle, why in idle:
        if (found := sorted(given.intersection(names))) and is_idle(settings):
            raise ValueError(f"{', '.join(found)} has no effect, because {why}")


def refuse_two_starts(settings: Settings, *names: str) -> None:
    """Refuse more than one setting that says what a training begins with."""
    given = [name for name in names if getattr(settings, name) is not None]
    if len(given) > 1:
        raise ValueError(f"set only one of {' and '.join(given)}, because each of them sets the initial weights")


class FromPairs(Settings):
    """The pairs, and the length of the training."""

    displaces = STEPS_OR_EPOCHS
    usual_batch: ClassVar[int]
    """Pairs of a step where nobody says, and the text has as many sentences."""

    goal: Goal = setting(
        "similarity", "similarity: texts with the same meaning get similar vectors; search: a question and the text "
        "with its answer get similar vectors",
    )  # fmt: skip
    steps: int | None = setting(None, "number of optimiser steps", ge=1, le=10**9)
    epochs: float | None = setting(
        None, "number of passes over the sentences, instead of steps; default: 1 pass, but at least 200 steps", gt=0,
        le=10**6,
    )  # fmt: skip
    minutes: float | None = minutes_setting()
    batch_size: int | None = setting(
        None, "number of pairs per step (each pair is a negative example for the others); default: 1024 (`train "
        "static`) or 128 (`train contrastive`), but at most the number of sentences", ge=2, le=65_536,
    )  # fmt: skip

    pairs: Path | None = setting(
        None, "file with your own pairs (Parquet or JSON Lines); only the first two text columns are read",
        metavar="FILE", artifact=("file",),  # by its content, whatever its name
        section="The pairs (the default shares depend on the goal)",
    )  # fmt: skip
    pair_neighbour: float | None = setting(
        None, "share of pairs that are a sentence and the next sentence of the document", ge=0, le=1, option=False,
    )  # fmt: skip
    pair_crop: float | None = setting(
        None, "share of pairs that are two random spans of one document", ge=0, le=1, option=False,
    )  # fmt: skip
    pair_title: float | None = setting(
        None, "share of pairs that are the title of a document and a span of its text", ge=0, le=1, option=False,
    )  # fmt: skip
    pair_deletion: float | None = setting(
        None, "share of pairs that are two copies of one sentence, with different words removed from each copy", ge=0,
        le=1, option=False,
    )  # fmt: skip
    pair_file: float | None = setting(
        None, "share of pairs that are from the file of pairs; default: 0.5 if there is a file", ge=0, le=1,
        option=False,
    )  # fmt: skip
    deletion_rate: float = setting(
        0.2, "share of words that are removed from the texts of deletion pairs and crop pairs", ge=0, le=0.9,
        option=False,
    )  # fmt: skip
    max_words: int = setting(
        256, "maximum number of words (or tokens) in a text; longer texts are cut, and the number of cut texts is "
        "reported", ge=8, option=False,
    )  # fmt: skip

    @checked
    def _one_length(self) -> None:
        refuse_two_lengths(self.steps, self.epochs)

    @checked
    def _pairs_are_there(self) -> None:
        if self.pair_file and self.pairs is None:
            raise ValueError(f"pair_file = {self.pair_file:g} needs a file of pairs, but pairs is not set")
        if not sum(self.shares.values()):
            raise ValueError("all shares of pairs are 0, but at least one share must be above 0")

    @property
    def knows_dropout(self) -> bool:
        """True if a text and itself, seen through dropout, are a pair that teaches something."""
        return False

    @property
    def shares(self) -> dict[PairKind, float]:
        """The share of each kind of pair, adding up to 1 where any is above 0; those given, else those of the goal."""
        given: dict[PairKind, float | None] = {kind: getattr(self, f"pair_{kind}", None) for kind in KINDS[:-1]}
        rest = default_shares(self.goal, by_dropout=self.knows_dropout)
        if any(share is not None for share in given.values()):
            rest = {kind: share or 0.0 for kind, share in given.items()}
        from_file = self.pair_file
        if from_file is None:
            from_file = 0.0 if self.pairs is None else 0.5
        total = sum(rest.values())
        left = 1 - from_file if total else 0.0
        shares: dict[PairKind, float] = {kind: left * rest.get(kind, 0.0) / (total or 1.0) for kind in KINDS}
        shares["pairs"] = from_file
        return shares

    def steps_for(self, n_pairs: int) -> int:
        """Return the number of steps that the settings mean: those given, else by epochs, else one pass.

        The last step of the last pass is a whole one and reaches into the next pass, so that no sentence is left out.

        Args:
            n_pairs: of one pass over the training text.
        """
        if self.steps is not None:
            return self.steps
        passes = 1.0 if self.epochs is None else self.epochs
        least = LEAST_STEPS if self.epochs is None else 1
        # 1.1 · 30 / 3 comes to a little more than 11
        return max(least, math.ceil(passes * n_pairs / self.pairs_per_step(n_pairs) - 1e-9))

    def pairs_per_step(self, n_pairs: int) -> int:
        """Return the batch size that the settings mean: no more pairs than there are sentences.

        More would be the same sentences again, which are no negatives of each other: 149 sentences of the handbook found their
        texts by held-out titles with nDCG@10 of 87.2 in steps of 149 pairs, 87.9 in steps of 1,024 (both ± 2).

        Args:
            n_pairs: of one pass over the training text.
        """
        usual = self.usual_batch
        return self.batch_size or (usual if self.pairs is not None else min(usual, max(2, n_pairs)))


class Contrast(Settings):
    """The loss: which texts are told apart, and how hard."""

    temperature: float = setting(
        0.05, "temperature of the softmax over the batch; a lower value gives more weight to the most similar negative "
        "examples", gt=0, le=10, section="The loss", expert=True,
    )  # fmt: skip
    false_negatives: Literal["keep", "drop"] = setting(
        "drop", "drop: a text is no negative example for a text of the same document or an identical text; "
        "keep: all texts of a step are negative examples", expert=True,
    )  # fmt: skip
    max_similarity: float = setting(
        1.0, "maximum cosine similarity of a negative example; texts that are more similar are left out, because they "
        "probably have the same meaning; 1 = no limit", gt=0, le=1, option=False,
    )  # fmt: skip


class Pace(Settings):
    """The rise and fall of the learning rate, and Adam's memory."""

    lr: float = setting(..., "peak learning rate", gt=0, le=1e3, section="The optimiser")
    min_lr_frac: float = setting(
        0.1, "final learning rate, as a fraction of the peak learning rate", ge=0, le=1, option=False,
    )  # fmt: skip
    warmup: float = setting(
        0.1, "length of the learning rate warm-up; below 1: a fraction of all steps; 1 or more: a number of steps",
        ge=0, le=10**9, option=False,
    )  # fmt: skip
    schedule: Literal["cosine", "linear", "wsd", "noam", "constant"] = setting(
        "cosine", "how the learning rate falls after the warm-up", option=False
    )
    decay: float = setting(
        0.2, "with schedule = wsd: fraction of the steps in which the learning rate falls", gt=0, le=1, option=False,
    )  # fmt: skip
    beta1: float = setting(0.9, "Adam: decay rate of the moving average of gradients", ge=0, lt=1, option=False)
    beta2: float = setting(
        0.999, "Adam: decay rate of the moving average of squared gradients", ge=0, lt=1, option=False,
    )  # fmt: skip

    @checked
    def _pace_is_heard(self) -> None:
        refuse_idle(self, _IDLE_PACE)


class Runs(Settings):
    """The place of a run, its checkpoints and its log."""

    seed: int = setting(
        1, "random seed for pairs, text order, word deletion and initial weights", ge=0, lt=2**32, expert=True,
        section="Where and how it runs",
    )  # fmt: skip
    threads: int = setting(
        0, "number of CPU threads (0 = one per core); another number of threads gives slightly different weights", ge=0,
        le=1024, expert=True,
    )  # fmt: skip
    checkpoint_seconds: float = setting(60, "seconds between checkpoints", gt=0, recipe=False, option=False)
    checkpoint_steps: int = setting(
        0, "number of steps between additional checkpoints; 0 = no additional checkpoints", ge=0, recipe=False,
        option=False,
    )  # fmt: skip
    report_every: int = setting(10, "number of steps between two rows of the log", ge=1, recipe=False, option=False)
    eval_every: int = setting(
        0, "number of steps between two validations; 0 = five validations per run", ge=0, recipe=False, option=False,
    )  # fmt: skip
    valid_pairs: int = setting(
        1_000, "number of held-out pairs in which a validation searches the matching texts", ge=2, le=100_000,
        recipe=False, option=False,
    )  # fmt: skip


class Table(Settings):
    """The first values of a static table, and its last ones."""

    unit: Literal["auto", "word", "token"] = setting(
        "auto", "which units get a vector: words, or the tokens of the tokenizer; auto: words, but tokens if the text has "
        "no spaces between words", section="The static table", expert=True,
    )  # fmt: skip
    store: Literal["int8", "float16", "float32"] = setting(
        "int8", "number format of the stored table: int8 (a byte for each number, and a factor for each row), float16 or "
        "float32", expert=True,
    )  # fmt: skip
    words: Path | None = setting(
        None, "start with the vectors of this words artifact", metavar="WORDS", artifact=("words",)
    )
    words_weight: float | None = setting(
        None, "weight of the word vectors in the initial table; default: 0.25 for search, 1 for similarity", ge=0,
        le=1000, option=False,
    )  # fmt: skip
    lexical_weight: float | None = setting(
        None, "weight of the random vectors in the initial table (one vector per word stem); they make texts with the "
        "same words similar; default: 0.5 for search, 1 for similarity", ge=0, le=1000, expert=True,
    )  # fmt: skip
    lexical_dim: int = setting(512, "number of dimensions of the random vectors", ge=1, le=4096, option=False)
    lsi_weight: float | None = setting(
        None, "weight of latent semantic indexing in the initial table; it makes words of the same documents similar; "
        "default: 1 for search, 0 for similarity", ge=0, le=1000, expert=True,
    )  # fmt: skip
    lsi_dim: int = setting(300, "number of dimensions of latent semantic indexing", ge=1, le=4096, option=False)
    weighting: Literal["sif", "idf"] | None = setting(
        None, "initial weight of a word: sif (from the frequency of the word) or idf (from the number of passages that "
        "contain the word stem); default: idf for search, sif for similarity", option=False,
    )  # fmt: skip
    sif_a: float = setting(
        1e-3, "with weighting = sif, a word with relative frequency p gets the weight sif_a / (sif_a + p)", gt=0, le=1,
        option=False,
    )  # fmt: skip
    number_weight: float = setting(
        2.0, "with goal = similarity: factor for the weight of numbers, applied after the training", gt=0, le=1000,
        option=False,
    )  # fmt: skip
    punctuation_weight: float = setting(
        0.5, "with goal = similarity: factor for the weight of tokens without a letter or digit, applied after the "
        "training", gt=0, le=1000, option=False,
    )  # fmt: skip
    piece_weight: float = setting(
        0.5, "with goal = similarity: factor for the weight of word pieces that do not begin a word, applied after the "
        "training", gt=0, le=1000, option=False,
    )  # fmt: skip
    negation_weight: float = setting(
        0.3, "with goal = similarity: length of the vector that is added to English negation words, for example not (a "
        "sentence vector has a length of about 1)", ge=0, le=1000, option=False,
    )  # fmt: skip
    min_count: int | None = setting(
        None, "number of occurrences that a word needs to get a vector; default: 2, or 1 for search with at most "
        "100,000 different words", ge=1, expert=True,
    )  # fmt: skip
    init: Path | None = setting(
        None, "start from the table of this model (made by `train static`)", metavar="MODEL", artifact=("model",),
    )  # fmt: skip
    teacher: Path | None = setting(
        None, "make the table from this encoder (for example an imported one): texts get vectors near those of the "
        "encoder; training on pairs follows only with --steps, --epochs or --minutes", metavar="MODEL",
        artifact=("model", "words"),
    )  # fmt: skip
    teacher_texts: int = setting(
        20_000, "maximum number of texts of the corpus that the teacher reads", ge=1, le=10_000_000, option=False,
    )  # fmt: skip


class Start(Settings):
    """The model that a transformer begins as, its pooling, and its teacher."""

    init: Path | None = setting(
        None, "start from the weights of this model (made by `train mlm` or `train contrastive`)", metavar="MODEL",
        artifact=("model",), section="The transformer and its initial weights",
    )  # fmt: skip
    learn: Literal["auto", "all", "layer"] = setting(
        "auto", "what learns; all: all weights of the model; layer: only a linear layer after the pooling, which takes "
        "minutes and is left out if it finds held-out texts no better; auto: layer if --init is an imported encoder and "
        "neither steps, epochs nor minutes is set, otherwise all", expert=True,
    )  # fmt: skip
    init_embeddings: Path | None = setting(
        None, "without --init: start with these token vectors (a words artifact or a static encoder, trained with "
        "--unit token); at first, the vector of a text is their mean", metavar="WORDS|MODEL",
        artifact=("words", "model"), expert=True,
    )  # fmt: skip
    preset: PresetName = setting("mini", "without --init: size of the model", expert=True)
    dim: int | None = setting(
        None, "without --init: width of the model; default: the width of the --init-embeddings vectors if it is a "
        "multiple of 64, otherwise the width of the preset", ge=2, le=16_384, expert=True,
    )  # fmt: skip
    n_layers: int | None = setting(
        None, "without --init: number of transformer blocks; default: the number of the preset", ge=1, le=256,
        expert=True,
    )  # fmt: skip
    dropout: float = setting(
        0.1, "share of each block's output that is set to zero in training", ge=0, lt=1, expert=True,
    )  # fmt: skip
    pooling: Pooling | None = setting(
        None, "how token vectors are combined into the vector of a text; mean: all tokens have the same weight; "
        "weighted: a token with relative frequency p in the training text has the weight sif_a / (sif_a + p); default: "
        "the pooling of the --init model, or weighted without --init", expert=True,
    )  # fmt: skip
    sif_a: float = setting(
        1e-3, "with pooling = weighted, a token with relative frequency p has the weight sif_a / (sif_a + p)", gt=0,
        le=1, option=False,
    )  # fmt: skip
    longest: int = setting(
        0, "maximum number of tokens in a sequence, including special tokens; 0 = the maximum of the model", ge=0,
        le=65_536, option=False,
    )  # fmt: skip
    teacher: Path | None = setting(
        None, "teacher encoder: the model also learns from this encoder how similar the texts of a batch are",
        metavar="MODEL|WORDS", artifact=("model", "words"), expert=True,
    )  # fmt: skip
    teacher_weight: float = setting(
        1.0, "weight of the teacher's loss, compared with the contrastive loss", gt=0, le=1000, option=False
    )
    teacher_temperature: float = setting(0.05, "temperature of the teacher's softmax", gt=0, le=10, option=False)

    @checked
    def _one_start(self) -> None:
        refuse_two_starts(self, "init", "init_embeddings")
        shape = sorted({"preset", "dim", "n_layers"} & self.model_fields_set)
        if self.init is not None and shape:
            raise ValueError(
                f"{', '.join(shape)} cannot be set together with init, because the init model already has a size"
            )

    @checked
    def _start_is_heard(self) -> None:
        if self.learn == "layer" and self.init is None:
            raise ValueError("learn = layer needs an encoder, but init is not set")
        refuse_idle(self, _IDLE_START)


class StaticSettings(Runs, Pace, Table, Contrast, FromPairs):
    """Training of a table of word vectors, whose sums are the vectors of texts, on pairs that belong together."""

    command = "train static"
    usual_batch = 1_024

    lr: float = setting(
        0.01, "peak learning rate, relative to the initial values of a table row", gt=0, le=1e3,
        section="The optimiser",
    )  # fmt: skip

    @classmethod
    def instead(cls, name: str) -> str:
        if name in ContrastiveSettings.model_fields:
            return "this setting belongs to wordpipe train contrastive, which trains a transformer"
        return _ENCODER if name == "encoder" else ""

    @checked
    def _table_is_heard(self) -> None:
        refuse_two_starts(self, "init", "words", "teacher")
        refuse_idle(self, _IDLE_TABLE)

    @property
    def trains(self) -> bool:
        """True if the table learns from pairs: one that is made from a teacher does so only if a length is given."""
        return self.teacher is None or not (self.steps is None and self.epochs is None and self.minutes is None)

    @property
    def parts(self) -> TableParts:
        """The shares of the parts that the static table begins with: those given, else those of the goal.

        A teacher's table has no other part beside it, unless it is asked for.
        """
        usual = _PARTS[self.goal]
        if self.teacher is not None:
            usual = usual._replace(lexical=0.0, lsi=0.0)
        return TableParts(
            usual.words if self.words_weight is None else self.words_weight,
            usual.lexical if self.lexical_weight is None else self.lexical_weight,
            usual.lsi if self.lsi_weight is None else self.lsi_weight,
            self.min_count or usual.min_count,
        )

    def recipe(self) -> dict[str, Any]:
        """See `Settings.recipe`: the parts, resolved, so that a default that is written out changes nothing."""
        words, lexical, lsi, min_count = self.parts
        parts = {"words_weight": words, "lexical_weight": lexical, "lsi_weight": lsi, "min_count": min_count}
        return super().recipe() | parts

    @property
    def word_weighting(self) -> Literal["sif", "idf"]:
        """The first weighting of words: the one given, else that of the goal."""
        return self.weighting or ("idf" if self.goal == "search" else "sif")

    @property
    def finish(self) -> dict[str, float]:
        """The weights of kinds of words after a training for similarity, by the names of the settings."""
        return {name: getattr(self, name) for name in _FINISH}


class ContrastiveSettings(Runs, Pace, Start, Contrast, FromPairs):
    """Training of a transformer, which reads words in their context, on pairs that belong together."""

    command = "train contrastive"
    usual_batch = 128

    lr: float = setting(3e-4, "peak learning rate", gt=0, le=1e3, section="The optimiser")
    pair_dropout: float | None = setting(
        None, "share of pairs that are two copies of one sentence, with different dropout for each copy", ge=0, le=1,
        option=False,
    )  # fmt: skip
    weight_decay: float = setting(0.01, "decoupled weight decay, on matrices only", ge=0, le=10, option=False)
    clip: float = setting(1.0, "maximum norm of the gradient of a step; 0 = no limit", ge=0, option=False)
    device: Literal["auto", "cpu", "cuda", "mps"] = setting("auto", "where to train", expert=True)
    dtype: Literal["auto", "float32", "bfloat16"] = setting(
        "auto",
        "number format of matrix products; auto: bfloat16 where the hardware supports it, otherwise float32",
        option=False,
    )

    @classmethod
    def instead(cls, name: str) -> str:
        if name in StaticSettings.model_fields:
            return "this setting belongs to wordpipe train static, which trains a table of vectors"
        return _ENCODER if name == "encoder" else ""

    @property
    def knows_dropout(self) -> bool:
        """True if it starts from a model; one that does not learns what a table learns.

        One that begins as a mean of vectors knows a sentence again under any dropout: from its first step the loss of dropout
        pairs is 0.003 nats (mini, 128 pairs, where chance is 4.85), and nothing is learned.
        """
        return self.init is not None


EncoderSettings = StaticSettings | ContrastiveSettings
"""Of either encoder."""

_ENCODER = (
    "use wordpipe train static for a static encoder, or wordpipe train contrastive for a transformer (in a config "
    'file: command = "train static" or "train contrastive")'
)
_IDLE_PACE: tuple[Idle, ...] = (
    (("decay",), lambda one: one.schedule != "wsd", "only schedule = wsd uses decay"),
    (("min_lr_frac",), lambda one: one.schedule == "constant", "schedule = constant never lowers the learning rate"),
)
_TRAINING = (
    "pairs", "batch_size", "lr", "warmup", "schedule", "temperature", "false_negatives", "max_similarity",
    *(f"pair_{kind}" for kind in ("neighbour", "crop", "title", "deletion", "file")),
)  # fmt: skip
_IDLE_TABLE: tuple[Idle, ...] = (
    (
        ("lexical_weight", "lexical_dim", "lsi_weight", "lsi_dim", "weighting", "sif_a"),
        lambda one: one.init is not None,
        "with init, the initial table comes from the init model",
    ),
    (("words_weight",), lambda one: one.words is None, "no words artifact is given"),
    (("teacher_texts",), lambda one: one.teacher is None, "no teacher is given"),
    (
        _TRAINING,
        lambda one: not one.trains,
        "a table from a teacher is trained on pairs only with steps, epochs or minutes",
    ),
    (_FINISH, lambda one: one.teacher is not None, "a table from a teacher does not change after the training"),
    (("lexical_dim",), lambda one: not one.parts.lexical, "lexical_weight is 0"),
    (("lsi_dim",), lambda one: not one.parts.lsi, "lsi_weight is 0"),
    (_FINISH, lambda one: one.goal == "search", "with goal = search, the table does not change after the training"),
    (
        ("punctuation_weight", "piece_weight"),
        lambda one: one.unit != "token",
        "only with unit = token; with unit = word, the table has no punctuation and no word pieces",
    ),
    (("min_count",), lambda one: one.unit == "token", "with unit = token, every token of the tokenizer has a vector"),
    (("sif_a",), lambda one: one.word_weighting == "idf", "the weights of words are idf (sif_a needs weighting = sif)"),
)
_OF_ALL = (
    *_TRAINING, "epochs", "minutes", "weight_decay", "clip", "dtype", "dropout", "pooling", "longest", "teacher",
    "pair_dropout", "valid_pairs", "eval_every",
)  # fmt: skip
IDLE_BESIDE_LAYER: tuple[Idle, ...] = (
    (_OF_ALL, lambda one: one.learn == "layer", "only a linear layer learns (use learn = all to train all weights)"),
)
_IDLE_START: tuple[Idle, ...] = (
    *IDLE_BESIDE_LAYER,
    (("teacher_weight", "teacher_temperature"), lambda one: one.teacher is None, "no teacher is given"),
    (("sif_a",), lambda one: one.pooling == "mean", "with pooling = mean, all tokens have the same weight"),
    (
        ("sif_a",),
        lambda one: one.init is not None and one.pooling is None,
        "the token weights come from the init model (set pooling = weighted to compute new weights)",
    ),
)
