"""Settings of `wordpipe import`."""

from pathlib import Path
from typing import Literal, Self

from pydantic import model_validator

from wordpipe.settings import Settings, setting

__all__ = ["Format", "ImportSettings"]

Format = Literal["auto", "word2vec-text", "word2vec-binary", "glove", "numpy"]


class ImportSettings(Settings):
    """How a file of word vectors is read."""

    command = "import"

    format: Format = setting(
        "auto", "how FILE is written; auto: judged by what is in it. fastText's .vec is word2vec-text"
    )
    limit: int = setting(0, "take the first so many words of the file, 0 = all", ge=0)
    bad_bytes: Literal["fail", "skip"] = setting(
        "fail", "a word that is not UTF-8: stop there, or leave it out", expert=True
    )
    unit: Literal["word", "token"] = setting(
        "word", "what has a vector: words, or a tokenizer's tokens (to initialise a transformer)"
    )
    tokenizer: Path | None = setting(
        None,
        "the tokenizer that cut the text: it cuts scripts without spaces when the vectors are used; needed for tokens",
        metavar="TOKENS",
        artifact=("tokens", "model"),
    )
    max_expand: int = setting(
        200,
        "a compressed file may grow to at most this many times its size, beyond the first 64 MiB",
        ge=2,
        expert=True,
    )

    @model_validator(mode="after")
    def _tokens_have_a_tokenizer(self) -> Self:
        if self.unit == "token" and self.tokenizer is None:
            raise ValueError("unit = token needs the tokenizer whose tokens they are: --tokenizer TOKENS")
        return self
