"""Settings of `wordpipe train contrastive`. Imports nothing heavy."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from pydantic import model_validator

from wordpipe.model import PresetName
from wordpipe.settings import Settings, minutes_setting, setting
from wordpipe.training.settings import STEPS_OR_EPOCHS, refuse_two_lengths

Goal = Literal["similarity", "search"]
Pooling = Literal["mean", "weighted"]
PairKind = Literal["dropout", "neighbour", "crop", "title", "deletion", "pairs"]
KINDS: tuple[PairKind, ...] = ("dropout", "neighbour", "crop", "title", "deletion", "pairs")
"""The kinds of pairs, by their source; a pair's `kind` is the place in this tuple."""

DEFAULT_POOLING: Pooling = "weighted"
_LR = {"static": 0.01, "transformer": 3e-4}
LEAST_STEPS = 200  # where nobody says how long

_FINISH = ("number_weight", "punctuation_weight", "piece_weight", "negation_weight")
_STATIC = (
    "unit", "words", "words_weight", "lexical_weight", "lexical_dim", "lsi_weight", "lsi_dim", "weighting", "min_count",
    *_FINISH,
)  # fmt: skip
_TRANSFORMER = (
    "preset", "dim", "n_layers", "init_embeddings", "dropout", "pooling", "teacher", "teacher_weight",
    "teacher_temperature", "weight_decay", "clip", "longest", "device", "dtype",
)  # fmt: skip


class TableParts(NamedTuple):
    """The shares of the parts of a static table, and how often a word has to come to be in it."""

    words: float
    lexical: float
    lsi: float
    min_count: int


_PARTS: dict[Goal, TableParts] = {"similarity": TableParts(1.0, 1.0, 0.0, 2), "search": TableParts(0.25, 0.5, 1.0, 1)}
"""By goal. For search, chosen on Cranfield, CISI, NPL and CACM so that vectors alone are significantly below LSI on none:
with equal lexical and latent shares they were, on Cranfield; hybrid search changed by 0.1 points of nDCG@10."""


_TABLE = 2
"""What a static table begins and ends as, in recipes: 2 has latent directions of titles, those of n-grams, and a finish."""


def default_shares(goal: Goal, encoder: str) -> dict[PairKind, float]:
    """Where pairs come from when nobody says.

    For a transformer and similarity the sentence itself, seen through dropout (SimCSE, Gao et al. 2021, table 2: 82.5 against
    67.1 for neighbours and 75.9 for deletion). For search spans of one document (Contriever, Izacard et al. 2022, table 6:
    33.8 with deletion against 25.9 for a sentence and its surroundings) and titles, which are the nearest to questions. A
    static table has no dropout, so its sentences lose words instead.
    """
    if goal == "search":
        return {"crop": 0.7, "title": 0.3}
    return {"dropout": 1.0} if encoder == "transformer" else {"deletion": 0.5, "neighbour": 0.5}


