"""Settings of `wordpipe train word2vec`."""

from typing import Literal, Self

from pydantic import model_validator

from wordpipe.settings import Settings, setting

__all__ = ["Word2VecSettings"]


class Word2VecSettings(Settings):
    """What decides the word vectors. The defaults are word2vec's own, but for skip-gram as the architecture."""

    architecture: Literal["skipgram", "cbow"] = setting(
        "skipgram", "skipgram: a word predicts its neighbours; cbow: the neighbours' mean predicts the word"
    )
    unit: Literal["word", "token"] = setting(
        "word", "what gets a vector: words, or the tokenizer's tokens (to initialise a transformer)"
    )
    context: Literal["sentence", "document"] = setting("document", "what a window may not reach beyond")
    dim: int = setting(100, "numbers per vector", ge=1, le=4096)
    window: int = setting(5, "words looked at on each side; each centre draws its own from 1 to this", ge=1, le=1000)
    negatives: int = setting(5, "noise words per true pair", ge=1, le=1000)
    epochs: int = setting(5, "passes over the text", ge=1, le=100_000)
    min_count: int = setting(5, "rarer words get no vector", ge=1)
    subsample: float = setting(
        1e-3, "words with a larger share of the text are skipped at random; 0 keeps all", ge=0, le=1
    )
    ns_exponent: float = setting(0.75, "noise words are drawn by count to this power", ge=-2, le=2)
    lr: float = setting(0.025, "learning rate at the start; falls linearly with the words seen", gt=0, le=1)
    min_lr: float = setting(1e-4, "learning rate at the end", ge=0, le=1)
    seed: int = setting(1, "seed of initial vectors, windows, subsampling and noise", ge=0, lt=2**32)
    deterministic: bool = setting(False, "same bytes from every run, on one thread with gensim")
    threads: int = setting(
        0, "training threads, 0 = one per core; more than one updates without locks, so runs differ slightly", ge=0
    )
    backend: Literal["auto", "gensim"] = setting("auto", "what trains: gensim, the only one so far")

    @model_validator(mode="after")
    def _lr_falls(self) -> Self:
        if self.min_lr > self.lr:
            raise ValueError(f"min_lr = {self.min_lr} should be at most lr = {self.lr}")
        return self
