"""Settings of `wordpipe train contrastive`. Imports nothing heavy."""

from pathlib import Path
from typing import Literal, Self

from pydantic import model_validator

from wordpipe.settings import Settings, setting
from wordpipe.training.duration import STEPS_OR_EPOCHS, refuse_two_lengths

__all__ = ["KINDS", "ContrastSettings", "Goal", "PairKind", "default_shares"]

Goal = Literal["similarity", "search"]
PairKind = Literal["dropout", "neighbour", "crop", "title", "deletion", "pairs"]

KINDS: tuple[PairKind, ...] = ("dropout", "neighbour", "crop", "title", "deletion", "pairs")
"""Where a pair can come from; a pair's `kind` is the place in this tuple."""


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


class ContrastSettings(Settings):
    """How to train an encoder of texts on pairs that belong together."""

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
    batch_size: int | None = setting(
        None,
        "pairs per step, each the negative of all others; else 1024 for static, 128 for a transformer",
        ge=2,
        le=65_536,
    )

    pairs: Path | None = setting(
        None,
        "pairs of your own: a Parquet or JSON Lines file, of which the first two text columns are read",
        metavar="FILE",
        artifact=("file",),  # by its content, whatever its name
        section="The pairs (shares; with none given they follow the goal)",
    )
    pair_dropout: float | None = setting(
        None, "share of pairs that are one sentence twice, told apart by the model's dropout alone", ge=0, le=1
    )
    pair_neighbour: float | None = setting(None, "share: a sentence and the next one of its document", ge=0, le=1)
    pair_crop: float | None = setting(None, "share: two random spans of one document", ge=0, le=1)
    pair_title: float | None = setting(None, "share: a document's title and a span of it", ge=0, le=1)
    pair_deletion: float | None = setting(None, "share: one sentence twice, other words left out of each", ge=0, le=1)
    pair_file: float | None = setting(None, "share: from the file of pairs; else half where one is given", ge=0, le=1)
    deletion_rate: float = setting(0.2, "words left out of deletion pairs and of crops", ge=0, le=0.9)
    max_words: int = setting(256, "words (or tokens) of a text that are read; longer ones are cut, and counted", ge=8)

    temperature: float = setting(
        0.05, "of the softmax over the batch: lower looks harder at near misses", gt=0, le=10, section="The loss"
    )
    queue: int = setting(0, "texts of earlier steps that serve as further negatives", ge=0, le=1_000_000)
    false_negatives: Literal["keep", "drop"] = setting(
        "drop", "texts of the same document, or the same text again, as negatives of each other"
    )
    max_similarity: float = setting(
        1.0, "negatives with a cosine above this are left out as likely to mean the same; 1 = none", gt=0, le=1
    )

    unit: Literal["word", "token"] = setting(
        "word", "static: what has a vector, words or the tokenizer's tokens", section="The static table"
    )
    words: Path | None = setting(
        None, "static: begin with the vectors of this words artifact", metavar="WORDS", artifact=("words",)
    )
    words_weight: float = setting(1.0, "static: share of the word vectors in the table it begins with", ge=0, le=1000)
    lexical_weight: float = setting(
        1.0, "static: share of random directions, one for each stem, by which equal words alone meet", ge=0, le=1000
    )
    lexical_dim: int = setting(512, "static: numbers of these directions", ge=1, le=4096)
    lsi_weight: float = setting(
        0.0, "static: share of latent semantic indexing, which words stand in the same documents", ge=0, le=1000
    )
    lsi_dim: int = setting(256, "static: numbers of these", ge=1, le=4096)
    weighting: Literal["sif", "idf"] | None = setting(
        None,
        "static: what a word begins to weigh, by its share of the text or by how few passages hold its stem; else idf for "
        "search, sif for similarity",
    )
    sif_a: float = setting(1e-3, "static: by sif a word of share p in the text weighs a / (a + p)", gt=0, le=1)
    min_count: int = setting(2, "static: rarer words get no vector", ge=1)

    lr: float | None = setting(
        None,
        "peak learning rate; else 0.01 for static (a share of what a row begins as), 3e-4 for a transformer",
        gt=0,
        le=1e3,
        section="The optimiser",
    )
    min_lr_frac: float = setting(0.1, "learning rate at the end, as a share of the peak", ge=0, le=1)
    warmup: float = setting(
        0.1, "steps in which the learning rate rises: a share below 1, a number of steps from 1 on", ge=0, le=10**9
    )
    schedule: Literal["cosine", "linear", "wsd", "noam", "constant"] = setting(
        "cosine", "how the learning rate falls after the warm-up"
    )
    decay: float = setting(0.2, "share of the steps in which a wsd schedule falls", gt=0, le=1)
    beta1: float = setting(0.9, "Adam's memory of gradients", ge=0, lt=1)
    beta2: float = setting(0.999, "Adam's memory of squared gradients", ge=0, lt=1)

    seed: int = setting(1, "seed of pairs, order, deletion and first weights", ge=0, lt=2**32,
                        section="Where and how it runs")  # fmt: skip
    threads: int = setting(
        0, "CPU threads, 0 = one per core; another number gives slightly other weights", ge=0, le=1024
    )
    checkpoint_seconds: float = setting(60, "seconds between checkpoints", gt=0, recipe=False)
    checkpoint_steps: int = setting(0, "also a checkpoint every this many steps, 0 = by time only", ge=0, recipe=False)
    report_every: int = setting(10, "steps between two rows of the log", ge=1, recipe=False)
    eval_every: int = setting(0, "steps between validations, 0 = five over the run", ge=0, recipe=False)
    valid_pairs: int = setting(
        1_000, "held-out pairs among which partners are looked for", ge=2, le=100_000, recipe=False
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

    @property
    def pairs_per_step(self) -> int:
        """The batch size, resolved."""
        return self.batch_size or (1_024 if self.encoder == "static" else 128)

    @property
    def word_weighting(self) -> Literal["sif", "idf"]:
        """How words begin to weigh, resolved."""
        return self.weighting or ("idf" if self.goal == "search" else "sif")

    @property
    def shares(self) -> dict[PairKind, float]:
        """The share of each kind of pair, adding up to 1 where any is above 0; those given, else those of the goal."""
        given: dict[PairKind, float | None] = {
            "dropout": self.pair_dropout, "neighbour": self.pair_neighbour, "crop": self.pair_crop,
            "title": self.pair_title, "deletion": self.pair_deletion,
        }  # fmt: skip
        chosen = any(share is not None for share in given.values())
        rest = default_shares(self.goal, self.encoder)
        if chosen:
            rest = {kind: share or 0.0 for kind, share in given.items()}
        from_file = self.pair_file
        if from_file is None:
            from_file = 0.0 if self.pairs is None else 0.5
        total = sum(rest.values())
        left = 1 - from_file if total else 0.0
        shares: dict[PairKind, float] = {kind: left * rest.get(kind, 0.0) / (total or 1.0) for kind in KINDS}
        shares["pairs"] = from_file
        return shares