class ContrastiveSettings(Settings):
    """How to train an encoder of texts on pairs that belong together."""

    command = "train contrastive"

    displaces = STEPS_OR_EPOCHS

    encoder: Literal["static", "transformer"] = setting(
        "static",
        "static: one vector per word, added up, 100 times as fast; transformer: words are read in their context",
    )
    goal: Goal = setting(
        "similarity",
        "similarity: texts that say the same are near; search: a question is near the text that answers it",
    )
    steps: int | None = setting(None, "optimiser steps", ge=1, le=10**9)
    epochs: float | None = setting(
        None, "passes over the sentences, instead of steps; with neither: 1, and at least 200 steps", gt=0, le=10**6
    )
    minutes: float | None = minutes_setting()
    batch_size: int | None = setting(
        None, "pairs per step, each the negative of all others; else 1024 for static, 128 for a transformer, or one for each "
        "sentence where there are fewer", ge=2, le=65_536,
    )  # fmt: skip

    pairs: Path | None = setting(
        None, "pairs of your own: a Parquet or JSON Lines file, of which the first two text columns are read",
        metavar="FILE", artifact=("file",),  # by its content, whatever its name
        section="The pairs (shares; with none given they follow the goal)",
    )  # fmt: skip
    pair_dropout: float | None = setting(
        None, "share of pairs that are one sentence twice, told apart by the model's dropout alone", ge=0, le=1,
        option=False,
    )  # fmt: skip
    pair_neighbour: float | None = setting(
        None, "share: a sentence and the next one of its document", ge=0, le=1, option=False
    )
    pair_crop: float | None = setting(None, "share: two random spans of one document", ge=0, le=1, option=False)
    pair_title: float | None = setting(None, "share: a document's title and a span of it", ge=0, le=1, option=False)
    pair_deletion: float | None = setting(
        None, "share: one sentence twice, other words left out of each", ge=0, le=1, option=False
    )
    pair_file: float | None = setting(
        None, "share: from the file of pairs; else half where one is given", ge=0, le=1, option=False
    )
    deletion_rate: float = setting(0.2, "words left out of deletion pairs and of crops", ge=0, le=0.9, option=False)
    max_words: int = setting(
        256, "words (or tokens) of a text that are read; longer ones are cut, and counted", ge=8, option=False
    )

    temperature: float = setting(
        0.05, "of the softmax over the batch: lower looks harder at near misses", gt=0, le=10, section="The loss",
        expert=True,
    )  # fmt: skip
    false_negatives: Literal["keep", "drop"] = setting(
        "drop", "texts of the same document, or the same text again, as negatives of each other", expert=True
    )
    max_similarity: float = setting(
        1.0, "negatives with a cosine above this are left out as likely to mean the same; 1 = none", gt=0, le=1,
        option=False,
    )  # fmt: skip

    unit: Literal["word", "token"] = setting(
        "word", "static: what has a vector, words or the tokenizer's tokens", section="The static table", expert=True
    )
    words: Path | None = setting(
        None, "static: begin with the vectors of this words artifact", metavar="WORDS", artifact=("words",)
    )
    words_weight: float | None = setting(
        None,
        "static: share of the word vectors in the table it begins with; else 0.25 for search, 1 for similarity",
        ge=0,
        le=1000,
        option=False,
    )
    lexical_weight: float | None = setting(
        None,
        "static: share of random directions, one for each stem, by which equal words alone meet; else 0.5 for search, 1 for "
        "similarity", ge=0, le=1000, expert=True,
    )  # fmt: skip
    lexical_dim: int = setting(512, "static: numbers of these directions", ge=1, le=4096, option=False)
    lsi_weight: float | None = setting(
        None,
        "static: share of latent semantic indexing, which words stand in the same documents; else 1 for search, 0 for "
        "similarity", ge=0, le=1000, expert=True,
    )  # fmt: skip
    lsi_dim: int = setting(300, "static: numbers of these", ge=1, le=4096, option=False)
    weighting: Literal["sif", "idf"] | None = setting(
        None,
        "static: what a word begins to weigh, by its share of the text or by how few passages hold its stem; else idf for "
        "search, sif for similarity", option=False,
    )  # fmt: skip
    sif_a: float = setting(
        1e-3, "static: by sif a word of share p in the text weighs a / (a + p)", gt=0, le=1, option=False
    )
    number_weight: float = setting(
        2.0, "static, for similarity: how much more numbers weigh after the training", gt=0, le=1000, option=False
    )  # fmt: skip
    punctuation_weight: float = setting(
        0.5, "static, for similarity: so do tokens without a letter or digit", gt=0, le=1000, option=False
    )
    piece_weight: float = setting(
        0.5, "static, for similarity: so do tokens that only continue a word", gt=0, le=1000, option=False
    )
    negation_weight: float = setting(
        0.3, "static, for similarity: length of the direction of English words that deny, sentences being about 1 long",
        ge=0, le=1000, option=False
    )  # fmt: skip
    min_count: int | None = setting(
        None,
        "static: rarer words get no vector; else 2, but 1 for search in up to 100,000 different words",
        ge=1,
        expert=True,
    )

    init: Path | None = setting(
        None,
        "start from the weights of this model: of `train mlm`, or an earlier `train contrastive` of the same encoder",
        metavar="MODEL", artifact=("model",), section="The transformer, and what it starts from",
    )  # fmt: skip
    init_embeddings: Path | None = setting(
        None,
        "transformer without --init: begin as the mean of these vectors, of words or a static encoder trained with --unit "
        "token; context is learned on top", metavar="WORDS|MODEL", artifact=("words", "model"), expert=True,
    )  # fmt: skip
    preset: PresetName = setting("mini", "transformer without --init: its size", expert=True)
    dim: int | None = setting(
        None,
        "transformer without --init: its width, else that of the vectors it begins with (multiples of 64), else the preset's",
        ge=2, le=16_384, expert=True,
    )  # fmt: skip
    n_layers: int | None = setting(
        None, "transformer without --init: its blocks, else the preset's", ge=1, le=256, expert=True
    )
    dropout: float = setting(
        0.1, "transformer: share of each block's output zeroed in training", ge=0, lt=1, expert=True
    )
    pooling: Pooling | None = setting(
        None,
        "transformer: mean of its tokens, or a mean in which a token of share p of this text weighs sif_a / (sif_a + p); "
        "else as the model of --init does, with its weights, and weighted where there is none", expert=True,
    )  # fmt: skip
    longest: int = setting(
        0, "transformer: positions of a sequence, special tokens included, 0 = the model's", ge=0, le=65_536,
        option=False,
    )  # fmt: skip
    teacher: Path | None = setting(
        None, "transformer: also learn how alike this encoder finds the texts of a batch", metavar="MODEL|WORDS",
        artifact=("model", "words"), expert=True,
    )  # fmt: skip
    teacher_weight: float = setting(1.0, "weight of that loss beside the contrast", gt=0, le=1000, option=False)
    teacher_temperature: float = setting(
        0.05, "of the softmax over the teacher's similarities", gt=0, le=10, option=False
    )

    lr: float | None = setting(
        None, "peak learning rate; else 0.01 for static (a share of what a row begins as), 3e-4 for a transformer",
        gt=0, le=1e3, section="The optimiser",
    )  # fmt: skip
    min_lr_frac: float = setting(0.1, "learning rate at the end, as a share of the peak", ge=0, le=1, option=False)
    warmup: float = setting(
        0.1, "steps in which the learning rate rises: a share below 1, a number of steps from 1 on", ge=0, le=10**9,
        option=False,
    )  # fmt: skip
    schedule: Literal["cosine", "linear", "wsd", "noam", "constant"] = setting(
        "cosine", "how the learning rate falls after the warm-up", option=False
    )
    decay: float = setting(0.2, "share of the steps in which a wsd schedule falls", gt=0, le=1, option=False)
    beta1: float = setting(0.9, "Adam's memory of gradients", ge=0, lt=1, option=False)
    beta2: float = setting(0.999, "Adam's memory of squared gradients", ge=0, lt=1, option=False)
    weight_decay: float = setting(
        0.01, "transformer: decoupled weight decay, on matrices only", ge=0, le=10, option=False
    )
    clip: float = setting(1.0, "transformer: largest norm of a step's gradient, 0 = no limit", ge=0, option=False)

    seed: int = setting(1, "seed of pairs, order, deletion and first weights", ge=0, lt=2**32, expert=True,
                        section="Where and how it runs")  # fmt: skip
    device: Literal["auto", "cpu", "cuda", "mps"] = setting("auto", "transformer: where to train", expert=True)
    dtype: Literal["auto", "float32", "bfloat16"] = setting(
        "auto",
        "transformer: numbers in matrix products; auto: bfloat16 where the device has units for it, else float32",
        option=False,
    )
    threads: int = setting(
        0, "CPU threads, 0 = one per core; another number gives slightly other weights", ge=0, le=1024, expert=True
    )
    checkpoint_seconds: float = setting(60, "seconds between checkpoints", gt=0, recipe=False, option=False)
    checkpoint_steps: int = setting(
        0, "also a checkpoint every this many steps, 0 = by time only", ge=0, recipe=False, option=False
    )
    report_every: int = setting(10, "steps between two rows of the log", ge=1, recipe=False, option=False)
    eval_every: int = setting(0, "steps between validations, 0 = five over the run", ge=0, recipe=False, option=False)
    valid_pairs: int = setting(
        1_000, "held-out pairs among which partners are looked for", ge=2, le=100_000, recipe=False, option=False
    )

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        refuse_two_lengths(self.steps, self.epochs)
        return self

    @model_validator(mode="after")
    def _pairs_are_there(self) -> Self:
        if self.pair_file and self.pairs is None:
            raise ValueError(f"pair_file = {self.pair_file:g} needs pairs: the file")
        if not sum(self.shares.values()):
            raise ValueError("no kind of pair has a share above 0")
        return self

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
    def _all_do_something(self) -> Self:
        given = {name for name in self.model_fields_set if getattr(self, name) is not None}
        for names, is_idle, why in _IDLE:
            if (idle := sorted(given.intersection(names))) and is_idle(self):
                raise ValueError(f"{', '.join(idle)} would change nothing: {why}")
        return self

    def pairs_per_step(self, n_pairs: int) -> int:
        """The batch size, resolved: where nobody says it, a step has no more pairs than there are sentences.

        More would be the same sentences again, which are no negatives of each other: 149 sentences of the handbook found their
        texts by held-out titles with nDCG@10 of 87.2 in steps of 149 pairs, 87.9 in steps of 1,024 (both ± 2).

        Args:
            n_pairs: of one pass over the training text.
        """
        usual = 1_024 if self.encoder == "static" else 128
        return self.batch_size or (usual if self.pairs is not None else min(usual, max(2, n_pairs)))

    @property
    def parts(self) -> TableParts:
        """What the static table begins as, resolved."""
        usual = _PARTS[self.goal]
        return TableParts(
            usual.words if self.words_weight is None else self.words_weight,
            usual.lexical if self.lexical_weight is None else self.lexical_weight,
            usual.lsi if self.lsi_weight is None else self.lsi_weight,
            self.min_count or usual.min_count,
        )

    def recipe(self) -> dict[str, Any]:
        """See `Settings.recipe`: the parts as they come to, so that a default that is written out changes nothing."""
        words, lexical, lsi, min_count = self.parts if self.encoder == "static" else _PARTS["similarity"]
        parts = {"words_weight": words, "lexical_weight": lexical, "lsi_weight": lsi, "min_count": min_count}
        recipe = super().recipe() | parts | ({} if lsi else {"lsi_dim": 256})
        if self.encoder != "static" or self.goal != "similarity":  # these are never finished
            recipe = {name: value for name, value in recipe.items() if name not in _FINISH}
        return recipe | ({"table": _TABLE} if self.encoder == "static" else {})

    @property
    def word_weighting(self) -> Literal["sif", "idf"]:
        """How words begin to weigh, resolved."""
        return self.weighting or ("idf" if self.goal == "search" else "sif")

    @property
    def finish(self) -> dict[str, float]:
        """What kinds of words weigh after a training for similarity, by the names of the settings."""
        return {name: getattr(self, name) for name in _FINISH}

    @property
    def peak_lr(self) -> float:
        """The peak learning rate, resolved."""
        return self.lr or _LR[self.encoder]

    @property
    def shares(self) -> dict[PairKind, float]:
        """The share of each kind of pair, adding up to 1 where any is above 0; those given, else those of the goal.

        A transformer that does not start from a model learns what a table learns. One that begins as a mean of vectors knows
        a sentence again under any dropout: from its first step the loss of dropout pairs is 0.003 nats (mini, 128 pairs,
        where chance is 4.85), and nothing is learned.
        """
        given: dict[PairKind, float | None] = {
            "dropout": self.pair_dropout, "neighbour": self.pair_neighbour, "crop": self.pair_crop,
            "title": self.pair_title, "deletion": self.pair_deletion,
        }  # fmt: skip
        rest = default_shares(self.goal, "static" if self.init is None else self.encoder)
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
        """How many steps: those given, else by epochs, else one pass and at least 200.

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


_IDLE: tuple[tuple[tuple[str, ...], Callable[[ContrastiveSettings], bool], str], ...] = (
    (
        ("lexical_weight", "lexical_dim", "lsi_weight", "lsi_dim", "weighting", "sif_a"),
        lambda one: one.encoder == "static" and one.init is not None,
        "a static encoder of init begins with its own table",
    ),
    (("words_weight",), lambda one: one.words is None, "there are no words"),
    (("lexical_dim",), lambda one: not one.parts.lexical, "lexical_weight is 0"),
    (("lsi_dim",), lambda one: not one.parts.lsi, "lsi_weight is 0"),
    (("teacher_weight", "teacher_temperature"), lambda one: one.teacher is None, "there is no teacher"),
    (
        _FINISH,
        lambda one: one.goal == "search",
        "for search the table stays as it was trained",
    ),
    (
        ("punctuation_weight", "piece_weight"),
        lambda one: one.encoder == "static" and one.unit == "word",
        "words are neither punctuation nor pieces",
    ),
    (("min_count",), lambda one: one.unit == "token", "every token of the tokenizer has a vector"),
    (
        ("sif_a",),
        lambda one: one.encoder == "static" and one.word_weighting == "idf",
        "words weigh by idf: give weighting = sif",
    ),
    (("sif_a",), lambda one: one.pooling == "mean", "in a mean all tokens weigh alike"),
    (
        ("sif_a",),
        lambda one: one.init is not None and one.pooling is None,
        "the weights of init are taken over: give pooling = weighted to count them anew",
    ),
    (
        ("pair_dropout",),
        lambda one: one.encoder == "static" and bool(one.pair_dropout),
        "a static table has no dropout that tells a text from itself",
    ),
    (("decay",), lambda one: one.schedule != "wsd", "only schedule = wsd has such a fall"),
    (("min_lr_frac",), lambda one: one.schedule == "constant", "the learning rate of schedule = constant never falls"),
)
"""Settings, when they do nothing, and why."""
