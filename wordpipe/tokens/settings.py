"""Settings of `wordpipe tokenize`."""

import re
from pathlib import Path
from typing import Literal

from wordpipe.settings import Settings, checked, setting

SIZE = r"^[0-9]+(\.[0-9]+)?(KB|MB|GB|TB)$"
TRAINING = (
    "algorithm", "vocab_size", "min_frequency", "pretokenizer", "normalization", "lowercase", "strip_accents", "sample",
    "vocabulary", "counts",
)  # fmt: skip
BYTE_LEVEL = ("gpt2", "digits", "marks")  # pre-tokenizers behind which the letters of a vocabulary are bytes
_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def _refuse_no_size(value: str) -> None:
    """Raise ValueError unless the value is a size such as 500MB."""
    if not re.fullmatch(SIZE, value):
        raise ValueError("a size such as 500MB or 1.5GB")


def size_in_bytes(size: str) -> int:
    """Return the bytes of a size written as `500MB` or `1.5GB`."""
    return int(float(size[:-2]) * _UNITS[size[-2:]])


class TokenizeSettings(Settings):
    """Settings of the training of a tokenizer and of the encoding of a corpus."""

    command = "tokenize"

    displaces = {  # noqa: RUF012  (declared in the base)
        **dict.fromkeys(TRAINING, ("tokenizer",)),
        "tokenizer": TRAINING,
        "counts": ("tokenizer", "sample"),
        "sample": ("tokenizer", "counts"),
    }

    algorithm: Literal["bpe", "wordpiece", "unigram", "word", "char"] = setting(
        "bpe",
        "kind of tokenizer; bpe, wordpiece (as in BERT), a unigram language model, whole words, or single characters",
    )
    vocab_size: int = setting(
        16_000, "number of tokens in the vocabulary, including special tokens", ge=300, le=4_000_000
    )
    min_frequency: int = setting(
        2,
        "minimum count for a pair of tokens (or for a word, or for a character) to get its own token; not for unigram",
        ge=1,
    )
    pretokenizer: Literal["auto", "gpt2", "digits", "marks", "bert", "whitespace", "metaspace", "characters"] = setting(
        "auto",
        "rule that first cuts text into words; gpt2, digits (at most three digits together) and marks (like digits, "
        "but vowel signs count as letters) are byte-level; auto depends on algorithm and script: gpt2 or marks for bpe, bert "
        "or gpt2 for wordpiece, metaspace for unigram, whitespace for word, characters for char",
        section="Cutting and normalizing text",
    )
    normalization: Literal["none", "nfc", "nfkc"] = setting(
        "none", "convert text to this Unicode normal form before it is tokenized", expert=True
    )
    lowercase: bool = setting(
        False, "lower-case the text first; the list of words is in lower case even without this option"
    )
    strip_accents: bool = setting(False, "remove accents from letters before text is tokenized", expert=True)
    sample: float = setting(
        1.0, "fraction of the documents that the tokenizer is trained on", gt=0, le=1, section="Training data"
    )
    vocabulary: Literal["joint", "separate"] = setting(
        "joint",
        "for pairs: joint = one tokenizer for both texts, separate = one tokenizer for each text (only for --style vaswani)",
    )
    memory: str = setting(
        "1GB",
        "maximum memory for counting and training; above it, counts are written to disk and rare pre-tokens are ignored",
        metavar="SIZE",
        check=_refuse_no_size,
        expert=True,
    )
    counts: Path | None = setting(
        None,
        "train from the pre-token counts of this artifact instead of counting again",
        metavar="TOKENS",
        artifact=("tokens",),
    )
    tokenizer: Path | None = setting(
        None,
        "use this tokenizer instead of training one: a tokenizer.json, a Hugging Face transformers folder, or an artifact",
        metavar="FILE",
        artifact=("tokens", "model"),
    )
    keep_case: bool = setting(False, "count words as written, not in lower case", expert=True, section="Words")

    @property
    def memory_bytes(self) -> int:
        """Return the memory budget in bytes."""
        return size_in_bytes(self.memory)

    @property
    def byte_level(self) -> bool:
        """True if the letters of the vocabulary are bytes."""
        return self.pretokenizer in BYTE_LEVEL

    @checked
    def _fit_together(self) -> None:
        """Raise ValueError where settings of the training of a tokenizer exclude each other."""
        if self.counts is not None and "sample" in self.model_fields_set:
            raise ValueError("counts come from a fixed sample: leave out sample, or leave out counts to count again")
        if self.algorithm == "unigram" and "min_frequency" in self.model_fields_set:
            raise ValueError("unigram does not use min_frequency (it prunes by likelihood): leave out min_frequency")

    @checked
    def _given_or_trained(self) -> None:
        """Raise ValueError where a tokenizer is given and settings of its training too."""
        if self.tokenizer is not None and (extra := self.model_fields_set.intersection(TRAINING)):
            raise ValueError(f"a given tokenizer is used without training: leave out {', '.join(sorted(extra))}")
