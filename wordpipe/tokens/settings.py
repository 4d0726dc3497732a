"""Settings of `wordpipe tokenize`."""

from pathlib import Path
from typing import Literal

from pydantic import model_validator

from wordpipe.settings import Settings, setting

__all__ = ["TokenizeSettings"]


class TokenizeSettings(Settings):
    """How to train a tokenizer and encode a corpus with it."""

    displaces = {  # noqa: RUF012  (declared in the base)
        "tokenizer": ("algorithm", "vocab_size", "min_frequency", "lowercase"),
        "algorithm": ("tokenizer",),
        "vocab_size": ("tokenizer",),
        "min_frequency": ("tokenizer",),
        "lowercase": ("tokenizer",),
    }

    algorithm: Literal["bpe", "wordpiece"] = setting("bpe", "byte-level BPE, or WordPiece as BERT has it")
    vocab_size: int = setting(16_000, "tokens in the vocabulary, special tokens included", ge=300, le=4_000_000)
    min_frequency: int = setting(2, "a pair of tokens seen less often is not merged", ge=1)
    lowercase: bool = setting(False, "fold case before the tokenizer sees the text (words are always folded)")
    tokenizer: Path | None = setting(
        None,
        "use this tokenizer.json, or the tokenizer of this artifact, instead of training one",
        metavar="FILE",
        artifact=("tokens", "model"),
    )
    keep_case: bool = setting(False, "count words as written, not in lower case")

    @model_validator(mode="after")
    def _given_or_trained(self) -> "TokenizeSettings":
        if self.tokenizer is not None and self.model_fields_set & {
            "algorithm",
            "vocab_size",
            "min_frequency",
            "lowercase",
        }:
            raise ValueError(
                "a given tokenizer is used as it is: leave out algorithm, vocab_size, min_frequency, lowercase"
            )
        return self
