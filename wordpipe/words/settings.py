"""Settings of `wordpipe train word2vec`. Imports nothing heavy."""

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import model_validator

from wordpipe.settings import Settings, setting
from wordpipe.words.sizes import defaults_for

__all__ = ["Word2VecPlan", "Word2VecSettings"]

_LR = {"skipgram": 0.025, "cbow": 0.05}


class Word2VecSettings(Settings):
    """What decides the word vectors. Those that are not given follow the size of the text (see `words.sizes`)."""

    command = "train word2vec"

    architecture: Literal["skipgram", "cbow"] = setting(
        "skipgram", "each neighbour predicts the word (skipgram), or their mean does (cbow)"
    )
    loss: Literal["ns", "hs", "softmax"] = setting(
        "ns", "what is predicted: the word among noise words (negative sampling), its path in a Huffman tree (hierarchical"
        " softmax), or the word among all words (softmax, for small vocabularies)", expert=True
    )  # fmt: skip
    unit: Literal["word", "token"] = setting(
        "word", "what gets a vector: words, or the tokenizer's tokens (to initialise a transformer)"
    )
    context: Literal["sentence", "document"] = setting("document", "what a window may not reach beyond", expert=True)
    dim: int = setting(100, "numbers per vector", ge=1, le=4096)
    window: int | None = setting(None, "words looked at on each side, else by the size of the text", ge=1, le=1000)
    dynamic_window: bool = setting(
        True, "each centre draws its own reach from 1 to the window, so near words count more", expert=True
    )
    negatives: int = setting(5, "noise words per window, for ns", ge=1, le=1000)
    ns_exponent: float = setting(0.75, "noise words are drawn by count to this power, for ns", ge=-2, le=2, expert=True)
    epochs: int | None = setting(None, "passes over the text, else by its size", ge=1, le=100_000)
    min_count: int | None = setting(None, "rarer words get no vector, else by the size of the text", ge=1)
    subsample: float = setting(
        1e-3, "words with a larger share of the text are skipped at random; 0 keeps all", ge=0, le=1, expert=True
    )
    phrases: int = setting(
        0,
        "passes that join words which stand together more often than by chance (new_york); each doubles the length",
        ge=0,
        le=8,
        expert=True,
    )
    phrase_threshold: float = setting(
        100.0, "with phrases: how many times as often as by chance words must stand together to be joined", gt=0, expert=True
    )  # fmt: skip
    min_n: int = setting(3, "shortest character n-gram, where max_n is given", ge=1, le=50, expert=True)
    max_n: int = setting(
        0, "longest character n-gram, 0 = none; words are then made of theirs, and unknown words get vectors", ge=0, le=50
    )  # fmt: skip
    max_ngrams: int = setting(
        2_000_000, "with max_n: character n-grams kept, the commonest", ge=1, le=100_000_000, expert=True
    )
    lr: float | None = setting(
        None,
        "learning rate at the start, else 0.025 for skipgram, 0.05 for cbow; falls linearly with the words seen",
        gt=0,
        le=1,
        expert=True,
    )
    min_lr: float = setting(1e-4, "learning rate at the end", ge=0, le=1, expert=True)
    vectors: Literal["inputs", "outputs", "sum"] = setting(
        "inputs", "which vectors the words get: those that predict (what CBOW's context has), those that"
        " are predicted, or the sum of both", expert=True
    )  # fmt: skip
    remove_components: int = setting(
        0,
        "all-but-the-top: take away the mean of all vectors and so many of their principal components; 0 = nothing",
        ge=0,
        le=1000,
        expert=True,
    )
    keep_outputs: bool = setting(
        True, "keep the output vectors too (not of hs), which --init goes on from; doubles the artifact", expert=True
    )
    init: Path | None = setting(
        None, "go on from the vectors of this words artifact: more epochs, or more text", metavar="WORDS", artifact=("words",)
    )  # fmt: skip
    seed: int = setting(1, "seed of initial vectors, windows, subsampling and noise", ge=0, lt=2**32, expert=True)
    deterministic: bool = setting(
        False, "same bytes from every run, whatever the threads: native and gensim then train on one", expert=True
    )
    threads: int = setting(
        0,
        "training threads, 0 = one per core; more than one updates without locks, so runs differ slightly",
        ge=0,
        le=1024,
        recipe=False,
    )
    backend: Literal["auto", "native", "gensim", "torch"] = setting(
        "auto", "what trains: native (compiled, on the CPU), torch (for GPUs), gensim; auto: native", expert=True
    )
    device: Literal["auto", "cpu", "cuda"] = setting(
        "auto", "where torch trains; auto: on a GPU where there is one", expert=True
    )
    checkpoint_seconds: float = setting(
        60,
        "seconds between checkpoints, which a stopped run goes on from; each is as large as all vectors, and three may exist",
        gt=0,
        recipe=False,
        expert=True,
    )

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.min_lr > (lr := self.lr or _LR[self.architecture]):
            raise ValueError(f"min_lr = {self.min_lr} should be at most lr = {lr}")
        if self.remove_components >= self.dim:
            raise ValueError(f"remove_components = {self.remove_components} should be less than dim = {self.dim}")
        if 0 < self.max_n < self.min_n:
            raise ValueError(f"max_n = {self.max_n} should be at least min_n = {self.min_n}, or 0 for no n-grams")
        if self.max_n and self.unit == "token":
            raise ValueError("max_n: tokens are parts of words already; n-grams go with unit = word")
        if self.phrases and self.unit == "token":
            raise ValueError("phrases: tokens are not joined; phrases go with unit = word")
        if self.vectors != "inputs" and self.loss == "hs":
            raise ValueError(
                f"vectors = {self.vectors}: hierarchical softmax has no output vectors of words, only of its tree"
            )
        if self.vectors != "inputs" and self.max_n:
            raise ValueError(f"vectors = {self.vectors}: words made of n-grams have theirs among the inputs")
        self._check_backend()
        return self

    def _check_backend(self) -> None:
        """Refuse what only the native backend can do."""
        beyond_gensim = {"dynamic_window": not self.dynamic_window, "init": self.init is not None}
        beyond_both = {"loss": self.loss != "ns", "max_n": self.max_n > 0}
        refused = {"gensim": beyond_gensim | beyond_both, "torch": beyond_both}.get(self.backend, {})
        for name, asked in refused.items():
            if asked:
                raise ValueError(f"{name} = {getattr(self, name)} goes with backend = native, not {self.backend}")
        if self.device != "auto" and self.backend != "torch":
            raise ValueError(f"device = {self.device} goes with backend = torch; {self.backend} trains on the CPU")

    def recipe(self) -> dict[str, Any]:
        """The settings that decide the result; who trains stands there by name, and the device only where it is a choice."""
        made = super().recipe() | {"backend": "native" if self.backend == "auto" else self.backend}
        return made if self.backend == "torch" else {name: value for name, value in made.items() if name != "device"}

    def plan(self, words: int) -> "Word2VecPlan":
        """The same with nothing left open, for a training text of so many words."""
        chosen = {**defaults_for(words), "lr": _LR[self.architecture]}
        given = {name: value for name, value in self.model_dump().items() if value is not None}
        return Word2VecPlan(**{**chosen, **given})


class Word2VecPlan(Word2VecSettings):
    """Settings with nothing left open: what a trainer takes."""

    window: int = 5
    epochs: int = 5
    min_count: int = 5
    lr: float = 0.025
